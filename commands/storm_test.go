package commands

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

var stormSeed = flag.Uint64("storm.seed", 0, "seed of TestStorm; 0 draws one")

// storm makes the log fail at random: it loses replies after the commit and requests before it, rejects appends, lets
// other writers append first, and fails reads. The faults of an append depend only on its content, so a seed gives
// the same faults for every schedule of the goroutines.
type storm struct {
	seed uint64
	mu   sync.Mutex
	seen map[string]uint64
	meet func(a sentAppend)
}

func (s *storm) draw(key string) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[key]++
	h := s.seed
	for _, c := range []byte(key) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return rand.New(rand.NewPCG(h, s.seen[key])).Float64()
}

func (s *storm) before(a sentAppend) error {
	switch p := s.draw(a.events[0].ID.String()); {
	case p < 0.05:
		return ambiguous() // it never reached the log
	case p < 0.10:
		return unavailable()
	case p < 0.20:
		s.meet(a)
	}
	return nil
}

func (s *storm) after(a sentAppend, err error) error {
	if s.draw("after "+a.events[0].ID.String()) < 0.1 {
		return ambiguous() // the outcome is lost in any case
	}
	return err
}

func (s *storm) reading(stream string) error {
	if s.draw(stream) < 0.05 {
		return unavailable()
	}
	return nil
}

// stormer records the answers that a caller got to each of its requests.
type stormer struct {
	mu       sync.Mutex
	paid     map[string]bool // answered with a receipt
	notPaid  map[string]bool // answered with an error
	reversed map[string]bool // a reversal was requested and confirmed
}

// With all these faults, no caller overspends, every request that got a receipt has paid exactly once, and every other
// request pays nothing in the end.
// Rule 1.
func TestStorm(t *testing.T) {
	seed := *stormSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with -storm.seed=%d", seed)
	w := newWorld(t)
	cfg := AccountWriterConfig{Config: streamwriter.Config{KnowWithin: 2 * time.Millisecond, ResolveWithin: 50 * time.Millisecond, SnapshotEvery: 8}}
	kept := newMemorySnapshots()
	writers := []*AccountWriter{w.writer(cfg, kept), w.writer(cfg, kept)}
	id := w.opened(writers[0], 250)
	meddler := w.writer(AccountWriterConfig{})
	var meeting sync.Mutex
	s := &storm{seed: seed, seen: map[string]uint64{}, meet: func(a sentAppend) {
		if !meeting.TryLock() {
			return // the meddler's own append
		}
		defer meeting.Unlock()
		_, _ = meddler.GrantCredits(context.Background(), GrantCredits{Request: w.request(), AccountID: id, Kind: "topup", Credits: 1, PaymentID: a.events[0].ID.String()})
	}}
	w.log.set(func(f *faults) { f.before, f.after, f.reading = s.before, s.after, s.reading })

	seen := &stormer{paid: map[string]bool{}, notPaid: map[string]bool{}, reversed: map[string]bool{}}
	var wg sync.WaitGroup
	for caller := range 24 {
		rng := rand.New(rand.NewPCG(seed, uint64(caller)))
		wg.Go(func() {
			for range 25 {
				seen.act(w, writers[rng.IntN(2)], id, rng)
			}
		})
	}
	wg.Wait()
	w.log.set(func(f *faults) { f.before, f.after, f.reading = nil, nil, nil })
	// After the storm every writer reads the stream once more, then ends.
	for _, d := range append(writers, meddler) {
		w.reserveCalmly(d, id)
		w.drain(d)
	}
	w.checkStorm(id, seen)
}

func (w *world) reserveCalmly(d *AccountWriter, id string) {
	r, err := d.Reserve(context.Background(), id, "")
	if err != nil && !errors.Is(err, account.ErrInsufficientCredits) {
		w.Fatal(err)
	}
	r.Drop()
	if err := d.ReleaseHold(context.Background(), ReleaseHold{Request: w.request(), AccountID: id, HoldID: "none"}); !errors.Is(err, account.ErrUnknownHold) {
		w.Fatal(err) // a rejection reads the tail
	}
}

