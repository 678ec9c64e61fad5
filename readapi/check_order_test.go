package readapi_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/domain/usage"
	"letterhead/eventschemas"
	"letterhead/internal/apikey"
	"letterhead/internal/eventlog"
	"letterhead/projections/keys"
	"letterhead/readapi"
)

// useUp uses the rest of the customer's minute.
func (c *customer) useUp() {
	c.s.t.Helper()
	for range 3001 {
		if a := c.get("/v1/me"); a.status == http.StatusTooManyRequests {
			return
		} else if a.header.Get("X-RateLimit-Remaining") == "0" {
			return
		}
	}
	c.s.t.Fatal("the minute window has no end")
}

// searched counts searches as if they had been made, in one event.
func (c *customer) searched(n int64) {
	c.s.t.Helper()
	month := usage.MonthOf(c.s.clock.now())
	encoded, err := eventschemas.Encode(eventschemas.UsageTicked{Entries: []eventschemas.UsageEntry{{AccountID: c.id, Month: month.String(), Searches: n}}})
	c.s.must(err)
	_, err = c.s.log.Append(c.s.t.Context(), usage.Stream(c.id, month), eventlog.NoStream(), []eventlog.Proposed{{
		ID: uuid.New(), Type: encoded.Type, SchemaVersion: encoded.SchemaVersion, OccurredAt: c.s.clock.now().UTC().Truncate(time.Microsecond), Data: encoded.Data,
	}})
	c.s.must(err)
}

func (c *customer) suspend() {
	c.s.t.Helper()
	done, err := c.s.writer.Suspend(c.s.t.Context(), commands.SuspendAccount{Request: operator(), AccountID: c.id, Reason: "test"})
	c.s.must(err)
	c.s.inForce(done)
}

// TestChecks_SeveralErrors_FirstInOrderAnswers sends requests with two errors and checks which rejection they get.
func TestChecks_SeveralErrors_FirstInOrderAnswers(t *testing.T) {
	s := start(t, func(set *setup) { set.config.CrawlsPerMinute = 1_000_000 })
	mistyped := func(c *customer) http.Header { return bearer(c.secret[:len(c.secret)-1] + "!") }
	secret := func(c *customer) http.Header { return bearer(c.secret) }
	publishable := func(c *customer) http.Header { return bearer(c.publishable) }
	for _, c := range []struct {
		name    string
		credits int64
		given   func(*customer)
		key     func(*customer) http.Header
		method  string
		path    string
		status  int
		code    string
	}{
		{"404 before 401", 1, nil, mistyped, "GET", "/v1/nothing", 404, "not_found"},
		{"405 before 401", 1, nil, mistyped, "POST", "/v1/brands/acme.com", 405, "invalid_request"},
		{"405 before 403", 1, (*customer).suspend, secret, "DELETE", "/v1/me", 405, "invalid_request"},
		{"401 before 400", 1, nil, mistyped, "GET", "/v1/brands/co.uk", 401, "unauthorized"},
		{"401 before 402", 0, nil, mistyped, "GET", "/v1/brands/acme.com", 401, "unauthorized"},
		{"401 before 429", 1, (*customer).useUp, mistyped, "GET", "/v1/brands/acme.com", 401, "unauthorized"},
		{"403 for the account before 429", 1, func(c *customer) { c.useUp(); c.suspend() }, secret, "GET", "/v1/brands/acme.com", 403, "forbidden"},
		{"403 for the kind of key before 429", 1, (*customer).useUp, publishable, "GET", "/v1/brands/acme.com", 403, "forbidden"},
		{"403 before 400", 1, nil, publishable, "GET", "/v1/brands/co.uk", 403, "forbidden"},
		{"403 before 402", 0, (*customer).suspend, secret, "GET", "/v1/brands/acme.com", 403, "forbidden"},
		{"403 before 400 on search", 1, (*customer).suspend, publishable, "GET", "/v1/search", 403, "forbidden"},
		{"429 before 400", 1, (*customer).useUp, secret, "GET", "/v1/brands/co.uk", 429, "rate_limited"},
		{"429 before 402", 0, (*customer).useUp, secret, "GET", "/v1/brands/acme.com", 429, "rate_limited"},
		{"429 of the minute before the quota", 1, func(c *customer) { c.searched(250_000); c.useUp() }, secret, "GET", "/v1/search?q=acme", 429, "rate_limited"},
		{"400 before 402", 0, nil, secret, "GET", "/v1/brands/co.uk", 400, "invalid_domain"},
		{"400 of refresh before 402", 0, nil, secret, "GET", "/v1/brands/acme.com?refresh=maybe", 400, "invalid_request"},
		{"400 before the quota", 1, func(c *customer) { c.searched(250_000) }, secret, "GET", "/v1/search?q=", 400, "invalid_request"},
		{"402 before 404", 0, nil, secret, "GET", "/v1/brands/" + uuid.NewString(), 402, "insufficient_credits"},
		{"402 before the crawl limit", 10, func(c *customer) {
			c.crawlAway(10)
			c.spend(10)
		}, secret, "GET", "/v1/brands/one-more.com", 402, "insufficient_credits"},
		{"remembered failure before the crawl limit", 20, func(c *customer) {
			c.s.crawler.fails("remembered.com", brand.Blocked)
			c.get("/v1/brands/remembered.com")
			c.crawlAway(9)
		}, secret, "GET", "/v1/brands/remembered.com", 422, "fetch_blocked"},
		{"crawl limit before the crawl", 20, func(c *customer) { c.crawlAway(10) }, secret, "GET", "/v1/brands/one-more.com", 429, "rate_limited"},
	} {
		t.Run(c.name, func(t *testing.T) {
			customer := s.account(plan.Free, c.credits)
			if c.given != nil {
				c.given(customer)
			}
			s.send(request{method: c.method, path: c.path, header: c.key(customer)}).rejected(t, c.status, c.code)
			if b := customer.books(); len(b.openHolds) != 0 {
				t.Errorf("%d holds open, want 0", len(b.openHolds))
			}
		})
	}
	if n := len(s.crawler.of("one-more.com")); n != 0 {
		t.Errorf("%d crawls were requested past the limit or without credit, want 0", n)
	}
}

