package readapi_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/readapi"
	"letterhead/readapi/lookup"
)

func TestBatch_ItemFails_ItsCreditServesTheNextDomain(t *testing.T) {
	s, c := startWith(t, plan.Custom, 2)
	s.known("a.com", record("a"))
	s.known("b.com", record("b"))
	s.known("plain.com", plainRecord("plain"))
	for domain, outcome := range map[string]string{"dns.com": brand.DNS, "blocked.com": brand.Blocked, "down.com": brand.FetchFailed, "parked.com": brand.NoData} {
		s.crawler.fails(domain, outcome)
	}
	items, h := c.batch("dns.com", "blocked.com", "co.uk", "down.com", "plain.com", "a.com", "parked.com", "b.com", "c.com", "a.com", "plain2.com")
	want := []string{"404 domain_not_found", "422 fetch_blocked", "400 invalid_domain", "502 fetch_failed", "200", "200", "404 no_brand_data", "200", "402 insufficient_credits", "200", "402 insufficient_credits"}
	if got := said(items); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if h.Get("X-Credits-Remaining") != "0" || !slices.Equal(c.chargedDomains(), []string{"a.com", "b.com"}) {
		t.Errorf("%s remaining, charged for %q", h.Get("X-Credits-Remaining"), c.chargedDomains())
	}
	if n := len(s.crawler.of("c.com")); n != 0 {
		t.Error("a domain without a credit was crawled")
	}
}

// An item without a credit waits for one that another item of its batch still has, and either gets it or not.
func TestBatch_CreditsRunShort_ItemWaitsForAnothersCredit(t *testing.T) {
	found := record("slow")
	for name, c := range map[string]struct {
		ending ending
		want   []string
	}{
		"the hold is released": {ending{outcome: brand.Blocked}, []string{"422 fetch_blocked", "200"}},
		"it is spent":          {ending{record: &found}, []string{"200", "402 insufficient_credits"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			customer := s.account(plan.Custom, 1)
			s.known("acme.com", record("acme"))
			release := make(chan struct{})
			s.crawler.does("slow.com", waitThen(release, c.ending))
			answered := make(chan answer, 1)
			go func() {
				a, err := s.post(t.Context(), batchPath, batchOf(t, []string{"slow.com", "acme.com"}), bearer(customer.secret))
				if err != nil {
					t.Error(err)
				}
				answered <- a
			}()
			s.crawler.sees("slow.com")
			// The only credit is reserved: other requests get 402, and the batch is not rejected meanwhile.
			customer.get("/v1/brands/acme.com").rejected(t, 402, "insufficient_credits")
			p := customer.asks("acme.com").rejected(t, 402, "insufficient_credits")
			if *p.Error.Details.Balance != 0 || !strings.Contains(p.Error.Message, "reserved") {
				t.Errorf("got %+v", p)
			}
			close(release)
			items := (<-answered).items(t, []string{"slow.com", "acme.com"})
			if got := said(items); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if b := customer.books(); b.balance() != 0 || len(b.charges) != 1 || b.lowest < 0 || len(b.openHolds) != 0 {
				t.Errorf("balance %d, %d charges, lowest %d, %d holds open; want 0, 1, at least 0 and 0", b.balance(), len(b.charges), b.lowest, len(b.openHolds))
			}
		})
	}
}

// Items that crawl in vain take the last credit of a key's limit from one another, and none of them fails for it.
func TestBatch_KeyHasOneCredit_ItemsThatAreFreeWaitForIt(t *testing.T) {
	s, c := startWith(t, plan.Custom, 1000)
	c.limit(1, "total")
	var domains, want []string
	for i := range 40 {
		domain := fmt.Sprintf("blocked-%d.com", i)
		s.crawler.fails(domain, brand.Blocked)
		domains, want = append(domains, domain), append(want, "422 fetch_blocked")
	}
	s.known("acme.com", record("acme"))
	items, _ := c.batch(append(domains, "acme.com")...)
	if got := said(items); !slices.Equal(got, append(want, "200")) {
		t.Errorf("got %q", got)
	}
}

