package readapi_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/readapi"
	"letterhead/readapi/lookup"
)

// keyed returns a request of the customer's with an idempotency key.
func (c *customer) keyed(path, key string) request {
	h := bearer(c.secret)
	h.Set("Idempotency-Key", key)
	return request{path: path, header: h}
}

func (c *customer) once(path, key string) answer {
	c.s.t.Helper()
	return c.s.send(c.keyed(path, key))
}

// under counts the charges under idempotency keys that were not reversed.
func (b books) under() (standing map[string]int) {
	standing = map[string]int{}
	back := map[string]bool{}
	for _, r := range b.reversals {
		back[r.ChargeID] = true
	}
	for _, ch := range b.charges {
		if ch.IdempotencyKeyHash != "" && !back[ch.ChargeID] {
			standing[ch.IdempotencyKeyHash]++
		}
	}
	return standing
}

func TestIdempotencyKey_Repeated_GivesFirstAnswerForADay(t *testing.T) {
	s, c := startWith(t, plan.Growth, 50)
	s.known("acme.com", record("acme"))
	first := c.once("/v1/brands/acme.com", "order-1")
	if h := first.ok(t); h.Get("X-Credits-Remaining") != "49" || h.Get("X-Cache") != "HIT" {
		t.Errorf("headers %v", h)
	}
	s.crawler.finds("acme.com", record("acme anew"))
	second := c.once("/v1/brands/acme.com?refresh=true", "order-2")
	if h := second.ok(t); h.Get("X-Cache") != "MISS" || string(second.body) == string(first.body) {
		t.Fatalf("the refresh changed nothing: %v, body %s", h, second.body)
	}
	s.catchUp()
	// Whatever form the identifier has, and with any of the account's keys.
	other := *c
	other.secret, _ = c.issue("secret")
	repeats := func() {
		t.Helper()
		for _, r := range []struct {
			path, key string
			want      answer
		}{
			{"acme.com", "order-1", first}, {"https%3A%2F%2Fwww.acme.com%2Fabout", "order-1", first}, {"jane%40acme.com?refresh=false", "order-1", first},
			{"acme.com?refresh=true", "order-2", second}, {"ACME.com?refresh=1", "order-2", second},
		} {
			for _, who := range []*customer{c, &other} {
				a := who.once("/v1/brands/"+r.path, r.key)
				if h := a.ok(t); string(a.body) != string(r.want.body) || h.Get("X-Cache") != "HIT" || h.Get("X-Credits-Remaining") != "48" || h.Get("Cache-Control") != "private" {
					t.Errorf("%s, repeated: %v\n%s\nwant\n%s", r.path, h, a.body, r.want.body)
				}
			}
		}
	}
	repeats()
	s.clock.add(account.IdempotencyWindow - time.Second)
	repeats()
	if b := c.books(); len(b.charges) != 2 || b.balance() != 48 || len(b.openHolds) != 0 || len(s.crawler.of("acme.com")) != 1 {
		t.Errorf("%d charges, balance %d, %d holds open, %d crawls; want 2, 48, 0 and 1", len(b.charges), b.balance(), len(b.openHolds), len(s.crawler.of("acme.com")))
	}
	s.clock.add(2 * time.Second) // a day has passed, and the key is new
	a := c.once("/v1/brands/acme.com", "order-1")
	if h := a.ok(t); string(a.body) != string(second.body) || h.Get("X-Credits-Remaining") != "47" {
		t.Errorf("repeat after a day: %v, body %s", h, a.body)
	}
}

