package testnet

import (
	"io"
	"net"
	"net/http"
)

// Proxy returns an HTTP proxy through which programs outside this process reach the sites.
func (n *Internet) Proxy() http.Handler { return http.HandlerFunc(n.proxy) }

func (n *Internet) proxy(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		n.ServeHTTP(w, r)
		return
	}
	host, port, err := net.SplitHostPort(r.Host)
	n.mu.Lock()
	known := err == nil && (n.sites[host] != nil || n.rest != nil)
	n.mu.Unlock()
	if !known || port != "443" {
		http.Error(w, "no such site here", http.StatusBadGateway)
		return
	}
	server, err := net.Dial("tcp", n.secure.Addr().String())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer server.Close()
	w.WriteHeader(http.StatusOK)
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	go func() {
		io.Copy(server, buffered) // what the client sent already comes first
		server.Close()
	}()
	io.Copy(client, server)
}
