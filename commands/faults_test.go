package commands

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
)

// runTogether queues n commands behind one that is blocked in its append, so that they form one group,
// and returns when all have run.
func (w *world) runTogether(d *AccountWriter, id string, n int, run func(i int)) {
	w.Helper()
	w.runTogetherWith(d, id, n, func(*faults) {}, run)
}

// Rule 3.
func TestGroup_RejectedCommand_OthersSucceed(t *testing.T) {
	w, d, id := openedWith(t, 4)
	held := w.hold(d, id, time.Minute) // 3 left, one for the command that blocks the group
	appends := w.log.appends.Load()
	errs := make([]error, 8)
	w.runTogether(d, id, len(errs), func(i int) {
		in := w.lookup(id)
		switch i {
		case 1:
			in.Domain = "" // malformed
		case 3:
			in.HoldID = "nobody knows"
		case 5:
			in.HoldID = held.ID
		case 6:
			_, errs[i] = d.GrantCredits(context.Background(), GrantCredits{Request: w.request(), AccountID: id, Kind: "topup", Credits: 1, PaymentID: "p"})
			return
		}
		_, errs[i] = d.ChargeLookup(context.Background(), in)
	})
	want := []error{nil, account.ErrInvalid, nil, account.ErrUnknownHold, account.ErrInsufficientCredits, nil, nil, nil}
	for i, err := range errs {
		if !errors.Is(err, want[i]) {
			t.Errorf("member %d: %v, want %v", i, err, want[i])
		}
	}
	// The last one spends the credit that the previous one granted. One append for the group.
	if n := w.log.appends.Load() - appends; n != 2 {
		t.Errorf("%d appends, want the first and one for the group", n)
	}
	if l := w.ledger(id); l.balance != 0 || l.minimum < 0 || l.available < 0 {
		t.Errorf("ledger %+v, want balance 0 and never less than 0", l)
	}
}

func TestRefusal_ManyWaiting_ShareOneRead(t *testing.T) {
	w, d, id := openedWith(t, 1)
	reads := w.log.reads.Load()
	const callers = 100
	var wg sync.WaitGroup
	w.runTogether(d, id, callers, func(int) {
		if _, err := d.Reserve(context.Background(), id, ""); !errors.Is(err, account.ErrInsufficientCredits) {
			t.Errorf("reserve: %v", err)
		}
	})
	wg.Wait()
	// One credit is charged by the command that blocks the group, so every Reserve was queued while
	// its outcome was open. The whole group was rejected after one read.
	if n := w.log.reads.Load() - reads; n != 1 {
		t.Fatalf("%d reads for %d rejections", n, callers)
	}
}

// Rule 3.
func TestConflict_IsDecidedAgain(t *testing.T) {
	w := newWorld(t)
	d, other := w.writer(AccountWriterConfig{}), w.writer(AccountWriterConfig{})
	id := w.openedWith(d, 5)
	// Before each of the writer's first three appends the other writer takes a credit.
	conflicts := 3
	w.log.set(func(f *faults) {
		f.before = func(a sentAppend) error {
			if a.events[0].Metadata.RequestID == "mine" && conflicts > 0 {
				conflicts--
				w.charge(other, id)
			}
			return nil
		}
	})
	in := w.lookup(id)
	in.Request.ID = "mine"
	receipt, err := d.ChargeLookup(t.Context(), in)
	if err != nil || receipt.Balance != 1 {
		t.Fatalf("receipt %+v, %v, want balance 1", receipt, err)
	}
	// Now it loses the last credit to the conflict: when decided again, it is rejected.
	conflicts = 1
	in.Domain = "acme.org"
	w.fails(account.ErrInsufficientCredits)(d.ChargeLookup(t.Context(), in))
	if l := w.ledger(id); l.balance != 0 || l.minimum < 0 || l.charges["mine"] != 1 {
		t.Fatalf("ledger %+v, want balance 0, never less, and one charge of mine", l)
	}
}

