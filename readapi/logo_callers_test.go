package readapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/plan"
	"letterhead/domain/usage"
	"letterhead/eventschemas"
	"letterhead/internal/apikey"
	"letterhead/internal/eventlog"
	"letterhead/internal/ratelimit"
	"letterhead/internal/variants"
	"letterhead/readapi"
	"letterhead/readapi/logo"
)

// logoPath is the path of a brand without a logo file, whose monogram is drawn without a crawl.
const logoPath = "/logo/plain.com"

func (s *service) plain() {
	s.t.Helper()
	s.known("plain.com", plainRecord("plain"))
}

// logo checks that an answer is an image with that X-Api-Key-Status, "" for none.
func (a answer) logo(t testing.TB, keyStatus string) {
	t.Helper()
	if a.status != http.StatusOK || !strings.HasPrefix(a.header.Get("Content-Type"), "image/") || len(a.body) == 0 {
		t.Fatalf("status %d, %s with %d bytes, want an image: %.200s", a.status, a.header.Get("Content-Type"), len(a.body), a.body)
	}
	if got := strings.Join(a.header.Values("X-Api-Key-Status"), ", "); got != keyStatus {
		t.Fatalf("X-Api-Key-Status %q, want %q", got, keyStatus)
	}
	if kept := a.header.Get("Cache-Control"); (kept == besideStatus) != (keyStatus != "") {
		t.Errorf("Cache-Control %q with X-Api-Key-Status %q", kept, keyStatus)
	}
	for name := range a.header {
		if strings.HasPrefix(strings.ToLower(name), "x-ratelimit-") {
			t.Errorf("a logo has the header %s", name)
		}
	}
}

// rejectedPlainly checks a rejection of the logo endpoints, and returns its wait.
func (a answer) rejectedPlainly(t testing.TB, status int, keyStatus string) time.Duration {
	t.Helper()
	if a.status != status || a.header.Get("Content-Type") != "text/plain; charset=utf-8" || len(a.body) < 20 {
		t.Fatalf("status %d, %s, body %q, want plain text with status %d", a.status, a.header.Get("Content-Type"), a.body, status)
	}
	if got := a.header.Get("X-Api-Key-Status"); got != keyStatus {
		t.Fatalf("X-Api-Key-Status %q, want %q", got, keyStatus)
	}
	return seconds(t, a.header.Get("Retry-After"))
}

// from adds a client's address, as the tests' proxy reports it.
func from(address string, h http.Header) http.Header {
	out := h.Clone()
	if out == nil {
		out = http.Header{}
	}
	out.Set("X-Forwarded-For", address)
	return out
}

// watchedCounters record the counter and limit of each call, and can be unavailable.
type watchedCounters struct {
	ratelimit.Counters
	mu   sync.Mutex
	last map[int64]ratelimit.Key // by limit
	away atomic.Bool
}

func (c *watchedCounters) Take(ctx context.Context, key ratelimit.Key, units, limit int64) (ratelimit.Decision, error) {
	if c.away.Load() {
		return ratelimit.Decision{}, fmt.Errorf("take: %w", ratelimit.ErrUnavailable)
	}
	c.mu.Lock()
	c.last[limit] = key
	c.mu.Unlock()
	return c.Counters.Take(ctx, key, units, limit)
}

// fill takes units of the counter that was last used with that limit, like that many requests.
func (c *watchedCounters) fill(t testing.TB, limit, units int64) {
	t.Helper()
	c.mu.Lock()
	key, ok := c.last[limit]
	c.mu.Unlock()
	if !ok {
		t.Fatalf("no counter got a limit of %d", limit)
	}
	if d, err := c.Counters.Take(t.Context(), key, units, limit); err != nil || !d.Allowed {
		t.Fatalf("%+v, %v", d, err)
	}
}

func watched(c *watchedCounters) func(*setup) {
	return func(set *setup) {
		set.deps = func(d *readapi.Deps) {
			c.Counters, c.last = d.Counters, map[int64]ratelimit.Key{}
			d.Counters = c
		}
	}
}

