package testnet_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"letterhead/internal/testmust"
)

func TestProxy_Request_ReachesTheSite(t *testing.T) {
	n, authority := newInternet(t)
	n.Serve("acme.com", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
	proxy := httptest.NewServer(n.Proxy())
	t.Cleanup(proxy.Close)
	at := testmust.Get(url.Parse(proxy.URL))(t)
	client := http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(at), TLSClientConfig: &tls.Config{RootCAs: authority.Pool()}}}
	t.Cleanup(client.CloseIdleConnections)
	for _, address := range []string{"http://acme.com/", "https://acme.com/"} {
		resp := testmust.Get(client.Get(address))(t)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(body) != "hello" {
			t.Errorf("%s: %q, %v", address, body, err)
		}
	}
	if resp, err := client.Get("https://other.com/"); err == nil {
		resp.Body.Close()
		t.Errorf("a site that does not exist answers %d", resp.StatusCode)
	}
}