// Rule 3.
func TestConflict_WithoutEnd_IsBusy(t *testing.T) {
	w := newWorld(t)
	d := w.writer(AccountWriterConfig{Config: streamwriter.Config{ResolveWithin: 5 * time.Millisecond}})
	id := w.opened(d, 0)
	w.log.set(func(f *faults) {
		f.before = func(a sentAppend) error { return &eventlog.WrongRevisionError{Stream: a.stream, Expected: a.expected} }
	})
	in := w.lookup(id)
	in.Reservation = w.reserve(d, id)
	if _, err := d.ChargeLookup(t.Context(), in); !errors.Is(err, ErrBusy) || errors.Is(err, ErrUnknownOutcome) {
		t.Fatalf("charge: %v", err)
	}
	w.log.set(func(f *faults) { f.before = nil })
	if s := w.standing(d, id); s.Balance != 50 || s.Available != 50 {
		t.Fatalf("standing %+v, want balance 50 and available 50", s)
	}
	w.charge(d, id)
}

func TestAppend_UnavailableLog_ChargesNothing(t *testing.T) {
	w, d, id := opened(t, 0)
	w.log.set(func(f *faults) { f.before = func(sentAppend) error { return unavailable() } })
	r := w.reserve(d, id)
	in := w.lookup(id)
	in.Reservation = r
	if _, err := d.ChargeLookup(t.Context(), in); !errors.Is(err, eventlog.ErrUnavailable) || errors.Is(err, ErrBusy) {
		t.Fatalf("charge: %v", err)
	}
	w.log.set(func(f *faults) { f.before = func(sentAppend) error { return context.DeadlineExceeded } })
	// A deadline of the store is not one of the caller.
	if _, err := d.ChargeLookup(t.Context(), w.lookup(id)); !errors.Is(err, eventlog.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("charge: %v", err)
	}
	w.log.set(func(f *faults) { f.before = nil })
	if s := w.standing(d, id); s.Balance != 50 || s.Available != 50 {
		t.Fatalf("standing %+v, want balance 50 and available 50", s)
	}
	w.charge(d, id)
}

func TestLoad_UnreadableLog_DecidesNothing(t *testing.T) {
	w, d, id := openedWith(t, 0)
	fresh := w.writer(AccountWriterConfig{})
	w.log.set(func(f *faults) { f.reading = func(string) error { return unavailable() } })
	for _, writer := range []*AccountWriter{d, fresh} {
		w.fails(eventlog.ErrUnavailable)(writer.Reserve(t.Context(), id, ""))
	}
	w.log.set(func(f *faults) { f.reading = nil })
	w.grant(d, id, 2)
	w.charge(fresh, id)
	w.charge(d, id)
}

// Rule 3.
func TestAmbiguousAppend_IsRepeatedUnchanged(t *testing.T) {
	for name, stored := range map[string]bool{"the reply was lost": true, "the request was lost": false} {
		t.Run(name, func(t *testing.T) {
			w, d, id := openedWith(t, 6)
			lost := 3
			var sent []sentAppend
			fault := func(a sentAppend) error {
				if len(a.events) < 2 {
					return nil
				}
				sent = append(sent, a)
				if lost--; lost >= 0 {
					return ambiguous()
				}
				return nil
			}
			var receipts [4]Receipt
			before := w.log.appends.Load()
			w.runTogetherWith(d, id, len(receipts), func(f *faults) {
				if stored {
					f.after = func(a sentAppend, err error) error { return errors.Join(err, fault(a)) }
				} else {
					f.before = fault
				}
			}, func(i int) {
				var err error
				if receipts[i], err = d.ChargeLookup(context.Background(), w.lookup(id)); err != nil {
					t.Error(err)
				}
			})
			if n := w.log.appends.Load() - before; n != 5 {
				t.Errorf("%d appends, want the first, an ambiguous one and its three repeats", n)
			}
			for _, again := range sent[1:] {
				if again.expected != sent[0].expected || len(again.events) != len(sent[0].events) {
					t.Fatalf("repeated as %d events at %s, was %d at %s", len(again.events), again.expected, len(sent[0].events), sent[0].expected)
				}
				for i := range again.events {
					if again.events[i].ID != sent[0].events[i].ID {
						t.Fatalf("event %d has another id", i)
					}
				}
			}
			if l := w.ledger(id); l.balance != 1 || len(l.reversed) != 0 {
				t.Errorf("ledger %+v, want balance 1 and 0 reversed", l)
			}
		})
	}
}