// reportedLogos waits until the recorded usage is visible, and returns it.
func (c *customer) reportedLogos() int64 {
	c.s.t.Helper()
	c.s.clock.add(time.Hour + time.Second) // longer than the recorder's flush interval; the service is in a bubble
	c.s.catchUp()
	return c.me().Usage.Logos
}

// Every way to send a key, valid or not, gets the image, and X-Api-Key-Status has the reason if a
// key was not used. Requests with a valid key of an active account are counted.
func TestLogo_AnyKey_IsServed(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *service) {
		s.plain()
		c, gone, closed, suspended := s.account(plan.Growth, 50), s.account(plan.Free, 50), s.account(plan.Free, 50), s.account(plan.Free, 50)
		unknown, _ := newKey(s.t, apikey.Publishable)
		revoked, revokedID := gone.issue(apikey.Publishable)
		done, err := s.writer.RevokeKey(s.t.Context(), commands.RevokeKey{Request: operator(), AccountID: gone.id, KeyID: revokedID})
		s.must(err)
		s.inForce(done)
		done, err = s.writer.Close(s.t.Context(), commands.CloseAccount{Request: operator(), AccountID: closed.id, Reason: "test"})
		s.must(err)
		s.inForce(done)
		suspended.suspend()
		apiKey := func(key string) http.Header { return http.Header{"X-Api-Key": {key}} }
		two := func(h http.Header, key string) http.Header { h.Add("X-Api-Key", key); return h }
		const none, invalid, inURL = "", "invalid", "secret-key-in-url"
		var counted int64
		for name, k := range map[string]struct {
			header http.Header
			query  string
			status string
			counts bool
		}{
			"no key":                                {nil, "", none, false},
			"secret in Authorization":               {bearer(c.secret), "", none, true},
			"publishable in Authorization":          {bearer(c.publishable), "", none, true},
			"secret in X-Api-Key":                   {apiKey(c.secret), "", none, true},
			"publishable in X-Api-Key":              {apiKey(c.publishable), "", none, true},
			"the same key in both headers":          {two(bearer(c.secret), c.secret), "", none, true},
			"publishable in key":                    {nil, "key=" + c.publishable, none, true},
			"publishable in key, twice":             {nil, "key=" + c.publishable + "&size=32&key=" + c.publishable, none, true},
			"publishable in key, escaped":           {nil, "key=" + strings.ReplaceAll(c.publishable, "_", "%5F"), none, true},
			"a key of another's scheme":             {http.Header{"Authorization": {"Basic dXNlcjpwdw=="}}, "key=" + c.publishable, none, true},
			"a foreign token, key in X-Api-Key":     {two(bearer("eyJhbGciOi.x.y"), c.secret), "", none, true},
			"a foreign token, key in key":           {bearer("eyJhbGciOi.x.y"), "key=" + c.publishable, none, true},
			"a foreign token only":                  {bearer("eyJhbGciOi.x.y"), "", invalid, false},
			"no scheme":                             {http.Header{"Authorization": {c.secret}}, "", invalid, false},
			"an empty key":                          {nil, "key=", none, false},
			"an empty header":                       {apiKey(""), "", none, false},
			"a key in c":                            {nil, "c=" + c.publishable, none, false},
			"a secret in c":                         {nil, "c=" + c.secret, none, false},
			"a header before a bad key":             {bearer(c.secret), "key=" + unknown, none, true},
			"a header before another's key":         {bearer(c.secret), "key=" + suspended.publishable, none, true},
			"a bad header before a good key":        {bearer(unknown), "key=" + c.publishable, invalid, false},
			"unknown":                               {bearer(unknown), "", invalid, false},
			"unknown in key":                        {nil, "key=" + unknown, invalid, false},
			"mistyped":                              {bearer(mistyped(c.secret)), "", invalid, false},
			"mistyped in key":                       {nil, "key=" + mistyped(c.publishable), invalid, false},
			"no key at all in key":                  {nil, "key=hello", invalid, false},
			"not escaped right":                     {nil, "key=%zz", invalid, false},
			"two keys in key":                       {nil, "key=" + c.publishable + "&key=" + suspended.publishable, invalid, false},
			"revoked":                               {bearer(revoked), "", invalid, false},
			"revoked in key":                        {nil, "key=" + revoked, invalid, false},
			"closed":                                {bearer(closed.secret), "", invalid, false},
			"suspended":                             {bearer(suspended.secret), "", invalid, false},
			"suspended in key":                      {nil, "key=" + suspended.publishable, invalid, false},
			"different keys in headers":             {two(bearer(c.secret), c.publishable), "", invalid, false},
			"different keys in headers, one in key": {two(bearer(c.secret), c.publishable), "key=" + c.publishable, invalid, false},
			"one header twice":                      {http.Header{"X-Api-Key": {c.secret, c.secret}}, "", invalid, false},
			"a secret in key":                       {nil, "key=" + c.secret, inURL, false},
			"a secret in key, escaped":              {nil, "k%65y=%6Ch_sk_" + c.secret[6:], inURL, false},
			"a secret in key, with spaces":          {nil, "key=+" + c.secret + "+", inURL, false},
			"a mistyped secret in key":              {nil, "key=" + mistyped(c.secret), inURL, false},
			"the beginning of a secret in key":      {nil, "key=lh_sk_", inURL, false},
			"a secret in key that is not escaped":   {nil, "key=lh_sk_%zz", inURL, false},
			"a secret and a good key":               {nil, "key=" + c.publishable + "&key=" + c.secret, inURL, false},
			"a secret in key, with a good header":   {bearer(c.secret), "key=" + c.secret, inURL, true},
			"a secret in key, with a bad header":    {bearer(unknown), "key=" + c.secret, inURL, false},
			"a secret in key, with two headers":     {two(bearer(c.secret), c.publishable), "key=" + c.secret, inURL, false},
		} {
			s.t.Log(name)
			for _, path := range []string{logoPath, logoPath + "/logo"} {
				a := s.send(request{path: path + "?" + k.query, header: k.header})
				a.logo(s.t, k.status)
				if k.counts {
					counted++
				}
				head := s.send(request{method: http.MethodHead, path: path + "?" + k.query, header: k.header})
				if head.status != a.status || head.header.Get("X-Api-Key-Status") != k.status {
					s.t.Errorf("HEAD answers %d with X-Api-Key-Status %q; want %d and %q", head.status, head.header.Get("X-Api-Key-Status"), a.status, k.status)
				}
				if k.counts {
					counted++
				}
				// A request with an invalid parameter takes no unit.
				s.send(request{path: path + "?size=0&" + k.query, header: k.header}).rejectedFirst(s.t)
			}
		}
		if got := c.reportedLogos(); got != counted {
			s.t.Errorf("%d logos reported, want %d", got, counted)
		}
		suspended.reinstate()
		if got := suspended.reportedLogos(); got != 0 {
			s.t.Errorf("%d logos counted for a suspended account, want 0", got)
		}
		all := s.logs.all()
		for _, key := range []string{c.secret, c.publishable, suspended.publishable, revoked, unknown, mistyped(c.secret), mistyped(c.publishable)} {
			if strings.Contains(all, key) || strings.Contains(all, url.QueryEscape(key)) || strings.Contains(all, key[6:]) {
				s.t.Error("a key is in the log")
			}
		}
	})
}

