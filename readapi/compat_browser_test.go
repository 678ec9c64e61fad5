//go:build tour

package readapi_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
)

// A browser fires load for the image of a 404, and error for a 404 without one.
func TestProfiles_InABrowser_FireLoadOrError(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("Chromium is missing: the events of images were not checked")
	}
	s := start(t, onProfiles)
	s.known("acme.com", s.withLogo("acme", "png", inked(t, 256)))
	want := map[string]string{
		"clearbit/acme.com": "load", "clearbit/nowhere-here.com": "error", "clearbit/10.0.0.1": "error",
		"google/s2/favicons?domain=acme.com&sz=32": "load", "google/s2/favicons?domain=nowhere-here.com": "load",
		"duckduckgo/ip3/acme.com.ico": "load", "duckduckgo/ip3/nowhere-here.com.ico": "load",
		"bitwarden/acme.com/icon.png": "load", "bitwarden/nowhere-here.com/icon.png": "error", "bitwarden/nas.local/icon.png": "error",
		"besticon/icon?url=nowhere-here.com&size=32": "load",
		"logodev/nowhere-here.com":                   "load", "logodev/nowhere-here.com?fallback=404": "error",
	}
	var page bytes.Buffer
	for path := range want {
		fmt.Fprintf(&page, `<img data-path="%s" src="/compat/%s" onload="this.title='load'" onerror="this.title='error'">`, path, path)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write(page.Bytes())
			return
		}
		s.api.Handler().ServeHTTP(w, r)
	}))
	defer server.Close()
	out, err := exec.CommandContext(t.Context(), chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir="+t.TempDir(),
		"--virtual-time-budget=5000", "--dump-dom", server.URL).Output()
	if err != nil {
		t.Fatal(err)
	}
	for path, event := range want {
		shown := strings.ReplaceAll(path, "&", "&amp;")
		_, rest, ok := strings.Cut(string(out), `data-path="`+shown+`"`)
		img, _, _ := strings.Cut(rest, ">")
		if !ok || !strings.Contains(img, `title="`+event+`"`) {
			t.Errorf("%s: %s, want %s", path, img, event)
		}
	}
}