// runTogetherWith is runTogether with faults that start with the group.
func (w *world) runTogetherWith(d *AccountWriter, id string, n int, begin func(f *faults), run func(i int)) {
	w.Helper()
	g := w.blockAppend()
	var wg sync.WaitGroup
	wg.Go(func() { w.charge(d, id) })
	<-g.reached
	for i := range n {
		wg.Go(func() { run(i) })
		w.awaitQueued(d, id, i+1)
	}
	w.log.set(func(f *faults) {
		f.before = nil
		begin(f)
	})
	close(g.open)
	wg.Wait()
	w.log.set(func(f *faults) { f.before, f.after = nil, nil })
}

func TestAmbiguousAppend_OtherWriterTookRevision_IsDecidedAgain(t *testing.T) {
	w := newWorld(t)
	d, other := w.writer(AccountWriterConfig{}), w.writer(AccountWriterConfig{})
	id := w.openedWith(d, 2)
	first := true
	w.log.set(func(f *faults) {
		f.before = func(a sentAppend) error {
			if a.events[0].Metadata.RequestID != "mine" || !first {
				return nil
			}
			first = false
			w.charge(other, id)
			return ambiguous() // it did not land, and never will
		}
	})
	in := w.lookup(id)
	in.Request.ID = "mine"
	receipt, err := d.ChargeLookup(t.Context(), in)
	if err != nil || receipt.Balance != 0 {
		t.Fatalf("receipt %+v, %v, want balance 0", receipt, err)
	}
	if l := w.ledger(id); l.balance != 0 || l.charges["mine"] != 1 {
		t.Fatalf("ledger %+v, want balance 0 and one charge of mine", l)
	}
}

// The outcome stays unknown beyond the limit, and the caller gets ErrUnknownOutcome. A charge that was stored,
// immediately or late, is reversed. A charge that was not stored is not.
func TestAmbiguousAppend_OutcomeStaysUnknown_IsCompensated(t *testing.T) {
	for _, c := range []struct {
		name                   string
		stored, late, shutdown bool
	}{
		{name: "it was stored", stored: true},
		{name: "it was never stored"},
		{name: "it is stored late", late: true},
		{name: "it was stored, and no command before the shutdown", stored: true, shutdown: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			d := w.writer(AccountWriterConfig{Config: streamwriter.Config{KnowWithin: 3 * time.Millisecond}})
			id := w.openedWith(d, 3)
			var lost sentAppend
			w.log.set(func(f *faults) {
				f.before = func(a sentAppend) error {
					lost = a
					if c.stored {
						if _, err := w.log.Log.Append(a.ctx, a.stream, a.expected, a.events); err != nil {
							t.Error(err)
						}
					}
					return ambiguous()
				}
			})
			in := w.lookup(id)
			in.Reservation = w.reserve(d, id)
			_, err := d.ChargeLookup(t.Context(), in)
			if !errors.Is(err, ErrUnknownOutcome) || !errors.Is(err, ErrBusy) {
				t.Fatalf("charge: %v", err)
			}
			w.log.set(func(f *faults) { f.before = nil })
			if c.late {
				w.ok(w.log.Log.Append(context.Background(), lost.stream, lost.expected, lost.events))
			}
			if c.shutdown {
				w.drain(d)
				d = w.writer(AccountWriterConfig{})
			}
			w.charge(d, id) // the next command makes the actor check the stream
			w.drain(d)
			l := w.ledger(id)
			if l.balance != 2 || l.standingCharges() != 48 || l.charges[in.Request.ID] != l.reversed[in.Request.ID] {
				t.Fatalf("ledger: balance %d, %d charges remain, of the ambiguous %d charged and %d reversed", l.balance, l.standingCharges(), l.charges[in.Request.ID], l.reversed[in.Request.ID])
			}
			if stored := c.stored || c.late; stored != (l.charges[in.Request.ID] == 1) {
				t.Fatalf("%d charges of the ambiguous append, stored = %t", l.charges[in.Request.ID], stored)
			}
		})
	}
}