func (a answer) rejectedFirst(t testing.TB) {
	t.Helper()
	if a.status != http.StatusBadRequest || a.header.Get("X-Api-Key-Status") != "" {
		t.Fatalf("status %d with X-Api-Key-Status %q, want 400", a.status, a.header.Get("X-Api-Key-Status"))
	}
}

// The limit is per address; other callers are counted separately.
func TestLogo_NoKey_Gets300AMinute(t *testing.T) {
	t.Parallel()
	counters := &watchedCounters{}
	s := start(t, behindProxy, watched(counters))
	s.plain()
	c := s.account(plan.Free, 50)
	get := func(address string, h http.Header) answer {
		t.Helper()
		return s.send(request{path: logoPath, header: from(address, h)})
	}
	for _, visitor := range []struct{ address, same, other string }{
		{"198.51.100.7", "::ffff:198.51.100.7", "198.51.100.8"},
		{"2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:3::1"},
	} {
		s.clock.add(30 * time.Second)
		get(visitor.address, nil).logo(t, "")
		counters.fill(t, 300, 298)
		get(visitor.same, nil).logo(t, "")
		wait := get(visitor.same, nil).rejectedPlainly(t, http.StatusTooManyRequests, "")
		get(visitor.address, bearer(mistyped(c.secret))).rejectedPlainly(t, http.StatusTooManyRequests, "invalid")
		s.send(request{path: logoPath + "?key=" + c.secret, header: from(visitor.address, nil)}).rejectedPlainly(t, http.StatusTooManyRequests, "secret-key-in-url")
		get(visitor.other, nil).logo(t, "")
		get(visitor.other+", "+visitor.address, nil).rejectedPlainly(t, http.StatusTooManyRequests, "") // the visitor's own, forged entry
		get(visitor.address, bearer(c.publishable)).logo(t, "")
		s.send(request{path: logoPath + "?key=" + c.secret, header: from(visitor.address, bearer(c.secret))}).logo(t, "secret-key-in-url")
		s.clock.add(wait - time.Second)
		get(visitor.address, nil).rejectedPlainly(t, http.StatusTooManyRequests, "")
		s.clock.add(time.Second)
		get(visitor.address, nil).logo(t, "")
	}
	if h := c.get("/v1/me").ok(t); h.Get("X-RateLimit-Remaining") != "59" {
		t.Errorf("logos used the account's minute window: %s remaining, want %q", h.Get("X-RateLimit-Remaining"), "59")
	}
}

