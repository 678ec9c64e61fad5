package readapi_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/projections/brands"
	"letterhead/readapi"
	"letterhead/readapi/lookup"
)

// conditional sends a request with If-None-Match, and with more headers as pairs.
func (c *customer) conditional(method, path, tags string, more ...string) answer {
	c.s.t.Helper()
	h := bearer(c.secret)
	h["If-None-Match"] = []string{tags}
	for i := 0; i < len(more); i += 2 {
		h.Set(more[i], more[i+1])
	}
	return c.s.send(request{method: method, path: path, header: h})
}

func TestIfNoneMatch_UnchangedBrand_Is304AndFree(t *testing.T) {
	s, c := startWith(t, plan.Custom, 50)
	r := largeRecord()
	r.Logos[0].Tags = []string{"reversed"}
	s.crawler.finds("acme.com", r)
	id := s.known("acme.com", r)
	for described, path := range map[string]string{
		"/v1/brands/{identifier}": "/v1/brands/acme.com", "/v2/brands/{identifier}": "/v2/brands/acme.com/",
		"/v2/brands/id/{id}": "/v2/brands/id/" + id, "/v2/brands/domain/{domain}": "/v2/brands/domain/acme.com",
	} {
		got := c.get(path)
		tag := got.ok(t).Get("ETag")
		before := c.books()
		s.shows("GET "+described, 304)
		s.shows("HEAD "+described, 304)
		for _, tags := range []string{tag, "W/" + tag, `"x", ` + tag, "*", strings.TrimSuffix(tag, `"`) + `-gzip"`} {
			for _, method := range []string{"GET", "HEAD"} {
				a := c.conditional(method, path, tags)
				if a.status != http.StatusNotModified || len(a.body) != 0 || a.header.Get("X-Cache") != "" || a.header.Get("X-Credits-Remaining") != got.header.Get("X-Credits-Remaining") {
					t.Errorf("%s %s, If-None-Match %s: status %d, header %v", method, path, tags, a.status, a.header)
				}
			}
		}
		if after := c.books(); len(after.charges) != len(before.charges) || after.holds != before.holds {
			t.Errorf("%s: %d charges and %d holds, before %d and %d", path, len(after.charges), after.holds, len(before.charges), before.holds)
		}
		if a := c.conditional("GET", path, `"other"`); a.status != http.StatusOK || a.header.Get("ETag") != tag {
			t.Errorf("%s with another tag: status %d, ETag %s, want %s", path, a.status, a.header.Get("ETag"), tag)
		}
		if a := c.conditional("GET", path+"?refresh=true", tag); a.status != http.StatusOK || a.header.Get("X-Cache") != "MISS" {
			t.Errorf("%s?refresh=true: status %d, header %v", path, a.status, a.header)
		}
	}
	if v1, v2 := c.get("/v1/brands/acme.com").header.Get("ETag"), c.get("/v2/brands/acme.com").header.Get("ETag"); v1 == v2 {
		t.Errorf("two bodies have the tag %s", v1)
	}
	if exposed := c.get("/v1/me").header.Get("Access-Control-Expose-Headers"); !strings.Contains(exposed, "ETag") {
		t.Errorf("exposed headers %q", exposed)
	}
}