// Without further commands the actor checks the stream again and reverses the charge that was stored.
func TestAmbiguousAppend_NoTraffic_IsResolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.writer(AccountWriterConfig{Config: streamwriter.Config{KnowWithin: time.Millisecond}})
		id := w.openedWith(d, 3)
		w.log.set(func(f *faults) {
			f.after = func(a sentAppend, err error) error {
				if a.events[0].Type == "ChargeReversed" {
					return err
				}
				return ambiguous()
			}
		})
		w.fails(ErrUnknownOutcome)(d.ChargeLookup(t.Context(), w.lookup(id)))
		if l := w.ledger(id); l.balance != 2 {
			t.Fatalf("ledger %+v, want balance 2: the append is stored", l)
		}
		time.Sleep(2 * streamwriter.CheckAmbiguousEvery)
		synctest.Wait()
		if l := w.ledger(id); l.balance != 3 {
			t.Fatalf("ledger %+v, want balance 3", l)
		}
	})
}

// While an append is ambiguous every event must be examined, so a snapshot that another writer saved
// beyond it must not be used to load the account again.
func TestAmbiguousAppend_NewerSnapshot_IsResolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		kept := newMemorySnapshots()
		d, other := w.writer(AccountWriterConfig{Config: streamwriter.Config{KnowWithin: time.Millisecond}}, kept), w.writer(AccountWriterConfig{Config: streamwriter.Config{SnapshotEvery: 1}}, kept)
		id := w.openedWith(d, 5)
		w.log.set(func(f *faults) { f.after = func(sentAppend, error) error { return ambiguous() } })
		w.fails(ErrUnknownOutcome)(d.ChargeLookup(t.Context(), w.lookup(id)))
		w.log.set(func(f *faults) { f.after = nil })
		w.charge(other, id)
		<-kept.saved
		// The writer has to load the account again.
		w.log.set(func(f *faults) { f.reading = func(string) error { return eventlog.ErrCorrupt } })
		w.fails(eventlog.ErrCorrupt)(d.Reserve(t.Context(), id, ""))
		w.log.set(func(f *faults) { f.reading = nil })
		time.Sleep(streamwriter.DistrustFor)
		w.reserve(d, id).Drop()
		w.drain(d)
		if l := w.ledger(id); l.balance != 4 || len(l.reversed) != 1 {
			t.Fatalf("balance %d, reversed %v, want 4 and 1", l.balance, l.reversed)
		}
	})
}

// Not every request folds a corrupt stream again; it is checked again later.
func TestLoad_CorruptStream_IsNotFoldedByEveryRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.writer(AccountWriterConfig{})
		id := w.opened(w.writer(AccountWriterConfig{}), 0)
		w.log.set(func(f *faults) { f.reading = func(string) error { return eventlog.ErrCorrupt } })
		rejected := func(times int, reads int64) {
			t.Helper()
			before := w.log.reads.Load()
			for range times {
				if _, err := d.Reserve(t.Context(), id, ""); !errors.Is(err, eventlog.ErrCorrupt) {
					t.Fatal(err)
				}
			}
			if n := w.log.reads.Load() - before; n != reads {
				t.Fatalf("%d reads for %d requests, want %d", n, times, reads)
			}
		}
		rejected(20, 1)
		time.Sleep(streamwriter.DistrustFor)
		rejected(20, 1)
		w.log.set(func(f *faults) { f.reading = nil })
		time.Sleep(streamwriter.DistrustFor)
		w.charge(d, id)
	})
}