func TestLogo_NoTrustedProxy_ForwardedForIsIgnored(t *testing.T) {
	t.Parallel()
	counters := &watchedCounters{}
	s := start(t, watched(counters))
	s.plain()
	s.send(request{path: logoPath, header: from("198.51.100.1", nil)}).logo(t, "")
	counters.fill(t, 300, 299)
	s.send(request{path: logoPath, header: from("198.51.100.2", nil)}).rejectedPlainly(t, http.StatusTooManyRequests, "")
}

// The limit covers all keys of the account and all visitors; beyond it the visitor's own limit applies.
func TestLogo_Account_Gets3000AMinute(t *testing.T) {
	t.Parallel()
	counters := &watchedCounters{}
	s := start(t, behindProxy, watched(counters))
	s.plain()
	c, other := s.account(plan.Free, 50), s.account(plan.Free, 50)
	second, _ := c.issue(apikey.Publishable)
	get := func(address, key string) answer {
		t.Helper()
		return s.send(request{path: logoPath, header: from(address, bearer(key))})
	}
	get("198.51.100.1", c.secret).logo(t, "")
	counters.fill(t, 3000, 2998)
	get("198.51.100.2", c.publishable).logo(t, "")
	get("198.51.100.3", second).logo(t, "rate-limited")
	counters.fill(t, 300, 298)
	s.send(request{path: logoPath + "?key=" + c.publishable, header: from("198.51.100.3", nil)}).logo(t, "rate-limited")
	wait := get("198.51.100.3", c.secret).rejectedPlainly(t, http.StatusTooManyRequests, "rate-limited")
	get("198.51.100.1", c.secret).logo(t, "rate-limited")
	get("198.51.100.3", other.publishable).logo(t, "")
	s.send(request{path: logoPath + "?key=" + c.secret, header: from("198.51.100.1", bearer(c.secret))}).logo(t, "secret-key-in-url")
	s.clock.add(wait)
	get("198.51.100.3", c.secret).logo(t, "")
	if requests := c.logosAllotted(); requests < 3 || requests > 3+3 {
		t.Errorf("%d logos counted for three that were served with the key", requests)
	}
}

