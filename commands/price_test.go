package commands

import (
	"context"
	"errors"
	"sync"
	"testing"

	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/internal/testmust"
)

// All code that counts the credits of a look-up uses the same price, which may differ from 1.
const otherPrice = 3

func (w *world) priced(shared bool) *AccountWriter {
	w.Helper()
	return w.writer(AccountWriterConfig{Config: streamwriter.Config{Shared: shared}, LookupCredits: otherPrice})
}

// accountWith opens an account that has exactly these credits, at least plan.FreeCredits.
func (w *world) accountWith(d *AccountWriter, credits int64) string {
	w.Helper()
	return w.opened(d, credits-plan.FreeCredits)
}

func TestReserve_Price3_LeavesNoPartOfALookup(t *testing.T) {
	for name, shared := range map[string]bool{"one node": false, "several nodes": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			d := w.priced(shared)
			const lookups = 20
			id := w.accountWith(d, lookups*otherPrice+otherPrice-1)
			var open []*Reservation
			for range lookups {
				open = append(open, w.reserve(d, id))
			}
			if s := w.standing(d, id); s.Available != otherPrice-1 {
				t.Errorf("%d available with %d reservations, want %d", s.Available, lookups, otherPrice-1)
			}
			var rejected *account.InsufficientCreditsError
			if _, err := d.Reserve(t.Context(), id, ""); !errors.As(err, &rejected) || rejected.Required != otherPrice || rejected.Available != otherPrice-1 {
				t.Errorf("one reservation too many: %+v, %v", rejected, err)
			}
			w.fails(account.ErrInsufficientCredits)(d.ChargeLookup(t.Context(), w.lookup(id)))
			for i, r := range open {
				if err := d.Confirm(t.Context(), r); err != nil {
					t.Errorf("confirm reservation %d: %v", i, err)
				}
			}
			open[0].Drop()
			open[0] = w.reserve(d, id)
			for i, r := range open {
				in := w.lookup(id)
				in.Reservation = r
				receipt, err := d.ChargeLookup(t.Context(), in)
				if err != nil || receipt.Credits != otherPrice {
					t.Fatalf("charge %d: %+v, %v", i, receipt, err)
				}
			}
			if s := w.standing(d, id); s.Balance != otherPrice-1 || s.Available != otherPrice-1 {
				t.Errorf("balance %d, available %d after all charges, want %d", s.Balance, s.Available, otherPrice-1)
			}
		})
	}
}

func TestHoldCredits_Price3_HoldsAndReleasesThePrice(t *testing.T) {
	w := newWorld(t)
	d := w.priced(false)
	id := w.accountWith(d, plan.FreeCredits)
	r := w.reserve(d, id)
	h := testmust.Get(d.HoldCredits(t.Context(), HoldCredits{Request: w.request(), AccountID: id, Reservation: r, Domain: "acme.com"}))(t)
	if s := w.standing(d, id); s.Available != plan.FreeCredits-otherPrice || s.Balance != plan.FreeCredits {
		t.Errorf("available %d of %d with a hold", s.Available, s.Balance)
	}
	in := w.lookup(id)
	in.HoldID = h.ID
	if receipt, err := d.ChargeLookup(t.Context(), in); err != nil || receipt.Balance != plan.FreeCredits-otherPrice {
		t.Errorf("capture: %+v, %v", receipt, err)
	}
	other := w.hold(d, id, 0)
	w.must(d.ReleaseHold(t.Context(), ReleaseHold{Request: w.request(), AccountID: id, HoldID: other.ID}))
	if s := w.standing(d, id); s.Available != plan.FreeCredits-otherPrice || s.OpenHolds != 0 {
		t.Errorf("available %d with %d open holds at the end", s.Available, s.OpenHolds)
	}
}

// A batch reserves each item's credits before it starts, on any node.
func TestReserve_Price3_ConcurrentBatchesOfTwoNodes_SpendAllCredits(t *testing.T) {
	w := newWorld(t)
	nodes := []*AccountWriter{w.priced(true), w.priced(true)}
	const lookups = 40
	id := w.accountWith(nodes[0], lookups*otherPrice+otherPrice-1)
	var mu sync.Mutex
	charged, rejected := 0, 0
	var batches sync.WaitGroup
	for i := range 8 {
		batches.Go(func() {
			d := nodes[i%len(nodes)]
			for range 2 * lookups / 8 {
				err := reservedCharge(d, w.lookup(id))
				mu.Lock()
				switch {
				case err == nil:
					charged++
				case errors.Is(err, account.ErrInsufficientCredits):
					rejected++
				default:
					t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	batches.Wait()
	l := w.ledger(id)
	if charged > lookups || l.standingCharges() != charged || l.balance != int64(lookups-charged)*otherPrice+otherPrice-1 || l.available < 0 {
		t.Errorf("%d charged of %d, %d rejected; ledger has %d, balance %d, lowest available %d", charged, lookups, rejected, l.standingCharges(), l.balance, l.available)
	}
	// Credits that reservations of the other node withheld can still be spent.
	for range lookups - charged {
		w.must(reservedCharge(nodes[0], w.lookup(id)))
	}
	if err := reservedCharge(nodes[1], w.lookup(id)); !errors.Is(err, account.ErrInsufficientCredits) {
		t.Errorf("with %d credits left: %v", otherPrice-1, err)
	}
}

func reservedCharge(d *AccountWriter, in ChargeLookup) error {
	r, err := d.Reserve(context.Background(), in.AccountID, "")
	if err != nil {
		return err
	}
	in.Reservation = r
	_, err = d.ChargeLookup(context.Background(), in)
	return err
}
