package ledger

import (
	"context"
	"fmt"
	"iter"
)

// captured sets Held of charges that capture a hold. Their rows do not have it, because the amount
// that a charge takes from its hold depends on the rest of the hold. alone is set if the entries of a charge's hold are
// not among the entries.
func (m *Model) captured(ctx context.Context, entries iter.Seq2[Entry, error], alone bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		holds := holds{} // open ones, which are limited per account
		for e, err := range entries {
			if alone {
				clear(holds)
			}
			if err == nil && e.captures() {
				if _, known := holds[e.HoldID]; !known { // it was placed before the first entry
					err = m.holdBefore(ctx, &e, holds)
				}
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
			holds.follow(&e)
			if !yield(e, nil) {
				return
			}
		}
	}
}

// holdBefore finds the rest of the hold that a charge captures. Hold, captures and release are entries of one request.
func (m *Model) holdBefore(ctx context.Context, charge *Entry, holds holds) error {
	for e, err := range m.ByRequest(ctx, charge.RequestID) {
		if err != nil {
			return fmt.Errorf("hold %s of charge %s: %w", charge.HoldID, charge.ChargeID, err)
		}
		if e.Position >= charge.Position {
			return nil
		}
		if e.AccountID == charge.AccountID && e.HoldID == charge.HoldID {
			holds.follow(&e)
		}
	}
	return nil
}

func (e *Entry) captures() bool { return e.HoldID != "" && e.ChargeID != "" }

// holds has the rest of each open hold, by hold id.
type holds map[string]int64

// follow sets Held of a charge, and records the rest of its hold.
func (h holds) follow(e *Entry) {
	if e.HoldID == "" {
		return
	}
	if e.captures() {
		e.Held = -min(-e.Amount, h[e.HoldID])
	}
	if h[e.HoldID] += e.Held; h[e.HoldID] <= 0 {
		delete(h, e.HoldID)
	}
}
