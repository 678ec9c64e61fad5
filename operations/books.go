package operations

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/books"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/projections/accounts"
	"letterhead/projections/ledger"
	"letterhead/workers/backup"
	"letterhead/workers/journal"
)

// ErrNotClosed means that a month cannot be closed, for the reason that follows.
var ErrNotClosed = errors.New("was not closed")

// Month is a month of the books as it is shown.
type Month struct {
	Month        string                     `json:"month"`
	State        string                     `json:"state"` // open, closed, running
	ClosedAt     time.Time                  `json:"closed_at,omitzero"`
	Position     uint64                     `json:"position,omitempty"`
	Digest       string                     `json:"digest,omitempty"`
	Transactions *uint64                    `json:"transactions,omitempty"`
	Totals       []eventschemas.PeriodTotal `json:"totals,omitempty"`
}

// Breakage is what becomes revenue of an account in a currency when its remaining credits are removed.
type Breakage struct {
	Account  string `json:"account"`
	Breakage int64  `json:"breakage"` // minor units of Currency
	Credits  int64  `json:"credits"`
	Currency string `json:"currency"` // empty for credits without money
}

// refusals are the errors because of which a month cannot be closed.
var refusals = []error{books.ErrRunning, books.ErrOrder, books.ErrTooEarly, journal.ErrNoEvents, journal.ErrBalance,
	eventschemas.ErrNotYet}

// Books are the use cases of the books.
type Books struct {
	Reads    *Reads
	Log      eventlog.Log
	Writer   *commands.AccountWriter
	Ledger   *ledger.Model
	Accounts *accounts.Model
	Audits   *Audits
	Sums     *Sums
	Format   func() int // in which events are written
	Now      func() time.Time
}

// CloseMonth verifies the streams of all accounts and closes a month, unless it is closed; then repeated is true. It
// returns ErrNotClosed if the books or the verification do not allow it.
func (o *Books) CloseMonth(ctx context.Context, by commands.Request,
	month time.Time) (closed Month, repeated bool, err error) {
	period, repeated, err := o.closeMonth(ctx, by, month)
	if err != nil {
		return Month{}, false, fmt.Errorf("%s %w", month.Format(books.MonthLayout), refused(err))
	}
	return closedMonth(period), repeated, nil
}

func (o *Books) closeMonth(ctx context.Context, by commands.Request, month time.Time) (*books.Period, bool, error) {
	closer := &journal.Closer{Log: o.Log, Encoder: eventschemas.NewEncoder(o.Format), Now: o.Now,
		Metadata: eventlog.Metadata{RequestID: by.ID, Actor: by.Actor}}
	if period, err := closer.Check(ctx, month); period != nil || err != nil {
		return period, true, err
	}
	audit, err := o.Audits.Audit(ctx, "", func(backup.Progress) {})
	if err != nil {
		return nil, false, err
	}
	if i := slices.IndexFunc(audit.Findings, func(err error) bool { return errors.Is(err, ErrLogChanged) }); i >= 0 {
		return nil, false, audit.Findings[i]
	}
	if audit.Broken > 0 {
		return nil, false, &faultsError{audit}
	}
	return closer.Close(ctx, month)
}

// faultsError means that the verification before a closing found faults.
type faultsError struct{ audit Audit }

func (e *faultsError) Error() string {
	return fmt.Sprintf("the ledger has %d fault(s), the first is: %v; \"letterhead ledger verify\" lists them",
		e.audit.Broken, e.audit.Findings[0])
}

// refused marks an error that is a refusal.
func refused(err error) error {
	if errors.As(err, new(*faultsError)) ||
		slices.ContainsFunc(refusals, func(known error) bool { return errors.Is(err, known) }) {
		return fmt.Errorf("%w: %w", ErrNotClosed, err)
	}
	return fmt.Errorf("was not closed: %w", err)
}

// closedMonth returns a closed month as it is shown.
func closedMonth(p *books.Period) Month {
	return Month{Month: p.Closing.Month, State: "closed", ClosedAt: p.ClosedAt, Position: uint64(p.Position),
		Digest:       p.Closing.Digest,
		Transactions: &p.Closing.Transactions, Totals: p.Closing.Totals}
}