// An ambiguous append that is never stored, or whose stream cannot be read, does not keep the account in
// memory forever: the stream is checked for a limited time, and then the append is treated as lost.
func TestAmbiguousAppend_NeverStored_AccountLeavesMemory(t *testing.T) {
	for name, c := range map[string]struct {
		reading error
		within  time.Duration
	}{
		"nothing stored":           {nil, streamwriter.AmbiguousFor},
		"the stream is unreadable": {unavailable(), streamwriter.AmbiguousUnreadFor},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				d := w.writer(AccountWriterConfig{Config: streamwriter.Config{KnowWithin: time.Millisecond, IdleAfter: time.Second}})
				id := w.openedWith(d, 3)
				w.log.set(func(f *faults) { f.before = func(sentAppend) error { return ambiguous() } })
				w.fails(ErrUnknownOutcome)(d.ChargeLookup(t.Context(), w.lookup(id)))
				w.log.set(func(f *faults) { f.before, f.reading = nil, func(string) error { return c.reading } })
				time.Sleep(c.within - 2*streamwriter.CheckAmbiguousEvery)
				synctest.Wait()
				if n := d.accounts.Live(); n != 1 {
					t.Fatalf("%d accounts in memory while an append is ambiguous, want 1", n)
				}
				time.Sleep(4*streamwriter.CheckAmbiguousEvery + 3*time.Second)
				synctest.Wait()
				if n := d.accounts.Live(); n != 0 {
					t.Fatalf("%d accounts in memory, want 0", n)
				}
				w.log.set(func(f *faults) { f.reading = nil })
				w.charge(d, id)
				if l := w.ledger(id); l.balance != 2 {
					t.Fatalf("ledger %+v, want balance 2", l)
				}
			})
		})
	}
}

// A writer dies in the middle of a group whose outcome it does not know. The next writer on the same log continues from
// the stream. A charge without an answer can be found by its request id, and repeating it with the idempotency key does
// not charge again.
// Rule 3.
func TestAmbiguousAppend_Killed_NextWriterChargesOnce(t *testing.T) {
	w := newWorld(t)
	dying, err := NewAccountWriter(AccountWriterConfig{Config: streamwriter.Config{KnowWithin: time.Hour}}, w.log, nil)
	testmust.Succeed(t, err)
	id := w.openedWith(dying, 10)
	requests := make([]ChargeLookup, 6)
	for i := range requests {
		requests[i] = w.lookup(id)
		requests[i].Once = onceOf(byte(i), 9)
	}
	appended := newGate()
	var once sync.Once
	var answers sync.WaitGroup
	answers.Add(len(requests))
	go w.runTogetherWith(dying, id, len(requests), func(f *faults) {
		f.after = func(a sentAppend, err error) error {
			if len(a.events) > 1 {
				once.Do(appended.pass)
				return ambiguous()
			}
			return err
		}
	}, func(i int) {
		defer answers.Done()
		if _, err := dying.ChargeLookup(context.Background(), requests[i]); !errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("a killed writer answered %v", err)
		}
	})
	<-appended.reached
	// The kill: from now on nothing from this writer reaches the log.
	cut, cancel := context.WithCancel(context.Background())
	cancel()
	go func() { appended.open <- struct{}{} }()
	w.failed(dying.Drain(cut), context.Canceled)
	answers.Wait()
	w.log.set(func(f *faults) { f.after = nil })

	next := w.writer(AccountWriterConfig{})
	for _, in := range requests {
		if l := w.ledger(id); l.charges[in.Request.ID] != 1 {
			t.Fatalf("request %s is not found on the ledger", in.Request.ID)
		}
		retry := in
		retry.Request = w.request()
		receipt, err := next.ChargeLookup(t.Context(), retry)
		if err != nil || !receipt.Repeated {
			t.Fatalf("retry: %+v, %v", receipt, err)
		}
	}
	if l := w.ledger(id); l.balance != 10-1-int64(len(requests)) {
		t.Fatalf("balance %d", l.balance)
	}
}

