package readapi_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/internal/apikey"
	"letterhead/internal/testmust"
	"letterhead/projections/keys"
	"letterhead/readapi"
)

// rejectedV2 checks an error answer of /v2 completely: the error body with its message repeated at the top.
func (a answer) rejectedV2(t testing.TB, status int, code string) problem {
	t.Helper()
	var body map[string]json.RawMessage
	var top string
	if err := json.Unmarshal(a.body, &body); err != nil || json.Unmarshal(body["message"], &top) != nil || top == "" {
		t.Fatalf("status %d without a message at the top: body %s", a.status, a.body)
	}
	delete(body, "message")
	var err error
	if a.body, err = json.Marshal(body); err != nil {
		t.Fatal(err)
	}
	p := a.rejected(t, status, code)
	if p.Error.Message != top {
		t.Fatalf("message %q at the top, %q in the error", top, p.Error.Message)
	}
	if a.header.Get("Access-Control-Allow-Origin") != "*" || a.header.Get("X-Request-Id") == "" || a.header.Get("Location") != "" {
		t.Fatalf("headers of a %d: %v", status, a.header)
	}
	return p
}

func TestV2_Brands_AnswerLikeV1(t *testing.T) {
	t.Parallel()
	s, c := startWith(t, plan.Growth, 100)
	id := s.known("acme.com", record("acme"))
	want := c.get("/v1/brands/acme.com")
	lookups := int64(1)
	for _, path := range []string{
		"/v2/brands/acme.com", "/v2/brands/www.ACME.com", "/v2/brands/" + id, "/v2/brands/urn:letterhead:brand:" + id, "/v2/brands/https%3A%2F%2Facme.com%2Fabout",
		"/v2/brands/jane%40acme.com", "/v2/brands/acme.com:8443", "/v2/brands/%61cme.com",
		"/v2/brands/id/" + id, "/v2/brands/id/" + strings.ToUpper(id), "/v2/brands/id/%" + fmt.Sprintf("%x", id[0]) + id[1:],
		"/v2/brands/domain/acme.com", "/v2/brands/domain/shop.Acme.com.", "/v2/brands/domain/%20acme.com",
		"/v2/brands/acme.com?refresh=false&fields=logos&allowNsfw=true&c=whatever&c=again&%zz",
	} {
		path, query, _ := strings.Cut(path, "?")
		for _, form := range []string{path, path + "/"} {
			a := c.get(form + "?" + query)
			h := a.ok(t)
			lookups++
			if !bytes.Equal(a.body, want.body) {
				t.Errorf("%s: body %s, and on /v1 %s", form, a.body, want.body)
			}
			for name := range want.header {
				if h.Get(name) == "" {
					t.Errorf("%s: no %s", form, name)
				}
			}
			if h.Get("X-Cache") != "HIT" || h.Get("X-Credits-Remaining") != fmt.Sprint(100-lookups) {
				t.Errorf("%s: headers %v", form, h)
			}
			head := c.head(form)
			if head.status != http.StatusOK || len(head.body) != 0 || head.header.Get("Content-Length") != fmt.Sprint(len(want.body)) {
				t.Errorf("HEAD %s: status %d, header %v", form, head.status, head.header)
			}
		}
	}
	if b := c.books(); int64(len(b.charges)) != lookups || b.balance() != 100-lookups || b.holds != 0 {
		t.Errorf("%d charges, balance %d, %d holds after %d look-ups", len(b.charges), b.balance(), b.holds, lookups)
	}
	// refresh and crawls work as on /v1.
	s.crawler.finds("acme.com", record("fresh"))
	s.crawler.finds("new.com", record("new"))
	for path, name := range map[string]string{"/v2/brands/domain/acme.com/?refresh=true": "fresh", "/v2/brands/id/" + id + "?refresh=1": "fresh", "/v2/brands/new.com/": "new"} {
		a := c.get(path)
		if got := decodeBrand(t, a.body); a.ok(t).Get("X-Cache") != "MISS" || *got.Name != name {
			t.Errorf("%s: header %v, body %s", path, a.header, a.body)
		}
	}
	if b := c.books(); int64(len(b.charges)) != lookups+3 || b.holds != 3 || len(b.openHolds) != 0 {
		t.Errorf("%d charges, %d holds, %d open", len(b.charges), b.holds, len(b.openHolds))
	}
	// HEAD does not crawl.
	for _, path := range []string{"/v2/brands/unknown.com", "/v2/brands/domain/unknown.com/", "/v2/brands/id/" + uuid.NewString()} {
		if a := c.head(path); a.status != http.StatusNotFound || len(a.body) != 0 {
			t.Errorf("HEAD %s: status %d, body %q", path, a.status, a.body)
		}
	}
	if n := len(s.crawler.of("unknown.com")); n != 0 {
		t.Errorf("HEAD led to %d crawls, want 0", n)
	}
}