func TestIfNoneMatch_OrderOfChecks_304IsBefore402(t *testing.T) {
	s := start(t)
	s.known("acme.com", record("acme"))
	s.known("plain.com", plainRecord("plain"))
	c := s.account(plan.Free, 1)
	tag := c.get("/v1/brands/acme.com").ok(t).Get("ETag")
	c.get("/v1/brands/acme.com").rejected(t, http.StatusPaymentRequired, "insufficient_credits")
	a := c.conditional("GET", "/v1/brands/acme.com", tag)
	if h := a.header; a.status != http.StatusNotModified || h.Get("X-Credits-Remaining") != "0" || h.Get("X-RateLimit-Remaining") != "57" || h.Get("X-Request-Id") == "" || h.Get("ETag") != tag {
		t.Errorf("without credits: status %d, header %v", a.status, h)
	}
	c.conditional("GET", "/v1/brands/plain.com", `"x"`).rejected(t, http.StatusPaymentRequired, "insufficient_credits")
	if a := c.conditional("GET", "/v1/brands/plain.com", "*"); a.status != http.StatusNotModified {
		t.Errorf("a brand without a logo: status %d", a.status)
	}
	c.conditional("GET", "/v1/brands/co.uk", tag).rejected(t, http.StatusBadRequest, "invalid_domain")
	c.conditional("GET", "/v1/brands/acme.com?refresh=perhaps", tag).rejected(t, http.StatusBadRequest, "invalid_request")
	c.conditional("GET", "/v1/brands/acme.com", tag, "Idempotency-Key", "a b").rejected(t, http.StatusBadRequest, "invalid_request")
	if used := decodeAccount(t, c.get("/v1/me").okBody(t)).Usage.Lookups; used != 50 {
		t.Errorf("usage.lookups %d, want 50, 49 of them from before the test", used)
	}
	for range 60 {
		a = c.conditional("GET", "/v1/brands/acme.com", tag)
	}
	a.rejected(t, http.StatusTooManyRequests, "rate_limited")
	a = s.send(request{path: "/v1/brands/acme.com", header: http.Header{"Authorization": {"Bearer " + c.publishable}, "If-None-Match": {tag}}})
	a.rejected(t, http.StatusForbidden, "forbidden")
	a = s.send(request{path: "/v1/brands/acme.com", header: http.Header{"If-None-Match": {tag}}})
	a.rejected(t, http.StatusUnauthorized, "unauthorized")
}

// okBody checks that an answer is 200 and returns its body.
func (a answer) okBody(t testing.TB) []byte {
	t.Helper()
	a.ok(t)
	return a.body
}

func TestIfNoneMatch_BrandChangedOrUnknown_IsLookedUpAndCharged(t *testing.T) {
	s, c := startWith(t, plan.Growth, 50)
	s.known("acme.com", record("acme"))
	tag := c.get("/v1/brands/acme.com").ok(t).Get("ETag")
	s.crawler.finds("acme.com", record("acme two"))
	c.get("/v1/brands/acme.com?refresh=true").ok(t)
	a := c.conditional("GET", "/v1/brands/acme.com", tag)
	if changed := a.ok(t).Get("ETag"); changed == tag || a.header.Get("X-Credits-Remaining") != "47" {
		t.Errorf("a changed brand: ETag %s, header %v", changed, a.header)
	}
	s.crawler.finds("new.com", record("new"))
	if a := c.conditional("GET", "/v1/brands/new.com", "*"); a.ok(t).Get("X-Cache") != "MISS" || a.header.Get("X-Credits-Remaining") != "46" {
		t.Errorf("an unknown domain: header %v", a.header)
	}
	c.conditional("GET", "/v1/brands/"+brand.ID("nobody.com").String(), "*").rejected(t, http.StatusNotFound, "not_found")
	if a := c.conditional("HEAD", "/v1/brands/nobody.com", "*"); a.status != http.StatusNotFound {
		t.Errorf("HEAD of an unknown domain: status %d", a.status)
	}
}

// The caller has the record from a node whose index is ahead of this one's.
func TestIfNoneMatch_IndexLags_NewerRecordIs304AndFree(t *testing.T) {
	s, index := startStale(t)
	c := s.account(plan.Growth, 50)
	id := s.known("acme.com", record("old"))
	old, err := index.Get(t.Context(), "acme.com")
	s.must(err)
	fresh := commands.ImportBrand{Request: operator(), Domain: "acme.com", Source: "test 2", Record: record("fresh")}
	_, err = s.brands.ImportBrand(t.Context(), fresh)
	s.must(err)
	s.catchUp()
	tag := c.head("/v1/brands/acme.com").ok(t).Get("ETag")
	index.held.Store(old)
	for _, path := range []string{"/v1/brands/acme.com", "/v1/brands/" + id} {
		a := c.conditional("GET", path, tag)
		if a.status != http.StatusNotModified || a.header.Get("X-Credits-Remaining") != "50" {
			t.Errorf("%s: status %d, header %v", path, a.status, a.header)
		}
	}
	if b := c.books(); len(b.charges) != 0 || b.holds != 0 {
		t.Errorf("%d charges and %d holds, want none", len(b.charges), b.holds)
	}
	a := c.conditional("GET", "/v1/brands/acme.com", `"other"`)
	if h := a.ok(t); h.Get("ETag") != tag || h.Get("X-Credits-Remaining") != "49" {
		t.Errorf("with another tag: header %v, want ETag %s", h, tag)
	}
}

// hungIndex does not answer within the time of a call.
type hungIndex struct {
	lookup.Index
	calls atomic.Int64
}

