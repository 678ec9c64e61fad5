package readapi_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"letterhead/domain/plan"
	"letterhead/readapi"
	"letterhead/readapi/lookup"
)

// decode returns a body without its content coding.
func decode(coding string, body []byte) ([]byte, error) {
	if coding == "" || len(body) == 0 {
		return body, nil
	}
	var r io.Reader = bytes.NewReader(body)
	var err error
	switch coding {
	case "gzip":
		r, err = gzip.NewReader(r)
	case "zstd":
		r, err = zstd.NewReader(r)
	default:
		err = fmt.Errorf("unknown Content-Encoding %q", coding)
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// A comment makes an SVG of more than 4 KiB.
var largeSVG = []byte(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100">` + strings.Repeat(`<rect x="1" y="1" width="98" height="98" fill="#0b57d0"/>`, 100) + `</svg>`)

// TestEncoding_TextOf4KiB_IsCompressed covers the kinds of answers that are compressed: each form decodes to the same
// bytes, has its own tag, and is revalidated with it.
func TestEncoding_TextOf4KiB_IsCompressed(t *testing.T) {
	s, c := startWith(t, plan.Custom, 500)
	s.known("acme.com", largeRecord())
	s.known("drawn.com", s.withLogo("drawn", "svg", largeSVG))
	asset := s.stored(largeSVG, "svg")
	for range 30 { // entries of the ledger
		c.get("/v1/brands/acme.com").ok(t)
	}
	for path, tagged := range map[string]bool{
		"/v1/brands/acme.com": true, "/v2/brands/acme.com": true, "/v1/ledger?type=CreditsCharged&limit=20": false, "/docs": true, "/docs/logos": true, "/": true,
		"/v1/openapi.json": true, "/llms.txt": true, "/cdn/" + asset + ".svg": true, "/logo/drawn.com?format=svg": true,
	} {
		ask := func(method, accept, tag string) answer {
			h := bearer(c.secret)
			h.Set("Accept-Encoding", accept)
			if tag != "" {
				h.Set("If-None-Match", tag)
			}
			return s.send(request{method: method, path: path, header: h})
		}
		plain := ask("GET", "identity", "")
		plain.ok(t)
		tags := map[string]bool{}
		for accept, coding := range map[string]string{"identity": "", "gzip": "gzip", "gzip, deflate, br, zstd": "zstd"} {
			a := ask("GET", accept, "")
			h := a.ok(t)
			body, err := decode(h.Get("Content-Encoding"), a.body)
			s.must(err)
			if h.Get("Content-Encoding") != coding || h.Get("Vary") != "Accept-Encoding" || !bytes.Equal(body, plain.body) || h.Get("Content-Length") != strconv.Itoa(len(a.body)) {
				t.Errorf("%s, Accept-Encoding %s: %d bytes, decoded %d, plain %d, header %v", path, accept, len(a.body), len(body), len(plain.body), h)
			}
			if coding != "" && len(a.body) > len(plain.body)*2/3 {
				t.Errorf("%s, Accept-Encoding %s: %d bytes of %d", path, accept, len(a.body), len(plain.body))
			}
			head := ask("HEAD", accept, "")
			if hh := head.ok(t); len(head.body) != 0 || hh.Get("Content-Encoding") != coding || hh.Get("Content-Length") != h.Get("Content-Length") || hh.Get("ETag") != h.Get("ETag") {
				t.Errorf("HEAD %s, Accept-Encoding %s: header %v, GET has %v", path, accept, hh, h)
			}
			if !tagged {
				continue
			}
			tags[h.Get("ETag")] = true
			if again := ask("GET", accept, h.Get("ETag")); again.status != http.StatusNotModified || again.header.Get("ETag") != h.Get("ETag") || again.header.Get("Vary") != "Accept-Encoding" || again.header.Get("Content-Encoding") != "" {
				t.Errorf("%s with its tag %s: status %d, header %v", path, h.Get("ETag"), again.status, again.header)
			}
			if other := ask("GET", "identity", h.Get("ETag")); other.status != http.StatusNotModified || other.header.Get("ETag") != h.Get("ETag") {
				t.Errorf("%s with a copy in another encoding: status %d, header %v", path, other.status, other.header)
			}
		}
		if tagged && len(tags) != 3 {
			t.Errorf("%s has the tags %v, want one for each encoding", path, tags)
		}
	}
}

func TestEncoding_SmallOrImage_IsSentAsItIs(t *testing.T) {
	s, c := startWith(t, plan.Growth, 50)
	s.known("acme.com", record("acme"))
	for _, path := range []string{"/v1/me", "/v1/brands/co.uk", "/v1/brands/acme.com", "/logo/acme.com?format=png&size=1024", "/favicon.ico"} {
		h := bearer(c.secret)
		h.Set("Accept-Encoding", "gzip, zstd")
		if a := s.send(request{path: path, header: h}); a.header.Get("Content-Encoding") != "" || a.header.Get("Vary") != "" {
			t.Errorf("%s: header %v", path, a.header)
		}
	}
}

func TestEncoding_Batch_DecodesToSameItems(t *testing.T) {
	s, c := startWith(t, plan.Custom, 500)
	var identifiers []string
	for i := range 20 {
		domain := fmt.Sprintf("brand%d.com", i)
		s.known(domain, largeRecord())
		identifiers = append(identifiers, domain)
	}
	var plain []byte
	for _, coding := range []string{"", "gzip", "zstd"} {
		h := bearer(c.secret)
		h.Set("Accept-Encoding", coding)
		a, err := s.post(t.Context(), "/v1/brands/batch", batchOf(t, identifiers), h)
		s.must(err)
		body, err := decode(a.ok(t).Get("Content-Encoding"), a.body)
		s.must(err)
		if plain == nil {
			plain = body
		}
		t.Logf("Accept-Encoding %q: %d bytes", coding, len(a.body))
		if a.header.Get("Content-Encoding") != coding || !bytes.Equal(body, plain) || a.header.Get("Vary") != "Accept-Encoding" || a.header.Get("Etag") != "" {
			t.Errorf("Accept-Encoding %q: %d bytes, header %v", coding, len(body), a.header)
		}
	}
}

// What the API answers to the dashboard becomes part of a page of a signed-in person (BREACH).
func TestEncoding_SignedInPerson_IsNotCompressed(t *testing.T) {
	s, c := startWith(t, plan.Growth, 50)
	s.known("acme.com", largeRecord())
	row, err := s.config.Plans.Get(plan.Growth)
	s.must(err)
	ctx := readapi.SignedIn(t.Context(), readapi.Caller{Caller: lookup.Caller{AccountID: c.id, KeyID: c.secretID, Plan: row}, Kind: "secret"})
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/brands/acme.com", nil)
	r.Header.Set("Accept-Encoding", "gzip, zstd")
	w := httptest.NewRecorder()
	s.api.Handler().ServeHTTP(w, r)
	a := answer{status: w.Code, header: w.Result().Header, body: w.Body.Bytes()}
	if a.ok(t).Get("Content-Encoding") != "" || len(a.body) < 4096 {
		t.Errorf("%d bytes, header %v", len(a.body), a.header)
	}
}