func TestV2_TypedPath_TakesItsTypeOnly(t *testing.T) {
	t.Parallel()
	s, c := startWith(t, plan.Custom, 50)
	id := s.known("acme.com", record("acme"))
	for _, bad := range []string{
		"acme.com", "NKE", "id6O2oGzv-", "US6541061031", strings.ReplaceAll(id, "-", ""), "%7B" + id + "%7D", "urn:uuid:" + id,
		"urn:letterhead:brand:" + id, id + "0", id[:35], "g" + id[1:], "%20" + id, id + "%2F", "..", "%FF", "batch",
	} {
		for _, slash := range []string{"", "/"} {
			c.get("/v2/brands/id/"+bad+slash).rejectedV2(t, http.StatusBadRequest, "invalid_request")
		}
	}
	for _, bad := range []string{
		"jane%40acme.com", "https%3A%2F%2Facme.com", "acme.com%2Fabout", "acme.com:8443", id, "urn:letterhead:brand:" + id, "acme", "co.uk",
		"127.0.0.1", "..", "%2e%2e", "%FF", "acme%252ecom", "%20", "batch", "acme.com%3Fx=1",
	} {
		for _, slash := range []string{"", "/"} {
			c.get("/v2/brands/domain/"+bad+slash).rejectedV2(t, http.StatusBadRequest, "invalid_domain")
		}
	}
	for _, path := range []string{"/v2/brands/id/", "/v2/brands/", "/v2/brands/urn:letterhead:brand:"} {
		a := c.get(path + uuid.NewString())
		a.rejectedV2(t, http.StatusNotFound, "not_found")
		if a.header.Get("X-Credits-Remaining") != "50" {
			t.Errorf("%s: headers %v", path, a.header)
		}
	}
	if b := c.books(); len(b.charges) != 0 || b.balance() != 50 || b.holds != 0 {
		t.Errorf("%d charges, balance %d, %d holds; want 0, 50 and 0", len(b.charges), b.balance(), b.holds)
	}
}

// TestV2_Errors_AnswerLikeV1 sends the same to both, with two accounts in the same state.
func TestV2_Errors_AnswerLikeV1(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.known("acme.com", record("acme"))
	fails := map[string]string{}
	for _, outcome := range []string{brand.DNS, brand.NoData, brand.Blocked, brand.FetchFailed, brand.Timeout} {
		for _, version := range []string{"v1", "v2"} {
			domain := strings.ReplaceAll(outcome, "_", "-") + "-" + version + ".com"
			fails[outcome+version] = "/brands/" + domain
			s.crawler.fails(domain, outcome)
		}
	}
	publishable := func(c *customer) http.Header { return bearer(c.publishable) }
	for _, c := range []struct {
		name    string
		credits int64
		given   func(*customer)
		key     func(*customer) http.Header
		path    func(version string) string
		status  int
		again   int // status of the second request, if different
		code    string
	}{
		{name: "no key", key: func(*customer) http.Header { return nil }, status: 401, code: "unauthorized"},
		{name: "publishable key", key: publishable, status: 403, code: "forbidden"},
		{name: "suspended", given: (*customer).suspend, status: 403, code: "forbidden"},
		{name: "minute used up", given: (*customer).useUp, status: 429, code: "rate_limited"},
		{name: "refresh", path: func(string) string { return "/brands/acme.com?refresh=maybe" }, status: 400, code: "invalid_request"},
		{name: "no domain", path: func(string) string { return "/brands/co.uk" }, status: 400, code: "invalid_domain"},
		{name: "no credits", status: 402, code: "insufficient_credits"},
		{name: "dns", credits: 50, path: func(v string) string { return fails[brand.DNS+v] }, status: 404, code: "domain_not_found"},
		{name: "no data", credits: 50, path: func(v string) string { return fails[brand.NoData+v] }, status: 404, code: "no_brand_data"},
		{name: "blocked", credits: 50, path: func(v string) string { return fails[brand.Blocked+v] }, status: 422, code: "fetch_blocked"},
		{name: "failed", credits: 50, path: func(v string) string { return fails[brand.FetchFailed+v] }, status: 502, again: 503, code: "fetch_failed"},
		{name: "too slow", credits: 50, path: func(v string) string { return fails[brand.Timeout+v] }, status: 504, again: 503, code: "timeout"},
	} {
		var answers [2][2]answer
		for i, version := range []string{"v1", "v2"} {
			customer := s.account(plan.Free, c.credits)
			if c.given != nil {
				c.given(customer)
			}
			header, path := bearer(customer.secret), "/brands/acme.com"
			if c.key != nil {
				header = c.key(customer)
			}
			if c.path != nil {
				path = c.path(version)
			}
			for n := range answers[i] {
				answers[i][n] = s.send(request{path: "/" + version + path, header: header})
			}
			if b := customer.books(); len(b.charges) != 0 || len(b.openHolds) != 0 || b.balance() != c.credits {
				t.Errorf("%s on %s: %d charges, %d holds open, balance %d; want 0, 0 and %d", c.name, version, len(b.charges), len(b.openHolds), b.balance(), c.credits)
			}
		}
		t.Log(c.name)
		for n, status := range []int{c.status, cmp.Or(c.again, c.status)} {
			one, two := answers[0][n], answers[1][n]
			first, second := one.rejected(t, status, c.code), two.rejectedV2(t, status, c.code)
			if got, want := detailsOf(t, second), detailsOf(t, first); got != want {
				t.Errorf("%s: details %s, on /v1 %s", c.name, got, want)
			}
			for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-Credits-Remaining", "Retry-After", "Www-Authenticate", "Cache-Control", "X-Cache"} {
				if one.header.Get(name) != two.header.Get(name) {
					t.Errorf("%s: %s %q, on /v1 %q", c.name, name, two.header.Get(name), one.header.Get(name))
				}
			}
		}
	}
}