// logosAllotted sums up the month's logo allotments on the log.
func (c *customer) logosAllotted() (sum int64) {
	c.s.t.Helper()
	events, err := c.s.log.ReadStream(context.Background(), usage.Stream(c.id, usage.MonthOf(c.s.clock.now())), 0, eventlog.Forward, 4096)
	c.s.must(err)
	for _, recorded := range events {
		ev, err := eventschemas.Decode(recorded.Type, recorded.SchemaVersion, recorded.Data)
		c.s.must(err)
		if allotted, ok := ev.(eventschemas.LogosAllotted); ok {
			sum += allotted.Requests
		}
	}
	return sum
}

// logosServed takes logos of this month's allowance as if they had been served, in one event.
func (c *customer) logosServed(n int64) {
	c.s.t.Helper()
	encoded, err := eventschemas.Encode(eventschemas.LogosAllotted{Requests: n})
	c.s.must(err)
	_, err = c.s.log.Append(c.s.t.Context(), usage.Stream(c.id, usage.MonthOf(c.s.clock.now())), eventlog.NoStream(), []eventlog.Proposed{{
		ID: uuid.New(), Type: encoded.Type, SchemaVersion: encoded.SchemaVersion, OccurredAt: c.s.clock.now().UTC().Truncate(time.Microsecond), Data: encoded.Data,
	}})
	c.s.must(err)
}

// Logos are served as without a key until an upgrade or the end of the month.
func TestLogo_AllowanceUsedUp_IsServed(t *testing.T) {
	t.Parallel()
	counters := &watchedCounters{}
	inBubble(t, func(s *service) {
		s.plain()
		c := s.account(plan.Free, 50)
		c.logosServed(499_997)
		get := func(key string) answer {
			s.t.Helper()
			return s.send(request{path: logoPath, header: bearer(key)})
		}
		get(c.secret).logo(s.t, "")
		get(c.publishable).logo(s.t, "")
		s.send(request{path: logoPath + "?key=" + c.publishable}).logo(s.t, "")
		get(c.secret).logo(s.t, "quota-exceeded")
		get(c.publishable).logo(s.t, "quota-exceeded")
		counters.fill(s.t, 300, 298)
		wait := get(c.secret).rejectedPlainly(s.t, http.StatusTooManyRequests, "quota-exceeded")
		s.clock.add(wait)
		get(c.secret).logo(s.t, "quota-exceeded")
		c.to(plan.Starter)
		get(c.secret).logo(s.t, "")
		c.to(plan.Free)
		get(c.secret).logo(s.t, "quota-exceeded")
		c.to(plan.Growth)
		get(c.secret).logo(s.t, "")
		c.to(plan.Free)
		get(c.secret).logo(s.t, "quota-exceeded")
		if got := c.reportedLogos(); got != 11 {
			s.t.Errorf("%d logos reported, want all eleven that came with a key", got)
		}
		end := usage.MonthOf(s.clock.now()).End()
		s.clock.add(end.Sub(s.clock.now()) - 1)
		get(c.secret).logo(s.t, "quota-exceeded")
		s.clock.add(1)
		get(c.secret).logo(s.t, "")
		if requests := c.logosAllotted(); requests != 1 {
			s.t.Errorf("%d logos counted in the new month, want 1", requests)
		}
	}, watched(counters))
}

