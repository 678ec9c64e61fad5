package readapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/readapi"
	"letterhead/readapi/lookup"
)

// asksFor sends a batch under an idempotency key with a context.
func (c *customer) asksFor(ctx context.Context, key string, identifiers ...string) (answer, error) {
	c.s.t.Helper()
	header := bearer(c.secret)
	header.Set("Idempotency-Key", key)
	return c.s.post(ctx, batchPath, batchOf(c.s.t, identifiers), header)
}

// Two nodes look up the same batch under one key, and there is one credit for each of its domains.
// Charges of one are the answer of both, whenever the other finds that no credit is left.
func TestBatch_AnotherNodePaidMeanwhile_IsAnswered(t *testing.T) {
	identifiers := []string{"acme.com", "fresh.com"}
	for name, meanwhile := range map[string]func(writer *steppingWriter, do func()){
		"before the first credit": func(writer *steppingWriter, do func()) { writer.recalled = do },
		"before an item's hold":   func(writer *steppingWriter, do func()) { writer.held = do },
	} {
		t.Run(name, func(t *testing.T) {
			var writers []*steppingWriter
			s := startSite(t, 2, func(d *readapi.Deps) {
				writer := &steppingWriter{Credits: d.Credits}
				writers = append(writers, writer)
				d.Credits = writer
			})
			s.known("acme.com")
			s.crawler.finds("fresh.com", record("Fresh"))
			c := s.nodes[0].account(plan.Growth, 2)
			var first answer
			var once atomic.Bool
			meanwhile(writers[1], func() {
				if once.CompareAndSwap(false, true) {
					first = c.asksOnce("k", identifiers...)
				}
			})
			second := c.at(s.nodes[1]).asksOnce("k", identifiers...)
			first.ok(t)
			if got := said(second.items(t, identifiers)); !slices.Equal(got, []string{"200", "200"}) || string(first.body) != string(second.body) {
				t.Errorf("got %q\n%s\nafter the answer\n%s", got, second.body, first.body)
			}
			if b := c.books(); len(b.charges) != 2 || len(b.reversals) != 0 || b.balance() != 0 || len(b.openHolds) != 0 {
				t.Errorf("%d charges, %d reversals, balance %d, %d holds open; want 2, 0, 0 and 0", len(b.charges), len(b.reversals), b.balance(), len(b.openHolds))
			}
		})
	}
}

// everyItemIsPaidOnce sends batches under few keys from many clients, most of whom leave. All answers
// for a domain under a key are the same, with one charge; a domain without an answer has at most one.
func everyItemIsPaidOnce(t *testing.T, waiting *audience, crawler *scriptedCrawler, c *customer, nodes []*service) {
	const keys, clients, rounds = 16, 12, 8
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := &dice{r: rand.New(rand.NewPCG(seed, 1))}
	lists := make([][]string, keys)
	for n := range lists {
		fresh, gone := fmt.Sprintf("fresh-%d.com", n), fmt.Sprintf("gone-%d.com", n)
		crawler.does(fresh, func(context.Context, eventschemas.CrawlRequested) ending {
			r := record("fresh " + uuid.NewString())
			return ending{record: &r}
		})
		crawler.fails(gone, brand.DNS)
		lists[n] = []string{"acme.com", fresh, gone, "www.acme.com", "other.com"}
	}
	var mu sync.Mutex
	heard := map[string]string{}
	together(clients, func(int) {
		for range rounds {
			n := dice.n(keys)
			key := fmt.Sprintf("key-%d", n)
			ctx, leaves, cancel := dice.client(t.Context())
			gone := waiting.come(key, leaves)
			a, err := c.at(nodes[dice.n(len(nodes))]).asksFor(ctx, key, lists[n]...)
			gone()
			cancel()
			switch {
			case err != nil && ctx.Err() != nil: // the client left
				continue
			case err == nil && a.status == http.StatusServiceUnavailable: // 503 means retry
				continue
			case err != nil || a.status != http.StatusOK:
				t.Errorf("%s: %v, status %d, body %s", key, err, a.status, a.body)
				continue
			}
			var raw struct {
				Results []struct {
					Identifier string
					Brand      json.RawMessage
				}
			}
			if err := json.Unmarshal(a.body, &raw); err != nil {
				t.Error(err)
			}
			mu.Lock()
			for i, item := range a.items(t, lists[n]) {
				if item.Brand == nil {
					if said := item.said(); i != 2 && said != "503 upstream_failed" || i == 2 && said != "404 domain_not_found" && said != "503 upstream_failed" {
						t.Errorf("%s: %s is %s", key, item.Identifier, said)
					}
					continue
				}
				of := key + " " + *item.Domain
				if was, ok := heard[of]; ok && was != string(raw.Results[i].Brand) {
					t.Errorf("%s was answered\n%s\nand\n%s", of, was, raw.Results[i].Brand)
				}
				heard[of] = string(raw.Results[i].Brand)
			}
			mu.Unlock()
		}
	})
	c.until("every hold has ended", func(b books) bool { return len(b.openHolds) == 0 })
	for _, n := range nodes {
		n.must(n.writer.Drain(t.Context())) // finishes pending compensations
	}
	b := c.books()
	total := 0
	for hash, n := range b.under() {
		if total += n; n != 1 {
			t.Errorf("%d charges remain under %s; want 1", n, hash)
		}
	}
	if total < len(heard) || total > 3*keys || b.balance() != b.granted-int64(total) || b.lowest < 0 {
		t.Errorf("%d items were answered, %d charges remain, balance %d of %d, lowest %d", len(heard), total, b.balance(), b.granted, b.lowest)
	}
	t.Logf("%d items answered, %d charges, %d reversed", len(heard), len(b.charges), len(b.reversals))
}

