package dashboard_test

import (
	"net/http"
	"strings"
	"testing"

	"letterhead/domain/plan"
)

// The length of a compressed page reveals what it repeats of a request that another site made the browser send
// (BREACH).
func TestEncoding_PageOfSignedInPerson_IsNotCompressed(t *testing.T) {
	s := start(t, baseURL)
	c := s.signedIn("Acme", plan.Growth)
	accept := http.Header{"Accept-Encoding": {"gzip, zstd"}}
	for _, path := range []string{"/dashboard", "/dashboard/usage", "/dashboard/ledger", "/dashboard/statements/2026-11?format=json"} {
		if a := c.send(http.MethodGet, path, nil, accept); a.status != http.StatusOK || a.header.Get("Content-Encoding") != "" {
			t.Errorf("%s: status %d, header %v", path, a.status, a.header)
		}
	}
	styles := 0
	for _, link := range c.get("/dashboard").elements("link") {
		for _, attribute := range link.Attr {
			if attribute.Key != "href" || !strings.HasSuffix(attribute.Val, ".css") {
				continue
			}
			styles++
			a := c.send(http.MethodGet, attribute.Val, nil, accept)
			if a.status != http.StatusOK || a.header.Get("Content-Encoding") != "zstd" || a.header.Get("Vary") != "Accept-Encoding" {
				t.Errorf("%s: status %d, header %v", attribute.Val, a.status, a.header)
			}
		}
	}
	if styles == 0 {
		t.Error("the page has no style sheet")
	}
}
