package adminapi

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"letterhead/domain/books"
	"letterhead/operations"
	"letterhead/projections/accounts"
	"letterhead/projections/ledger"
	"letterhead/projections/usage"
)

// Lot is a lot of credits as it is shown. Money is in minor units.
type Lot struct {
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

// pastAccount returns an account as it was, with its present name.
func (x *exchange) pastAccount(id string, at Moment) (map[string]any, error) {
	if err := x.folded(accounts.Name, ledger.Name, usage.Name); err != nil {
		return nil, err
	}
	row, err := x.api.Accounts.Get(x.ctx, id)
	if err != nil {
		return nil, err
	}
	state, err := x.api.Ledger.State(x.ctx, id, at.Time)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, notFound("Account %s was opened later, at %s.", id, row.OpenedAt.Format(time.RFC3339))
	}
	if err != nil {
		return nil, err
	}
	held, err := x.api.Ledger.Books(x.ctx, state.Last)
	if err != nil {
		return nil, err
	}
	month := books.MonthOf(at.Time)
	lookups, err := x.api.Ledger.Lookups(x.ctx, state.Last, month)
	if err != nil {
		return nil, err
	}
	used, err := x.api.Operations.Accounts.Counts.Get(x.ctx, id, month.Format(books.MonthLayout))
	if err != nil {
		return nil, err
	}
	names, err := x.api.Names.Names(x.ctx, row.Holder)
	if err != nil {
		return nil, err
	}
	lots := []Lot{}
	for i := range held.Lots() {
		l := &held.Lots()[i]
		lots = append(lots, Lot{l.Revision, l.At, l.Kind, l.PaymentID, l.Granted, l.Refunded, l.Used,
			l.Broken, l.Unspent(),
			l.Paid.Currency, l.Paid.Minor, l.Tax, l.Returned, l.Recognized, l.Breakage, l.Deferred()})
	}
	count := func(n int64) map[string]any { return map[string]any{"month": used.Month, "count": n} }
	object := map[string]any{
		"account": operations.Account{ID: id, Name: names[row.Holder], Plan: string(state.Plan),
			Status: string(state.Status)},
		"as_of": at.Time, "revision": state.Last.Revision, "opened_at": row.OpenedAt,
		"credits": map[string]int64{"balance": state.Last.Balance, "remaining": max(state.Last.Balance, 0)},
		"lookups": count(lookups), "lots": lots, "deficit": held.Deficit(),
	}
	// At the end of a month all counts are known.
	if !at.Provisional && at.Equal(month.AddDate(0, 1, 0).Add(-time.Microsecond)) {
		object["searches"], object["logos"] = count(used.Searches), count(used.Logos)
	}
	return at.Mark(object), nil
}

// someAccounts returns a page of the accounts that match a text, or of all if it is empty, as they were at a time, or
// as they are if that is zero, selected and sorted as accounts.Model.Select does, and whether more may match the text. It
// reads all of them for each page.
func (x *exchange) someAccounts(s accounts.Selection, text string, at time.Time, last *accounts.Account,
	limit int) (all []accounts.Account, more bool, err error) {
	if err := x.folded(accounts.Name, ledger.Name); err != nil {
		return nil, false, err
	}
	for after := ""; ; {
		var page []accounts.Account
		if page, more, err = x.candidates(text, after); err != nil {
			return nil, false, err
		}
		for _, a := range page {
			after = a.ID
			if !at.IsZero() {
				past, err := x.api.Ledger.State(x.ctx, a.ID, at)
				if errors.Is(err, ledger.ErrNotFound) {
					continue // it was opened later
				}
				if err != nil {
					return nil, false, err
				}
				a.Plan, a.Status, a.Balance, a.Revision = past.Plan, past.Status, past.Last.Balance, past.Last.Revision
			}
			if (s.Plan == "" || a.Plan == s.Plan) && (s.Status == "" || a.Status == s.Status) && s.Opened(a) {
				all = append(all, a)
			}
		}
		if len(page) < accounts.MaxPage {
			break
		}
	}
	order := func(a, b accounts.Account) int {
		by := 0
		switch s.Sort {
		case "balance":
			by = cmp.Compare(a.Balance, b.Balance)
		case "spend":
			by = cmp.Or(a.SpentMonth.Compare(b.SpentMonth), cmp.Compare(a.Spent, b.Spent))
		case "used":
			by = a.UsedAt.Compare(b.UsedAt)
		case "plan":
			by = cmp.Compare(a.Plan, b.Plan)
		case "status":
			by = cmp.Compare(a.Status, b.Status)
		case "opened":
			by = a.OpenedAt.Compare(b.OpenedAt)
		}
		if by = cmp.Or(by, strings.Compare(a.ID, b.ID)); s.Descending {
			by = -by
		}
		return by
	}
	slices.SortFunc(all, order)
	if last != nil { // it may have changed, or no longer match
		all = slices.DeleteFunc(all, func(a accounts.Account) bool { return order(a, *last) <= 0 })
	}
	return all[:min(len(all), limit)], more, nil
}

// candidates returns the accounts that match a text, and whether more may; if it is empty, the page of accounts after an
// id.
func (x *exchange) candidates(text, after string) (found []accounts.Account, more bool, err error) {
	if text == "" {
		found, err = x.api.Accounts.List(x.ctx, after, accounts.MaxPage)
		return found, false, err
	}
	found, _, more, err = x.matching(text)
	return found, more, err
}

// Moment is a past moment; the time is zero if none is given.
type Moment struct {
	time.Time
	Provisional bool // it is now, in a month or a day that has not ended
}

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
		return Moment{}, fmt.Errorf("%s is in the future", text)
	case end.After(now):
		return Moment{now.UTC().Truncate(time.Microsecond), true}, nil
	}
	return Moment{end.Add(-time.Microsecond), false}, nil
}

// Mark adds to an object for JSON that the moment is provisional.
func (m Moment) Mark(object map[string]any) map[string]any {
	if m.Provisional {
		object["provisional"] = true
	}
	return object
}

// markList adds the moment to the answer of a listing.
func (m Moment) markList(object map[string]any) map[string]any {
	if !m.IsZero() {
		object["as_of"] = m.Time
	}
	return m.Mark(object)
}
