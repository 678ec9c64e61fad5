package commands

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
)

// twoNodes are writers of two nodes on one log.
func twoNodes(w *world) (here, there *AccountWriter) {
	w.Helper()
	return w.writer(AccountWriterConfig{Config: streamwriter.Config{Shared: true}}), w.writer(AccountWriterConfig{Config: streamwriter.Config{Shared: true}})
}

// batched returns a charge for one domain of a batch.
func (w *world) batched(id, domain string, key, request byte) ChargeLookup {
	in := w.lookup(id)
	in.Domain, in.Once = domain, onceOf(key, request)
	in.Once.Item = domain
	return in
}

func (w *world) recall(d *AccountWriter, id string, once *Once) []Receipt {
	w.Helper()
	got := testmust.Get(d.Recall(context.Background(), Recall{Request: w.request(), AccountID: id, Once: *once}))(w)
	return got
}

// kept counts the ChargeKept events of a stream, by charge.
func (w *world) kept(id string) map[string]int {
	w.Helper()
	out := map[string]int{}
	_, events := w.events(id)
	for _, ev := range events {
		if k, ok := ev.(eventschemas.ChargeKept); ok {
			out[k.ChargeID]++
		}
	}
	return out
}

// reverse reverses a charge and waits for the decision.
func (w *world) reverse(d *AccountWriter, id string, request Request, receipt Receipt) {
	w.Helper()
	w.must(d.ReverseUndelivered(UndeliveredCharge{Request: request, AccountID: id, Receipt: receipt}))
	w.waitFor(func() bool {
		rests := false
		err := d.accounts.With(id, func(a *accountActor) { rests = a.Idle() })
		return err == nil && rests
	})
}

func TestRecall_ReturnsUnreversedChargesOfKey(t *testing.T) {
	w, d, id := opened(t, 0)
	once := onceOf(1, 2)
	if got := w.recall(d, id, once); got != nil {
		t.Fatalf("recalled %+v of an unused key", got)
	}
	var first []Receipt
	for _, domain := range []string{"one.com", "two.com", "three.com"} {
		receipt, err := d.ChargeLookup(t.Context(), w.batched(id, domain, 1, 2))
		if err != nil || receipt.Repeated {
			t.Fatalf("%+v, %v", receipt, err)
		}
		first = append(first, receipt)
	}
	w.charge(d, id)
	w.reverse(d, id, w.request(), first[1])
	appends, reads := w.log.appends.Load(), w.log.reads.Load()
	for range 2 { // the second call has nothing to keep
		got := w.recall(d, id, once)
		if len(got) != 2 {
			t.Fatalf("recalled %+v, want 2 charges", got)
		}
		for i, was := range []Receipt{first[0], first[2]} {
			want := was
			want.Repeated, want.Balance, want.Remaining, want.Position = true, 47, 47, got[i].Position
			if got[i] != want || got[i].Position <= was.Position {
				t.Errorf("recalled %+v, want %+v", got[i], want)
			}
		}
	}
	if a, r := w.log.appends.Load()-appends, w.log.reads.Load()-reads; a != 1 || r != 0 {
		t.Errorf("two recalls took %d appends and %d reads", a, r)
	}
	if kept := w.kept(id); len(kept) != 2 || kept[first[0].ChargeID] != 1 || kept[first[2].ChargeID] != 1 {
		t.Errorf("kept %v", kept)
	}
	w.reverse(d, id, w.request(), first[0])
	if l := w.ledger(id); l.balance != 47 {
		t.Errorf("balance = %d, want 47", l.balance)
	}
	_, err := d.Recall(t.Context(), Recall{Request: w.request(), AccountID: id, Once: *onceOf(1, 3)})
	if !errors.Is(err, account.ErrIdempotencyMismatch) {
		t.Errorf("another request: %v", err)
	}
	w.fails(account.ErrIdempotencyMismatch)(d.ChargeLookup(t.Context(), w.batched(id, "four.com", 1, 3)))
	w.fails(ErrInvalidRequest)(d.Recall(t.Context(), Recall{AccountID: id, Once: *once}))
	w.fails(account.ErrNotFound)(d.Recall(t.Context(), Recall{Request: w.request(), AccountID: "nobody", Once: *once}))
}

