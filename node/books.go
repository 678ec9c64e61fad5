package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"letterhead/adminapi"
	"letterhead/commands"
	"letterhead/domain/books"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/workers/backup"
	"letterhead/workers/journal"
)

// refusals are the errors because of which a month cannot be closed.
var refusals = []error{books.ErrRunning, books.ErrOrder, books.ErrTooEarly, journal.ErrNoEvents, journal.ErrBalance, eventschemas.ErrNotYet}

// CloseMonth closes a month for a request. It is CloseMonthShowing without progress.
func (n *Node) CloseMonth(ctx context.Context, by commands.Request, month time.Time) (adminapi.Month, bool, error) {
	period, repeated, err := n.CloseMonthShowing(ctx, by, month, nil, func(backup.Progress) {})
	if err != nil {
		return adminapi.Month{}, false, err
	}
	return closedMonth(period), repeated, nil
}

// CloseMonthShowing verifies the streams of all accounts and closes a month, unless it is closed; then repeated is true.
// It returns adminapi.ErrNotClosed if the books or the verification do not allow it. folded may be nil.
func (n *Node) CloseMonthShowing(ctx context.Context, by commands.Request, month time.Time, folded journal.Progress, verified func(backup.Progress)) (period *books.Period, repeated bool, err error) {
	defer func() {
		if err == nil {
			return
		}
		err = fmt.Errorf("%s %w", month.Format(books.MonthLayout), refused(err))
	}()
	closer := &journal.Closer{Log: n.Log, Encoder: eventschemas.NewEncoder(n.Runner.Format), Now: n.clock.Now, Progress: folded,
		Metadata: eventlog.Metadata{RequestID: by.ID, Actor: by.Actor}}
	if period, err = closer.Check(ctx, month); period != nil || err != nil {
		return period, true, err
	}
	audit, err := n.AuditLedger(ctx, "", verified)
	if err != nil {
		return nil, false, err
	}
	if audit.Broken > 0 {
		return nil, false, &faultsError{audit}
	}
	return closer.Close(ctx, month)
}

// faultsError means that the verification before a closing found faults.
type faultsError struct{ audit Audit }

func (e *faultsError) Error() string {
	return fmt.Sprintf("the ledger has %d fault(s), the first is: %v; \"letterhead ledger verify\" lists them", e.audit.Broken, e.audit.Findings[0])
}

// refused marks an error that is a refusal.
func refused(err error) error {
	refusal := errors.As(err, new(*faultsError))
	for _, known := range refusals {
		refusal = refusal || errors.Is(err, known)
	}
	if refusal {
		return fmt.Errorf("%w: %w", adminapi.ErrNotClosed, err)
	}
	return fmt.Errorf("was not closed: %w", err)
}

// closedMonth returns a closed month as it is shown.
func closedMonth(p *books.Period) adminapi.Month {
	return adminapi.Month{Month: p.Closing.Month, State: "closed", ClosedAt: p.ClosedAt, Position: uint64(p.Position), Digest: p.Closing.Digest,
		Transactions: &p.Closing.Transactions, Totals: p.Closing.Totals}
}
