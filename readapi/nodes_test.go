package readapi_test

import (
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/internal/testwait"
)

// known puts a brand into the index of every node.
func (s *site) known(domain string) {
	s.t.Helper()
	_, err := s.nodes[0].brands.ImportBrand(s.t.Context(), commands.ImportBrand{Request: operator(), Domain: domain, Source: "test 1", Record: record("Acme")})
	s.must(err)
	for _, n := range s.nodes {
		s.must(n.runner.CatchUp(s.t.Context()))
	}
}

// Rule 1.
func TestThreeNodes_FewCredits_SpendExactlyThose(t *testing.T) {
	const credits, clients = 1000, 64
	s := startSite(t, 3)
	s.known("acme.com")
	c := s.nodes[0].account(plan.Custom, credits)
	var served, rejected atomic.Int64
	together(clients, func(i int) {
		at := c.at(s.nodes[i%3])
		for {
			a := at.get("/v1/brands/acme.com")
			switch a.status {
			case http.StatusOK:
				served.Add(1)
			case http.StatusPaymentRequired:
				rejected.Add(1)
				return
			case http.StatusServiceUnavailable: // it means try again
			default:
				t.Errorf("status %d: body %s", a.status, a.body)
				return
			}
		}
	})
	b := c.books()
	if served.Load() != credits || len(b.charges) != credits || b.balance() != 0 || b.lowest < 0 || rejected.Load() != clients {
		t.Errorf("%d answers for %d credits, %d charges, balance %d, at the lowest %d, %d rejections",
			served.Load(), credits, len(b.charges), b.balance(), b.lowest, rejected.Load())
	}
	// A grant on one node is spendable on another that has just rejected a look-up.
	for i := range 6 {
		from, to := s.nodes[i%3], c.at(s.nodes[(i+1)%3])
		to.get("/v1/brands/acme.com").rejected(t, 402, "insufficient_credits")
		_, err := from.writer.GrantCredits(t.Context(), commands.GrantCredits{Request: operator(), AccountID: c.id, Kind: account.KindTopup, Credits: 1, PaymentID: uuid.NewString()})
		s.must(err)
		if h := to.get("/v1/brands/acme.com").ok(t); h.Get("X-Credits-Remaining") != "0" {
			t.Errorf("remaining %s, want %q", h.Get("X-Credits-Remaining"), "0")
		}
	}
}

func TestNodes_KeyRevoked_EveryNodeRejectsIt(t *testing.T) {
	s := startSite(t, 3)
	s.known("acme.com")
	c := s.nodes[0].account(plan.Growth, 100)
	for i := range 9 {
		key, id := c.issue("secret")
		for _, n := range s.nodes {
			at := &customer{s: n, secret: key}
			at.get("/v1/brands/acme.com").ok(t)
		}
		done, err := s.nodes[i%3].writer.RevokeKey(t.Context(), commands.RevokeKey{Request: operator(), AccountID: c.id, KeyID: id})
		s.must(err)
		c.at(s.nodes[i%3]).s.inForce(done)
		for _, n := range s.nodes {
			at := &customer{s: n, secret: key}
			at.get("/v1/brands/acme.com").rejected(t, 401, "unauthorized")
		}
	}
}

// The free plan's 60 requests a minute apply to all nodes together. A test that runs into the next
// minute starts over with another account.
func TestNodes_MinuteWindow_IsShared(t *testing.T) {
	const attempts = 3
	s := startSite(t, 3)
	for range attempts {
		c := s.nodes[0].account(plan.Free, plan.FreeCredits)
		var limited atomic.Int64
		var resets sync.Map
		together(61, func(i int) {
			a := c.at(s.nodes[i%3]).get("/v1/me")
			resets.Store(a.header.Get("X-RateLimit-Reset"), true)
			if a.status == http.StatusTooManyRequests {
				a.rejected(t, 429, "rate_limited")
				limited.Add(1)
			} else {
				a.ok(t)
			}
		})
		windows := 0
		resets.Range(func(any, any) bool { windows++; return true })
		if windows > 1 {
			continue
		}
		if limited.Load() != 1 {
			t.Errorf("%d of 61 requests were rejected, want 1", limited.Load())
		}
		return
	}
	t.Fatalf("%d times 61 requests passed the end of a minute", attempts)
}

