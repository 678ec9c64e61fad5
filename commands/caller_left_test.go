package commands

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/deadline"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
)

func TestCallerLeft_BeforeAppend_IsSkipped(t *testing.T) {
	w, d, id := openedWith(t, 5)
	g := w.blockAppend()
	var wg sync.WaitGroup
	wg.Go(func() { w.charge(d, id) })
	<-g.reached
	ctx, cancel := context.WithCancel(t.Context())
	in := w.lookup(id)
	in.Reservation = w.reserve(d, id)
	left := make(chan error)
	go func() {
		_, err := d.ChargeLookup(ctx, in)
		left <- err
	}()
	w.awaitQueued(d, id, 1)
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	close(g.open)
	wg.Wait()
	w.charge(d, id)
	if l := w.ledger(id); l.charges[in.Request.ID] != 0 || l.balance != 3 {
		t.Fatalf("ledger %+v, want balance 3 and no charge", l)
	}
	if s := w.standing(d, id); s.Available != 3 {
		t.Fatalf("the reservation of a caller who left was not dropped: %+v", s)
	}
	w.fails(context.Canceled)(d.ChargeLookup(ctx, w.lookup(id)))
}

func TestCallerLeft_DeadlineContext_EndsTheWait(t *testing.T) {
	w, d, id := openedWith(t, 5)
	g := w.blockAppend()
	var wg sync.WaitGroup
	wg.Go(func() { w.charge(d, id) })
	<-g.reached
	short := deadline.New(t.Context(), 50*time.Millisecond)
	defer short.End()
	w.fails(context.DeadlineExceeded)(d.ChargeLookup(short, w.lookup(id)))
	queued := 0 // 1 unless the charge above was too late for the queue
	testmust.Succeed(t, d.accounts.With(id, func(a *accountActor) { queued = a.Queued() }))
	parent, cancel := context.WithCancel(t.Context())
	within := deadline.New(parent, time.Hour)
	defer within.End()
	left := make(chan error)
	go func() {
		_, err := d.ChargeLookup(within, w.lookup(id))
		left <- err
	}()
	w.awaitQueued(d, id, queued+1)
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(g.open)
	wg.Wait()
	w.charge(d, id)
	if l := w.ledger(id); l.balance != 3 {
		t.Errorf("balance %d, want 3", l.balance)
	}
}

// Rule 2.
func TestCallerLeft_Charge_IsReversed(t *testing.T) {
	for name, fault := range map[string]error{"after a plain append": nil, "after an ambiguous one that was stored": ambiguous()} {
		t.Run(name, func(t *testing.T) {
			w, d, id := openedWith(t, 5)
			ctx, cancel := context.WithCancel(t.Context())
			lost := 2
			w.log.set(func(f *faults) {
				f.after = func(a sentAppend, err error) error {
					if a.events[0].Type != "CreditsCharged" {
						return nil
					}
					cancel() // durable by now
					if lost--; fault != nil && lost >= 0 {
						return fault
					}
					return nil
				}
			})
			in := w.lookup(id)
			in.Reservation = w.reserve(d, id)
			w.fails(context.Canceled)(d.ChargeLookup(ctx, in))
			w.drain(d)
			recs, events := w.events(id)
			last := events[len(events)-1]
			l := w.ledger(id)
			if want := (eventschemas.ChargeReversed{ChargeID: events[len(events)-2].(eventschemas.CreditsCharged).ChargeID, Credits: 1, RequestID: in.Request.ID, Reason: "client_gone"}); last != want {
				t.Fatalf("last event %+v, want %+v", last, want)
			}
			meta := recs[len(recs)-1].Metadata
			if meta.Actor != actorAccountWriter || meta.RequestID != in.Request.ID || l.balance != 5 {
				t.Fatalf("metadata %+v, balance %d", meta, l.balance)
			}
		})
	}
}

// The log fails just when a charge should be reversed. The reversal is retried until it succeeds.
// Rule 2.
func TestCallerLeft_LogFails_ReversalIsRetried(t *testing.T) {
	w, d, id := openedWith(t, 5)
	ctx, cancel := context.WithCancel(t.Context())
	failures := []error{unavailable(), &eventlog.WrongRevisionError{}, unavailable(), ambiguous()}
	w.log.set(func(f *faults) {
		f.before = func(a sentAppend) error {
			if a.events[0].Type == "ChargeReversed" && len(failures) > 0 {
				err := failures[0]
				failures = failures[1:]
				return err
			}
			return nil
		}
		f.after = func(sentAppend, error) error {
			cancel()
			return nil
		}
	})
	w.fails(context.Canceled)(d.ChargeLookup(ctx, w.lookup(id)))
	w.drain(d)
	if l := w.ledger(id); l.balance != 5 || len(failures) != 0 {
		t.Fatalf("balance %d, %d failures left", l.balance, len(failures))
	}
}

func TestCallerLeft_Hold_IsReleased(t *testing.T) {
	w, d, id := openedWith(t, 5)
	ctx, cancel := context.WithCancel(t.Context())
	w.log.set(func(f *faults) {
		f.after = func(sentAppend, error) error {
			cancel()
			return nil
		}
	})
	w.fails(context.Canceled)(d.HoldCredits(ctx, HoldCredits{Request: w.request(), AccountID: id, Domain: "acme.com", Work: time.Hour}))
	w.drain(d)
	if l := w.ledger(id); len(l.open) != 0 || l.released != 1 || l.balance != 5 {
		t.Fatalf("ledger %+v, want 0 open, released 1 and balance 5", l)
	}
}

// A repeat charged nothing, so if its caller leaves, the first charge remains.
func TestCallerLeft_Repeat_ReversesNothing(t *testing.T) {
	w, d, id := openedWith(t, 5)
	in := w.lookup(id)
	in.Once = onceOf(1, 2)
	w.ok(d.ChargeLookup(t.Context(), in))
	ctx, cancel := context.WithCancel(t.Context())
	in.Request = w.request()
	w.runTogetherWith(d, id, 2, func(f *faults) {
		f.after = func(a sentAppend, err error) error {
			if slices.ContainsFunc(a.events, func(p eventlog.Proposed) bool { return p.Metadata.RequestID == "the other" }) {
				cancel()
			}
			return err
		}
	}, func(i int) {
		mine, its := in, ctx
		if i == 1 { // shares the append, so the repeat needs no read and is decided before its caller leaves
			mine, its = w.lookup(id), t.Context()
			mine.Request.ID = "the other"
		}
		if _, err := d.ChargeLookup(its, mine); (i == 0) != errors.Is(err, context.Canceled) {
			t.Errorf("member %d: %v", i, err)
		}
	})
	w.drain(d)
	if l := w.ledger(id); l.balance != 2 || len(l.reversed) != 0 {
		t.Fatalf("balance %d, reversed %v, want 2 and none", l.balance, l.reversed)
	}
}