func TestBatch_AnyFailure_ItemIsChargedOnce(t *testing.T) {
	t.Run("one node", func(t *testing.T) {
		waiting := newAudience()
		s := start(t, func(set *setup) { set.config.CrawlsPerMinute, set.deps = 1_000_000, waiting.intercept })
		s.known("acme.com", record("acme"))
		s.known("other.com", record("other"))
		everyItemIsPaidOnce(t, waiting, s.crawler, s.account(plan.Custom, 1000), []*service{s})
	})
	t.Run("three nodes", func(t *testing.T) {
		waiting := newAudience()
		s := startSite(t, 3, waiting.intercept)
		s.known("acme.com")
		s.known("other.com")
		everyItemIsPaidOnce(t, waiting, s.crawler, s.nodes[0].account(plan.Custom, 1000), s.nodes)
	})
}

// An account has no more than its share of a node's running batches, including those that wait for
// another with the same key, and those whose answer is still being read.
func TestBatches_OneAccount_HasItsShareOnly(t *testing.T) {
	const most = 64
	var holds atomic.Int64
	all, release := make(chan struct{}), make(chan struct{})
	s := start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) {
			d.Credits = &steppingWriter{Credits: d.Credits, held: func() {
				if holds.Add(1) == most {
					close(all)
				}
			}}
		}
	})
	s.known("acme.com", record("acme"))
	r := record("slow")
	s.crawler.does("slow.com", waitThen(release, ending{record: &r}))
	busy, other := s.account(plan.Custom, 100), s.account(plan.Growth, 10)
	var under sync.WaitGroup
	for range most {
		under.Go(func() { busy.asks("slow.com").ok(t) })
	}
	<-all
	a := busy.asks("acme.com")
	a.rejected(t, 503, "upstream_failed")
	if got := a.header.Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After: %q, want %q", got, "1")
	}
	other.asks("acme.com").ok(t)
	busy.get("/v1/brands/acme.com").ok(t)
	close(release)
	under.Wait()
	busy.asks("acme.com").ok(t)
	if b := busy.books(); len(b.charges) != most+2 || len(b.openHolds) != 0 {
		t.Errorf("%d charges, %d holds open", len(b.charges), len(b.openHolds))
	}
}

// Whatever fails after an item was charged, its credit is returned along with the error.
func TestBatch_PanicsAtItsEnd_ReversesEveryCharge(t *testing.T) {
	var once sync.Once
	s := start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) {
			d.Credits = &standing{Credits: d.Credits, after: func(context.Context) { once.Do(func() { panic("at the end") }) }}
		}
	})
	s.known("acme.com", record("acme"))
	c := s.account(plan.Growth, 10)
	c.asks("acme.com").rejected(t, 500, "internal_error")
	if b := c.until("the charge is reversed", func(b books) bool { return len(b.reversals) == 1 }); b.balance() != 10 {
		t.Errorf("balance %d, want 10", b.balance())
	}
}

// inStep returns a brand's state only once enough callers ask concurrently.
type inStep struct {
	lookup.Brands
	mu     sync.Mutex
	still  int // callers still to come
	gather chan struct{}
}

func (b *inStep) State(ctx context.Context, domain string) (*brand.Brand, error) {
	b.mu.Lock()
	if b.still > 0 {
		if b.still--; b.still == 0 {
			close(b.gather)
		}
	}
	b.mu.Unlock()
	select {
	case <-b.gather:
		return b.Brands.State(ctx, domain)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A repeat reads the stream of each brand, while the first answer came from the index. It reads five
// at a time, as for look-ups: sequentially a hundred would exceed the time limit.
func TestBatch_Repeated_ReadsFiveAtATime(t *testing.T) {
	step := &inStep{gather: make(chan struct{})}
	s := start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) { step.Brands, d.Brands = d.Brands, step }
	})
	identifiers := numbered("known-%d.com", 7)
	for _, domain := range identifiers {
		s.known(domain, record("known"))
	}
	c := s.account(plan.Growth, 7)
	first := c.asksOnce("k", identifiers...)
	first.ok(t)
	step.mu.Lock()
	step.still = 5
	step.mu.Unlock()
	second := c.asksOnce("k", identifiers...)
	if string(second.body) != string(first.body) || len(c.books().charges) != 7 {
		t.Errorf("%d charges\n%s\nafter\n%s", len(c.books().charges), second.body, first.body)
	}
}
