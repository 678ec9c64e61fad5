package readapi_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"testing"
)

func TestDocs_AcceptEncoding_DecidesTheForm(t *testing.T) {
	s := start(t)
	for _, path := range []string{"/docs", "/docs/errors", "/bot"} {
		ask := func(accept, etag string) answer {
			h := http.Header{"Accept-Encoding": {accept}}
			if etag != "" {
				h.Set("If-None-Match", etag)
			}
			return s.send(request{path: path, header: h})
		}
		plain := ask("identity", "")
		plain.ok(t)
		for accept, want := range map[string]string{
			"": "", "identity": "", "br": "", "gzip": "gzip", "br, gzip;q=0.5": "gzip", "*": "gzip", "*;q=0, gzip": "gzip",
			"gzip;q=0": "", "gzip; q=0, *": "", "gzip;q=x": "", "deflate, GZIP": "gzip",
		} {
			a := ask(accept, "")
			h := a.ok(t)
			if h.Get("Content-Encoding") != want || h.Get("Vary") != "Accept-Encoding" {
				t.Errorf("%s with Accept-Encoding %q: %v", path, accept, h)
				continue
			}
			body := a.body
			if want == "gzip" {
				r, err := gzip.NewReader(bytes.NewReader(a.body))
				if err != nil {
					t.Fatal(err)
				}
				if body, err = io.ReadAll(r); err != nil {
					t.Fatal(err)
				}
				if len(a.body) > len(body)/2 || h.Get("Etag") == plain.header.Get("Etag") {
					t.Errorf("%s: %d bytes of %d, tag %s", path, len(a.body), len(body), h.Get("Etag"))
				}
			}
			if !bytes.Equal(body, plain.body) {
				t.Errorf("%s with Accept-Encoding %q has a different document", path, accept)
			}
			if again := ask(accept, h.Get("Etag")); again.status != http.StatusNotModified || again.header.Get("Content-Encoding") != "" {
				t.Errorf("%s with its ETag: status %d, header %v", path, again.status, again.header)
			}
		}
	}
}
