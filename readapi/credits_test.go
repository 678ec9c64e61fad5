package readapi_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/internal/eventlog"
	"letterhead/projections/brands"
	"letterhead/readapi"
	"letterhead/readapi/lookup"
)

func TestLookups_HundredOfOneUnknownDomain_ShareOneCrawl(t *testing.T) {
	// The limit allows one crawl: callers who join take no unit of it.
	s := start(t, func(set *setup) { set.config.CrawlsPerMinute = 1 })
	s.crawler.finds("new.com", record("new"))
	customers := make([]*customer, 100)
	for i := range customers {
		customers[i] = s.account(plan.Free, plan.FreeCredits)
	}
	together(len(customers), func(i int) {
		a, err := s.do(t.Context(), request{path: "/v1/brands/new.com", header: bearer(customers[i].secret)})
		if err != nil || a.status != http.StatusOK || a.header.Get("X-Credits-Remaining") != "49" {
			t.Errorf("account %d: %v, status %d, body %s", i, err, a.status, a.body)
		}
	})
	if n := len(s.crawler.of("new.com")); n != 1 {
		t.Errorf("%d crawls, want 1", n)
	}
	for i, c := range customers {
		if b := c.books(); len(b.charges) != 1 || b.balance() != 49 || len(b.openHolds) != 0 {
			t.Errorf("account %d: %d charges, balance %d, %d holds open; want 1, 49 and 0", i, len(b.charges), b.balance(), len(b.openHolds))
		}
	}
	if n := s.tail.Open(); n != 0 {
		t.Errorf("%d watches are left open, want 0", n)
	}
}

func TestCrawlLimit_JoinedCrawl_TakesAUnitOfEachAccount(t *testing.T) {
	s, c := startWith(t, plan.Free, 50)
	release := make(chan struct{})
	s.crawler.does("slow.com", waitThen(release, ending{outcome: brand.Blocked}))
	var limited, blocked atomic.Int32
	var last sync.WaitGroup
	for range 12 {
		last.Go(func() {
			a, err := s.do(t.Context(), request{path: "/v1/brands/slow.com", header: bearer(c.secret)})
			switch {
			case err != nil:
				t.Error(err)
			case a.status == http.StatusTooManyRequests:
				if limited.Add(1) == 2 {
					close(release) // the ten others wait for the crawl
				}
			case a.status == http.StatusUnprocessableEntity:
				blocked.Add(1)
			default:
				t.Errorf("status %d, body %s", a.status, a.body)
			}
		})
	}
	last.Wait()
	if limited.Load() != 2 || blocked.Load() != 10 {
		t.Errorf("%d exceeded the limit of ten, %d waited; want 2 and 10", limited.Load(), blocked.Load())
	}
	if b := c.books(); len(b.openHolds) != 0 || b.balance() != 50 || len(s.crawler.of("slow.com")) != 1 {
		t.Errorf("%d holds open, balance %d, %d crawls; want 0, 50 and 1", len(b.openHolds), b.balance(), len(s.crawler.of("slow.com")))
	}
}

// Rule 1.
func TestLookups_ManyClientsFewCredits_NeverOverspend(t *testing.T) {
	s, c := startWith(t, plan.Custom, 20)
	s.known("acme.com", record("acme"))
	s.crawler.finds("new.com", record("new"))
	paths := []string{"/v1/brands/acme.com", "/v1/brands/new.com", "/v1/brands/acme.com?refresh=true"}
	s.crawler.finds("acme.com", record("acme"))
	var paid, rejected atomic.Int64
	together(64, func(i int) {
		for n := range 4 {
			a, err := s.do(t.Context(), request{path: paths[(i+n)%len(paths)], header: bearer(c.secret)})
			switch {
			case err != nil:
				t.Error(err)
			case a.status == http.StatusOK:
				paid.Add(1)
			case a.status == http.StatusPaymentRequired:
				rejected.Add(1)
			default:
				t.Errorf("status %d, body %s", a.status, a.body)
			}
		}
	})
	b := c.books()
	if paid.Load() != 20 || rejected.Load() != 64*4-20 {
		t.Errorf("20 credits: %d look-ups answered, %d rejected", paid.Load(), rejected.Load())
	}
	if b.balance() != 0 || b.lowest < 0 || len(b.openHolds) != 0 || len(b.charges) != 20 {
		t.Errorf("balance %d, lowest %d, %d holds open, %d charges; want 0, at least 0, 0 and 20", b.balance(), b.lowest, len(b.openHolds), len(b.charges))
	}
}

