package readapi_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestPages_AnyPage_IsClosedToOtherWindowsAndSendsNoReferrer(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"https://brands.example.com", "http://brands.example.com"} {
		s := start(t, func(set *setup) { set.config.BaseURL = base })
		want := ""
		if strings.HasPrefix(base, "https:") {
			want = "max-age=31536000"
		}
		for _, path := range []string{"/", "/?domain=acme.com", "/?q=acme", "/docs", "/docs?q=logo", "/docs/brands", "/docs/errors", "/docs/logos", "/docs/nothing", "/bot", "/brands", "/nothing"} {
			a := s.opened(path, http.Header{"Accept": {"text/html"}})
			h := a.header
			if strings.HasPrefix(h.Get("Content-Type"), "text/html") == (h.Get("Location") != "") {
				t.Errorf("%s: status %d, %v", path, a.status, h)
			}
			policy := h.Get("Content-Security-Policy")
			if h.Get("Location") == "" && !strings.HasPrefix(policy, "default-src 'none'; ") {
				t.Errorf("%s: Content-Security-Policy %q", path, policy)
			}
			if h.Get("Location") == "" && (h.Get("Cross-Origin-Opener-Policy") != "same-origin" || h.Get("Referrer-Policy") != "no-referrer") || h.Get("Strict-Transport-Security") != want {
				t.Errorf("%s at %s: status %d, header %v", path, base, a.status, h)
			}
		}
		for _, r := range []request{{path: "/v1/me"}, {path: "/nothing"}, {path: "/logo/acme.com"}, {method: "OPTIONS", path: "/v1/me"}} {
			if a := s.send(r); a.header.Get("Strict-Transport-Security") != want {
				t.Errorf("%s at %s: status %d, header %v", r.path, base, a.status, a.header)
			}
		}
	}
}
