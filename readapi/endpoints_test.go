package readapi_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"letterhead/commands"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/readapi"
)

func TestSearch_PublishableKey_FindsBrands(t *testing.T) {
	s := start(t)
	s.shows("GET /v1/search", 200)
	c := s.account(plan.Free, 50)
	id := s.known("acme.com", record("Acme"))
	a := s.send(request{path: "/v1/search?q=acme", header: bearer(c.publishable)})
	h := a.ok(t)
	if h.Get("X-RateLimit-Limit") != "60" || h.Get("X-Credits-Remaining") != "" || h.Get("X-Cache") != "" || h.Get("Content-Type") != "application/json; charset=utf-8" {
		t.Errorf("headers %v", h)
	}
	got := decodeExactly[specSearch](t, a.body)
	if got.Query != "acme" || len(got.Results) != 1 {
		t.Fatalf("got %+v", got)
	}
	if r := got.Results[0]; *r.BrandID != id || r.Name != "Acme" || r.Domain != "acme.com" || r.Icon != baseURL+"/logo/acme.com" || r.Claimed || *r.QualityScore != 0.83 {
		t.Errorf("got %+v", r)
	}
	// A domain that is not in the index is one result without an id.
	got = decodeExactly[specSearch](t, c.get("/v1/search?q=not-held.com&limit=1").body)
	if len(got.Results) != 1 || got.Results[0].BrandID != nil || got.Results[0].QualityScore != nil || got.Results[0].Domain != "not-held.com" || got.Results[0].Name != "not-held" {
		t.Errorf("got %+v", got)
	}
	// An empty result is an empty array; the query is returned as sent.
	if a := c.get("/v1/search?q=%22zzzzqqqq%3Cb%3E%20%26"); string(a.body) != `{"query":"\"zzzzqqqq<b> &","results":[]}`+"\n" {
		t.Errorf("status %d, body %s", a.status, a.body)
	}
	for _, bad := range []string{"", "?q=", "?q=a&limit=0", "?q=a&limit=21", "?q=a&limit=x", "?q=a&q=b", "?q=%FF", "?q=" + strings.Repeat("x", 101)} {
		c.get("/v1/search"+bad).rejected(t, http.StatusBadRequest, "invalid_request")
	}
	c.get("/v1/search?q=" + strings.Repeat("%C3%BC", 100)).ok(t)
	if b := c.books(); len(b.charges) != 0 {
		t.Errorf("searches cost %d credits, want 0", len(b.charges))
	}
}

// countingLog calls before when searches of an account are about to be counted.
type countingLog struct {
	eventlog.Log
	account atomic.Pointer[string]
	before  func()
}

func (l *countingLog) Append(ctx context.Context, stream string, expected eventlog.Expected, events []eventlog.Proposed) (eventlog.Appended, error) {
	if id := l.account.Load(); id != nil && strings.HasPrefix(stream, "usage-"+*id) {
		l.before()
	}
	return l.Log.Append(ctx, stream, expected, events)
}