// limit limits the customer's secret key.
func (c *customer) limit(credits int64, period string) {
	c.s.t.Helper()
	_, err := c.s.writer.LimitKey(c.s.t.Context(), commands.LimitKey{Request: operator(), AccountID: c.id, KeyID: c.secretID, Limit: credits, Period: period})
	c.s.must(err)
}

// Clients of one key spend exactly its limit, with look-ups from the index and live crawls, while the account has more.
// Rule 1.
func TestLookups_ManyClientsOfALimitedKey_SpendExactlyTheLimit(t *testing.T) {
	s, c := startWith(t, plan.Custom, 1000)
	c.limit(20, "month")
	s.known("acme.com", record("acme"))
	s.crawler.finds("new.com", record("new"))
	s.crawler.finds("acme.com", record("acme"))
	paths := []string{"/v1/brands/acme.com", "/v1/brands/new.com", "/v1/brands/acme.com?refresh=true"}
	var paid, rejected atomic.Int64
	together(64, func(i int) {
		for n := range 4 {
			a, err := s.do(t.Context(), request{path: paths[(i+n)%len(paths)], header: bearer(c.secret)})
			switch {
			case err != nil:
				t.Error(err)
			case a.status == http.StatusOK:
				paid.Add(1)
			case a.status == http.StatusPaymentRequired:
				rejected.Add(1)
			default:
				t.Errorf("status %d, body %s", a.status, a.body)
			}
		}
	})
	if paid.Load() != 20 || rejected.Load() != 64*4-20 {
		t.Errorf("a limit of 20 credits: %d look-ups answered, %d rejected", paid.Load(), rejected.Load())
	}
	if b := c.books(); b.balance() != 980 || len(b.openHolds) != 0 {
		t.Errorf("balance %d, %d holds open", b.balance(), len(b.openHolds))
	}
}

func TestLookup_KeyAtItsLimit_Is402WithTheLimit(t *testing.T) {
	s, c := startWith(t, plan.Free, 50)
	c.limit(1, "total")
	s.known("acme.com", record("acme"))
	c.get("/v1/brands/acme.com").ok(t)
	for _, domain := range []string{"acme.com", "never-crawled.com"} {
		a := c.get("/v1/brands/" + domain)
		d := a.rejected(t, http.StatusPaymentRequired, "insufficient_credits").Error.Details
		if d == nil || d.KeyLimit == nil || *d.KeyLimit != 1 || d.KeyUsed == nil || *d.KeyUsed != 1 || *d.Balance != 49 || *d.Required != 1 || d.BillingURL == nil {
			t.Errorf("%s: details in %s", domain, a.body)
		}
		if got := a.header.Get("X-Credits-Remaining"); got != "49" {
			t.Errorf("%s: %s credits remaining, want 49", domain, got)
		}
	}
	if n := len(s.crawler.of("never-crawled.com")); n != 0 {
		t.Errorf("%d crawls, want 0", n)
	}
	c.asks("acme.com", "other.com").rejected(t, http.StatusPaymentRequired, "insufficient_credits")
}

// interceptedWriter lets a test intervene in calls of the account writer, which all reach the real one.
type interceptedWriter struct {
	lookup.Credits
	charged func(context.Context) // called after a charge is durable, before the API gets the result
}

func (d *interceptedWriter) ChargeLookup(ctx context.Context, in commands.ChargeLookup) (commands.Receipt, error) {
	receipt, err := d.Credits.ChargeLookup(ctx, in)
	if err == nil {
		d.charged(ctx)
	}
	return receipt, err
}

func TestLookup_ClientLeavesBeforeFirstByte_ReversesTheCharge(t *testing.T) {
	charged := make(chan struct{})
	s := start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) {
			d.Credits = &interceptedWriter{Credits: d.Credits, charged: func(ctx context.Context) {
				charged <- struct{}{}
				<-ctx.Done() // the server has noticed that the client has left
			}}
		}
	})
	c := s.account(plan.Free, 50)
	s.known("acme.com", record("acme"))
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.do(ctx, request{path: "/v1/brands/acme.com", header: bearer(c.secret)})
		done <- err
	}()
	<-charged
	leave()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("client error %v, want Canceled", err)
	}
	b := c.until("the charge is reversed", func(b books) bool { return len(b.reversals) == 1 })
	if b.balance() != 50 || b.reversals[0].ChargeID != b.charges[0].ChargeID || b.reversals[0].Reason != account.ReasonClientGone || b.reversals[0].RequestID != b.charges[0].RequestID {
		t.Errorf("balance %d, charges %+v, reversals %+v", b.balance(), b.charges, b.reversals)
	}
}

