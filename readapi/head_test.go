package readapi_test

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"letterhead/domain/plan"
	"letterhead/projections/checkpoints"
	"letterhead/readapi"
	"letterhead/readapi/openapi"
	"letterhead/readapi/openapi/openapitest"
)

// TestHead_WhereGetWorks_AnswersLikeIt compares HEAD with GET.
func TestHead_WhereGetWorks_AnswersLikeIt(t *testing.T) {
	s, c := startWith(t, plan.Growth, 50)
	s.known("acme.com", record("acme"))
	charged := c.get("/v1/brands/acme.com").ok(t).Get("X-Request-Id")
	for _, r := range []struct {
		described, path string
		status          int
	}{
		{"/v1/me", "/v1/me", 200},
		{"/v1/statements/{month}", "/v1/statements/2026-11", 200},
		{"/v1/statements/{month}", "/v1/statements/2026-1", 400},
		{"/v1/statements/{month}", "/v1/statements/2026-12", 404},
		{"/v1/ledger", "/v1/ledger", 200},
		{"/v1/ledger", "/v1/ledger?limit=0", 400},
		{"/v1/ledger/{request_id}", "/v1/ledger/" + charged, 200},
		{"/v1/ledger/{request_id}", "/v1/ledger/" + charged + "?as_of=never", 400},
		{"/v1/ledger/{request_id}", "/v1/ledger/none", 404},
		{"/v1/ledger/checkpoint", "/v1/ledger/checkpoint", 404},
		{"/v1/search", "/v1/search?q=", 400},
		{"/v2/search/{name}", "/v2/search/acme?limit=21", 400},
	} {
		s.shows("HEAD "+r.described, r.status)
		got, head := c.get(r.path), c.head(r.path)
		if got.status != r.status || head.status != r.status || len(head.body) != 0 || head.header.Get("Content-Length") != strconv.Itoa(len(got.body)) {
			t.Errorf("%s: GET %d, HEAD %d with %d bytes, header %v", r.path, got.status, head.status, len(head.body), head.header)
		}
		for name, values := range got.header {
			if vary := []string{"Date", "X-Request-Id", "X-Ratelimit-Remaining"}; !slices.Contains(vary, name) && !slices.Equal(values, head.header[name]) {
				t.Errorf("%s: %s is %q on GET, %q on HEAD", r.path, name, values, head.header[name])
			}
		}
	}
	s.shows("HEAD /v1/ledger/checkpoint", 200)
	_, err := s.node.Operations.Checkpoints.Make(t.Context(), s.node.Operator(), time.Time{}, "")
	s.must(err)
	s.must(s.node.Operations.Reads.FoldedTo(t.Context(), checkpoints.Name))
	c.head("/v1/ledger/checkpoint").ok(t)
}

func TestHead_Search_CountsNothing(t *testing.T) {
	s, c := startWith(t, plan.Free, 50)
	s.known("acme.com", record("acme"))
	for i, path := range []string{"/v1/search?q=acme", "/v2/search/acme"} {
		s.shows("HEAD "+[]string{"/v1/search", "/v2/search/{name}"}[i], 200)
		h := c.head(path).ok(t)
		if h.Get("Content-Type") != "application/json; charset=utf-8" || h.Get("Content-Length") != "" || h.Get("X-RateLimit-Remaining") != strconv.Itoa(59-i) {
			t.Errorf("HEAD %s: header %v", path, h)
		}
	}
	if used := decodeAccount(t, c.get("/v1/me").okBody(t)).Usage.Searches; used != 0 {
		t.Errorf("usage.searches %d, want 0", used)
	}
	c.searched(250_000)
	c.get("/v1/search?q=acme").rejected(t, http.StatusTooManyRequests, "quota_exceeded")
	if a := c.head("/v1/search?q=acme"); a.status != http.StatusTooManyRequests {
		t.Errorf("past the allowance: status %d", a.status)
	}
}

func TestHead_CheckpointUnavailable_Is503(t *testing.T) {
	s := start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) { d.Checkpoints = awayCheckpoints{d.Checkpoints} }
	})
	s.shows("HEAD /v1/ledger/checkpoint", 503)
	if a := s.send(request{method: "HEAD", path: "/v1/ledger/checkpoint"}); a.status != http.StatusServiceUnavailable || len(a.body) != 0 {
		t.Errorf("status %d, body %q", a.status, a.body)
	}
}

// TestHeaders_LargerThanLimit_Are431 sends raw bytes. Such a request reaches no endpoint, so the answer is the
// server's.
func TestHeaders_LargerThanLimit_Are431(t *testing.T) {
	s := start(t)
	for _, o := range described(t) {
		var code string
		if codes := openapitest.Response(o, http.StatusRequestHeaderFieldsTooLarge).Codes(); len(codes) > 0 && o.Method != http.MethodHead {
			code = codes[0]
		}
		s.shows(o.Method+" "+o.Path, http.StatusRequestHeaderFieldsTooLarge, code)
		resp, err := s.raw(o.Method + " " + examplePath(o) + " HTTP/1.1\r\nHost: x\r\nX-Filler: " + strings.Repeat("a", 22<<10) + "\r\n\r\n")
		s.must(err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s %s: status %d, want 431", o.Method, o.Path, resp.StatusCode)
			continue
		}
		contract.see(openapitest.Row{Method: o.Method, Path: o.Path, Status: resp.StatusCode, Code: code}, t.Name())
	}
}

// examplePath returns the path of an operation with the examples of its parameters.
func examplePath(o *openapi.Operation) string {
	path := o.Path
	for _, p := range o.Parameters {
		if text, ok := p.Example.(string); ok && p.In == "path" {
			path = strings.ReplaceAll(path, "{"+p.Name+"}", text)
		}
	}
	return path
}