func TestIdempotencyKey_OtherRequest_Is400(t *testing.T) {
	s := start(t)
	c, other := s.account(plan.Growth, 50), s.account(plan.Growth, 50)
	id := s.known("acme.com", record("acme"))
	s.known("other.com", record("other"))
	c.once("/v1/brands/acme.com", "k").ok(t)
	for _, path := range []string{"other.com", id, "acme.com?refresh=true", "never-crawled.com"} {
		a := c.once("/v1/brands/"+path, "k")
		p := a.rejected(t, http.StatusBadRequest, "invalid_request")
		if !strings.Contains(p.Error.Message, "Idempotency-Key") || a.header.Get("X-Credits-Remaining") != "49" {
			t.Errorf("%s: header %v, body %s", path, a.header, a.body)
		}
	}
	c.once("/v1/brands/"+id, "by-id").ok(t)
	c.once("/v1/brands/urn:letterhead:brand:"+strings.ToUpper(id), "by-id").ok(t)
	other.once("/v1/brands/other.com", "k").ok(t)
	if b, o := c.books(), other.books(); len(b.charges) != 2 || len(o.charges) != 1 || o.charges[0].Domain != "other.com" || b.holds != 0 {
		t.Errorf("charges %+v, and of the other account %+v, %d holds", b.charges, o.charges, b.holds)
	}
}

func TestIdempotencyKey_FreeAnswer_IsLookedUpAgain(t *testing.T) {
	s, c := startWith(t, plan.Growth, 50)
	s.known("acme.com", record("acme"))
	s.known("plain.com", plainRecord("plain"))
	s.crawler.fails("nowhere.com", brand.DNS)
	c.once("/v1/brands/nowhere.com", "k").rejected(t, http.StatusNotFound, "domain_not_found")
	c.once("/v1/brands/co.uk", "k").rejected(t, http.StatusBadRequest, "invalid_domain")
	plain := c.once("/v1/brands/plain.com", "k")
	plain.ok(t)
	s.crawler.finds("plain.com", record("plain"))
	c.get("/v1/brands/plain.com?refresh=true").ok(t)
	s.catchUp()
	a := c.once("/v1/brands/plain.com", "k") // now it has a logo, and the answer differs
	if h := a.ok(t); string(a.body) == string(plain.body) || h.Get("X-Credits-Remaining") != "48" {
		t.Errorf("%v, body %s", h, a.body)
	}
	c.once("/v1/brands/acme.com", "k").rejected(t, http.StatusBadRequest, "invalid_request")
	if b := c.books(); len(b.charges) != 2 || len(b.openHolds) != 0 {
		t.Errorf("%d charges, %d holds open; want 2 and 0", len(b.charges), len(b.openHolds))
	}
}

func TestIdempotencyKey_NoCreditsLeft_RepeatIsAnswered(t *testing.T) {
	s, c := startWith(t, plan.Growth, 1)
	s.known("acme.com", record("acme"))
	first := c.once("/v1/brands/acme.com", "k")
	first.ok(t)
	for range 3 {
		if a := c.once("/v1/brands/acme.com", "k"); string(a.body) != string(first.body) || a.ok(t).Get("X-Credits-Remaining") != "0" {
			t.Errorf("header %v, body %s", a.header, a.body)
		}
	}
	c.get("/v1/brands/acme.com").rejected(t, http.StatusPaymentRequired, "insufficient_credits")
	c.once("/v1/brands/acme.com", "another").rejected(t, http.StatusPaymentRequired, "insufficient_credits")
	// 400 comes before 402.
	c.once("/v1/brands/other.com", "k").rejected(t, http.StatusBadRequest, "invalid_request")
}