// crawlAway uses n of the account's live crawls of this minute, with crawls that find nothing.
func (c *customer) crawlAway(n int) {
	c.s.t.Helper()
	for range n {
		domain := "gone-" + strings.ReplaceAll(uuid.NewString(), "-", "") + ".com"
		c.s.crawler.fails(domain, brand.NoData)
		c.get("/v1/brands/"+domain).rejected(c.s.t, 404, "no_brand_data")
	}
}

// spend spends credits by charges.
func (c *customer) spend(n int) {
	c.s.t.Helper()
	for range n {
		_, err := c.s.writer.ChargeLookup(c.s.t.Context(), commands.ChargeLookup{Request: operator(), AccountID: c.id, BrandID: uuid.NewString(), Domain: spentAway})
		c.s.must(err)
	}
}

func TestMinuteWindow_EachKindOfRequest_TakesAUnitOrNot(t *testing.T) {
	s, c := startWith(t, plan.Free, 50)
	left := func() int {
		n, err := strconv.Atoi(c.get("/v1/me").header.Get("X-RateLimit-Remaining"))
		s.must(err)
		return n
	}
	before := left()
	for _, r := range []struct {
		name  string
		send  request
		takes int
	}{
		{"401", request{path: "/v1/me", header: bearer("lh_sk_nothing")}, 0},
		{"404 of a path", request{path: "/v1/nothing", header: bearer(c.secret)}, 0},
		{"405", request{method: "POST", path: "/v1/me", header: bearer(c.secret)}, 0},
		{"redirect", request{path: "/v1//me", header: bearer(c.secret)}, 0},
		{"preflight", request{method: "OPTIONS", path: "/v1/me", header: http.Header{"Origin": {"https://a.com"}, "Access-Control-Request-Method": {"GET"}}}, 0},
		{"asset", request{path: "/cdn/" + strings.Repeat("0", 64) + ".svg", header: bearer(c.secret)}, 0},
		{"400", request{path: "/v1/brands/co.uk", header: bearer(c.secret)}, 1},
		{"403", request{path: "/v1/me", header: bearer(c.publishable)}, 1},
		{"404 of a brand", request{path: "/v1/brands/" + uuid.NewString(), header: bearer(c.secret)}, 1},
		{"HEAD", request{method: "HEAD", path: "/v1/brands/unknown.com", header: bearer(c.secret)}, 1},
	} {
		s.send(r.send)
		after := left()
		if got := before - after - 1; got != r.takes { // /v1/me itself takes one
			t.Errorf("%s takes %d units, want %d", r.name, got, r.takes)
		}
		before = after
	}
}

// Rule 9.
func TestKey_RevokedOrSuspended_NextRequestIsRejected(t *testing.T) {
	s, c := startWith(t, plan.Free, 50)
	s.known("acme.com", record("acme"))
	extra, extraID := c.issue(apikey.Secret)
	s.send(request{path: "/v1/brands/acme.com", header: bearer(extra)}).ok(t)
	done, err := s.writer.RevokeKey(t.Context(), commands.RevokeKey{Request: operator(), AccountID: c.id, KeyID: extraID})
	s.must(err)
	s.inForce(done)
	a := s.send(request{path: "/v1/brands/acme.com", header: bearer(extra)})
	a.rejected(t, http.StatusUnauthorized, "unauthorized")
	if a.header.Get("Www-Authenticate") != "Bearer" || a.header.Get("X-RateLimit-Limit") != "" || a.header.Get("X-Credits-Remaining") != "" {
		t.Errorf("headers of a 401: %v", a.header)
	}
	c.get("/v1/brands/acme.com").ok(t) // the other key remains valid

	c.suspend()
	for _, key := range []string{c.secret, c.publishable} {
		for _, path := range []string{"/v1/brands/acme.com", "/v1/search?q=acme", "/v1/me"} {
			a := s.send(request{path: path, header: bearer(key)})
			a.rejected(t, http.StatusForbidden, "forbidden")
			if a.header.Get("X-RateLimit-Limit") != "60" || a.header.Get("X-Credits-Remaining") != "" {
				t.Errorf("headers of a 403: %v", a.header)
			}
		}
	}
	done, err = s.writer.Reinstate(t.Context(), commands.ReinstateAccount{Request: operator(), AccountID: c.id})
	s.must(err)
	s.inForce(done)
	c.get("/v1/brands/acme.com").ok(t)
	done, err = s.writer.Close(t.Context(), commands.CloseAccount{Request: operator(), AccountID: c.id, Reason: "test"})
	s.must(err)
	s.inForce(done)
	c.get("/v1/brands/acme.com").rejected(t, http.StatusUnauthorized, "unauthorized")
}

