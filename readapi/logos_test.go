package readapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/ratelimit"
	"letterhead/internal/testmust"
	"letterhead/internal/variants"
	"letterhead/readapi"
	"letterhead/readapi/logo"
)

// Cache-Control of logos.
const (
	logoKept     = "public, max-age=86400, s-maxage=604800, stale-while-revalidate=86400"
	fallbackKept = "public, max-age=900, s-maxage=3600"
	besideStatus = "private, max-age=60"
)

// ink is the color of logos in these tests; nothing else has it.
var ink = color.NRGBA{R: 255, G: 0, B: 255, A: 255}

// inked returns a PNG filled with ink.
func inked(t testing.TB, side int) []byte {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, side, side))
	draw.Draw(img, img.Bounds(), image.NewUniform(ink), image.Point{}, draw.Src)
	var b bytes.Buffer
	testmust.Succeed(t, png.Encode(&b, img))
	return b.Bytes()
}

const inkedSVG = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><rect width="8" height="8" fill="#f0f"/></svg>`

// withLogo returns a record whose icon is a stored file.
func (s *service) withLogo(name, format string, file []byte) eventschemas.Record {
	s.t.Helper()
	asset := eventschemas.Asset{ID: s.stored(file, format), Format: format, Size: int64(len(file))}
	if format == "png" {
		config, _, err := image.DecodeConfig(bytes.NewReader(file))
		s.must(err)
		asset.Width, asset.Height = &config.Width, &config.Height
	}
	r := record(name)
	r.Logos = []eventschemas.Logo{{Type: "icon", Formats: []eventschemas.Asset{asset}, Tags: []string{}}}
	return r
}

// showsInk reports whether a PNG is the inked logo, not a fallback.
func (a answer) showsInk(t testing.TB) bool {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(a.body))
	if err != nil {
		t.Fatalf("not a PNG: status %d, %v: body %.200s", a.status, err, a.body)
	}
	middle := img.Bounds().Max.Div(2)
	return color.NRGBAModel.Convert(img.At(middle.X, middle.Y)) == ink
}

// plainly checks a plain text error.
func (a answer) plainly(t testing.TB, status int) {
	t.Helper()
	if a.status != status || a.header.Get("Content-Type") != "text/plain; charset=utf-8" || a.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("status %d, header %v, body %.200s, want a plain %d", a.status, a.header, a.body, status)
	}
	for _, none := range []string{"ETag", "Vary", "Cross-Origin-Resource-Policy"} {
		if a.header.Get(none) != "" {
			t.Errorf("header %s with status %d", none, status)
		}
	}
	if (a.header.Get("Retry-After") != "") != (status == 429 || status == 503) {
		t.Errorf("Retry-After %q with status %d", a.header.Get("Retry-After"), status)
	}
	if len(a.body) == 0 || strings.Contains(string(a.body), "charge") {
		t.Errorf("status %d has the body %q", status, a.body)
	}
}

func TestLogo_KnownBrand_IsAnImage(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.known("acme.com", s.withLogo("acme", "png", inked(t, 256)))
	s.known("drawn.com", s.withLogo("drawn", "svg", []byte(inkedSVG)))
	for _, c := range []struct {
		path, accept, contentType, vary string
	}{
		{"/logo/acme.com", "", "image/png", "Accept"},
		{"/logo/acme.com", "image/avif,image/webp,*/*", "image/webp", "Accept"},
		{"/logo/acme.com?format=webp", "", "image/webp", ""},
		{"/logo/acme.com?format=jpeg&size=64", "image/webp", "image/jpeg", ""},
		{"/logo/drawn.com?format=svg", "", "image/svg+xml", ""},
	} {
		header := http.Header{"Range": {"bytes=0-9"}}
		if c.accept != "" {
			header.Set("Accept", c.accept)
		}
		got := s.send(request{path: c.path, header: header})
		h := got.ok(t)
		etag := h.Get("ETag")
		if len(etag) < 34 || etag[0] != '"' || etag[len(etag)-1] != '"' {
			t.Errorf("%s: tag %s", c.path, etag)
		}
		for name, want := range map[string]string{
			"Content-Type": c.contentType, "Content-Length": fmt.Sprint(len(got.body)), "Cache-Control": logoKept, "Vary": c.vary,
			"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox", "X-Content-Type-Options": "nosniff", "Access-Control-Allow-Origin": "*",
			"Cross-Origin-Resource-Policy": "cross-origin", "Content-Range": "", "Accept-Ranges": "", "X-Api-Key-Status": "",
			"X-RateLimit-Limit": "", "X-Credits-Remaining": "", "Content-Disposition": "",
		} {
			if h.Get(name) != want {
				t.Errorf("%s: header %s is %q, want %q", c.path, name, h.Get(name), want)
			}
		}
		head := s.send(request{method: http.MethodHead, path: c.path, header: header})
		for _, none := range []http.Header{h, head.header} {
			none.Del("X-Request-Id")
			none.Del("Date")
		}
		if head.status != http.StatusOK || len(head.body) != 0 || fmt.Sprint(head.header) != fmt.Sprint(h) {
			t.Errorf("HEAD %s: status %d, header %v, GET has %v", c.path, head.status, head.header, h)
		}
		for _, tags := range []string{etag, `"x", ` + etag, "W/" + etag, "*"} {
			header.Set("If-None-Match", tags)
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				a := s.send(request{method: method, path: c.path, header: header})
				if a.status != http.StatusNotModified || len(a.body) != 0 {
					t.Errorf("%s %s with %s: status %d, %d bytes; want %d and 0", method, c.path, tags, a.status, len(a.body), http.StatusNotModified)
				}
				for _, name := range []string{"ETag", "Cache-Control", "Vary", "Content-Security-Policy", "Cross-Origin-Resource-Policy", "Access-Control-Allow-Origin"} {
					if a.header.Get(name) != h.Get(name) {
						t.Errorf("%s with %s: header %s is %q, and %q with status 200", c.path, tags, name, a.header.Get(name), h.Get(name))
					}
				}
			}
		}
		header.Set("If-None-Match", `"0123"`)
		if a := s.send(request{path: c.path, header: header}); !bytes.Equal(a.body, got.body) || a.status != http.StatusOK {
			t.Errorf("%s with another tag: status %d", c.path, a.status)
		}
	}
	if a := s.send(request{path: "/logo/acme.com?format=png&size=32"}); !a.showsInk(t) {
		t.Error("the logo was not served")
	}
}

func TestLogo_Fallback_IsCachedBrieflyAndKeeps404(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.known("bare.com", plainRecord("bare"))
	for _, domain := range []string{"unknown.com", "bare.com"} {
		for fallback, status := range map[string]int{"monogram": 200, "transparent": 200, "404": 404} {
			path := "/logo/" + domain + "?fallback=" + fallback
			a := s.send(request{path: path})
			if a.status != status || a.header.Get("Content-Type") != "image/png" || a.header.Get("Cache-Control") != fallbackKept || a.header.Get("Vary") != "Accept" {
				t.Errorf("%s: status %d, header %v", path, a.status, a.header)
			}
			if _, err := png.Decode(bytes.NewReader(a.body)); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			for _, tags := range []string{"*", a.header.Get("ETag")} {
				again := s.send(request{path: path, header: http.Header{"If-None-Match": {tags}}})
				if want := map[int]int{200: 304, 404: 404}[status]; again.status != want || (len(again.body) > 0) != (want == 404) {
					t.Errorf("%s with %s: status %d, %d bytes", path, tags, again.status, len(again.body))
				}
			}
		}
	}
}

// A key that was not used is reported in every answer, and no shared cache may pass such an answer to others.
func TestLogo_KeyNotUsed_IsPrivate(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.known("acme.com", s.withLogo("acme", "png", inked(t, 64)))
	etag := s.send(request{path: "/logo/acme.com?format=png"}).ok(t).Get("ETag")
	for _, c := range []struct {
		path, tag string
		status    int
	}{
		{"/logo/acme.com?format=png", "", 200},
		{"/logo/acme.com?format=png", etag, 304},
		{"/logo/unknown.com?format=png", "", 200},
		{"/logo/unknown.com?format=png&fallback=404", "", 404},
	} {
		header := bearer("lh_sk_nobody")
		if c.tag != "" {
			header.Set("If-None-Match", c.tag)
		}
		a := s.send(request{path: c.path, header: header})
		if a.status != c.status || a.header.Get("X-Api-Key-Status") != "invalid" || a.header.Get("Cache-Control") != besideStatus {
			t.Errorf("%s: status %d, header %v", c.path, a.status, a.header)
		}
	}
	s.send(request{path: "/logo/acme.com?size=0", header: bearer("lh_sk_nobody")}).plainly(t, 400)
}

func TestLogo_Errors_ArePlainText(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, path := range []string{
		"/logo", "/logo/", "/logo/acme", "/logo/co.uk", "/logo/127.0.0.1", "/logo/acme.com?size=0", "/logo/acme.com?size=x", "/logo/acme.com/nothing/of/this",
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			a := s.send(request{method: method, path: path})
			if method == http.MethodGet {
				a.plainly(t, http.StatusBadRequest)
			} else if a.status != http.StatusBadRequest || len(a.body) != 0 {
				t.Errorf("HEAD %s: status %d", path, a.status)
			}
		}
	}
	a := s.send(request{method: http.MethodPost, path: "/logo/acme.com"})
	a.plainly(t, http.StatusMethodNotAllowed)
	if a.header.Get("Allow") != "GET, HEAD, OPTIONS" {
		t.Errorf("Allow %q, want %q", a.header.Get("Allow"), "GET, HEAD, OPTIONS")
	}
}

// The stored file of a logo may be missing, damaged or unavailable.
func TestLogo_CannotBeDrawn_Is500(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.known("broken.com", s.withLogo("broken", "svg", []byte("<svg")))
	s.known("acme.com", s.withLogo("acme", "png", inked(t, 64)))
	s.send(request{path: "/logo/broken.com"}).plainly(t, http.StatusInternalServerError)
	if _, line := s.logged("/logo/broken.com", nil); line["level"] != "ERROR" || line["route"] != "logo" || line["domain"] != "broken.com" {
		t.Errorf("log %v", line)
	}
	elsewhere := filepath.Join(filepath.Dir(s.assetFolder), "elsewhere")
	s.must(os.Rename(s.assetFolder, elsewhere))
	s.send(request{path: "/logo/acme.com?size=33"}).plainly(t, http.StatusServiceUnavailable)
	s.must(os.Rename(elsewhere, s.assetFolder))
	s.send(request{path: "/logo/acme.com?size=33"}).ok(t)
}

// rendererFunc implements readapi.LogoRenderer with a function.
type rendererFunc func(ctx context.Context) (logo.Image, error)

func (f rendererFunc) Draw(ctx context.Context, _ logo.Brand, _ logo.Options) (logo.Image, error) {
	return f(ctx)
}

func TestLogo_RendererBusyOrHangs_Is503(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *service) {
		began := s.clock.now()
		a := s.send(request{path: "/logo/acme.com"})
		a.plainly(s.t, http.StatusServiceUnavailable)
		if took := s.clock.now().Sub(began); took != 5*time.Second {
			s.t.Errorf("a hanging drawing was canceled after %s, want %v", took, 5*time.Second)
		}
		a = s.send(request{path: "/logo/busy.com"})
		a.plainly(s.t, http.StatusServiceUnavailable)
		if a.header.Get("Retry-After") != "1" {
			s.t.Errorf("Retry-After %q, want %q", a.header.Get("Retry-After"), "1")
		}
	}, func(set *setup) {
		drawings := 0
		set.deps = func(d *readapi.Deps) {
			d.Logos = rendererFunc(func(ctx context.Context) (logo.Image, error) {
				if drawings++; drawings > 1 {
					return logo.Image{}, fmt.Errorf("draw: %w", variants.ErrBusy)
				}
				<-ctx.Done()
				return logo.Image{}, ctx.Err()
			})
		}
	})
}

// logged serves a request without the network, waits for its log line, and returns both.
func (s *service) logged(path string, header http.Header) (*httptest.ResponseRecorder, map[string]any) {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), http.MethodGet, path, nil)
	for name, values := range header {
		r.Header[name] = values
	}
	w := httptest.NewRecorder()
	s.api.Handler().ServeHTTP(w, r)
	lines := s.logs.of(w.Header().Get("X-Request-Id"))
	if len(lines) != 1 {
		s.t.Fatalf("log of %s: %v", path, lines)
	}
	return w, lines[0]
}

func TestLogo_Requests_AreLoggedAndCounted(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.known("acme.com", s.withLogo("acme", "png", inked(t, 64)))
	for _, c := range []struct{ domain, key, shown, status string }{
		{"acme.com", "", "brand", ""}, {"unknown.com", "lh_pk_nobody", "fallback", "invalid"},
	} {
		w, line := s.logged("/logo/"+c.domain+"?key="+c.key, nil)
		status, _ := line["key_status"].(string)
		if line["route"] != "logo" || line["domain"] != c.domain || line["logo"] != c.shown || status != c.status || line["bytes"] != float64(w.Body.Len()) {
			t.Errorf("log %v", line)
		}
	}
	families, err := s.metrics.Gather()
	s.must(err)
	counted := 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, label := range m.GetLabel() {
				if f.GetName() == "letterhead_http_requests_total" && label.GetName() == "route" && label.GetValue() == "logo" {
					counted += m.GetCounter().GetValue()
				}
			}
		}
	}
	if counted != 2 {
		t.Errorf("%v logos counted, want 2", counted)
	}
}

// The monogram of a brand with a known name has the letters of the name.
func TestLogo_BrandWithoutLogo_IsAMonogram(t *testing.T) {
	t.Parallel()
	var drawn []logo.Brand
	s := start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) { d.Logos = seenBrands{d.Logos, &drawn} }
	})
	s.known("acme.com", plainRecord("Zebra"))
	hidden := plainRecord("Hidden")
	hidden.Restriction = &eventschemas.Restriction{Code: "nsfw", Message: "The site is adult content."}
	s.known("hidden.com", hidden)
	for _, domain := range []string{"www.acme.com", "hidden.com", "unknown.com"} {
		s.send(request{path: "/logo/" + domain}).ok(t)
	}
	want := []logo.Brand{{Domain: "acme.com", Name: "Zebra"}, {Domain: "hidden.com"}, {Domain: "unknown.com"}}
	for i, b := range drawn {
		if len(b.Logos) != 0 || b.Domain != want[i].Domain || b.Name != want[i].Name {
			t.Errorf("drawn %+v, want %+v", b, want[i])
		}
	}
	if len(drawn) != len(want) {
		t.Errorf("%d drawn, want %d", len(drawn), len(want))
	}
}

// seenBrands is a renderer that records what it draws.
type seenBrands struct {
	readapi.LogoRenderer
	all *[]logo.Brand
}

func (s seenBrands) Draw(ctx context.Context, b logo.Brand, o logo.Options) (logo.Image, error) {
	*s.all = append(*s.all, b)
	return s.LogoRenderer.Draw(ctx, b, o)
}

// A restricted brand is served like an unknown one, whatever its record contains.
func TestLogo_RestrictedBrand_IsAFallback(t *testing.T) {
	t.Parallel()
	s, c := startWith(t, plan.Growth, 50)
	for domain, hide := range map[string]func(*eventschemas.Record){
		"restricted.com": func(r *eventschemas.Record) {
			r.Restriction = &eventschemas.Restriction{Code: "nsfw", Message: "The site is adult content."}
		},
		"flagged.com": func(r *eventschemas.Record) { r.NSFW = true },
	} {
		r := s.withLogo("hidden", "png", inked(t, 64))
		hide(&r)
		s.known(domain, r)
		for _, header := range []http.Header{nil, bearer(c.secret)} {
			a := s.send(request{path: "/logo/" + domain + "?format=png", header: header})
			if a.ok(t).Get("Cache-Control") != fallbackKept || a.showsInk(t) {
				t.Errorf("%s is shown: header %v", domain, a.header)
			}
		}
		if n := len(s.crawler.of(domain)); n != 0 {
			t.Errorf("%s was crawled %d times, want 0", domain, n)
		}
	}
}

// awayFor are counters with unavailable scopes.
type awayFor struct {
	ratelimit.Counters
	scope string
}

func (c awayFor) Take(ctx context.Context, key ratelimit.Key, units, limit int64) (ratelimit.Decision, error) {
	if key.Scope == c.scope {
		return ratelimit.Decision{}, errors.New("no counters today")
	}
	return c.Counters.Take(ctx, key, units, limit)
}