// The request's deadline expires, or its caller leaves, while the search is being counted. The count is
// appended all the same, so the search is answered. The handler is called without a server, which would
// not show the answer to a caller who left.
func TestSearch_Counted_IsAnswered(t *testing.T) {
	log := &countingLog{}
	s := start(t, func(set *setup) {
		set.parts.Log = func(l eventlog.Log) eventlog.Log { log.Log = l; return log }
	})
	c := s.account(plan.Free, 50)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	log.before = leave
	log.account.Store(&c.id)
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/search?q=acme", nil)
	r.Header = bearer(c.secret)
	w := httptest.NewRecorder()
	func() {
		defer func() {
			if thrown := recover(); thrown != nil {
				t.Errorf("the handler aborted the connection: %v", thrown)
			}
		}()
		s.api.Handler().ServeHTTP(w, r)
	}()
	if ctx.Err() == nil {
		t.Fatal("no search was counted")
	}
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"results":`) {
		t.Errorf("status %d, body %s", w.Code, w.Body)
	}
	if got := decodeAccount(t, c.get("/v1/me").body).Usage.Searches; got != 1 {
		t.Errorf("%d searches are counted, want 1", got)
	}
}

// unsureUsage cannot report whether a search was counted.
type unsureUsage struct{ readapi.Quotas }

func (unsureUsage) CountSearch(context.Context, string, time.Time, int64) (int64, error) {
	return 0, fmt.Errorf("count: %w", commands.ErrUnknownOutcome)
}

func TestSearch_CountUnknown_Is503(t *testing.T) {
	s := start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) { d.Quotas = unsureUsage{d.Quotas} }
	})
	s.account(plan.Free, 50).get("/v1/search?q=acme").rejected(t, http.StatusServiceUnavailable, "upstream_failed")
}

// Rule 7.
func TestMe_EveryPlan_ReportsAccountAndLimits(t *testing.T) {
	s := start(t)
	s.shows("GET /v1/me", 200)
	s.known("acme.com", record("acme"))
	for _, c := range []struct {
		plan            plan.ID
		minute, batch   int
		crawls          int
		logos, searches any
	}{
		{plan.Free, 60, 25, 10, 500_000, 250_000},
		{plan.Starter, 300, 50, 30, 3_000_000, 1_000_000},
		{plan.Growth, 600, 100, 60, nil, nil},
		{plan.Custom, 3000, 100, 300, nil, nil},
	} {
		customer := s.account(c.plan, 50)
		for n := range int64(3) { // every answer is reflected in the next
			a := customer.get("/v1/me")
			h := a.ok(t)
			me := decodeAccount(t, a.body)
			if me.Plan != string(c.plan) || me.Credits.Balance != 50-n || me.Credits.Remaining != 50-n || me.Usage.Lookups != n || me.Usage.Logos != 0 || me.Period != "2026-11" {
				t.Errorf("%s after %d look-ups: %+v", c.plan, n, me)
			}
			if h.Get("X-Credits-Remaining") != fmt.Sprint(50-n) || h.Get("X-RateLimit-Limit") != fmt.Sprint(c.minute) || h.Get("X-Cache") != "" {
				t.Errorf("headers %v", h)
			}
			l := me.Limits
			if l.PerMinute != c.minute || l.BatchSize != c.batch || l.CrawlsPerMinute != c.crawls || allowance(l.LogosPerMonth) != fmt.Sprint(c.logos) || allowance(l.SearchesPerMonth) != fmt.Sprint(c.searches) {
				t.Errorf("%s: limits %+v", c.plan, l)
			}
			if me.Key.ID != customer.secretID || me.Key.Kind != "secret" {
				t.Errorf("key %+v", me.Key)
			}
			customer.get("/v1/brands/acme.com").ok(t)
		}
	}
	c := s.account(plan.Free, 50)
	s.send(request{path: "/v1/me", header: bearer(c.publishable)}).rejected(t, http.StatusForbidden, "forbidden")
	c.head("/v1/me") // 405, below
}

func allowance(n *int64) string {
	if n == nil {
		return "<nil>"
	}
	return fmt.Sprint(*n)
}

func TestKeys_Used_ReportLastUse(t *testing.T) {
	s, c := startWith(t, plan.Free, 50)
	c.get("/v1/me").ok(t)
	c.s.send(request{path: "/v1/me", header: bearer(c.publishable)})
	used := s.keysUsed(c, 2)
	if !used[c.secretID].Equal(s.clock.now()) {
		t.Errorf("secret key last used at %s", used[c.secretID])
	}
}

// keysUsed waits until n keys of an account are recorded as used on the log.
func (s *service) keysUsed(c *customer, n int) map[string]time.Time {
	s.t.Helper()
	used := map[string]time.Time{}
	s.follow("usage-node-", func(ev eventschemas.Event) bool {
		if tick, ok := ev.(eventschemas.UsageTicked); ok {
			for _, e := range tick.Entries {
				for _, k := range e.KeysUsed {
					if e.AccountID == c.id {
						used[k.KeyID] = k.At
					}
				}
			}
		}
		return len(used) >= n
	})
	return used
}

func TestAsset_StoredFile_IsServedAndCached(t *testing.T) {
	s := start(t)
	s.shows("GET /cdn/{file}", 200)
	s.shows("GET /cdn/{file}", 304)
	s.shows("GET /cdn/{file}", 404)
	s.shows("HEAD /cdn/{file}", 200)
	s.shows("HEAD /cdn/{file}", 404)
	for ext, contentType := range map[string]string{"svg": "image/svg+xml", "png": "image/png", "webp": "image/webp", "jpeg": "image/jpeg"} {
		data := []byte("bytes of the " + ext)
		id, err := s.assets.Put(t.Context(), data, ext)
		s.must(err)
		a := s.send(request{path: "/cdn/" + id + "." + ext})
		h := a.ok(t)
		if string(a.body) != string(data) || h.Get("Content-Type") != contentType || h.Get("Etag") != `"`+id+`"` {
			t.Errorf("%s: %v, body %q", ext, h, a.body)
		}
		for name, want := range map[string]string{
			"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff", "Access-Control-Allow-Origin": "*",
			"Cross-Origin-Resource-Policy": "cross-origin", "Content-Length": fmt.Sprint(len(data)), "X-Ratelimit-Limit": "",
			"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
		} {
			if h.Get(name) != want {
				t.Errorf("%s: %s is %q, want %q", ext, name, h.Get(name), want)
			}
		}
		if a := s.send(request{method: "HEAD", path: "/cdn/" + id + "." + ext}); a.status != http.StatusOK || len(a.body) != 0 || a.header.Get("Content-Length") != fmt.Sprint(len(data)) || a.header.Get("Etag") != h.Get("Etag") {
			t.Errorf("%s: HEAD %d, header %v", ext, a.status, a.header)
		}
		for _, tag := range []string{h.Get("Etag"), "W/" + h.Get("Etag"), `"x", ` + h.Get("Etag"), "*"} {
			a := s.send(request{path: "/cdn/" + id + "." + ext, header: http.Header{"If-None-Match": {tag}}})
			if a.status != http.StatusNotModified || len(a.body) != 0 || a.header.Get("Cache-Control") == "" || a.header.Get("Etag") == "" {
				t.Errorf("%s: If-None-Match %s: status %d, header %v", ext, tag, a.status, a.header)
			}
		}
		s.send(request{path: "/cdn/" + id + "." + ext, header: http.Header{"If-None-Match": {`"other"`}}}).ok(t)
	}
	sum := sha256.Sum256([]byte("bytes of the svg"))
	id := hex.EncodeToString(sum[:])
	for _, missing := range []string{
		id + ".png", id + ".ico", id, id + ".", id + ".svg.png", id + ".SVG", strings.ToUpper(id) + ".svg", strings.Repeat("0", 64) + ".svg",
		"x.svg", "..%2f..%2fetc%2fpasswd", "%2e%2e.svg", id[:63] + "%00.svg", "%69" + id[1:] + ".svg",
	} {
		for _, method := range []string{"GET", "HEAD"} {
			a := s.send(request{method: method, path: "/cdn/" + missing})
			if a.status != http.StatusNotFound || a.header.Get("Content-Type") != "text/plain; charset=utf-8" || a.header.Get("Cache-Control") != "no-store" || (method == "GET") != (len(a.body) > 0) {
				t.Errorf("%s %s: status %d, header %v, body %q", method, missing, a.status, a.header, a.body)
			}
		}
	}
}

func TestAsset_StorageMissing_Is503(t *testing.T) {
	s := start(t)
	s.shows("GET /cdn/{file}", 503)
	s.shows("HEAD /cdn/{file}", 503)
	s.shows("HEAD /cdn/{file}", 304)
	id, err := s.assets.Put(t.Context(), []byte("<svg/>"), "svg")
	s.must(err)
	s.must(os.Rename(s.assetFolder, filepath.Join(filepath.Dir(s.assetFolder), "elsewhere")))
	a := s.send(request{path: "/cdn/" + id + ".svg"})
	if a.status != http.StatusServiceUnavailable || a.header.Get("Content-Type") != "text/plain; charset=utf-8" || a.header.Get("Retry-After") == "" || strings.Contains(string(a.body), s.assetFolder) {
		t.Errorf("status %d, header %v, body %q", a.status, a.header, a.body)
	}
	if a := s.send(request{method: http.MethodHead, path: "/cdn/" + id + ".svg"}); a.status != http.StatusServiceUnavailable {
		t.Errorf("HEAD: status %d, want %d", a.status, http.StatusServiceUnavailable)
	}
	s.must(os.Rename(filepath.Join(filepath.Dir(s.assetFolder), "elsewhere"), s.assetFolder))
	etag := s.send(request{path: "/cdn/" + id + ".svg"}).ok(t).Get("ETag")
	if a := s.send(request{method: http.MethodHead, path: "/cdn/" + id + ".svg", header: http.Header{"If-None-Match": {etag}}}); a.status != http.StatusNotModified {
		t.Errorf("HEAD with the current tag: status %d, want %d", a.status, http.StatusNotModified)
	}
}

func TestRouter_UnknownPathOrMethod_Is404Or405(t *testing.T) {
	s := start(t)
	for _, c := range []struct {
		method, path string
		status       int
		code, allow  string
	}{
		{"GET", "/nothing", 404, "not_found", ""},
		{"GET", "/v1/brands", 404, "not_found", ""},
		{"GET", "/v1/brands/", 404, "not_found", ""},
		{"GET", "/v1/brands/acme.com/", 404, "not_found", ""},
		{"GET", "/v1/brands/https:/acme.com", 404, "not_found", ""},
		{"GET", "/v1/me/", 404, "not_found", ""},
		{"GET", "/V1/me", 404, "not_found", ""},
		{"GET", "/cdn/", 404, "not_found", ""},
		{"GET", "/cdn/a/b", 404, "not_found", ""},
		{"GET", "//cdn//x", 404, "not_found", ""},
		{"BREW", "/v1/coffee", 404, "not_found", ""},
		{"POST", "/v1/brands/acme.com", 405, "invalid_request", "GET, HEAD, OPTIONS"},
		{"GET", "/v1/brands/batch", 405, "invalid_request", "OPTIONS, POST"},
		{"DELETE", "/v1/me", 405, "invalid_request", "GET, HEAD, OPTIONS"},
		{"PUT", "/v1/search?q=a", 405, "invalid_request", "GET, HEAD, OPTIONS"},
		{"POST", "/", 405, "invalid_request", "GET, HEAD, OPTIONS"},
		{"POST", "/v1/", 405, "invalid_request", "GET, HEAD, OPTIONS"},
		{"POST", "/docs/errors", 405, "invalid_request", "GET, HEAD, OPTIONS"},
		{"BREW", "/bot", 405, "invalid_request", "GET, HEAD, OPTIONS"},
	} {
		a := s.send(request{method: c.method, path: c.path})
		if a.header.Get("Allow") != c.allow {
			t.Errorf("%s %s: Allow %q, want %q", c.method, c.path, a.header.Get("Allow"), c.allow)
		}
		a.rejected(t, c.status, c.code)
		if a.header.Get("X-RateLimit-Limit") != "" || a.header.Get("X-Request-Id") == "" {
			t.Errorf("%s %s: headers %v", c.method, c.path, a.header)
		}
	}
	a := s.send(request{method: "POST", path: "/cdn/x.svg"})
	if a.status != http.StatusMethodNotAllowed || a.header.Get("Content-Type") != "text/plain; charset=utf-8" || a.header.Get("Allow") != "GET, HEAD, OPTIONS" {
		t.Errorf("POST on an asset: status %d, header %v", a.status, a.header)
	}
}

func TestRouter_UnencodedURL_RedirectsToCleanPath(t *testing.T) {
	s, c := startWith(t, plan.Free, 50)
	a := c.get("/v1/brands/https://acme.com/a%2Fb?refresh=true")
	if a.status != http.StatusMovedPermanently || a.header.Get("Location") != "/v1/brands/https:/acme.com/a%2Fb?refresh=true" || a.header.Get("X-Request-Id") == "" || a.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("status %d, header %v", a.status, a.header)
	}
	next := c.get(a.header.Get("Location"))
	if p := next.rejected(t, http.StatusNotFound, "not_found"); !strings.Contains(p.Error.Message, "percent-encode") {
		t.Errorf("message %q, want text that contains %q", p.Error.Message, "percent-encode")
	}
	if a := s.send(request{method: "POST", path: "/v1//brands/batch"}); a.status != http.StatusPermanentRedirect || a.header.Get("Location") != "/v1/brands/batch" {
		t.Errorf("POST: status %d, header %v", a.status, a.header)
	}
}

func TestCORS_AnyOrigin_IsAllowed(t *testing.T) {
	s, c := startWith(t, plan.Free, 50)
	for _, path := range []string{
		"/v1/brands/acme.com", "/v1/search", "/v1/me", "/cdn/x.svg", "/docs/errors", "/v2/brands/acme.com",
		"/logo/acme.com/icon?size=64", "/nothing", "/v1//me",
	} {
		a := s.send(request{method: "OPTIONS", path: path, header: http.Header{
			"Origin": {"https://shop.example"}, "Access-Control-Request-Method": {"GET"}, "Access-Control-Request-Headers": {"authorization"},
		}})
		h := a.header
		if a.status != http.StatusNoContent || h.Get("Access-Control-Allow-Origin") != "*" || h.Get("Access-Control-Allow-Credentials") != "" || h.Get("Access-Control-Max-Age") == "" {
			t.Errorf("%s: status %d, %v", path, a.status, h)
		}
		// Headers that a page's own tools add, such as traceparent, do not prevent a request; the star
		// does not include Authorization.
		for _, want := range []string{"Authorization", "X-Api-Key", "Content-Type", "If-None-Match", "*"} {
			if !slices.Contains(strings.Split(h.Get("Access-Control-Allow-Headers"), ", "), want) {
				t.Errorf("%s: headers %q lack %s", path, h.Get("Access-Control-Allow-Headers"), want)
			}
		}
		for _, want := range []string{"GET", "HEAD", "POST"} {
			if !strings.Contains(h.Get("Access-Control-Allow-Methods"), want) {
				t.Errorf("%s: methods %q lack %s", path, h.Get("Access-Control-Allow-Methods"), want)
			}
		}
	}
	exposed := []string{"X-Request-Id", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-Credits-Remaining", "Retry-After", "ETag", "X-Cache", "X-Api-Key-Status", "X-Logo-Source", "X-Logo-Type", "X-Logo-Theme"}
	for _, r := range []request{
		{path: "/v1/me", header: bearer(c.secret)}, {path: "/v1/me"}, {path: "/nothing"}, {path: "/v1//me"}, {path: "/v1/brands/co.uk", header: bearer(c.secret)},
		{method: "POST", path: "/v1/me"}, {path: "/cdn/x.svg"}, {path: "/bot"},
	} {
		a := s.send(r)
		got := strings.Split(a.header.Get("Access-Control-Expose-Headers"), ", ")
		if a.header.Get("Access-Control-Allow-Origin") != "*" || strings.Join(got, ",") != strings.Join(exposed, ",") || a.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: status %d, header %v", r.path, a.status, a.header)
		}
	}
	if a := s.send(request{method: "OPTIONS", path: "/v1/me"}); a.status != http.StatusNoContent || a.header.Get("Allow") != "GET, HEAD, OPTIONS" {
		t.Errorf("OPTIONS without preflight headers: status %d, header %v", a.status, a.header)
	}
	s.send(request{method: "OPTIONS", path: "/nothing"}).rejected(t, http.StatusNotFound, "not_found")
}
