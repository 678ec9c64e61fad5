package esdbtest

import (
	"crypto/subtle"
	"encoding/base64"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// authorize checks the credentials of reads and appends, which are the streaming calls. Gossip and features, which a
// client requests before it connects to a node, need no credentials, as in the server.
func (s *Server) authorize(service any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if len(s.cfg.Users) > 0 && !hasCertificate(stream) {
		given := metadata.ValueFromIncomingContext(stream.Context(), "authorization")
		if len(given) == 0 {
			return status.Error(codes.PermissionDenied, "Access Denied")
		}
		if !s.knows(given[0]) {
			return status.Error(codes.Unauthenticated, "Not Authenticated")
		}
	}
	return next(service, stream)
}

func (s *Server) knows(authorization string) bool {
	encoded, basic := strings.CutPrefix(authorization, "Basic ")
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	name, password, found := strings.Cut(string(decoded), ":")
	if !basic || err != nil || !found {
		return false
	}
	want, known := s.cfg.Users[name]
	return known && subtle.ConstantTimeCompare([]byte(want), []byte(password)) == 1
}

// hasCertificate reports whether the caller presented a valid user certificate.
func hasCertificate(stream grpc.ServerStream) bool {
	p, ok := peer.FromContext(stream.Context())
	if !ok {
		return false
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	return ok && len(info.State.VerifiedChains) > 0
}