// Many concurrent requests with one key get one charge and one answer, even with one credit for all of them.
func TestIdempotencyKey_Concurrent_ChargedOnce(t *testing.T) {
	const clients = 64
	s := start(t)
	s.known("acme.com", record("acme"))
	for i, credits := range []int64{1, 2, 200} {
		fresh := fmt.Sprintf("fresh-%d.com", i)
		s.crawler.finds(fresh, record("fresh"))
		s.crawler.finds("acme.com", record(fmt.Sprintf("acme %d", i)))
		for _, path := range []string{"acme.com", fresh, "acme.com?refresh=true"} {
			t.Run(fmt.Sprintf("%s with %d credits", path, credits), func(t *testing.T) {
				c := s.account(plan.Custom, credits)
				answers := make([]answer, clients)
				together(clients, func(i int) {
					var err error
					if answers[i], err = s.do(t.Context(), c.keyed("/v1/brands/"+path, "k")); err != nil {
						t.Error(err)
					}
				})
				for _, a := range answers {
					if h := a.ok(t); string(a.body) != string(answers[0].body) || h.Get("X-Credits-Remaining") != fmt.Sprint(credits-1) {
						t.Fatalf("%v\n%s\nand\n%s", h, a.body, answers[0].body)
					}
				}
				if b := c.books(); len(b.charges) != 1 || b.balance() != credits-1 || len(b.openHolds) != 0 || b.lowest < 0 {
					t.Errorf("%d charges, balance %d, %d holds open", len(b.charges), b.balance(), len(b.openHolds))
				}
				c.unreserved(credits - 1)
			})
		}
	}
}

// With one credit for all of them, each gets it in turn if the answers to the others cost nothing.
func TestIdempotencyKey_ConcurrentFailure_EachGetsTheError(t *testing.T) {
	s := start(t)
	s.known("acme.com", record("acme"))
	c := s.account(plan.Custom, 1)
	release := make(chan struct{})
	s.crawler.does("nowhere.com", waitThen(release, ending{outcome: brand.DNS}))
	go func() {
		s.crawler.sees("nowhere.com")
		close(release)
	}()
	together(8, func(int) {
		a, err := s.do(t.Context(), c.keyed("/v1/brands/nowhere.com", "k"))
		if err != nil || a.status != http.StatusNotFound {
			t.Errorf("error = %v, status %d, body %s; want %d", err, a.status, a.body, http.StatusNotFound)
		}
	})
	if b := c.books(); len(b.charges) != 0 || len(b.openHolds) != 0 || len(s.crawler.of("nowhere.com")) != 1 {
		t.Errorf("%d charges, %d holds open, %d crawls; want 0, 0 and 1", len(b.charges), len(b.openHolds), len(s.crawler.of("nowhere.com")))
	}
	c.unreserved(1)
}

// unreserved spends the remaining credits, to show that none of them is reserved any more.
func (c *customer) unreserved(credits int64) {
	c.s.t.Helper()
	for range credits {
		c.get("/v1/brands/acme.com").ok(c.s.t)
	}
	c.get("/v1/brands/acme.com").rejected(c.s.t, http.StatusPaymentRequired, "insufficient_credits")
}

// steppingWriter lets a test intervene between earlier charges and current ones.
type steppingWriter struct {
	lookup.Credits
	recalled func() // called after nothing was found under a key
	held     func() // called before a credit is held
	charged  func(context.Context, commands.ChargeLookup)
	reversed func()
}

func (d *steppingWriter) Recall(ctx context.Context, in commands.Recall) ([]commands.Receipt, error) {
	receipts, err := d.Credits.Recall(ctx, in)
	if err == nil && len(receipts) == 0 && d.recalled != nil {
		d.recalled()
	}
	return receipts, err
}

func (d *steppingWriter) ChargeLookup(ctx context.Context, in commands.ChargeLookup) (commands.Receipt, error) {
	receipt, err := d.Credits.ChargeLookup(ctx, in)
	if err == nil && d.charged != nil {
		d.charged(ctx, in)
	}
	return receipt, err
}

func (d *steppingWriter) HoldCredits(ctx context.Context, in commands.HoldCredits) (commands.Hold, error) {
	if d.held != nil {
		d.held()
	}
	return d.Credits.HoldCredits(ctx, in)
}

func (d *steppingWriter) ReverseUndelivered(in commands.UndeliveredCharge) error {
	err := d.Credits.ReverseUndelivered(in)
	if d.reversed != nil {
		d.reversed()
	}
	return err
}

