package readapi_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"letterhead/domain/plan"
	"letterhead/internal/testmust"
)

func gzipped(t testing.TB, body string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	testmust.Succeed(t, testmust.Err(w.Write([]byte(body))))
	testmust.Succeed(t, w.Close())
	return b.String()
}

func TestBodies_EncodingsOfClients_AreReadOrRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.known("acme.com", s.withLogo("acme", "png", inked(t, 64)))
	c := s.account(plan.Growth, 100)
	tool := toolCall(1, "get_logo_url", `{"domain":"acme.com"}`)
	batch := batchOf(t, []string{"acme.com"})
	with := func(encoding, contentType string) http.Header {
		h := bearer(c.secret)
		if encoding != "" {
			h.Set("Content-Encoding", encoding)
		}
		h.Set("Content-Type", contentType)
		return h
	}
	utf16 := func(text string) string { return "\xfe\xff\x00" + strings.Join(strings.Split(text, ""), "\x00") }
	for _, coded := range []struct {
		encoding, contentType string
		of                    func(string) string
		refusal               string
	}{
		{"gzip", "application/json", func(b string) string { return gzipped(t, b) }, ""},
		{"", "application/json; charset=utf-8", func(b string) string { return "\ufeff" + b }, ""},
		{"", "application/json; charset=utf-16", utf16, ""},
		{"br", "application/json", strings.Clone, "gzip or zstd"},
		{"gzip", "application/json", strings.Clone, "not in its Content-Encoding"},
		{"", "application/json; charset=iso-8859-1", strings.Clone, ""},
		{"", "application/json; charset=iso-8859-1", func(b string) string { return strings.Replace(b, "acme", "caf\xe9", 1) }, "in UTF-8"},
		{"gzip", "application/json", func(string) string { return gzipped(t, strings.Repeat(" ", 64<<20)) }, "larger than"},
	} {
		post := func(path, body string) answer {
			a, err := s.post(t.Context(), path, coded.of(body), with(coded.encoding, coded.contentType))
			s.must(err)
			return a
		}
		agent, err := s.tryMCP(t.Context(), with(coded.encoding, coded.contentType), coded.of(tool))
		s.must(err)
		for what, a := range map[string]answer{"batch": post(batchPath, batch), "MCP": agent} {
			if refused := a.status >= 400; refused != (coded.refusal != "") || !strings.Contains(string(a.body), coded.refusal) {
				t.Errorf("%s with %q and %q: %d %s, want a refusal that says %q", what, coded.encoding, coded.contentType, a.status, a.body, coded.refusal)
			}
		}
	}
}