func TestLookup_ClientLeavesDuringCrawl_PaysNothing(t *testing.T) {
	s := start(t)
	c, patient := s.account(plan.Free, 50), s.account(plan.Free, 50)
	release := make(chan struct{})
	r := record("slow")
	s.crawler.does("slow.com", waitThen(release, ending{record: &r}))
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.do(ctx, request{path: "/v1/brands/slow.com", header: bearer(c.secret)})
		done <- err
	}()
	s.crawler.sees("slow.com")
	second := make(chan answer, 1)
	go func() {
		a, _ := s.do(t.Context(), request{path: "/v1/brands/slow.com", header: bearer(patient.secret)})
		second <- a
	}()
	patient.until("the second look-up has joined", func(b books) bool { return b.holds == 1 })
	leave()
	<-done
	b := c.until("the hold is released", func(b books) bool { return b.holds == 1 && len(b.openHolds) == 0 })
	if b.balance() != 50 || len(b.charges) != 0 {
		t.Errorf("balance %d, %d charges; want 50 and 0", b.balance(), len(b.charges))
	}
	// The crawl continues for those who stayed.
	close(release)
	if a := <-second; a.status != http.StatusOK || a.header.Get("X-Cache") != "MISS" {
		t.Errorf("the remaining client got %d, body %s", a.status, a.body)
	}
	if n := s.tail.Open(); n != 0 {
		t.Errorf("%d watches are left open, want 0", n)
	}
}

func TestLookup_Panic_Is500AndReturnsEverything(t *testing.T) {
	var armed atomic.Bool
	s := start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) {
			d.Brands = &panicking{Brands: d.Brands, trips: armed.Load, lateOnly: true}
		}
	})
	c := s.account(plan.Free, 50)
	s.known("acme.com", record("acme"))
	armed.Store(true)
	a := c.get("/v1/brands/new.com")
	a.rejected(t, http.StatusInternalServerError, "internal_error")
	if strings.Contains(string(a.body), "secret detail") || a.header.Get("X-Request-Id") == "" || a.header.Get("X-RateLimit-Limit") != "60" {
		t.Errorf("header %v, body %s", a.header, a.body)
	}
	lines := s.logs.of(a.header.Get("X-Request-Id"))
	if len(lines) != 1 || lines[0]["level"] != "ERROR" || !strings.Contains(fmt.Sprint(lines[0]["error"]), "secret detail") || lines[0]["stack"] == nil {
		t.Errorf("log %v", lines)
	}
	armed.Store(false)
	if b := c.books(); b.holds != 1 || len(b.openHolds) != 0 || len(b.charges) != 0 {
		t.Errorf("%d holds, %d open, %d charges; want 1, 0 and 0", b.holds, len(b.openHolds), len(b.charges))
	}
	// The reservation was freed, too: all fifty credits can be spent, the last of them behind the domain's gate.
	together(49, func(int) {
		if a, err := s.do(t.Context(), request{path: "/v1/brands/acme.com", header: bearer(c.secret)}); err != nil || a.status != http.StatusOK {
			t.Errorf("error = %v, status %d, body %s; want %d", err, a.status, a.body, http.StatusOK)
		}
	})
	s.crawler.finds("new.com", record("new"))
	c.get("/v1/brands/new.com").ok(t)
}

// panicking panics when a brand's stream is read or a crawl is requested.
type panicking struct {
	lookup.Brands
	trips    func() bool
	lateOnly bool // only once a credit is held
}

func (p *panicking) State(ctx context.Context, domain string) (*brand.Brand, error) {
	if !p.lateOnly && p.trips() {
		panic("secret detail: folding")
	}
	return p.Brands.State(ctx, domain)
}

func (p *panicking) RequestCrawl(ctx context.Context, in commands.RequestCrawl) (commands.Crawl, error) {
	if p.trips() {
		panic("secret detail: requesting")
	}
	return p.Brands.RequestCrawl(ctx, in)
}

// faultyLog rejects appends to streams with a prefix, as a full disk does.
type faultyLog struct {
	eventlog.Log
	reject atomic.Pointer[string]
}

func (l *faultyLog) Append(ctx context.Context, stream string, expected eventlog.Expected, events []eventlog.Proposed) (eventlog.Appended, error) {
	if prefix := l.reject.Load(); prefix != nil && strings.HasPrefix(stream, *prefix) {
		return eventlog.Appended{}, fmt.Errorf("append to %s: disk full: %w", stream, eventlog.ErrFull)
	}
	return l.Log.Append(ctx, stream, expected, events)
}

