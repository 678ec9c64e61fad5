package readapi_test

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The values of docs/use-it-with.md, with a domain in the place of the application's own spelling of one.
func TestUseItWith_Values_AnswerWithALogo(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.known("acme.com", s.withLogo("acme", "png", inked(t, 256)))
	page, err := os.ReadFile("../docs/use-it-with.md")
	s.must(err)
	spellings := strings.NewReplacer("{{domain}}", "acme.com", "{domain}", "acme.com", "{hostname}", "acme.com", "{}", "acme.com", "$URL", "acme.com", "github.com", "acme.com")
	tried := 0
	for _, m := range regexp.MustCompile("`https://brands.example.com(/(?:compat|logo)/[^`]+)`").FindAllStringSubmatch(string(page), -1) {
		path := spellings.Replace(m[1])
		if !strings.Contains(path, "acme.com") {
			continue // a base, to which the application appends a path that the corpus of profiles has
		}
		tried++
		a := s.sendTo("brands.example.com", http.MethodGet, path, nil)
		if a.status != http.StatusOK || !strings.HasPrefix(a.header.Get("Content-Type"), "image/") || a.header.Get("X-Logo-Source") != "logo" {
			t.Errorf("%s: %d %s, %s", path, a.status, a.header.Get("Content-Type"), a.header.Get("X-Logo-Source"))
		}
	}
	if tried < 10 {
		t.Errorf("%d values of the page were tried", tried)
	}
}