func TestConcurrentLogos_FewLeft_UseExactlyTheAllowance(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *service) {
		s.plain()
		c := s.account(plan.Starter, 50)
		c.logosServed(2_999_960)
		var served, degraded atomic.Int64
		together(100, func(int) {
			a, err := s.do(s.t.Context(), request{path: logoPath, header: bearer(c.secret)})
			switch {
			case err != nil || a.status != http.StatusOK:
				s.t.Errorf("status %d, %v", a.status, err)
			case a.header.Get("X-Api-Key-Status") == "":
				served.Add(1)
			case a.header.Get("X-Api-Key-Status") == "quota-exceeded":
				degraded.Add(1)
			}
		})
		if served.Load() != 40 || degraded.Load() != 60 || c.logosAllotted() != 3_000_000 {
			s.t.Errorf("%d served, %d degraded, %d of 3,000,000 counted; want 40, 60 and 3,000,000", served.Load(), degraded.Load(), c.logosAllotted())
		}
	})
}

// Near the limit each logo is taken singly, so that no node holds unused ones.
// Rule 10.
func TestThreeNodes_FewLogosLeft_ServeNoMore(t *testing.T) {
	s := startSite(t, 3)
	s.nodes[0].plain()
	for _, n := range s.nodes {
		s.must(n.runner.CatchUp(t.Context()))
	}
	c := s.nodes[0].account(plan.Free, 50)
	c.s.clock = &clock{bubble: true} // the machine's own, like that of the nodes
	c.logosServed(499_950)
	var served, degraded, failed atomic.Int64
	ask := func(i int) {
		a, err := s.nodes[i%3].do(t.Context(), request{path: logoPath, header: bearer(c.secret)})
		switch {
		case err != nil:
			t.Error(err)
		case a.status == http.StatusOK && a.header.Get("X-Api-Key-Status") == "":
			served.Add(1)
		case a.status == http.StatusOK && a.header.Get("X-Api-Key-Status") == "quota-exceeded":
			degraded.Add(1)
		case a.status == http.StatusServiceUnavailable: // a busy machine
			failed.Add(1)
		default:
			t.Errorf("status %d, body %s", a.status, a.body)
		}
	}
	together(12, func(i int) {
		for n := range 10 {
			ask(i + n)
		}
	})
	for i := range 60 { // uses the logos that a busy node could not count in time
		ask(i)
	}
	if served.Load() > 50 || served.Load()+failed.Load() < 50 || degraded.Load() < 130-failed.Load() || c.logosAllotted() != 500_000 {
		t.Errorf("%d served, %d degraded, %d not answered, %d of 500,000 counted", served.Load(), degraded.Load(), failed.Load(), c.logosAllotted())
	}
}

// The answer is 503 with and without a key, and other endpoints are unaffected.
func TestLogo_CountersUnavailable_Is503(t *testing.T) {
	t.Parallel()
	counters := &watchedCounters{}
	s := start(t, watched(counters))
	s.plain()
	c := s.account(plan.Free, 50)
	counters.away.Store(true)
	for _, header := range []http.Header{nil, bearer(c.secret)} {
		if wait := s.send(request{path: logoPath, header: header}).rejectedPlainly(t, http.StatusServiceUnavailable, ""); wait < time.Second {
			t.Errorf("Retry-After %s, want at least %v", wait, time.Second)
		}
	}
	s.send(request{path: logoPath, header: bearer(mistyped(c.secret))}).rejectedPlainly(t, http.StatusServiceUnavailable, "invalid")
	counters.away.Store(false)
	s.send(request{path: logoPath, header: bearer(c.secret)}).logo(t, "")
}

// A key that cannot be checked is not used, and the log reports it.
func TestLogo_KeyCannotBeChecked_IsNotUsed(t *testing.T) {
	t.Parallel()
	var away, unheardOf string
	s := start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) { d.Keys = faultyKeys{d.Keys, &away, &unheardOf} }
	})
	s.plain()
	c := s.account(plan.Free, 50)
	away = c.secretID
	a := s.send(request{path: logoPath, header: bearer(c.secret)})
	a.logo(t, "invalid")
	warned := false
	for _, line := range s.logs.of(a.header.Get("X-Request-Id")) {
		warned = warned || line["level"] == "WARN"
	}
	if !warned {
		t.Error("no warning in the log")
	}
}