// Rule 2.
func TestLookup_FullDisk_Is503AndFree(t *testing.T) {
	var log *faultyLog
	s := start(t, func(set *setup) {
		set.parts.Log = func(l eventlog.Log) eventlog.Log { log = &faultyLog{Log: l}; return log }
	})
	c := s.account(plan.Free, 50)
	s.known("acme.com", record("acme"))
	s.known("plain.com", plainRecord("plain"))
	accounts, usages := "account-", "usage-"
	log.reject.Store(&accounts)
	for _, path := range []string{"/v1/brands/acme.com", "/v1/brands/new.com"} {
		a := c.get(path)
		a.rejected(t, http.StatusServiceUnavailable, "upstream_failed")
		if strings.Contains(string(a.body), "disk") {
			t.Errorf("the answer reveals internals: body %s", a.body)
		}
		if !strings.Contains(string(a.body), "no storage left") || a.header.Get("Retry-After") == "" {
			t.Errorf("the answer does not say why, or when to try again: %s %s", a.header, a.body)
		}
	}
	c.get("/v1/brands/plain.com").ok(t) // appends nothing
	log.reject.Store(&usages)
	c.get("/v1/search?q=acme").rejected(t, http.StatusServiceUnavailable, "upstream_failed")
	log.reject.Store(nil)
	if b := c.books(); b.balance() != 50 || b.holds != 0 {
		t.Errorf("balance %d, %d holds; want 50 and 0", b.balance(), b.holds)
	}
	c.get("/v1/brands/acme.com").ok(t)
}

func TestLookup_FullQueue_Is503Not429(t *testing.T) {
	blocked, release := make(chan struct{}), make(chan struct{})
	slow := &slowLog{armed: &atomic.Bool{}, before: sync.OnceFunc(func() { close(blocked); <-release })}
	s := start(t, func(set *setup) {
		set.parts.Log = func(l eventlog.Log) eventlog.Log { slow.Log = l; return slow }
		set.parts.Writers.MaxQueue = 1
	})
	c := s.account(plan.Growth, 500)
	s.known("acme.com", record("acme"))
	slow.armed.Store(true)
	answers := make(chan answer, 11)
	lookup := func() {
		a, err := s.do(t.Context(), request{path: "/v1/brands/acme.com", header: bearer(c.secret)})
		if err != nil {
			t.Error(err)
		}
		answers <- a
	}
	go lookup()
	<-blocked // its charge is being appended
	for range 10 {
		go lookup() // one of them fits into the queue
	}
	for range 9 {
		a := <-answers
		a.rejected(t, http.StatusServiceUnavailable, "upstream_failed")
		if a.header.Get("Retry-After") != "1" {
			t.Errorf("Retry-After %s, want %q", a.header.Get("Retry-After"), "1")
		}
	}
	close(release)
	for range 2 {
		a := <-answers
		a.ok(t)
	}
	if b := c.books(); len(b.charges) != 2 || b.balance() != 498 {
		t.Errorf("%d charges, balance %d; want 2 and 498", len(b.charges), b.balance())
	}
}

// slowLog calls before ahead of each append once it is armed.
type slowLog struct {
	eventlog.Log
	before func()
	armed  *atomic.Bool
}

func (l *slowLog) Append(ctx context.Context, stream string, expected eventlog.Expected, events []eventlog.Proposed) (eventlog.Appended, error) {
	if l.armed.Load() && strings.HasPrefix(stream, "account-") {
		l.before()
	}
	return l.Log.Append(ctx, stream, expected, events)
}