// detailsOf formats an error's details for comparison.
func detailsOf(t testing.TB, p problem) string {
	t.Helper()
	b := testmust.Get(json.Marshal(p.Error.Details))(t)
	return string(b)
}

// TestV2_UncleanPath_IsNotRedirected sends raw request lines.
func TestV2_UncleanPath_IsNotRedirected(t *testing.T) {
	t.Parallel()
	s, c := startWith(t, plan.Custom, 50)
	s.known("acme.com", record("acme"))
	for _, r := range []struct {
		target string
		status int
		code   string
	}{
		{"/v2", 404, "not_found"},
		{"/v2/", 404, "not_found"},
		{"//v2", 404, "not_found"},
		{"//v2/brands/acme.com", 404, "not_found"},
		{"///v2//brands//acme.com", 404, "not_found"},
		{"/v2//brands/acme.com", 404, "not_found"},
		{"/v2/brands//acme.com", 404, "not_found"},
		{"/v2/brands/acme.com//", 404, "not_found"},
		{"/v2/brands/https://acme.com", 404, "not_found"},
		{"/v2/brands/https:/acme.com", 404, "not_found"},
		{"/v2/brands/domain/https://acme.com", 404, "not_found"},
		{"/v2/brands/./acme.com", 404, "not_found"},
		{"/v2/brands/../brands/acme.com", 404, "not_found"},
		{"/v2/../v1/me", 404, "not_found"},
		{"//v2/../v1/me", 404, "not_found"},
		{"/./v2/../v1//me", 404, "not_found"},
		{"/v2/./", 404, "not_found"},
		{"/v2/brands/..", 400, "invalid_domain"},
		{"/v2/brands/../", 400, "invalid_domain"},
		{"/v2/brands/.", 400, "invalid_domain"},
		{"/v2/brands/%2e%2e/", 400, "invalid_domain"},
		{"/v2/brands/%2Fevil.com%2F..", 400, "invalid_domain"},
		{"/v2/brands", 404, "not_found"},
		{"/v2/brands/", 404, "not_found"},
		{"/v2/brands//", 404, "not_found"},
		{"/v2/brands/id", 404, "not_found"},
		{"/v2/brands/id/", 404, "not_found"},
		{"/v2/brands/id//", 404, "not_found"},
		{"/v2/brands/domain", 404, "not_found"},
		{"/v2/brands/domain/", 404, "not_found"},
		{"/v2/brands/domain//acme.com", 404, "not_found"},
		{"/v2/brands/domain/acme.com/logos", 404, "not_found"},
		{"/v2/brands/ticker/NKE", 404, "not_found"},
		{"/v2/brands/isin/US6541061031/", 404, "not_found"},
		{"/v2/brands/ID/acme.com", 404, "not_found"},
		{"/v2/brands/acme.com/acme.com", 404, "not_found"},
		{"/v2/brands/a/b/c", 404, "not_found"},
		{"/V2/brands/acme.com", 404, ""},
		{"/v2/search", 404, "not_found"},
		{"/v2/search/", 404, "not_found"},
		{"/v2/search//", 404, "not_found"},
		{"/v2/search/AT/T", 404, "not_found"},
		{"/v2/search?q=acme", 404, "not_found"},
		{"/v2/me", 404, "not_found"},
		{"http://api.example/v2//brands/acme.com", 404, "not_found"},
	} {
		for _, method := range []string{"GET", "POST"} {
			resp, err := s.raw(method + " " + r.target + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + c.secret + "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			s.must(err)
			a := readWhole(t, resp)
			if a.header.Get("Location") != "" || a.status/100 == 3 {
				t.Errorf("%s %s: status %d to %q", method, r.target, a.status, a.header.Get("Location"))
			}
			switch {
			case r.code == "":
				a.rejected(t, http.StatusNotFound, "not_found") // not a path of /v2, which is case-sensitive
			case method == "POST" && r.status == 400:
				a.rejectedV2(t, http.StatusMethodNotAllowed, "invalid_request")
			default:
				a.rejectedV2(t, r.status, r.code)
			}
		}
	}
	if b := c.books(); len(b.charges) != 0 || b.holds != 0 {
		t.Errorf("%d charges, %d holds; want 0 and 0", len(b.charges), b.holds)
	}
}

func TestV2Search_Results_AreABareArray(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.shows("GET /v2/search/{name}", 200)
	c := s.account(plan.Growth, 50)
	s.known("acme.com", record("Acme"))
	s.known("acme-tools.com", record("Acme Tools"))
	s.known("att.com", record("AT&T"))
	s.known("buecher.de", record("Bücher"))
	searches := int64(0)
	for _, name := range []string{
		"acme", "acme%20tools", "acme+tools", "AT&T", "AT%26T", "a%2Fb", "B%C3%BCcher", "acme.com", "not-held.com", "zzzzqqqq", "%61cme", "acme%2520tools", "ac", "..", "batch", "%20",
		strings.Repeat("%C3%BC", 100),
	} {
		for _, query := range []string{"", "?limit=1", "?limit=20&fields=name&q=other"} {
			// On /v1 the same text is sent as q, where a plus would be a space.
			inV1 := strings.ReplaceAll(strings.ReplaceAll(name, "&", "%26"), "+", "%2B")
			limit := strings.TrimPrefix(strings.Split(query, "&")[0], "?")
			var want struct{ Results json.RawMessage }
			if err := json.Unmarshal(c.get("/v1/search?q="+inV1+"&"+limit).body, &want); err != nil || want.Results == nil {
				t.Fatalf("%s on /v1: %v", name, err)
			}
			searches++
			for _, slash := range []string{"", "/"} {
				a := c.get("/v2/search/" + name + slash + query)
				h := a.ok(t)
				searches++
				if strings.TrimSpace(string(a.body)) != string(want.Results) {
					t.Errorf("%s%s: body %s, on /v1 %s", name, query, a.body, want.Results)
				}
				if h.Get("X-RateLimit-Limit") != "600" || h.Get("X-RateLimit-Remaining") == "" || h.Get("X-RateLimit-Reset") == "" || h.Get("X-Credits-Remaining") != "" ||
					h.Get("Cache-Control") != "private" || h.Get("Content-Type") != "application/json; charset=utf-8" || h.Get("X-Cache") != "" {
					t.Errorf("%s: headers %v", name, h)
				}
			}
		}
	}
	if got := decodeExactly[[]specSearchResult](t, c.get("/v2/search/acme").body); len(got) != 2 || got[0].Domain != "acme.com" || got[0].Icon != baseURL+"/logo/acme.com" || *got[0].BrandID != brand.ID("acme.com").String() {
		t.Errorf("got %+v", got)
	}
	if got := string(c.get("/v2/search/zzzzqqqq/").body); got != "[]\n" {
		t.Errorf("nothing found is %q", got)
	}
	searches += 2
	for _, bad := range []string{
		strings.Repeat("x", 101), strings.Repeat("%C3%BC", 101), "%FF", "acme?limit=0", "acme?limit=21", "acme?limit=50", "acme?limit=", "acme?limit=1&limit=1", "acme/?limit=x",
	} {
		c.get("/v2/search/"+bad).rejectedV2(t, http.StatusBadRequest, "invalid_request")
	}
	if got := decodeAccount(t, c.get("/v1/me").body).Usage.Searches; got != searches {
		t.Errorf("%d searches are counted, want %d", got, searches)
	}
	if b := c.books(); len(b.charges) != 0 || b.holds != 0 || b.balance() != 50 {
		t.Errorf("%d charges, %d holds, balance %d; want 0, 0 and 50", len(b.charges), b.holds, b.balance())
	}
}

// The parameter c must be a valid publishable key whatever else is sent; a key in a header decides about the account.
func TestKeyInC_EveryCombination_IsChecked(t *testing.T) {
	t.Parallel()
	s := start(t)
	one, two, suspended := s.account(plan.Free, 50), s.account(plan.Starter, 50), s.account(plan.Growth, 50)
	suspended.suspend()
	unknown, _ := newKey(t, apikey.Publishable)
	revoked, revokedID := one.issue(apikey.Publishable)
	done, err := s.writer.RevokeKey(t.Context(), commands.RevokeKey{Request: operator(), AccountID: one.id, KeyID: revokedID})
	s.must(err)
	s.inForce(done)
	searches := func(c *customer) int64 { return decodeAccount(t, c.get("/v1/me").body).Usage.Searches }
	xAPIKey := func(key string) http.Header { return http.Header{"X-Api-Key": {key}} }
	for _, r := range []struct {
		name   string
		query  string
		header http.Header
		pays   *customer // whose window and allowance; nil = 401
	}{
		{"c alone", "c=" + one.publishable, nil, one},
		{"encoded", "limit=3&%63=%6ch_pk_" + one.publishable[6:], nil, one},
		{"with a secret key", "c=" + one.publishable, bearer(one.secret), one},
		{"with a key of another account", "c=" + one.publishable, bearer(two.secret), two},
		{"with a publishable key of another account", "c=" + one.publishable, xAPIKey(two.publishable), two},
		{"with a proxy's own Authorization", "c=" + one.publishable, http.Header{"Authorization": {"Basic eDp5"}}, one},
		{"with a token of an OAuth tool", "c=" + one.publishable, bearer("eyJhbGciOi.x.y"), one},
		{"with an empty header", "c=" + one.publishable, xAPIKey(""), one},
		{"of a suspended account with a good header", "c=" + suspended.publishable, bearer(two.secret), two},
		{"header alone", "", bearer(two.publishable), two},
		{"no key", "", nil, nil},
		{"key is no parameter of search", "key=" + one.publishable, nil, nil},
		{"upper case", "C=" + one.publishable, nil, nil},
		{"empty", "c=", bearer(one.secret), nil},
		{"without a value", "c", bearer(one.secret), nil},
		{"twice", "c=" + one.publishable + "&c=" + one.publishable, bearer(one.secret), nil},
		{"twice, once encoded", "c=" + one.publishable + "&%63=" + one.publishable, nil, nil},
		{"not decodable", "c=" + one.publishable + "%zz", bearer(one.secret), nil},
		{"a space around", "c=+" + one.publishable, bearer(one.secret), nil},
		{"nonsense", "c=abc", bearer(one.secret), nil},
		{"mistyped", "c=" + mistyped(one.publishable), bearer(one.secret), nil},
		{"unknown", "c=" + unknown, bearer(one.secret), nil},
		{"revoked", "c=" + revoked, bearer(one.secret), nil},
		{"encoded twice", "c=%256ch_pk_" + one.publishable[6:], bearer(one.secret), nil},
		{"secret", "c=" + one.secret, nil, nil},
		{"secret with itself in a header", "c=" + one.secret, bearer(one.secret), nil},
		{"secret after a publishable", "c=" + one.publishable + "&c=" + one.secret, nil, nil},
		{"with a mistyped header", "c=" + one.publishable, bearer(mistyped(one.secret)), nil},
		{"with headers that differ", "c=" + one.publishable, http.Header{"Authorization": {"Bearer " + one.secret}, "X-Api-Key": {two.secret}}, nil},
		{"with a header given twice", "c=" + one.publishable, http.Header{"X-Api-Key": {one.secret, one.secret}}, nil},
	} {
		before := map[*customer]int64{one: searches(one), two: searches(two)}
		a := s.send(request{path: "/v2/search/acme?" + r.query, header: r.header})
		for c, n := range before {
			if c == r.pays {
				n++
			}
			if got := searches(c); got != n {
				t.Errorf("%s: %d searches are counted of account %s, want %d", r.name, got, c.id, n)
			}
		}
		if r.pays == nil {
			t.Log(r.name)
			a.rejectedV2(t, http.StatusUnauthorized, "unauthorized")
			if a.header.Get("Www-Authenticate") != "Bearer" || a.header.Get("X-RateLimit-Limit") != "" || a.header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: headers %v", r.name, a.header)
			}
			continue
		}
		limit := map[*customer]string{one: "60", two: "300"}[r.pays]
		if a.status != http.StatusOK || a.header.Get("X-RateLimit-Limit") != limit {
			t.Errorf("%s: status %d, header %v, body %s", r.name, a.status, a.header, a.body)
		}
		s.clock.add(time.Minute)
	}
	for i := range one.publishable {
		other := "x"
		if one.publishable[i] == 'x' {
			other = "y"
		}
		changed := one.publishable[:i] + other + one.publishable[i+1:]
		s.send(request{path: "/v2/search/acme?c=" + changed, header: bearer(one.secret)}).rejectedV2(t, http.StatusUnauthorized, "unauthorized")
	}
	s.send(request{path: "/v2/search/acme?c=" + suspended.publishable}).rejectedV2(t, http.StatusForbidden, "forbidden")
	// c is accepted by search only.
	for _, path := range []string{"/v2/brands/acme.com?c=", "/v2/brands/domain/acme.com/?c=", "/v1/search?q=acme&c=", "/v1/me?c="} {
		if a := s.send(request{path: path + one.publishable}); a.status != http.StatusUnauthorized {
			t.Errorf("%s: status %d, body %s; want %d", path, a.status, a.body, http.StatusUnauthorized)
		}
	}
	one.useUp()
	s.send(request{path: "/v2/search/acme?c=" + one.publishable}).rejectedV2(t, http.StatusTooManyRequests, "rate_limited")
}