// rejectsCharges rejects charges of a domain as if another node had been faster: the reserved credit
// is gone, but the other credits of this batch may be freed.
type rejectsCharges struct {
	lookup.Credits
	domain   string
	left     atomic.Int64
	rejected chan struct{} // receives one value per rejection
}

func (d *rejectsCharges) ChargeLookup(ctx context.Context, in commands.ChargeLookup) (commands.Receipt, error) {
	if in.Domain == d.domain && d.left.Add(-1) >= 0 {
		in.Reservation.Drop()
		d.rejected <- struct{}{}
		return commands.Receipt{}, &account.InsufficientCreditsError{Required: 1}
	}
	return d.Credits.ChargeLookup(ctx, in)
}

func TestBatch_AnotherNodeSpendsTheCredit_ItemIsRetried(t *testing.T) {
	for name, c := range map[string]struct {
		rejections int64
		want       string
	}{
		"once":      {1, "200"},
		"for ever":  {1 << 40, "402 insufficient_credits"},
		"ten times": {10, "402 insufficient_credits"},
		"nine":      {9, "200"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &rejectsCharges{domain: "acme.com", rejected: make(chan struct{}, 100)}
			d.left.Store(c.rejections)
			s := start(t, func(set *setup) {
				set.deps = func(deps *readapi.Deps) { d.Credits, deps.Credits = deps.Credits, d }
			})
			customer := s.account(plan.Custom, 2)
			s.known("acme.com", record("acme"))
			s.known("other.com", record("other"))
			items, h := customer.batch("acme.com", "other.com")
			if got := said(items); !slices.Equal(got, []string{c.want, "200"}) || int64(len(d.rejected)) != min(c.rejections, 10) {
				t.Errorf("got %q after %d rejected charges", got, len(d.rejected))
			}
			if n := len(customer.books().charges); h.Get("X-Credits-Remaining") != strconv.Itoa(2-n) {
				t.Errorf("%s remaining after %d charges", h.Get("X-Credits-Remaining"), n)
			}
		})
	}
}

// A batch reserves five credits and no more, so that a concurrent single look-up gets the sixth.
func TestBatch_ManyItems_RunsFiveAtATime(t *testing.T) {
	s, c := startWith(t, plan.Custom, 6)
	s.known("acme.com", record("acme"))
	slow := numbered("slow-%d.com", 12)
	release := make(chan struct{})
	var running, most atomic.Int64
	for _, domain := range slow {
		wait := waitThen(release, ending{outcome: brand.NoData})
		s.crawler.does(domain, func(ctx context.Context, crawl eventschemas.CrawlRequested) ending {
			now := running.Add(1)
			defer running.Add(-1)
			for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
			}
			return wait(ctx, crawl)
		})
	}
	answered := make(chan answer, 1)
	go func() {
		a, err := s.post(t.Context(), batchPath, batchOf(t, slow), bearer(c.secret))
		if err != nil {
			t.Error(err)
		}
		answered <- a
	}()
	for _, domain := range slow[:5] { // in request order
		s.crawler.sees(domain)
	}
	if h := c.get("/v1/brands/acme.com").ok(t); h.Get("X-Credits-Remaining") != "5" {
		t.Errorf("%s remaining, want %q", h.Get("X-Credits-Remaining"), "5")
	}
	if n := len(c.books().openHolds); n != 5 {
		t.Errorf("the batch has %d holds, want 5", n)
	}
	close(release)
	for i, item := range (<-answered).items(t, slow) {
		if item.said() != "404 no_brand_data" {
			t.Errorf("%s: %s, want %q", slow[i], item.said(), "404 no_brand_data")
		}
	}
	if b := c.books(); most.Load() != 5 || b.balance() != 5 || len(b.openHolds) != 0 {
		t.Errorf("%d concurrent crawls, balance %d, %d holds open; want 5, 5 and 0", most.Load(), b.balance(), len(b.openHolds))
	}
}