// Two requests with one key that start together both find the key unused. One is charged, the other is rejected.
func TestIdempotencyKey_ConcurrentOtherRequest_OneIs400(t *testing.T) {
	var both sync.WaitGroup
	s := start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) {
			d.Credits = &steppingWriter{Credits: d.Credits, recalled: func() { both.Done(); both.Wait() }}
		}
	})
	s.known("acme.com", record("acme"))
	s.known("other.com", record("other"))
	s.crawler.finds("fresh.com", record("fresh"))
	s.crawler.finds("acme.com", record("acme"))
	for _, paths := range [][2]string{{"acme.com", "other.com"}, {"acme.com?refresh=true", "fresh.com"}} {
		c := s.account(plan.Custom, 10)
		both.Add(2)
		var answers [2]answer
		together(2, func(i int) {
			var err error
			if answers[i], err = s.do(t.Context(), c.keyed("/v1/brands/"+paths[i], "k")); err != nil {
				t.Error(err)
			}
		})
		if answers[0].status != http.StatusOK {
			answers[0], answers[1] = answers[1], answers[0]
		}
		answers[0].ok(t)
		answers[1].rejected(t, http.StatusBadRequest, "invalid_request")
		if b := c.books(); len(b.charges) != 1 || len(b.openHolds) != 0 || b.balance() != 9 {
			t.Errorf("%v: %d charges, %d holds open, balance %d; want 1, 0 and 9", paths, len(b.charges), len(b.openHolds), b.balance())
		}
		c.unreserved(9)
	}
}

func TestIdempotencyKey_ClientLeftAndRepeats_ChargedOnce(t *testing.T) {
	charged, on, reversed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	s := start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) {
			var second atomic.Bool
			d.Credits = &steppingWriter{Credits: d.Credits,
				charged: func(context.Context, commands.ChargeLookup) {
					if !second.Swap(true) {
						close(charged)
						<-on
					}
				},
				reversed: func() { close(reversed) },
			}
		}
	})
	c := s.account(plan.Free, 50)
	s.known("acme.com", record("acme"))
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.do(ctx, c.keyed("/v1/brands/acme.com", "k"))
		done <- err
	}()
	<-charged
	leave()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("client error %v, want Canceled", err)
	}
	// The retry is faster than the server, which is about to reverse the charge.
	again := c.once("/v1/brands/acme.com", "k")
	again.ok(t)
	close(on)
	<-reversed
	s.must(s.writer.Drain(t.Context())) // finishes pending compensations
	if b := c.books(); len(b.charges) != 1 || len(b.reversals) != 0 || b.balance() != 49 {
		t.Errorf("%d charges, %d reversals, balance %d; want 1, 0 and 49", len(b.charges), len(b.reversals), b.balance())
	}
}

func TestIdempotencyKey_ChargeReversed_ChargesAgain(t *testing.T) {
	charged := make(chan struct{}, 1)
	var second atomic.Bool
	s := start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) {
			d.Credits = &interceptedWriter{Credits: d.Credits, charged: func(ctx context.Context) {
				if !second.Swap(true) {
					charged <- struct{}{}
					<-ctx.Done()
				}
			}}
		}
	})
	c := s.account(plan.Growth, 50)
	s.known("acme.com", record("acme"))
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.do(ctx, c.keyed("/v1/brands/acme.com", "k"))
		done <- err
	}()
	<-charged
	leave()
	<-done
	c.until("the charge is reversed", func(b books) bool { return len(b.reversals) == 1 })
	// It cost nothing, so the key may also be used for another request.
	s.crawler.finds("acme.com", record("acme anew"))
	a := c.once("/v1/brands/acme.com?refresh=true", "k")
	a.ok(t)
	if again := c.once("/v1/brands/acme.com?refresh=true", "k"); string(again.body) != string(a.body) {
		t.Errorf("status %d, body %s", again.status, again.body)
	}
	if b := c.books(); len(b.charges) != 2 || len(b.reversals) != 1 || b.balance() != 49 || len(b.openHolds) != 0 {
		t.Errorf("%d charges, %d reversals, balance %d, %d holds open; want 2, 1, 49 and 0", len(b.charges), len(b.reversals), b.balance(), len(b.openHolds))
	}
}