// act makes one look-up: it reserves, sometimes holds, and charges. Sometimes the caller leaves or requests a reversal.
func (s *stormer) act(w *world, d *AccountWriter, id string, rng *rand.Rand) {
	ctx := context.Background()
	if rng.IntN(6) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(3000))*time.Microsecond)
		defer cancel()
	}
	in := w.lookup(id)
	r, err := d.Reserve(ctx, id, "")
	if err == nil && rng.IntN(3) == 0 {
		var h Hold
		h, err = d.HoldCredits(ctx, HoldCredits{Request: in.Request, AccountID: id, Reservation: r, Domain: in.Domain, Work: time.Minute})
		in.HoldID, r = h.ID, nil
	}
	var receipt Receipt
	if err == nil {
		in.Reservation = r
		receipt, err = d.ChargeLookup(ctx, in)
	}
	if err != nil && in.HoldID != "" {
		_ = d.ReleaseHold(context.Background(), ReleaseHold{Request: in.Request, AccountID: id, HoldID: in.HoldID})
	}
	gaveBack := false
	if err == nil && rng.IntN(8) == 0 {
		_, failed := d.ReverseCharge(context.Background(), ReverseCharge{
			Request: w.request(), AccountID: id, ChargeID: receipt.ChargeID, Revision: receipt.Revision, Reason: account.ReasonClientGone,
		})
		gaveBack = failed == nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case gaveBack:
		s.reversed[in.Request.ID] = true
	case err == nil:
		s.paid[in.Request.ID] = true
	default:
		s.notPaid[in.Request.ID] = true
		if !expectedInStorm(err) {
			w.Errorf("request %s: %v", in.Request.ID, err)
		}
	}
}

func expectedInStorm(err error) bool {
	for _, want := range []error{account.ErrInsufficientCredits, ErrBusy, eventlog.ErrUnavailable, context.DeadlineExceeded} {
		if errors.Is(err, want) {
			return true
		}
	}
	return false
}

func (w *world) checkStorm(id string, seen *stormer) {
	w.Helper()
	l := w.ledger(id)
	if l.minimum < 0 {
		w.Errorf("the balance fell to %d", l.minimum)
	}
	if l.available < 0 {
		w.Errorf("available fell to %d", l.available)
	}
	for request := range seen.paid {
		// A requested reversal that failed with an unknown outcome may have been stored.
		if l.charges[request] != 1 {
			w.Errorf("request %s paid, and has %d unreversed charges", request, l.charges[request])
		}
	}
	for request := range seen.reversed {
		if l.charges[request] != 1 || l.reversed[request] != 1 {
			w.Errorf("request %s was reversed: %d charges, %d reversals", request, l.charges[request], l.reversed[request])
		}
	}
	for request := range seen.notPaid {
		if l.charges[request] != l.reversed[request] {
			w.Errorf("request %s failed, but has %d charges and %d reversals", request, l.charges[request], l.reversed[request])
		}
	}
	w.Logf("%d paid, %d reversed on demand, %d not paid, of which %d were charged and reversed; %d appends",
		len(seen.paid), len(seen.reversed), len(seen.notPaid), func() (n int) {
			for request := range seen.notPaid {
				n += l.charges[request]
			}
			return n
		}(), w.log.appends.Load())
	_, events := w.events(id)
	ended := map[string]int{}
	for _, ev := range events {
		switch ev := ev.(type) {
		case eventschemas.HoldReleased:
			ended[ev.HoldID]++
		case eventschemas.CreditsCharged:
			if ev.HoldID != "" {
				ended[ev.HoldID]++
			}
		}
	}
	for hold, n := range ended {
		if n > 2 || n == 2 && !w.chargedAfterRelease(events, hold) {
			w.Errorf("hold %s ended %d times", hold, n)
		}
	}
}

// chargedAfterRelease reports whether a released hold was charged later, which is allowed as an ordinary charge.
func (w *world) chargedAfterRelease(events []eventschemas.Event, hold string) bool {
	for _, ev := range events {
		switch ev := ev.(type) {
		case eventschemas.HoldReleased:
			if ev.HoldID == hold {
				return true
			}
		case eventschemas.CreditsCharged:
			if ev.HoldID == hold {
				return false
			}
		}
	}
	return false
}