// mistyped returns the key with one character changed.
func mistyped(key string) string {
	other := "x"
	if key[20] == 'x' {
		other = "y"
	}
	return key[:20] + other + key[21:]
}

// Clients treat a 401 as final, so while the key directory is behind the log of the start, no
// well-formed key is reported as wrong or accepted.
func TestKey_CannotBeChecked_Is503(t *testing.T) {
	var directory *keys.Directory
	s := start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) { directory = d.Keys.(*keys.Directory) }
	})
	c := s.account(plan.Free, 50)
	s.known("acme.com", record("acme"))
	unknown, _ := newKey(t, apikey.Secret)
	head, err := s.log.Head(t.Context())
	s.must(err)
	directory.Open(head+1, s.runner) // the log has one event more than the directory has folded
	for _, key := range []string{c.secret, c.publishable, unknown} {
		for _, path := range []string{"/v1/brands/acme.com", "/v1/search?q=acme", "/v1/me"} {
			a := s.send(request{path: path, header: bearer(key)})
			a.rejected(t, http.StatusServiceUnavailable, "upstream_failed")
			h := a.header
			if h.Get("Retry-After") != "1" || h.Get("WWW-Authenticate") != "" || h.Get("Cache-Control") != "no-store" || h.Get("X-RateLimit-Limit") != "" || h.Get("X-Credits-Remaining") != "" {
				t.Errorf("%s: headers %v", path, h)
			}
		}
	}
	// An invalid key is rejected without the directory.
	s.send(request{path: "/v1/me", header: bearer(c.secret[:20])}).rejected(t, http.StatusUnauthorized, "unauthorized")
	s.send(request{path: "/v1/me"}).rejected(t, http.StatusUnauthorized, "unauthorized")
	bare := s.send(request{path: "/v1/me", header: http.Header{"Authorization": {c.secret}}})
	if p := bare.rejected(t, http.StatusUnauthorized, "unauthorized"); !strings.Contains(p.Error.Message, "Bearer is missing") {
		t.Errorf("a key without a scheme: %q", p.Error.Message)
	}
	if b := c.books(); len(b.charges) != 0 || b.holds != 0 {
		t.Errorf("%d charges, %d holds; want 0 and 0", len(b.charges), b.holds)
	}
	s.account(plan.Free, 50) // appends the event
	c.get("/v1/brands/acme.com").ok(t)
	s.send(request{path: "/v1/me", header: bearer(unknown)}).rejected(t, http.StatusUnauthorized, "unauthorized")
}

// Rule 10.
func TestCrawlLimit_PlansLimitReached_Is429(t *testing.T) {
	s, c := startWith(t, plan.Free, 50)
	s.known("acme.com", record("acme"))
	c.crawlAway(10)
	a := c.get("/v1/brands/eleventh.com")
	p := a.rejected(t, http.StatusTooManyRequests, "rate_limited")
	if p.Error.Details == nil || p.Error.Details.RetryAfter == nil || a.header.Get("X-Credits-Remaining") != "50" {
		t.Errorf("details %+v, headers %v", p.Error.Details, a.header)
	}
	c.get("/v1/brands/acme.com").ok(t) // the index is served as usual
	s.clock.add(seconds(t, a.header.Get("Retry-After")))
	s.crawler.finds("eleventh.com", record("eleventh"))
	c.get("/v1/brands/eleventh.com").ok(t)
}

// Rule 10.
func TestCrawlLimit_ServiceCeilingReached_Is503(t *testing.T) {
	s := start(t, func(set *setup) { set.config.CrawlsPerMinute = 2 })
	first, second := s.account(plan.Free, 50), s.account(plan.Free, 50)
	s.known("acme.com", record("acme"))
	first.crawlAway(2)
	for range 15 { // more often than the account's own ten: requests beyond the service's limit take nothing
		a := second.get("/v1/brands/third.com")
		a.rejected(t, http.StatusServiceUnavailable, "upstream_failed")
		if retry := seconds(t, a.header.Get("Retry-After")); retry < time.Second || retry > time.Minute || a.header.Get("X-Credits-Remaining") != "50" {
			t.Errorf("headers %v", a.header)
		}
	}
	second.get("/v1/brands/acme.com").ok(t)
	if n := len(s.crawler.of("third.com")); n != 0 {
		t.Errorf("%d crawls past the ceiling, want 0", n)
	}
	s.clock.add(time.Minute)
	s.crawler.finds("third.com", record("third"))
	second.get("/v1/brands/third.com").ok(t)
}