func TestIdempotencyKey_BrandWithdrawn_IsNotRepeated(t *testing.T) {
	s, c := startWith(t, plan.Free, 50)
	id := s.known("acme.com", record("acme"))
	c.once("/v1/brands/acme.com", "k").ok(t)
	c.once("/v1/brands/"+id, "by-id").ok(t)
	s.must(s.brands.WithdrawBrand(t.Context(), commands.WithdrawBrand{Request: operator(), Domain: "acme.com", Reason: "the owner asked"}))
	for path, key := range map[string]string{"acme.com": "k", id: "by-id"} {
		a := c.once("/v1/brands/"+path, key)
		a.rejected(t, http.StatusNotFound, "no_brand_data")
		if a.header.Get("X-Credits-Remaining") != "48" {
			t.Errorf("headers %v", a.header)
		}
	}
}

func TestIdempotencyKey_AccountSuspended_Is403(t *testing.T) {
	s, c := startWith(t, plan.Free, 50)
	s.known("acme.com", record("acme"))
	c.once("/v1/brands/acme.com", "k").ok(t)
	c.suspend()
	c.once("/v1/brands/acme.com", "k").rejected(t, http.StatusForbidden, "forbidden")
}

func TestIdempotencyKey_Format_IsChecked(t *testing.T) {
	s, c := startWith(t, plan.Growth, 50)
	s.known("acme.com", record("acme"))
	bad := map[string][]string{
		"empty": {""}, "256 characters": {strings.Repeat("k", 256)}, "a space": {"a key"}, "a tab": {"a\tkey"},
		"not ASCII": {"sch\u00fcssel"}, "not UTF-8": {"k\xff"}, "twice": {"a", "b"}, "twice the same": {"a", "a"},
	}
	for name, values := range bad {
		h := bearer(c.secret)
		h["Idempotency-Key"] = values
		a := s.send(request{path: "/v1/brands/acme.com", header: h})
		if p := a.rejected(t, http.StatusBadRequest, "invalid_request"); !strings.Contains(p.Error.Message, "Idempotency-Key") || a.header.Get("X-Credits-Remaining") != "50" {
			t.Errorf("%s: header %v, body %s", name, a.header, a.body)
		}
		// It has no effect on requests that are not charged.
		for _, r := range []request{{method: http.MethodHead, path: "/v1/brands/acme.com"}, {path: "/v1/me"}, {path: "/v1/search?q=acme"}} {
			r.header = h
			s.send(r).ok(t)
		}
	}
	for _, good := range []string{"k", "!~", `"8e03978e-40d5-43dd-bc93-6894a57f9324"`, uuid.NewString(), strings.Repeat("k", 255), "a,b"} {
		first, again := c.once("/v1/brands/acme.com", good), c.once("/v1/brands/acme.com", good)
		first.ok(t)
		again.ok(t)
	}
	// Surrounding whitespace is not part of it.
	padded := "GET /v1/brands/acme.com HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + c.secret + "\r\nIdempotency-Key: \t k \t\r\nConnection: close\r\n\r\n"
	if status := s.rawStatus(padded); status != http.StatusOK {
		t.Errorf("key with surrounding spaces: %d, want %d", status, http.StatusOK)
	}
	if b := c.books(); len(b.charges) != 6 {
		t.Errorf("%d charges for 6 keys, want 6", len(b.charges))
	}
}

// audience tracks the clients who wait for the answers under each key: some stay, and some leave at
// the worst time, between the charge and the first byte.
type audience struct {
	mu    sync.Mutex
	stay  map[[sha256.Size]byte]int
	leave map[[sha256.Size]byte][]context.CancelFunc
}

func newAudience() *audience {
	return &audience{stay: map[[sha256.Size]byte]int{}, leave: map[[sha256.Size]byte][]context.CancelFunc{}}
}

