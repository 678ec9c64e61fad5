package readapi_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/internal/testmust"
	"letterhead/projections/keys"
	"letterhead/readapi"
	"letterhead/readapi/openapi"
	"letterhead/readapi/openapi/openapitest"
)

// described returns the operations of the OpenAPI document.
func described(t testing.TB) []*openapi.Operation {
	t.Helper()
	checker := testmust.Get(checkAnswers())(t)
	return checker.Document().Operations
}

// ask sends an operation with its examples, and with the given values for some parameters.
func (s *service) ask(o *openapi.Operation, key string, values map[string]string) answer {
	s.t.Helper()
	path, query := o.Path, url.Values{}
	for _, p := range o.Parameters {
		value, own := values[p.Name]
		if text, ok := p.Example.(string); ok && !own {
			value = text
		}
		switch {
		case p.In == "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(value))
		case p.In == "query" && (p.Required || own):
			query.Set(p.Name, value)
		}
	}
	var body io.Reader
	if o.Body != nil {
		body = strings.NewReader(o.Body.Contents[0].Examples[0].Text)
	}
	r, err := http.NewRequestWithContext(s.t.Context(), o.Method, s.url+path+"?"+query.Encode(), body)
	s.must(err)
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := s.transport.RoundTrip(r)
	s.must(err)
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	s.must(err)
	return answer{status: resp.StatusCode, header: resp.Header, body: read}
}

// faultyKeys is a key directory with a key that it cannot check, and one of an account with an unknown plan.
type faultyKeys struct {
	readapi.KeyDirectory
	away, unheardOf *string
}

func (k faultyKeys) Lookup(ctx context.Context, hash [32]byte) (keys.Key, bool, error) {
	found, ok, err := k.KeyDirectory.Lookup(ctx, hash)
	switch {
	case ok && found.ID == *k.away:
		return keys.Key{}, false, errors.New("the directory is unavailable")
	case ok && found.ID == *k.unheardOf:
		found.Plan = "unheard-of"
	}
	return found, ok, err
}

// TestEndpoints_RequestNotAdmitted_AnswerAlike covers the answers of an endpoint before it examines the request.
func TestEndpoints_RequestNotAdmitted_AnswerAlike(t *testing.T) {
	var away, unheardOf string
	s := start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) { d.Keys = faultyKeys{d.Keys, &away, &unheardOf} }
	})
	c, suspended, busy := s.account(plan.Growth, 100), s.account(plan.Free, 50), s.account(plan.Free, 50)
	awayKey, id := c.issue("secret")
	away = id
	unheardKey, id := c.issue("secret")
	unheardOf = id
	done, err := s.writer.Suspend(t.Context(), commands.SuspendAccount{Request: operator(), AccountID: suspended.id, Reason: "test"})
	s.must(err)
	s.inForce(done)
	for range 60 {
		busy.get("/v1/search?q=acme")
	}
	for _, o := range described(t) {
		check := func(what string, a answer, status int, code string) {
			t.Helper()
			if a.status != status {
				t.Errorf("%s %s, %s: status %d, want %d: %s", o.Method, o.Path, what, a.status, status, a.body)
			}
			if openapitest.Response(o, status) != nil { // a 405 is described with the first method of its path
				s.shows(o.Method+" "+o.Path, status, code)
			}
		}
		if len(o.Keys) > 0 {
			check("no key", s.ask(o, "", nil), 401, "unauthorized")
			check("a suspended account", s.ask(o, suspended.secret, nil), 403, "forbidden")
			if !slices.Contains(o.Keys, "publishable") {
				check("a publishable key", s.ask(o, c.publishable, nil), 403, "forbidden")
			}
			if openapitest.Response(o, http.StatusTooManyRequests) != nil { // MCP reports it in the result of a tool
				check("too many requests", s.ask(o, busy.secret, nil), 429, "rate_limited")
			}
			check("a key that cannot be checked", s.ask(o, awayKey, nil), 503, "upstream_failed")
			check("an internal fault", s.ask(o, unheardKey, nil), 500, "internal_error")
		}
		other := *o
		other.Method = http.MethodDelete
		check("another method", s.ask(&other, c.secret, nil), 405, "invalid_request")
	}
}