func (h *hungIndex) Get(ctx context.Context, _ string) (*brands.Entry, error) {
	h.calls.Add(1)
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestIfNoneMatch_IndexHangs_IsNotAskedAgain(t *testing.T) {
	index := &hungIndex{}
	inBubble(t, func(s *service) {
		c := s.account(plan.Growth, 50)
		a := c.conditional("GET", "/v1/brands/acme.com", `"x"`)
		a.rejected(s.t, http.StatusServiceUnavailable, "upstream_failed")
		if n := index.calls.Load(); n != 1 {
			s.t.Errorf("the index was asked %d times, want 1", n)
		}
	}, func(set *setup) {
		set.deps = func(d *readapi.Deps) { index.Index, d.Index = d.Index, index }
	})
}

func TestIfNoneMatch_WithIdempotencyKey_IsExaminedFirst(t *testing.T) {
	s, c := startWith(t, plan.Growth, 50)
	s.known("acme.com", record("acme"))
	const path = "/v1/brands/acme.com"
	first := c.conditional("GET", path, `"none"`, "Idempotency-Key", "one")
	tag := first.ok(t).Get("ETag")
	if a := c.conditional("GET", path, tag, "Idempotency-Key", "one"); a.status != http.StatusNotModified {
		t.Errorf("the current tag: status %d", a.status)
	}
	if a := c.conditional("GET", path, tag, "Idempotency-Key", "unused"); a.status != http.StatusNotModified {
		t.Errorf("the current tag and a new key: status %d", a.status)
	}
	s.known("other.com", record("other"))
	c.conditional("GET", "/v1/brands/other.com", `"none"`, "Idempotency-Key", "unused").ok(t) // a 304 does not use the key
	s.crawler.finds("acme.com", record("acme two"))
	c.get(path + "?refresh=true").ok(t)
	a := c.conditional("GET", path, tag, "Idempotency-Key", "one")
	if a.ok(t).Get("ETag") != tag || string(a.body) != string(first.body) {
		t.Errorf("a repeat after a change: ETag %s, body %s", a.header.Get("ETag"), a.body)
	}
	if b := c.books(); len(b.charges) != 3 {
		t.Errorf("%d charges, want 3", len(b.charges))
	}
}

func TestV2Tags_AnyAnswer_AreEmpty(t *testing.T) {
	s, c := startWith(t, plan.Growth, 50)
	s.shows("POST /v2/brands/batch", 200)
	r := record("acme")
	r.Logos[0].Tags = []string{"reversed", `a "]" \ b`}
	r.Images[0].Tags = []string{"x"}
	id := s.known("acme.com", r)
	const full, none = `"tags":["reversed","a \"]\" \\ b"]`, `"tags":[]`
	once := http.Header{"Authorization": {"Bearer " + c.secret}, "Idempotency-Key": {"k"}}
	v1 := s.send(request{path: "/v1/brands/acme.com", header: once})
	if body := string(v1.okBody(t)); !strings.Contains(body, full) || !strings.Contains(body, `"tags":["x"]`) {
		t.Errorf("/v1: %s", body)
	}
	want := strings.Replace(strings.Replace(string(v1.body), full, none, 1), `"tags":["x"]`, none, 1)
	for _, path := range []string{"/v2/brands/acme.com", "/v2/brands/id/" + id, "/v2/brands/domain/acme.com"} {
		if body := string(c.get(path).okBody(t)); body != want {
			t.Errorf("%s: %s, want %s", path, body, want)
		}
	}
	for range 2 {
		if a := s.send(request{path: "/v2/brands/acme.com", header: once}); string(a.okBody(t)) != want {
			t.Errorf("a repeat on /v2: %s", a.body)
		}
		if a := s.send(request{path: "/v1/brands/acme.com", header: once}); string(a.okBody(t)) != string(v1.body) {
			t.Errorf("a repeat on /v1: %s", a.body)
		}
	}
	for path, tags := range map[string]string{"/v1/brands/batch": full, "/v2/brands/batch": none, "/v2/brands/batch/": none} {
		a, err := s.post(t.Context(), path, `{"identifiers":["acme.com"]}`, bearer(c.secret))
		s.must(err)
		if body := string(a.okBody(t)); !strings.Contains(body, tags) || strings.Contains(body, full) != (tags == full) {
			t.Errorf("%s: %s", path, body)
		}
	}
}