// come returns the function that ends the client's stay.
func (a *audience) come(key string, leaves context.CancelFunc) (gone func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	hash := sha256.Sum256([]byte(key))
	if leaves != nil {
		a.leave[hash] = append(a.leave[hash], leaves)
		return func() {}
	}
	a.stay[hash]++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.stay[hash]--
	}
}

// charged makes the clients leave who wait for the new charge, unless one of them wants to stay, and
// returns when the server has noticed.
func (a *audience) charged(ctx context.Context, in commands.ChargeLookup) {
	if in.Once == nil {
		return
	}
	a.mu.Lock()
	leave, all := a.leave[in.Once.Key], a.stay[in.Once.Key] == 0
	delete(a.leave, in.Once.Key)
	for _, l := range leave {
		l()
	}
	a.mu.Unlock()
	if all && len(leave) > 0 {
		<-ctx.Done()
	}
}

// intercept reports every charge to the audience.
func (a *audience) intercept(d *readapi.Deps) {
	d.Credits = &steppingWriter{Credits: d.Credits, charged: a.charged}
}

// everyKeyIsPaidOnce sends look-ups of every kind under few keys from many clients, most of whom leave. All answers
// under a key are the same, with one charge; a key without an answer has at most one.
func everyKeyIsPaidOnce(t *testing.T, waiting *audience, crawler *scriptedCrawler, c *customer, nodes []*service) {
	const keys, clients, rounds = 24, 16, 12
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := &dice{r: rand.New(rand.NewPCG(seed, 1))}
	paths := []string{"acme.com", "acme.com?refresh=true", "fresh.com"}
	crawler.does("acme.com", func(context.Context, eventschemas.CrawlRequested) ending {
		r := record("acme " + uuid.NewString())
		return ending{record: &r}
	})
	crawler.finds("fresh.com", record("fresh"))
	var mu sync.Mutex
	heard := map[string]string{}
	together(clients, func(int) {
		for range rounds {
			n := dice.n(keys)
			key := fmt.Sprintf("key-%d", n)
			ctx, leaves, cancel := dice.client(t.Context())
			gone := waiting.come(key, leaves)
			a, err := nodes[dice.n(len(nodes))].do(ctx, c.keyed("/v1/brands/"+paths[n%len(paths)], key))
			gone()
			cancel()
			switch {
			case err != nil && ctx.Err() != nil: // it left
			case err != nil || a.status != http.StatusOK:
				t.Errorf("%s: %v, status %d, body %s", key, err, a.status, a.body)
			default:
				mu.Lock()
				if was, ok := heard[key]; ok && was != string(a.body) {
					t.Errorf("%s was answered\n%s\nand\n%s", key, was, a.body)
				}
				heard[key] = string(a.body)
				mu.Unlock()
			}
		}
	})
	c.until("every hold has ended", func(b books) bool { return len(b.openHolds) == 0 })
	for _, n := range nodes {
		n.must(n.writer.Drain(t.Context())) // finishes pending compensations
	}
	b := c.books()
	standing := b.under()
	total := 0
	for hash, n := range standing {
		if total += n; n != 1 {
			t.Errorf("%d charges remain under %s; want 1", n, hash)
		}
	}
	if total < len(heard) || total > keys || b.balance() != b.granted-int64(total) {
		t.Errorf("%d keys were answered, %d charges remain, balance %d of %d", len(heard), total, b.balance(), b.granted)
	}
	t.Logf("%d keys answered, %d charges, %d reversed", len(heard), len(b.charges), len(b.reversals))
}

// Rule 2.
func TestIdempotencyKey_AnyFailure_ChargedOnce(t *testing.T) {
	waiting := newAudience()
	s := start(t, func(set *setup) { set.config.CrawlsPerMinute, set.deps = 1_000_000, waiting.intercept })
	s.known("acme.com", record("acme"))
	everyKeyIsPaidOnce(t, waiting, s.crawler, s.account(plan.Custom, 1000), []*service{s})
}
