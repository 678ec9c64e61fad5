package commands

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/commands/streamwriter"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// leaves charges for a caller who leaves as soon as the charge is durable. After that the log is unavailable.
func (w *world) leaves(d *AccountWriter, id string) (request string) {
	w.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	in := w.lookup(id)
	w.log.set(func(f *faults) {
		f.after = func(a sentAppend, err error) error {
			if a.events[0].Metadata.RequestID == in.Request.ID {
				cancel()
				w.log.set(func(f *faults) { f.before = func(sentAppend) error { return unavailable() } })
			}
			return err
		}
	})
	w.fails(context.Canceled)(d.ChargeLookup(ctx, in))
	return in.Request.ID
}

func (w *world) restoreLog() { w.log.set(func(f *faults) { f.before, f.after = nil, nil }) }

// Compensations are retried by the clock, not by the number of other requests.
func TestCompensation_OutageUnderTraffic_IsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d, id := opened(t, 0)
		gone := w.leaves(d, id)
		for range 200 {
			w.fails(eventlog.ErrUnavailable)(d.ChargeLookup(t.Context(), w.lookup(id)))
			time.Sleep(10 * time.Microsecond)
		}
		time.Sleep(streamwriter.CompensateWithin - 5*time.Second)
		w.restoreLog()
		time.Sleep(2 * streamwriter.MaxCompensationPause)
		synctest.Wait()
		if l := w.ledger(id); l.balance != 50 || l.reversed[gone] != 1 {
			t.Fatalf("balance %d, reversed %v", l.balance, l.reversed)
		}
	})
}

// After a limited number of attempts in an endless outage the compensation is left to an operator, and the actor may
// leave memory.
func TestCompensation_RetriesExhausted_IsLeftToOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.writer(AccountWriterConfig{Config: streamwriter.Config{IdleAfter: time.Second}})
		id := w.opened(d, 0)
		before := w.log.appends.Load()
		gone := w.leaves(d, id)
		time.Sleep(streamwriter.CompensateWithin + 10*time.Second)
		synctest.Wait()
		if n := w.log.appends.Load() - before; n < 60 || n > 200 {
			t.Errorf("%d attempts in a minute", n)
		}
		if n := d.accounts.Live(); n != 0 {
			t.Errorf("%d accounts in memory, want 0", n)
		}
		w.restoreLog()
		if l := w.ledger(id); l.reversed[gone] != 0 || l.charges[gone] != 1 {
			t.Errorf("ledger %+v, want one charge of %s and no reversal", l, gone)
		}
	})
}

// Clients leave when the queue is full, so compensations must bypass it. They also survive an outage of the log at that
// time.
func TestReverseUndelivered_FullQueue_IsAccepted(t *testing.T) {
	w := newWorld(t)
	d := w.writer(AccountWriterConfig{Config: streamwriter.Config{MaxQueue: 2}})
	id := w.opened(d, 0)
	in := w.lookup(id)
	receipt := w.charged(d, in)
	g := newGate()
	var once sync.Once
	failures := 3
	w.log.set(func(f *faults) {
		f.before = func(a sentAppend) error {
			once.Do(g.pass)
			if a.events[0].Type == (eventschemas.ChargeReversed{}).EventType() && failures > 0 {
				failures--
				return unavailable()
			}
			return nil
		}
	})
	var wg sync.WaitGroup
	wg.Go(func() { w.charge(d, id) })
	<-g.reached
	for i := range 2 {
		wg.Go(func() { _, _ = d.ChargeLookup(context.Background(), w.lookup(id)) }) // may share an append that fails
		w.awaitQueued(d, id, i+1)
	}
	w.fails(ErrBusy)(d.ChargeLookup(t.Context(), w.lookup(id)))
	back := UndeliveredCharge{Request: in.Request, AccountID: id, Receipt: receipt}
	for range 3 { // more than the queue accepts; repeats change nothing
		w.must(d.ReverseUndelivered(back))
	}
	close(g.open)
	wg.Wait()
	w.drain(d)
	if l := w.ledger(id); l.reversed[in.Request.ID] != 1 || failures != 0 {
		t.Fatalf("reversed %v, %d failures left", l.reversed, failures)
	}
	w.failed(d.ReverseUndelivered(back), ErrBusy)
}