func TestNodes_OneUnknownDomain_ShareACrawl(t *testing.T) {
	const lookups = 100
	s := startSite(t, 3)
	s.crawler.finds("fresh.com", record("Fresh"))
	customers := make([]*customer, lookups)
	for i := range customers {
		if i < 5 {
			customers[i] = s.nodes[0].account(plan.Custom, 100)
		} else {
			customers[i] = customers[i%5]
		}
	}
	together(lookups, func(i int) {
		customers[i].at(s.nodes[i%3]).get("/v1/brands/fresh.com").ok(t)
	})
	if crawls := s.crawler.of("fresh.com"); len(crawls) != 1 {
		t.Errorf("%d crawls, want 1", len(crawls))
	}
	for _, c := range customers[:5] {
		if b := c.books(); len(b.charges) != lookups/5 || len(b.openHolds) != 0 {
			t.Errorf("%d charges, %d open holds", len(b.charges), len(b.openHolds))
		}
	}
}

// Every node takes into account the credits that another node reported to a client: the balance never goes back up.
// Rule 7.
func TestNodes_Balance_NeverGoesBack(t *testing.T) {
	s := startSite(t, 3)
	s.known("acme.com")
	c := s.nodes[0].account(plan.Custom, 200)
	last := int64(200)
	for i := range 60 {
		c.at(s.nodes[i%3]).get("/v1/brands/acme.com").ok(t)
		last--
		var me struct {
			Credits struct{ Balance int64 }
			Usage   struct{ Lookups int64 }
		}
		a := c.at(s.nodes[(i+1)%3]).get("/v1/me")
		a.ok(t)
		s.must(json.Unmarshal(a.body, &me))
		if me.Credits.Balance != last || me.Usage.Lookups != int64(i+1) {
			t.Fatalf("after %d look-ups another node says balance %d, %d look-ups", i+1, me.Credits.Balance, me.Usage.Lookups)
		}
	}
}

// The next node answers and charges a record that one node found in a crawl, although its tables and
// its cache may lag, and finds an id that one node returned.
// Rule 7.
func TestNodes_AnotherJustAnswered_FindTheBrand(t *testing.T) {
	s := startSite(t, 3)
	s.known("acme.com")
	c := s.nodes[0].account(plan.Custom, 1000)
	revision := func() uint64 {
		b := c.books()
		return b.charges[len(b.charges)-1].RecordRevision
	}
	last := uint64(0)
	for i := range 10 {
		for _, n := range s.nodes { // the old record is in every cache
			c.at(n).get("/v1/brands/acme.com").ok(t)
		}
		s.crawler.finds("acme.com", record("Acme "+uuid.NewString()))
		c.at(s.nodes[i%3]).get("/v1/brands/acme.com?refresh=true").ok(t)
		now := revision()
		if now <= last {
			t.Fatalf("the refresh answered revision %d after %d", now, last)
		}
		last = now
		c.at(s.nodes[(i+1)%3]).get("/v1/brands/acme.com").ok(t)
		if again := revision(); again < now {
			t.Fatalf("another node sold revision %d after %d", again, now)
		}
		fresh := "fresh" + uuid.NewString() + ".com"
		s.crawler.finds(fresh, record("Fresh"))
		a := c.at(s.nodes[i%3]).get("/v1/brands/" + fresh)
		a.ok(t)
		var body struct{ ID string }
		s.must(json.Unmarshal(a.body, &body))
		c.at(s.nodes[(i+2)%3]).get("/v1/brands/" + body.ID).ok(t)
	}
	c.get("/v1/brands/"+uuid.NewString()).rejected(t, 404, "not_found")
}

