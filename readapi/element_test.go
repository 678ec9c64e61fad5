package readapi_test

import (
	"net/http"
	"strings"
	"testing"
)

const elementPath = "/static/brand-logo.js"

func TestElement_Served_FitsIntoPagesOfOtherSites(t *testing.T) {
	t.Parallel()
	s := start(t)
	a := s.opened(elementPath, nil)
	if a.status != http.StatusOK || len(a.body) >= 3000 || !strings.Contains(string(a.body), `define("brand-logo"`) ||
		strings.Contains(string(a.body), "{{") {
		t.Errorf("status %d, %d bytes: %s", a.status, len(a.body), a.body)
	}
	for name, want := range map[string]string{
		"Content-Type":                 "text/javascript; charset=utf-8",
		"Cache-Control":                "public, max-age=86400, stale-while-revalidate=604800",
		"Access-Control-Allow-Origin":  "*",            // for crossorigin and type=module
		"Cross-Origin-Resource-Policy": "cross-origin", // for pages with Cross-Origin-Embedder-Policy
		"X-Content-Type-Options":       "nosniff",
	} {
		if got := a.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for _, tag := range []string{a.header.Get("ETag"), "W/" + a.header.Get("ETag"), `"other", ` + a.header.Get("ETag")} {
		again := s.opened(elementPath, http.Header{"If-None-Match": {tag}})
		if again.status != http.StatusNotModified || len(again.body) > 0 {
			t.Errorf("If-None-Match %s: status %d, %d bytes", tag, again.status, len(again.body))
		}
	}
	if a := s.opened(elementPath, http.Header{"If-None-Match": {`"other"`}}); a.status != http.StatusOK {
		t.Errorf("another tag: status %d", a.status)
	}
	if a := s.send(request{method: http.MethodPost, path: elementPath}); a.status != http.StatusMethodNotAllowed {
		t.Errorf("POST: status %d", a.status)
	}
}

func TestElement_SeparateHost_RequestsLogosThere(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{"": `new URL("../logo/", here)`,
		logoHostName: `new URL("https://` + logoHostName + `/", here)`} {
		s := start(t, func(set *setup) { set.config.LogoHost = host })
		if a := s.opened(elementPath, nil); !strings.Contains(string(a.body), want) {
			t.Errorf("host %q: no %s in %s", host, want, a.body)
		}
	}
}
