package mcp

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// MaxBody is the largest body of a POST, in bytes.
const MaxBody = 64 << 10

// AllowsHost reports whether a request's host name is allowed. On a connection over the loopback
// interface it must be a loopback name, or the host of the base URL, which a proxy on the same machine
// forwards. Any other name belongs to a web page whose name was resolved to this machine (DNS
// rebinding). On other interfaces every name is allowed: there the key decides.
func (s *Server) AllowsHost(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || !isLoopback(hostOf(local.String())) {
		return true
	}
	host := hostOf(r.Host)
	return isLoopback(host) || host != "" && strings.EqualFold(host, s.host)
}

// hostOf removes the port of a host, and the brackets of an IPv6 address.
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