// Every node repeats the answer that one node gave under an idempotency key, from the record of that time.
func TestNodes_RepeatOnAnotherNode_GivesFirstAnswer(t *testing.T) {
	s := startSite(t, 3)
	s.known("acme.com")
	c := s.nodes[0].account(plan.Custom, 1000)
	for i := range 6 {
		key, fresh := uuid.NewString(), "fresh"+uuid.NewString()+".com"
		s.crawler.finds(fresh, record("Fresh"))
		first := c.at(s.nodes[i%3]).once("/v1/brands/acme.com", key)
		first.ok(t)
		crawled := c.at(s.nodes[i%3]).once("/v1/brands/"+fresh, "of-"+key)
		crawled.ok(t)
		s.crawler.finds("acme.com", record("Acme "+uuid.NewString()))
		c.at(s.nodes[(i+1)%3]).get("/v1/brands/acme.com?refresh=true").ok(t)
		charges := len(c.books().charges)
		for _, n := range s.nodes {
			if a := c.at(n).once("/v1/brands/acme.com", key); a.ok(t).Get("X-Credits-Remaining") == "" || string(a.body) != string(first.body) {
				t.Fatalf("again: %s\nwas %s", a.body, first.body)
			}
			if a := c.at(n).once("/v1/brands/"+fresh, "of-"+key); a.status != http.StatusOK || string(a.body) != string(crawled.body) {
				t.Fatalf("again: %d %s\nwas %s", a.status, a.body, crawled.body)
			}
			c.at(n).once("/v1/brands/other.com", key).rejected(t, 400, "invalid_request")
		}
		if now := len(c.books().charges); now != charges {
			t.Fatalf("the repeats were charged %d times", now-charges)
		}
	}
}

func TestIdempotencyKey_ConcurrentOnNodes_ChargedOnce(t *testing.T) {
	const clients = 48
	s := startSite(t, 3)
	s.known("acme.com")
	for _, path := range []string{"acme.com", "fresh.com", "acme.com?refresh=true"} {
		s.crawler.finds("fresh.com", record("Fresh"))
		s.crawler.finds("acme.com", record("Acme anew"))
		c := s.nodes[0].account(plan.Custom, 100)
		answers := make([]answer, clients)
		together(clients, func(i int) {
			n := s.nodes[i%3]
			var err error
			if answers[i], err = n.do(t.Context(), c.keyed("/v1/brands/"+path, "k")); err != nil {
				t.Error(err)
			}
		})
		for _, a := range answers {
			if a.ok(t); string(a.body) != string(answers[0].body) {
				t.Fatalf("%s\nand\n%s", a.body, answers[0].body)
			}
		}
		if b := c.books(); len(b.charges) != 1 || b.balance() != 99 || len(b.openHolds) != 0 {
			t.Errorf("%s: %d charges, balance %d, %d holds open; want 1, 99 and 0", path, len(b.charges), b.balance(), len(b.openHolds))
		}
	}
}

func TestIdempotencyKey_AnyFailureOnNodes_ChargedOnce(t *testing.T) {
	waiting := newAudience()
	s := startSite(t, 3, waiting.intercept)
	s.known("acme.com")
	everyKeyIsPaidOnce(t, waiting, s.crawler, s.nodes[0].account(plan.Custom, 1000), s.nodes)
}

// counted sums up a node's counters with a name, and with a label value unless it is empty.
func (s *service) counted(name, label string) (n float64) {
	s.t.Helper()
	families, err := s.metrics.Gather()
	s.must(err)
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == name && (label == "" || len(m.Label) > 0 && m.Label[0].GetValue() == label) {
				n += m.Counter.GetValue()
			}
		}
	}
	return n
}