// awayUsage is a quota writer whose log is unavailable or hangs.
type awayUsage struct {
	readapi.Quotas
	hung atomic.Bool
}

func (u *awayUsage) CountLogo(ctx context.Context, _ string, _ time.Time, _ int64) error {
	if u.hung.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return fmt.Errorf("count: %w", eventlog.ErrUnavailable)
}

// The logo is served in time, without the key's rights, or with them on an unlimited plan.
func TestLogo_AllowanceUnknown_IsServed(t *testing.T) {
	t.Parallel()
	writer := &awayUsage{}
	inBubble(t, func(s *service) {
		s.plain()
		bound, unlimited := s.account(plan.Free, 50), s.account(plan.Growth, 50)
		for _, hung := range []bool{false, true} {
			writer.hung.Store(hung)
			began := time.Now()
			bound.get(logoPath).logo(s.t, "quota-exceeded")
			unlimited.get(logoPath).logo(s.t, "")
			if took := time.Since(began); took > 2*time.Second {
				s.t.Errorf("two logos took %s, want at most %v", took, 2*time.Second)
			}
		}
		if !strings.Contains(s.logs.all(), "logo allowance could not be checked") {
			s.t.Error("no warning in the log")
		}
	}, func(set *setup) {
		set.deps = func(d *readapi.Deps) { writer.Quotas = d.Quotas; d.Quotas = writer }
	})
}

// Allowance that an internal fault used is returned; allowance used by a request that the caller ended is not.
func TestLogo_Fails_ReturnsItsAllowance(t *testing.T) {
	t.Parallel()
	type drawFunc = func(context.Context) (logo.Image, error)
	var next atomic.Pointer[drawFunc]
	inBubble(t, func(s *service) {
		s.plain()
		c := s.account(plan.Free, 50)
		c.logosServed(499_998)
		drawn := drawFunc(func(context.Context) (logo.Image, error) {
			return logo.Image{Body: []byte("an image"), ContentType: "image/png", ETag: `"a"`}, nil
		})
		for status, fault := range map[int]error{http.StatusServiceUnavailable: variants.ErrBusy, http.StatusInternalServerError: logo.ErrNotDrawn} {
			failing := drawFunc(func(context.Context) (logo.Image, error) { return logo.Image{}, fmt.Errorf("draw: %w", fault) })
			next.Store(&failing)
			for range 5 {
				if a := c.get(logoPath); a.status != status || a.header.Get("X-Api-Key-Status") != "" {
					s.t.Fatalf("status %d, %q, want %d", a.status, a.header.Get("X-Api-Key-Status"), status)
				}
			}
		}
		hanging := drawFunc(func(ctx context.Context) (logo.Image, error) { <-ctx.Done(); return logo.Image{}, ctx.Err() })
		next.Store(&hanging)
		if a := c.get(logoPath); a.status != http.StatusServiceUnavailable {
			s.t.Errorf("logo past its time limit: status %d, want %d", a.status, http.StatusServiceUnavailable)
		}
		leaving, leave := context.WithCancel(s.t.Context())
		time.AfterFunc(time.Second, leave)
		if _, err := s.do(leaving, request{path: logoPath, header: bearer(c.secret)}); err == nil {
			s.t.Error("a client that left got an answer")
		}
		synctest.Wait()
		next.Store(&drawn)
		c.get(logoPath).logo(s.t, "") // the last one: the other was used by the caller who left
		c.get(logoPath).logo(s.t, "quota-exceeded")
		if got := c.reportedLogos(); got != 14 {
			s.t.Errorf("%d logos reported, want 14", got)
		}
	}, func(set *setup) {
		set.deps = func(d *readapi.Deps) {
			d.Logos = rendererFunc(func(ctx context.Context) (logo.Image, error) { return (*next.Load())(ctx) })
		}
	})
}