// TestLookups_AnyFailure_LedgerAddsUp sends look-ups of every kind concurrently, some of whose clients
// leave at any time, while the code behind them occasionally panics. Afterwards every hold has ended,
// no credit was promised twice, and the charges match the answers.
// Rule 4.
func TestLookups_AnyFailure_LedgerAddsUp(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var armed atomic.Bool
	dice := &dice{r: rand.New(rand.NewPCG(seed, 1))}
	s := start(t, func(set *setup) {
		set.config.CrawlsPerMinute = 1_000_000
		set.deps = func(d *readapi.Deps) {
			d.Brands = &panicking{Brands: d.Brands, trips: func() bool { return armed.Load() && dice.one(20) }}
		}
	})
	s.known("acme.com", record("acme"))
	s.known("plain.com", plainRecord("plain"))
	paths := []string{"acme.com", "acme.com", "plain.com", "acme.com?refresh=true", "co.uk", "new-0.com", "new-1.com", "new-2.com", "bare.com", "blocked.com", "failed.com?refresh=true"}
	for i := range 3 {
		s.crawler.finds(fmt.Sprintf("new-%d.com", i), record("new"))
	}
	s.crawler.finds("acme.com", record("acme"))
	s.crawler.finds("bare.com", plainRecord("bare"))
	s.crawler.fails("blocked.com", brand.Blocked)
	s.crawler.fails("failed.com", brand.FetchFailed)
	customers := []*customer{s.account(plan.Custom, 60), s.account(plan.Custom, 500)}
	armed.Store(true)
	paid, unheard := make([]atomic.Int64, 2), make([]atomic.Int64, 2)
	together(16, func(int) {
		for range 40 {
			who := dice.n(2)
			path := paths[dice.n(len(paths))]
			ctx, cancel := context.WithCancel(t.Context())
			if dice.one(5) {
				ctx, cancel = context.WithTimeout(t.Context(), dice.moment())
			}
			a, err := s.do(ctx, request{path: "/v1/brands/" + path, header: bearer(customers[who].secret)})
			cancel()
			switch {
			case err != nil:
				unheard[who].Add(1)
			case a.status == http.StatusOK && strings.Contains(string(a.body), `"logos":[{`):
				paid[who].Add(1)
			case a.status == http.StatusTooManyRequests:
				t.Errorf("%s: body %s", path, a.body)
			}
		}
	})
	armed.Store(false)
	for i, c := range customers {
		settled := func(b books) bool {
			net := b.charged - b.reversed
			return len(b.openHolds) == 0 && net >= paid[i].Load() && net <= paid[i].Load()+unheard[i].Load()
		}
		b := c.until("every hold has ended and every charge has an answer", settled)
		if b.lowest < 0 || b.balance() < 0 {
			t.Errorf("account %d: lowest %d, balance %d; want at least 0 and at least 0", i, b.lowest, b.balance())
		}
		t.Logf("account %d: %d charged, %d reversed, %d answered, %d clients left, %d holds", i, b.charged, b.reversed, paid[i].Load(), unheard[i].Load(), b.holds)
		// The rest can be spent to the last credit: no reservation leaked. Charges whose clients left may still be
		// reversed meanwhile, which adds to it.
		for spent := false; !spent; {
			for range c.books().balance() {
				if a := c.get("/v1/brands/acme.com"); a.status != http.StatusOK {
					t.Fatalf("account %d with credits left: status %d, body %s; want %d", i, a.status, a.body, http.StatusOK)
				}
			}
			if a := c.get("/v1/brands/acme.com"); a.status != http.StatusOK {
				a.rejected(t, http.StatusPaymentRequired, "insufficient_credits")
				spent = true
			}
		}
	}
}

// dice is randomness that several goroutines share.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (d *dice) n(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}

func (d *dice) one(in int) bool { return d.n(in) == 0 }

func (d *dice) moment() time.Duration { return time.Duration(d.n(int(4 * time.Millisecond))) }

// client returns a context of a client that stays (leaves is nil), leaves at a random time, or leaves
// on demand. cancel ends its request.
func (d *dice) client(parent context.Context) (ctx context.Context, leaves, cancel context.CancelFunc) {
	ctx, cancel = context.WithCancel(parent)
	switch {
	case d.one(4):
		return ctx, nil, cancel
	case d.one(4):
		ctx, leaves = context.WithTimeout(ctx, d.moment())
		return ctx, leaves, cancel
	}
	return ctx, cancel, cancel
}

// stuck is an index that does not answer.
type stuck struct{ lookup.Index }

func (stuck) Get(ctx context.Context, domain string) (*brands.Entry, error) {
	<-ctx.Done()
	return nil, fmt.Errorf("get %s: %w", domain, ctx.Err())
}

func TestLookup_StoreHangs_Is503WithinTheDeadline(t *testing.T) {
	inBubble(t, func(s *service) {
		c := s.account(plan.Free, 1)
		for range 3 { // the only credit is returned each time
			began := s.clock.now()
			a := c.get("/v1/brands/acme.com")
			a.rejected(s.t, http.StatusServiceUnavailable, "upstream_failed")
			if a.header.Get("X-Credits-Remaining") != "1" || a.header.Get("X-RateLimit-Limit") != "60" {
				s.t.Errorf("headers %v", a.header)
			}
			if took := s.clock.now().Sub(began); took != 100*time.Millisecond {
				s.t.Errorf("answered after %s, want %v", took, 100*time.Millisecond)
			}
		}
	}, func(set *setup) {
		set.requestTimeout = 100 * time.Millisecond
		set.deps = func(d *readapi.Deps) { d.Index = stuck{d.Index} }
	})
}