func TestBatch_ClientLeaves_PaysNothing(t *testing.T) {
	third, release := make(chan struct{}), make(chan struct{})
	var charges atomic.Int64
	s := start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) {
			d.Credits = &interceptedWriter{Credits: d.Credits, charged: func(ctx context.Context) {
				switch n := charges.Add(1); {
				case n == 3:
					close(third)
					<-ctx.Done() // the server has noticed that the client has left
				case n > 3:
					<-release
				}
			}}
		}
	})
	c := s.account(plan.Custom, 50)
	for _, domain := range []string{"a.com", "b.com", "c.com"} {
		s.known(domain, record("known"))
	}
	s.crawler.does("slow.com", waitThen(release, ending{outcome: brand.NoData}))
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.post(ctx, batchPath, batchOf(t, []string{"slow.com", "a.com", "b.com", "c.com"}), bearer(c.secret))
		done <- err
	}()
	<-third
	s.crawler.sees("slow.com") // its credit is held
	leave()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("client error %v, want Canceled", err)
	}
	b := c.until("three charges are reversed and the hold is released", func(b books) bool {
		return len(b.reversals) == 3 && b.holds == 1 && len(b.openHolds) == 0
	})
	close(release)
	if b.balance() != 50 || len(b.charges) != 3 {
		t.Errorf("balance %d, %d charges; want 50 and 3", b.balance(), len(b.charges))
	}
	for _, r := range b.reversals {
		if r.Reason != account.ReasonClientGone || r.RequestID != b.charges[0].RequestID {
			t.Errorf("reversal %+v", r)
		}
	}
}

// standing lets a test intervene after the account writer has reported the remaining credits, the last call of a batch.
type standing struct {
	lookup.Credits
	after func(context.Context)
}

func (d *standing) Standing(ctx context.Context, accountID string) (commands.Standing, error) {
	s, err := d.Credits.Standing(ctx, accountID)
	d.after(ctx)
	return s, err
}

// Rule 2.
func TestBatch_ClientLeavesBeforeFirstByte_ReversesEveryCharge(t *testing.T) {
	worked := make(chan struct{})
	s := start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) {
			d.Credits = &standing{Credits: d.Credits, after: func(ctx context.Context) {
				close(worked)
				<-ctx.Done() // the server has noticed that the client has left
			}}
		}
	})
	c := s.account(plan.Custom, 50)
	domains := []string{"a.com", "b.com", "c.com"}
	for _, domain := range domains {
		s.known(domain, record("known"))
	}
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.post(ctx, batchPath, batchOf(t, domains), bearer(c.secret))
		done <- err
	}()
	<-worked
	if n := len(c.books().charges); n != 3 {
		t.Errorf("%d charges, want 3", n)
	}
	leave()
	<-done
	if b := c.until("all charges are reversed", func(b books) bool { return len(b.reversals) == 3 }); b.balance() != 50 {
		t.Errorf("balance %d, want 50", b.balance())
	}
}

// Look-ups that were charged before an account is suspended remain charged, and running ones are paid from their holds.
func TestBatch_AccountIsSuspended_RejectsTheRest(t *testing.T) {
	s, c := startWith(t, plan.Custom, 50)
	slow := numbered("slow-%d.com", 5)
	release := make(chan struct{})
	r := record("slow")
	for _, domain := range slow {
		s.crawler.does(domain, waitThen(release, ending{record: &r}))
	}
	s.known("acme.com", record("acme"))
	s.known("plain.com", plainRecord("plain"))
	s.known("other.com", record("other"))
	identifiers := append(slices.Insert(slices.Clone(slow), 0, "acme.com"), "other.com", "plain.com")
	answered := make(chan answer, 1)
	go func() {
		a, err := s.post(t.Context(), batchPath, batchOf(t, identifiers), bearer(c.secret))
		if err != nil {
			t.Error(err)
		}
		answered <- a
	}()
	for _, domain := range slow {
		s.crawler.sees(domain)
	}
	c.suspend()
	close(release)
	items := (<-answered).items(t, identifiers)
	if got, want := said(items), []string{"200", "200", "200", "200", "200", "200", "403 forbidden", "403 forbidden"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if b := c.books(); len(b.charges) != 6 || b.balance() != 44 || len(b.openHolds) != 0 {
		t.Errorf("%d charges, balance %d, %d holds open; want 6, 44 and 0", len(b.charges), b.balance(), len(b.openHolds))
	}
}