// Months returns the months of the books, from the month of the first event to the running one.
func (o *Books) Months(ctx context.Context) ([]Month, error) {
	now := o.Now()
	months, err := journal.Status(ctx, o.Log, now)
	if err != nil {
		return nil, err
	}
	all := make([]Month, len(months))
	for i, m := range months {
		all[i] = Month{Month: m.Month.Format(books.MonthLayout), State: m.State(now)}
		if p := m.Closing; p != nil {
			all[i] = closedMonth(p)
		}
	}
	return all, nil
}

// Fold folds the books of all accounts, as journal.Fold does.
func (o *Books) Fold(ctx context.Context, until time.Time,
	moved func(at time.Time, h *books.Holder, currency string, m books.Movement)) (*books.Ledger, error) {
	all := books.NewLedger()
	_, err := journal.Fold(ctx, o.Log, all, 0, until, moved)
	return all, err
}

// Balances returns the balances of the ledger accounts before a time, or now if it is zero.
func (o *Books) Balances(ctx context.Context, until time.Time) ([]books.Posting, error) {
	return journal.Balances(ctx, o.Log, until, nil)
}

// maxBreakageAttempts limits the attempts to recognize the breakage of an account while the outcome is not known.
const maxBreakageAttempts = 3

// RecognizeBreakage removes the remaining credits of a closed account, and returns what became revenue in each currency
// of its lots; nothing if no credits remained.
func (o *Books) RecognizeBreakage(ctx context.Context, by commands.Request, id, policy string) ([]Breakage, error) {
	in := commands.RecognizeBreakage{Request: by, AccountID: id, Policy: policy}
	done, err := o.Writer.RecognizeBreakage(ctx, in)
	for attempt := 1; attempt < maxBreakageAttempts && errors.Is(err, commands.ErrUnknownOutcome); attempt++ {
		done, err = o.Writer.RecognizeBreakage(ctx, in)
	}
	if err != nil || done.Credits == 0 {
		return nil, err
	}
	if err := o.Reads.CatchUp(ctx, ledger.Name); err != nil {
		return nil, err
	}
	revision, err := o.Ledger.Last(ctx, id, ledger.Filter{Type: eventschemas.BreakageRecognized{}.EventType()}, 1)
	if err != nil {
		return nil, err
	}
	return o.breakageBefore(ctx, id, revision)
}

// Breakage returns what RecognizeBreakage would recognize now of the accounts that were closed before a time.
func (o *Books) Breakage(ctx context.Context, until time.Time) (rows []Breakage, err error) {
	if err := o.Reads.Folded(ctx, accounts.Name, ledger.Name); err != nil {
		return nil, err
	}
	for last := (*accounts.Account)(nil); ; {
		page, err := o.Accounts.Select(ctx, accounts.Selection{Status: account.Closed}, last, accounts.MaxPage)
		if err != nil {
			return nil, err
		}
		for i := range page {
			if last = &page[i]; last.Balance <= 0 {
				continue
			}
			then, err := o.Ledger.State(ctx, last.ID, until.Add(-time.Microsecond))
			if errors.Is(err, ledger.ErrNotFound) || err == nil && then.Status != account.Closed {
				continue // it was opened or closed later
			}
			if err != nil {
				return nil, err
			}
			end, err := o.Ledger.Last(ctx, last.ID, ledger.Filter{}, 1)
			if err != nil {
				return nil, err
			}
			of, err := o.breakageBefore(ctx, last.ID, end+1)
			if err != nil {
				return nil, err
			}
			rows = append(rows, of...)
		}
		if len(page) < accounts.MaxPage {
			return rows, nil
		}
	}
}

// breakageBefore returns what remains in the lots of an account before the event at a revision.
func (o *Books) breakageBefore(ctx context.Context, id string, revision uint64) (rows []Breakage, err error) {
	for before, err := range o.Ledger.Entries(ctx, id, ledger.Filter{FromRevision: revision - 1, Limit: 1}) {
		if err != nil {
			return nil, err
		}
		lots, err := o.Ledger.Books(ctx, before)
		if err != nil {
			return nil, err
		}
		rests := lots.Rests()
		for _, currency := range slices.Sorted(maps.Keys(rests)) {
			rest := rests[currency]
			rows = append(rows,
				Breakage{Account: id, Breakage: rest.Deferred, Credits: rest.Credits, Currency: currency})
		}
	}
	return rows, nil
}