// A secret key in c grants nothing, takes nothing from its account's window, is not recorded as used, and
// is neither in the log nor in the answer.
func TestKeyInC_SecretKey_IsNeitherUsedNorLogged(t *testing.T) {
	t.Parallel()
	looked := &lookedUp{}
	s := start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) { looked.KeyDirectory, d.Keys = d.Keys, looked }
	})
	c := s.account(plan.Free, 50)
	for _, sent := range []string{c.secret, mistyped(c.secret), url.QueryEscape(c.secret + " "), "%6c" + c.secret[1:], c.secret + "&c=" + c.publishable} {
		for _, header := range []http.Header{nil, bearer(c.publishable)} {
			a := s.send(request{path: "/v2/search/acme?c=" + sent, header: header})
			p := a.rejectedV2(t, http.StatusUnauthorized, "unauthorized")
			if once := !strings.Contains(sent, "&"); once && !strings.Contains(p.Error.Message, "revoke it") {
				t.Errorf("the answer does not warn that the key has leaked: body %s", a.body)
			}
			if strings.Contains(string(a.body), c.secret[6:16]) {
				t.Errorf("the answer repeats the key: body %s", a.body)
			}
		}
	}
	if n := looked.times.Load(); n != 0 {
		t.Errorf("%d keys were looked up for requests that carry a secret key in c, want 0", n)
	}
	if got := s.send(request{path: "/v2/search/acme?c=" + c.publishable}).ok(t).Get("X-RateLimit-Remaining"); got != "59" {
		t.Errorf("%s requests are left in the window after the first good one, want %q", got, "59")
	}
	lines := s.logs.all()
	if !strings.Contains(lines, `"route":"v2_search"`) {
		t.Fatalf("the requests are not in the log:\n%s", lines)
	}
	for _, key := range []string{c.secret, c.publishable} {
		if strings.Contains(lines, key[6:16]) {
			t.Error("the log contains a key")
		}
	}
}

// lookedUp counts the keys that are looked up.
type lookedUp struct {
	readapi.KeyDirectory
	times atomic.Int64
}

func (l *lookedUp) Lookup(ctx context.Context, hash [32]byte) (keys.Key, bool, error) {
	l.times.Add(1)
	return l.KeyDirectory.Lookup(ctx, hash)
}

// readWhole reads a raw answer to its end.
func readWhole(t testing.TB, resp *http.Response) answer {
	t.Helper()
	defer resp.Body.Close()
	body := testmust.Get(io.ReadAll(resp.Body))(t)
	return answer{status: resp.StatusCode, header: resp.Header, body: body}
}