func TestReverseUndelivered_TooMany_IsBusy(t *testing.T) {
	w, d, id := opened(t, 0)
	in := w.lookup(id)
	receipt := w.charged(d, in)
	back := UndeliveredCharge{Request: in.Request, AccountID: id, Receipt: receipt}
	w.failed(d.ReverseUndelivered(UndeliveredCharge{AccountID: id, Receipt: receipt}), ErrInvalidRequest)
	g := w.blockAppend()
	var wg sync.WaitGroup
	wg.Go(func() { w.charge(d, id) })
	<-g.reached
	for range streamwriter.MaxSubmitted {
		w.must(d.ReverseUndelivered(back))
	}
	w.failed(d.ReverseUndelivered(back), ErrBusy)
	close(g.open)
	wg.Wait()
	w.drain(d)
	if l := w.ledger(id); l.balance != 49 || l.reversed[in.Request.ID] != 1 {
		t.Errorf("balance %d, reversed %v", l.balance, l.reversed)
	}
}

// Two requests with one idempotency key share a group, and callers leave. The repeat keeps the charge in the same
// append, before it is known which callers receive the answer. If none does, the answer stays available under the key.
func TestRepeat_KeepsChargeOfCallerWhoLeft(t *testing.T) {
	for name, bothLeave := range map[string]bool{"the repeat is answered": false, "both leave": true} {
		t.Run(name, func(t *testing.T) {
			w, d, id := opened(t, 0)
			ctx, cancel := context.WithCancel(t.Context())
			first, second := w.lookup(id), w.lookup(id)
			first.Once, second.Once = onceOf(1, 2), onceOf(1, 2)
			w.runTogetherWith(d, id, 2, func(f *faults) {
				f.after = func(a sentAppend, err error) error {
					if a.events[0].Metadata.RequestID == first.Request.ID {
						cancel()
					}
					return err
				}
			}, func(i int) {
				if i == 0 {
					if _, err := d.ChargeLookup(ctx, first); !errors.Is(err, context.Canceled) {
						t.Errorf("first: %v", err)
					}
					return
				}
				its := context.Background()
				if bothLeave {
					its = ctx
				}
				if receipt, err := d.ChargeLookup(its, second); !bothLeave && (err != nil || !receipt.Repeated) {
					t.Errorf("second: %+v, %v", receipt, err)
				}
			})
			back, err := d.Recall(context.Background(), Recall{Request: w.request(), AccountID: id, Once: *first.Once})
			if err != nil || len(back) != 1 {
				t.Errorf("recalled %+v, %v", back, err)
			}
			w.drain(d)
			if l := w.ledger(id); len(l.reversed) != 0 || l.charges[first.Request.ID] != 1 || l.charges[second.Request.ID] != 0 || l.standingCharges() != 2 {
				t.Fatalf("charges %v, reversed %v", l.charges, l.reversed)
			}
		})
	}
}

// The same if the first answer turns out to be undeliverable only after the repeat was answered. The receipt of the
// repeat reverses nothing.
func TestReverseUndelivered_AnsweredRepeat_KeepsCharge(t *testing.T) {
	w, d, id := opened(t, 0)
	in := w.lookup(id)
	in.Once = onceOf(1, 2)
	first := w.charged(d, in)
	again := in
	again.Request = w.request()
	second, err := d.ChargeLookup(t.Context(), again)
	if err != nil || !second.Repeated || !second.At.Equal(first.At) {
		t.Fatalf("second %+v, %v", second, err)
	}
	for request, receipt := range map[Request]Receipt{again.Request: second, in.Request: first} {
		w.must(d.ReverseUndelivered(UndeliveredCharge{Request: request, AccountID: id, Receipt: receipt}))
	}
	w.drain(d)
	if l := w.ledger(id); l.balance != 49 || len(l.reversed) != 0 {
		t.Fatalf("balance %d, reversed %v, want 49 and none", l.balance, l.reversed)
	}
}

// A request that is repeated without a key or a hold is charged once, even by a writer that loads a
// snapshot, and one that was reversed is not answered again.
func TestChargeLookup_SameRequest_ChargesOnce(t *testing.T) {
	w := newWorld(t)
	kept := newMemorySnapshots()
	d := w.writer(AccountWriterConfig{Config: streamwriter.Config{SnapshotEvery: 1}}, kept)
	id := w.opened(d, 0)
	in := w.lookup(id)
	first := w.charged(d, in)
	w.drain(d)
	next := w.writer(AccountWriterConfig{}, kept)
	again, err := next.ChargeLookup(t.Context(), in)
	if err != nil || !again.Repeated || again.ChargeID != first.ChargeID || again.Revision != first.Revision || again.Balance != 49 {
		t.Fatalf("again %+v, %v", again, err)
	}
	w.must(next.ReverseUndelivered(UndeliveredCharge{Request: in.Request, AccountID: id, Receipt: first}))
	w.drain(next)
	if l := w.ledger(id); l.balance != 49 || l.charges[in.Request.ID] != 1 || len(l.reversed) != 0 {
		t.Fatalf("ledger %+v, want balance 49, one charge and no reversal", l)
	}
}