// One append keeps all charges that a key can cover, even with the longest request id.
func TestRecall_AllItems_IsOneAppend(t *testing.T) {
	w, d, id := opened(t, 2*account.MaxKeyItems)
	var wg sync.WaitGroup
	for i := range account.MaxKeyItems {
		wg.Go(func() {
			if _, err := d.ChargeLookup(context.Background(), w.batched(id, fmt.Sprintf("d%d.com", i), 1, 2)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	w.fails(account.ErrInvalid)(d.ChargeLookup(t.Context(), w.batched(id, "another.com", 1, 2)))
	long := strings.Repeat("x", streamwriter.MaxRequestText)
	appends := w.log.appends.Load()
	got, err := d.Recall(t.Context(), Recall{Request: Request{ID: long, Actor: long, CorrelationID: long, CausationID: long}, AccountID: id, Once: *onceOf(1, 2)})
	if err != nil || len(got) != account.MaxKeyItems {
		t.Fatalf("recalled %d, %v", len(got), err)
	}
	recs, _ := w.events(id)
	size := 0
	for _, rec := range recs[len(recs)-account.MaxKeyItems:] {
		size += len(rec.Data) + 4*streamwriter.MaxRequestText + len(rec.Metadata.Hash)
	}
	if n := w.log.appends.Load() - appends; n != 1 || streamwriter.MaxGroupBytes+size > eventlog.MaxAppendBytes {
		t.Errorf("%d appends of %d bytes", n, size)
	}
}

// A charge stores half a hash of the key and half of the item: keys and items are distinct, and all
// items of a key share a prefix.
func TestOnce_Hashes_KeepHalfForTheKey(t *testing.T) {
	hash := func(key, item string) string {
		h, _ := (&Once{Key: sha256.Sum256([]byte(key)), Item: item}).hashes()
		return h
	}
	if h := hash("k", ""); h != hashHex("k")[:32]+hashHex("")[:32] {
		t.Errorf("hash %s", h)
	}
	if hash("k", "a.com")[:32] != hash("k", "b.com")[:32] || hash("k", "a.com") == hash("k", "b.com") || hash("k", "a.com")[:32] == hash("l", "a.com")[:32] {
		t.Error("keys or items share a hash")
	}
	if key, request := (*Once)(nil).hashes(); key != "" || request != "" {
		t.Errorf("without a key: %q, %q", key, request)
	}
}

// A charge of one node is immediately recalled on another, even if that has an older state of the account in memory.
func TestRecall_ChargeOfOtherNode_IsSeen(t *testing.T) {
	w := newWorld(t)
	here, there := twoNodes(w)
	id := w.opened(here, 0)
	once := onceOf(1, 2)
	for _, domain := range []string{"one.com", "two.com"} {
		before := w.recall(there, id, once) // loads the account in its earlier state
		in := w.batched(id, domain, 1, 2)
		receipt := w.charged(here, in)
		got := w.recall(there, id, once)
		if len(got) != len(before)+1 || got[len(before)].ChargeID != receipt.ChargeID || got[len(before)].Domain != domain {
			t.Fatalf("recalled %+v after %+v", got, before)
		}
		w.reverse(here, id, in.Request, receipt)
		w.fails(account.ErrIdempotencyMismatch)(there.Recall(t.Context(), Recall{Request: w.request(), AccountID: id, Once: *onceOf(1, 9)}))
	}
	if l := w.ledger(id); l.balance != 48 || len(l.reversed) != 0 {
		t.Fatalf("balance %d, reversed %v, want 48 and none", l.balance, l.reversed)
	}
}

// A repeat on one node races with the reversal of its first charge on the other. The first event on the stream wins,
// even if the other was decided before. Recall is also a repeat.
func TestReverseUndelivered_RepeatOnOtherNode_FirstEventDecides(t *testing.T) {
	repeats := map[string]func(w *world, d *AccountWriter, id string, in ChargeLookup) (answered []Receipt){
		"charge": func(w *world, d *AccountWriter, id string, in ChargeLookup) []Receipt {
			in.Request = w.request()
			receipt, err := d.ChargeLookup(context.Background(), in)
			if err != nil {
				w.Error(err)
			}
			return []Receipt{receipt}
		},
		"recall": func(w *world, d *AccountWriter, id string, in ChargeLookup) []Receipt {
			got, err := d.Recall(context.Background(), Recall{Request: w.request(), AccountID: id, Once: *in.Once})
			if err != nil {
				w.Error(err)
			}
			return got
		},
	}
	// before runs first once, when an append of this type is about to be sent.
	before := func(w *world, eventType string, first func()) {
		var once sync.Once
		w.log.set(func(f *faults) {
			f.before = func(a sentAppend) error {
				if a.events[0].Type == eventType {
					once.Do(first)
				}
				return nil
			}
		})
	}
	for name, repeat := range repeats {
		for order, c := range map[string]struct {
			kept bool
			run  func(w *world, again func(), back func())
		}{
			"repeat, then reversal": {true, func(_ *world, again, back func()) { again(); back() }},
			"reversal, then repeat": {false, func(_ *world, again, back func()) { back(); again() }},
			"repeat while the reversal is sent": {true, func(w *world, again, back func()) {
				before(w, eventschemas.ChargeReversed{}.EventType(), again)
				back()
			}},
			"reversal while the repeat is sent": {false, func(w *world, again, back func()) {
				before(w, eventschemas.ChargeKept{}.EventType(), back)
				again()
			}},
		} {
			t.Run(name+"/"+order, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				here, there := twoNodes(w)
				id := w.opened(here, 0)
				w.standing(there, id)
				in := w.lookup(id)
				in.Once = onceOf(1, 2)
				receipt := w.charged(here, in)
				var answered []Receipt
				c.run(w, func() { answered = repeat(w, there, id, in) }, func() { w.reverse(here, id, in.Request, receipt) })
				w.restoreLog()
				l := w.ledger(id)
				if l.reversed[in.Request.ID] == 1 == c.kept {
					t.Fatalf("kept %v, reversed %v", w.kept(id), l.reversed)
				}
				again := len(answered) == 1 && answered[0].Repeated && answered[0].ChargeID == receipt.ChargeID
				if again != c.kept {
					t.Errorf("answered %+v from %+v", answered, receipt)
				}
				if want := int64(50 - l.standingCharges()); l.balance != want || l.standingCharges() > 1 || name == "charge" && l.standingCharges() != 1 {
					t.Errorf("balance %d, %d charges remain", l.balance, l.standingCharges())
				}
			})
		}
	}
}

// The same as above, but the writer detects that its caller has left.
func TestRepeat_OnOtherNode_KeepsChargeOfCallerWhoLeft(t *testing.T) {
	w := newWorld(t)
	here, there := twoNodes(w)
	id := w.opened(here, 0)
	ctx, cancel := context.WithCancel(t.Context())
	in := w.lookup(id)
	in.Once = onceOf(1, 2)
	again := in
	again.Request = w.request()
	w.log.set(func(f *faults) {
		f.after = func(a sentAppend, err error) error {
			if a.events[0].Metadata.RequestID == in.Request.ID && a.events[0].Type == (eventschemas.CreditsCharged{}).EventType() {
				if receipt, err := there.ChargeLookup(context.Background(), again); err != nil || !receipt.Repeated {
					t.Errorf("there: %+v, %v", receipt, err)
				}
				cancel()
			}
			return err
		}
	})
	w.fails(context.Canceled)(here.ChargeLookup(ctx, in))
	w.drain(here)
	if l := w.ledger(id); l.balance != 49 || len(l.reversed) != 0 {
		t.Fatalf("balance %d, reversed %v, want 49 and none", l.balance, l.reversed)
	}
}

// Repeats, recalls and reversals of one key race on two nodes. Answered charges remain, reversed ones
// were answered to no other caller, and at most one charge is in force at any time.
func TestReverseUndelivered_RacingRepeats_NeverBothSucceed(t *testing.T) {
	w := newWorld(t)
	here, there := twoNodes(w)
	id := w.opened(here, 0)
	for round := range 40 {
		in := w.lookup(id)
		in.Once = onceOf(byte(round), 2)
		first := w.charged(here, in)
		var repeated Receipt
		var recalled []Receipt
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := here.ReverseUndelivered(UndeliveredCharge{Request: in.Request, AccountID: id, Receipt: first}); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			again := in
			again.Request = w.request()
			var err error
			if repeated, err = there.ChargeLookup(context.Background(), again); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() { recalled = w.recall([]*AccountWriter{here, there}[round%2], id, in.Once) })
		wg.Wait()
		w.reverse(here, id, in.Request, first)
		l := w.ledger(id)
		for _, r := range append(recalled, repeated) {
			if reversed := l.reversed[in.Request.ID] > 0; r.ChargeID == first.ChargeID && reversed {
				t.Fatalf("round %d: %+v was answered and reversed", round, r)
			}
		}
		if l.standingCharges() != round+1 || l.balance != int64(50-l.standingCharges()) {
			t.Fatalf("round %d: %d charges remain, balance %d", round, l.standingCharges(), l.balance)
		}
	}
	for id, n := range w.kept(id) {
		if n != 1 {
			t.Errorf("%s was kept %d times", id, n)
		}
	}
}

// Kept charges and the request of a key survive the writer, with and without a snapshot.
func TestKeptCharge_Restart_IsStillKept(t *testing.T) {
	for name, kept := range map[string]*memorySnapshots{"snapshot": newMemorySnapshots(), "stream": nil} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			open := func(cfg AccountWriterConfig) *AccountWriter {
				if kept == nil {
					return w.writer(cfg)
				}
				return w.writer(cfg, kept)
			}
			d := open(AccountWriterConfig{Config: streamwriter.Config{SnapshotEvery: 1}})
			id := w.opened(d, 0)
			var ins [2]ChargeLookup
			var receipts [2]Receipt
			for i, domain := range []string{"one.com", "two.com"} {
				var err error
				ins[i] = w.batched(id, domain, 1, 2)
				if receipts[i], err = d.ChargeLookup(t.Context(), ins[i]); err != nil {
					t.Fatal(err)
				}
			}
			again := ins[0]
			again.Request = w.request()
			if receipt, err := d.ChargeLookup(t.Context(), again); err != nil || !receipt.Repeated {
				t.Fatalf("%+v, %v", receipt, err)
			}
			recs, _ := w.events(id)
			keptAt := recs[len(recs)-1].Revision
			// Events that add nothing to remember; otherwise the account is not worth a snapshot.
			for _, to := range []plan.ID{plan.Growth, plan.Free, plan.Growth, plan.Free, plan.Growth, plan.Free, plan.Growth} {
				w.ok(d.ChangePlan(t.Context(), ChangePlan{Request: w.request(), AccountID: id, Plan: to}))
			}
			w.drain(d)
			if kept != nil && kept.kept[account.Stream(id)].revision < keptAt {
				t.Fatalf("the snapshot is of revision %d, the charge was kept at %d", kept.kept[account.Stream(id)].revision, keptAt)
			}
			next := open(AccountWriterConfig{})
			w.fails(account.ErrIdempotencyMismatch)(next.ChargeLookup(t.Context(), w.batched(id, "three.com", 1, 3)))
			for i := range ins {
				w.reverse(next, id, ins[i].Request, receipts[i])
			}
			if l := w.ledger(id); l.reversed[ins[0].Request.ID] != 0 || l.reversed[ins[1].Request.ID] != 1 {
				t.Errorf("reversed %v", l.reversed)
			}
			if got := w.recall(next, id, ins[1].Once); len(got) != 1 || got[0].ChargeID != receipts[0].ChargeID {
				t.Errorf("recalled %+v, want charge %s", got, receipts[0].ChargeID)
			}
		})
	}
}

