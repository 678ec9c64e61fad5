package adminapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"letterhead/domain/account"
	"letterhead/domain/books"
	"letterhead/internal/accountnames"
	"letterhead/projections/accounts"
	"letterhead/projections/ledger"
	"letterhead/projections/usage"
)

// Moment is a past moment; the time is zero if none is given.
type Moment struct {
	time.Time
	Provisional bool // it is now, in a month or a day that has not ended
}

// ErrFuture means that a moment is in the future.
var ErrFuture = errors.New("is in the future")

// ParseMoment returns the last microsecond, the precision of events, of a month or a day; now if that has not ended.
func ParseMoment(text string, now time.Time) (Moment, error) {
	if text == "" {
		return Moment{}, nil
	}
	start, end, err := books.ParseSpan(text)
	switch {
	case err != nil:
		return Moment{}, err
	case start.After(now):
		return Moment{}, fmt.Errorf("%s %w", text, ErrFuture)
	case end.After(now):
		return Moment{now.UTC().Truncate(time.Microsecond), true}, nil
	}
	return Moment{end.Add(-time.Microsecond), false}, nil
}

// ParseReportEnd returns the first moment after the month, the day or the moment at which a report of balances ends, zero
// for an empty text, which is the present. It is provisional unless that has passed. Errors: those of
// books.ParseSpan, ErrFuture.
func ParseReportEnd(text string, now time.Time) (until time.Time, provisional bool, err error) {
	at, err := ParseMoment(text, now)
	if err != nil || at.IsZero() {
		return until, true, err
	}
	_, until, err = books.ParseSpan(text)
	return until, at.Provisional, err
}

// Mark adds to an object for JSON that the moment is provisional.
func (m Moment) Mark(object map[string]any) map[string]any {
	if m.Provisional {
		object["provisional"] = true
	}
	return object
}

// lot is a lot in JSON. Money is in minor units.
type lot struct {
	Revision   uint64    `json:"revision"`
	At         time.Time `json:"at"`
	Kind       string    `json:"kind"`
	PaymentID  string    `json:"payment_id,omitempty"`
	Credits    int64     `json:"credits"`
	Refunded   int64     `json:"refunded"`
	Used       int64     `json:"used"`
	Broken     int64     `json:"broken"`
	Unspent    int64     `json:"unspent"`
	Currency   string    `json:"currency,omitempty"`
	Money      int64     `json:"money"` // with tax
	Tax        int64     `json:"tax"`
	Returned   int64     `json:"returned"` // with tax
	Recognized int64     `json:"recognized"`
	Breakage   int64     `json:"breakage"`
	Deferred   int64     `json:"deferred"`
}

// PastAccount is an account as it was.
type PastAccount struct {
	Account
	ledger.State
	At      Moment
	Lots    *books.Account
	Lookups int64
	Used    usage.Counts
	Whole   bool // At is the end of a month, so that all counts of Used are known
	Opened  time.Time
}

// Sources are what the past is read from. They must have caught up.
type Sources struct {
	Accounts *accounts.Model
	Ledger   *ledger.Model
	Names    *accountnames.Table
	Usage    func(ctx context.Context, id string, month time.Time) (usage.Counts, error)
}

// ErrOpenedLater means that an account was opened after a moment.
var ErrOpenedLater = errors.New("was opened later")

// Past returns an account as it was, with its present name. Errors: account.ErrNotFound, ErrOpenedLater, and those of the
// sources.
func (s *Sources) Past(ctx context.Context, id string, at Moment) (*PastAccount, error) {
	row, err := s.Accounts.Get(ctx, id)
	if errors.Is(err, accounts.ErrNotFound) {
		err = account.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	month := books.MonthOf(at.Time)
	a := &PastAccount{At: at, Opened: row.OpenedAt, Whole: !at.Provisional && at.Equal(month.AddDate(0, 1, 0).Add(-time.Microsecond))}
	a.State, err = s.Ledger.State(ctx, id, at.Time)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, fmt.Errorf("account %s %w, at %s", id, ErrOpenedLater, row.OpenedAt.Format(time.RFC3339))
	}
	if err != nil {
		return nil, err
	}
	if a.Lots, err = s.Ledger.Books(ctx, a.Last); err != nil {
		return nil, err
	}
	if a.Lookups, err = s.Ledger.Lookups(ctx, a.Last, month); err != nil {
		return nil, err
	}
	if a.Used, err = s.Usage(ctx, id, month); err != nil {
		return nil, err
	}
	names, err := s.Names.Names(ctx, row.Holder)
	a.Account = Account{ID: id, Name: names[row.Holder], Plan: string(a.State.Plan), Status: string(a.State.Status)}
	return a, err
}

// Object returns the account for JSON.
func (a *PastAccount) Object() map[string]any {
	lots := []lot{}
	for i := range a.Lots.Lots() {
		l := &a.Lots.Lots()[i]
		lots = append(lots, lot{l.Revision, l.At, l.Kind, l.PaymentID, l.Granted, l.Refunded, l.Used, l.Broken, l.Unspent(),
			l.Paid.Currency, l.Paid.Minor, l.Tax, l.Returned, l.Recognized, l.Breakage, l.Deferred()})
	}
	count := func(n int64) map[string]any { return map[string]any{"month": a.Used.Month, "count": n} }
	object := map[string]any{
		"account": a.Account, "as_of": a.At.Time, "revision": a.Last.Revision,
		"credits": map[string]int64{"balance": a.Last.Balance, "remaining": max(a.Last.Balance, 0)},
		"lookups": count(a.Lookups), "lots": lots, "deficit": a.Lots.Deficit(),
	}
	if a.Whole {
		object["searches"], object["logos"] = count(a.Used.Searches), count(a.Used.Logos)
	}
	return a.At.Mark(object)
}