// TestLookupPaths_EachOutcome_AnswerAlike covers the outcomes of a look-up, on every path that has one.
func TestLookupPaths_EachOutcome_AnswerAlike(t *testing.T) {
	s := start(t)
	c, poor := s.account(plan.Custom, 1000), s.account(plan.Free, 0)
	for _, o := range described(t) {
		if openapitest.Response(o, http.StatusUnprocessableEntity) == nil && (o.Method != http.MethodHead || !strings.Contains(o.Path, "/brands/")) {
			continue
		}
		name := strings.Trim(o.Path[strings.Index(o.Path, "{"):], "{}")
		byID := name == "id"
		// value returns the parameter that identifies a domain on this path. A brand that has an id is
		// known, and crawled on demand.
		value := func(domain string) map[string]string {
			if !byID {
				return map[string]string{name: domain}
			}
			return map[string]string{name: brand.ID(domain).String(), "refresh": "true"}
		}
		check := func(what string, a answer, status int, code ...string) {
			t.Helper()
			if a.status != status {
				t.Errorf("%s %s, %s: status %d, want %d: %s", o.Method, o.Path, what, a.status, status, a.body)
			}
			s.shows(o.Method+" "+o.Path, status, code...)
		}
		prefix := strings.ToLower(o.ID)
		s.known("held.com", record("held"))
		held := value("held.com")
		delete(held, "refresh")
		check("held", s.ask(o, c.secret, held), 200)
		held["refresh"] = "perhaps"
		check("refresh=perhaps", s.ask(o, c.secret, held), 400, "invalid_request")
		if byID {
			check("no uuid", s.ask(o, c.secret, map[string]string{name: "held.com"}), 400, "invalid_request")
		} else {
			check("a single label", s.ask(o, c.secret, map[string]string{name: "localhost"}), 400, "invalid_domain")
		}
		if name != "domain" {
			check("an unknown id", s.ask(o, c.secret, map[string]string{name: brand.ID(prefix + "-nobody.com").String()}), 404, "not_found")
		}
		if o.Method == http.MethodHead {
			if !byID {
				check("an unknown domain", s.ask(o, c.secret, value(prefix+"-unknown.com")), 404)
			}
			continue
		}
		delete(held, "refresh")
		check("no credits", s.ask(o, poor.secret, held), 402, "insufficient_credits")
		for _, outcome := range []struct {
			of           string
			first, again int
			code         string
		}{
			{brand.DNS, 404, 404, "domain_not_found"}, {brand.NoData, 404, 404, "no_brand_data"}, {brand.Blocked, 422, 422, "fetch_blocked"},
			{brand.FetchFailed, 502, 503, "fetch_failed"}, {brand.Timeout, 504, 503, "timeout"},
		} {
			domain := prefix + "-" + strings.ReplaceAll(outcome.of, "_", "-") + ".com"
			if byID {
				s.known(domain, record("held"))
			}
			s.crawler.fails(domain, outcome.of)
			check(outcome.of, s.ask(o, c.secret, value(domain)), outcome.first, outcome.code)
			if !byID { // an id finds the known brand, even after its refresh failed
				check(outcome.of+" remembered", s.ask(o, c.secret, value(domain)), outcome.again, outcome.code)
			}
		}
	}
}

// TestSearchPaths_BadRequestOrQuota_AnswerAlike covers the rejections of a search after the key was checked, on both
// paths.
func TestSearchPaths_BadRequestOrQuota_AnswerAlike(t *testing.T) {
	s, c := startWith(t, plan.Free, 50)
	c.searched(250_000)
	for _, o := range described(t) {
		if r := openapitest.Response(o, http.StatusTooManyRequests); r == nil || !slices.Contains(r.Codes(), "quota_exceeded") {
			continue
		}
		if a := s.ask(o, c.publishable, map[string]string{"limit": "21"}); a.status != 400 {
			t.Errorf("%s: limit=21 is %d, want 400", o.Path, a.status)
		}
		if a := s.ask(o, c.publishable, nil); a.status != 429 || !strings.Contains(string(a.body), "quota_exceeded") {
			t.Errorf("%s past the allowance: status %d, body %s", o.Path, a.status, a.body)
		}
		s.shows("GET "+o.Path, 400, "invalid_request")
		s.shows("GET "+o.Path, 429, "quota_exceeded")
	}
}

// The document is served without a key, with the base URL of this service, and not again to a client that has it.
func TestOpenAPI_Requested_IsServedAndCached(t *testing.T) {
	s := start(t)
	for _, endpoint := range []string{"GET /v1/openapi.json", "HEAD /v1/openapi.json"} {
		s.shows(endpoint, 200)
		s.shows(endpoint, 304)
	}
	a := s.send(request{path: "/v1/openapi.json"})
	tag := a.ok(t).Get("ETag")
	want, err := openapi.JSON(baseURL)
	s.must(err)
	if string(a.body) != string(want) || !strings.Contains(string(a.body), `"servers":[{"url":"`+baseURL+`"`) {
		t.Errorf("served: body %.300s", a.body)
	}
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		if a := s.send(request{method: method, path: "/v1/openapi.json"}); a.status != http.StatusOK || a.header.Get("Cache-Control") == "" {
			t.Errorf("%s: status %d, header %v", method, a.status, a.header)
		}
		if a := s.send(request{method: method, path: "/v1/openapi.json", header: http.Header{"If-None-Match": {tag}}}); a.status != http.StatusNotModified {
			t.Errorf("%s with the current tag: status %d, want %d", method, a.status, http.StatusNotModified)
		}
	}
}