// One append and no read for a look-up that keeps to its node, by the domain or by the id: neither of the event store
// nor, in PostgreSQL, of the record or the key, although each look-up moves the log and the read models.
// Rules 3, 7.
func TestLookup_SharedServices_RoundTripsAreBounded(t *testing.T) {
	const lookups = 50
	began := time.Now()
	s := startSiteWith(t, func() time.Time { return began }, 0, 3) // leases last however slow the machine is
	s.known("acme.com")
	c := s.nodes[0].account(plan.Custom, 1000)
	node, log, window := s.nodes[0], s.logs[0], s.windows[0]
	if _, ok := testwait.Until(testwait.Timeout, func() bool {
		c.get("/v1/me").ok(t)
		return node.counted("letterhead_key_lookups_total", "memory") > 0
	}); !ok {
		t.Fatal("the node has no lease")
	}
	paths := []string{"/v1/brands/acme.com", "/v1/brands/" + brand.ID("acme.com").String()}
	for _, path := range paths {
		c.get(path).ok(t)
	}
	appends := c.streamAppends()
	reads, takes := log.reads.Load(), window.takes.Load()
	records, rows := node.counted("letterhead_brand_cache_reads_total", "brand"), node.counted("letterhead_key_lookups_total", "rows")
	for i := range lookups {
		c.get(paths[i%len(paths)]).ok(t)
		if i%10 == 0 {
			s.must(s.nodes[0].runner.CatchUp(t.Context()))
		}
	}
	r, w := log.reads.Load()-reads, window.takes.Load()-takes
	if a := c.streamAppends() - appends; a != lookups || r != 0 || w != lookups {
		t.Errorf("%d look-ups took %d appends, %d reads of the log and %d takes of the window", lookups, a, r, w)
	}
	if records = node.counted("letterhead_brand_cache_reads_total", "brand") - records; records != 0 {
		t.Errorf("%d look-ups read the record %v times, want 0", lookups, records)
	}
	if rows = node.counted("letterhead_key_lookups_total", "rows") - rows; rows != 0 {
		t.Errorf("%d look-ups read %v rows of keys, want 0", lookups, rows)
	}
}

// streamAppends returns the number of charge and hold events of the account's stream: one for each append of a client
// that sends requests one by one. The node's log also has the usage recorder's ticks, about one a second.
func (c *customer) streamAppends() int64 {
	b := c.books()
	return int64(len(b.charges) + b.holds)
}

// An unreachable part is a 503 within the deadline, never a rejection that a client treats as final, and
// the other nodes keep working.
func TestNodes_ServiceUnreachable_Is503(t *testing.T) {
	for name, fault := range map[string]func(s *site) (mend func()){
		"the database hangs": func(s *site) func() {
			s.proxies[0].Hang()
			return s.proxies[0].Resume
		},
		"the database is unavailable": func(s *site) func() {
			s.proxies[0].Refuse()
			return s.proxies[0].Resume
		},
		"the event store hangs": func(s *site) func() {
			s.logs[0].hung.begin()
			return s.logs[0].hung.end
		},
		"the counters hang": func(s *site) func() {
			s.windows[0].hung.begin()
			return s.windows[0].hung.end
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startSiteWith(t, time.Now, 9*time.Second, 2)
			s.known("acme.com")
			c := s.nodes[0].account(plan.Custom, 1000)
			c.get("/v1/brands/acme.com").ok(t)
			mend := fault(s)
			paths := []string{"/v1/brands/acme.com", "/v1/brands/unknown.com", "/v1/brands/" + uuid.NewString(), "/v1/me"}
			together(len(paths), func(i int) {
				c.get(paths[i]).rejected(t, 503, "upstream_failed")
				c.at(s.nodes[1]).get("/v1/brands/acme.com").ok(t)
			})
			mend()
			for a := c.get("/v1/brands/acme.com"); a.status != http.StatusOK; a = c.get("/v1/brands/acme.com") {
				a.rejected(t, 503, "upstream_failed")
				s.must(t.Context().Err())
			}
			for _, n := range s.nodes { // and the counts agree again
				c.at(n).get("/v1/me").ok(t)
			}
		})
	}
}