// Rule 4.
func TestOverdueHolds_RacingCaptures_EndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		here, there := w.writer(AccountWriterConfig{}), w.writer(AccountWriterConfig{})
		id := w.openedWith(here, 1)
		capture := func(d *AccountWriter, h Hold) error {
			in := w.lookup(id)
			in.HoldID = h.ID
			_, err := d.ChargeLookup(t.Context(), in)
			return err
		}

		// In time: a capture succeeds, even on the writer that did not place the hold.
		h := w.hold(here, id, 8*time.Second)
		if want := time.Now().Add(68 * time.Second).UTC(); !h.Deadline.Equal(want) {
			t.Fatalf("deadline %s, want %s", h.Deadline, want)
		}
		time.Sleep(68 * time.Second)
		if n, err := there.ReleaseOverdue(t.Context(), id); n != 0 || err != nil {
			t.Fatalf("released %d at the deadline, %v, want 0", n, err)
		}
		w.must(capture(there, h))

		// Overdue and released by the sweeper: the capture is an ordinary charge, and a credit is available for it.
		w.grant(here, id, 1)
		h = w.hold(here, id, 0)
		time.Sleep(61 * time.Second)
		if n, err := there.ReleaseOverdue(t.Context(), id); n != 1 || err != nil {
			t.Fatalf("released %d, %v, want 1", n, err)
		}
		time.Sleep(time.Microsecond) // with the same time the event would be identical
		if n, err := here.ReleaseOverdue(t.Context(), id); n != 0 || err != nil {
			t.Fatalf("released again: %d, %v, want 0", n, err)
		}
		w.must(capture(here, h))

		// Overdue, and its credit was spent by another request: the capture is rejected.
		w.grant(here, id, 1)
		h = w.hold(here, id, 0)
		time.Sleep(61 * time.Second)
		w.charge(there, id) // releases the overdue hold, then spends its credit, in one append
		w.failed(capture(here, h), account.ErrInsufficientCredits)

		// Reserve on an exhausted account finds the credit of an overdue hold.
		w.grant(here, id, 1)
		w.hold(here, id, 0)
		w.fails(account.ErrInsufficientCredits)(here.Reserve(t.Context(), id, ""))
		time.Sleep(61 * time.Second)
		w.reserve(here, id).Drop()

		l := w.ledger(id)
		if l.minimum < 0 || l.available < 0 || len(l.open) != 0 || l.released != 3 {
			t.Fatalf("ledger %+v, want 3 released holds, none open, and never less than 0", l)
		}
		recs, _ := w.events(id)
		for i, rec := range recs {
			if rec.Type == "HoldReleased" && (rec.Metadata.Actor != actorAccountWriter || rec.Metadata.RequestID == "") {
				t.Errorf("revision %d was released by %+v", i, rec.Metadata)
			}
		}
	})
}

// Two writers race to release the same hold at the same revision. If the log took their events for identical, the
// second writer would continue from a hash that was never stored.
func TestReleaseOverdue_RacingNodes_KeepTheChain(t *testing.T) {
	w := newWorld(t)
	writers := []*AccountWriter{w.writer(AccountWriterConfig{}), w.writer(AccountWriterConfig{})}
	id := w.opened(writers[0], 0)
	for range 20 {
		h := w.hold(writers[0], id, time.Minute)
		var wg sync.WaitGroup
		for _, d := range writers {
			wg.Go(func() {
				if err := d.ReleaseHold(context.Background(), ReleaseHold{Request: w.request(), AccountID: id, HoldID: h.ID}); err != nil {
					t.Error(err)
				}
			})
			wg.Go(func() {
				_, err := d.GrantCredits(context.Background(), GrantCredits{Request: w.request(), AccountID: id, Kind: "topup", Credits: 1, PaymentID: h.ID})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		w.charge(writers[1], id)
	}
	if l := w.ledger(id); l.released != 20 || l.balance != 50 { // 20 granted, 20 charged
		t.Fatalf("%d released, balance %d", l.released, l.balance)
	}
}
