package mcp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// MaxBody is the largest body of a POST, in bytes.
const MaxBody = 64 << 10

// ErrTooLarge: the body has more than MaxBody bytes.
var ErrTooLarge = errors.New("the body is larger than 64 KB")

// ReadBody reads the body of a POST. Errors: ErrTooLarge, and those of the connection.
func ReadBody(r *http.Request) ([]byte, error) {
	if r.ContentLength > MaxBody {
		return nil, ErrTooLarge
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxBody+1))
	if err != nil {
		return nil, fmt.Errorf("read the body: %w", err)
	}
	if len(body) > MaxBody {
		return nil, ErrTooLarge
	}
	return body, nil
}

// AllowsHost tells whether a request may be answered by the name that it was sent to. On a connection that
// came over the loopback interface that has to be a loopback name, or the host of the base URL, which a
// proxy on the same machine passes on. Any other name is a web page's that had its name resolved to this
// machine (DNS rebinding). Over other interfaces every name is allowed: there the key decides.
func (s *Server) AllowsHost(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || !isLoopback(hostOf(local.String())) {
		return true
	}
	host := hostOf(r.Host)
	return isLoopback(host) || host != "" && strings.EqualFold(host, s.host)
}

// hostOf takes the port off a host, and the brackets off an IPv6 address.
func hostOf(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