// A reversal after its window is left to an operator. It is counted, not dropped silently.
func TestReverseUndelivered_TooLate_IsLeftToOperator(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	now := time.Date(2026, 11, 3, 9, 30, 0, 0, time.UTC)
	registry := prometheus.NewRegistry()
	d := w.writer(AccountWriterConfig{Config: streamwriter.Config{Registerer: registry, Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}}})
	id := w.opened(d, 0)
	in := w.lookup(id)
	receipt := w.charged(d, in)
	mu.Lock()
	now = now.Add(account.UndeliveredWindow)
	mu.Unlock()
	w.reverse(d, id, in.Request, receipt)
	if l, n := w.ledger(id), counted(t, registry, "letterhead_desk_not_handed_back_total"); l.balance != 49 || n != 1 {
		t.Errorf("balance %d, %v not compensated", l.balance, n)
	}
	_, err := d.ReverseCharge(t.Context(), ReverseCharge{Request: w.request(), AccountID: id, ChargeID: receipt.ChargeID, Revision: receipt.Revision, Reason: account.ReasonOperator})
	if l := w.ledger(id); err != nil || l.balance != 50 {
		t.Errorf("a reversal by an operator: %v, balance %d, want 50", err, l.balance)
	}
	// The writer's own compensations and ambiguous appends end within the window, with a minute for clocks that differ.
	if late := streamwriter.AmbiguousUnreadFor + streamwriter.CompensateWithin + streamwriter.AmbiguousFor; late > account.UndeliveredWindow {
		t.Errorf("a late compensation may come after %s", late)
	}
}
