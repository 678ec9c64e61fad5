// Package accounts is the read model of accounts: holder, plan, status, balance, spend and last use of each. It
// lags the log by moments; only the account stream decides what a request may spend.
package accounts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"letterhead/domain/account"
	"letterhead/domain/books"
	"letterhead/domain/plan"
	"letterhead/domain/usage"
	"letterhead/eventschemas"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const (
	// Name of the read model.
	Name = "accounts"

	// MaxPage limits the accounts that Select and List return.
	MaxPage = 10_000
	// keptRows limits the rows, of about 200 bytes each, that the fold keeps between batches.
	keptRows = 100_000
	// perQuery limits the values in a statement of Find.
	perQuery = 500
)

// ErrNotFound: there is no such account.
var ErrNotFound = errors.New("account not found")

const selectOutstanding = `
SELECT plan, status, count(*), sum(balance) FROM {accounts} WHERE balance > 0 GROUP BY plan, status ORDER BY plan, status`

var table = projections.Keyed[string, Account]{
	Name: "accounts",
	Key:  projections.TextKey("id"),
	Columns: []projections.Column[Account]{
		projections.Text("holder", func(a *Account) *string { return &a.Holder }),
		projections.Text("plan", func(a *Account) *plan.ID { return &a.Plan }),
		projections.Text("status", func(a *Account) *account.Status { return &a.Status }),
		projections.Number("balance", func(a *Account) *int64 { return &a.Balance }),
		projections.Time("opened_at", func(a *Account) *time.Time { return &a.OpenedAt }),
		projections.Number("revision", func(a *Account) *uint64 { return &a.Revision }),
		{
			Name: "spent_month", Type: "BIGINT NOT NULL",
			Value: func(a *Account) any { return monthNumber(a.SpentMonth) },
			Into:  func(a *Account) any { return (*month)(&a.SpentMonth) },
		},
		projections.Number("spent", func(a *Account) *int64 { return &a.Spent }),
		projections.TimeOrZero("used_at", func(a *Account) *time.Time { return &a.UsedAt }),
	},
	// The first three let a page of a sorted listing read its own rows only. They have plan and status, because a
	// filter that few accounts match would otherwise read all rows in the order of an index: a second for 100,000
	// accounts. By holder, names find accounts. The last is for selectOutstanding, whose order it has. It has a condition so that listings do not use
	// it.
	Indexes: []projections.Index{
		{Name: "by_balance", On: "(balance, id, plan, status)"},
		{Name: "by_spend", On: "(spent_month, spent, id, plan, status)"},
		{Name: "by_use", On: "(used_at, id, plan, status)"},
		{Name: "by_holder", On: "(holder)"},
		{Name: "by_credits", On: "(plan, status, balance) WHERE balance > 0"},
	},
	Compare: strings.Compare,
	Found:   func(id string, a *Account) { a.ID = id },
}

// month is the first moment of a month. It is stored as the months since the year 0, or 0 if it is zero.
type month time.Time

func monthNumber(of time.Time) int64 {
	if of.IsZero() {
		return 0
	}
	return int64(of.Year())*12 + int64(of.Month()) - 1
}

func (m *month) Scan(stored any) error {
	n, ok := stored.(int64)
	if !ok {
		return fmt.Errorf("month is %T, not a number", stored)
	}
	if *m = (month{}); n != 0 {
		*m = month(time.Date(int(n/12), time.Month(n%12)+1, 1, 0, 0, 0, 0, time.UTC))
	}
	return nil
}

// Account is one account as of the log position that the read model has reached.
type Account struct {
	ID       string         `json:"id"`
	Holder   string         `json:"holder"` // opaque id in the side table of names
	Plan     plan.ID        `json:"plan"`
	Status   account.Status `json:"status"`
	Balance  int64          `json:"balance"` // credits; open holds do not lower it
	OpenedAt time.Time      `json:"opened_at"`
	Revision uint64         `json:"revision"` // of the last event folded
	// SpentMonth is the beginning of the latest month (UTC) in which the account was charged, and Spent the credits
	// charged in it, less those that were returned since it began. Both are zero before the first charge.
	SpentMonth time.Time `json:"spent_month"`
	Spent      int64     `json:"spent"`
	// UsedAt is the time of the latest look-up that held or cost credits, or of the latest use of a key that is
	// recorded. It is zero before.
	UsedAt time.Time `json:"used_at"`
}

// Model is the read model.
type Model struct{ projections.Model }

// New returns the read model; it answers once a Runner has started it.
func New(store *sqlstore.Store) *Model {
	return &Model{projections.NewModel(Name, store, projections.Version{
		Number:  2,
		Streams: []string{account.StreamPrefix, usage.StreamPrefix},
		Tables:  []projections.Table{table.Table()},
		NewFold: table.Fold(keptRows, subjects, fold),
	})}
}

// Get returns an account. Errors: ErrNotFound, projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) Get(ctx context.Context, id string) (*Account, error) {
	a, found, err := table.Get(ctx, m.Handle(), id)
	if err != nil {
		return nil, fmt.Errorf("get account %s: %w", id, err)
	}
	if !found {
		return nil, fmt.Errorf("%s: %w", id, ErrNotFound)
	}
	return &a, nil
}

// sorts are the columns by which Select sorts, by the name that a Selection uses.
var sorts = map[string][]string{
	"": nil, "id": nil, "balance": {"balance"}, "spend": {"spent_month", "spent"}, "used": {"used_at"},
	"plan": {"plan"}, "status": {"status"}, "opened": {"opened_at"},
}

// Sorts are the values of Selection.Sort.
var Sorts = []string{"id", "balance", "spend", "used", "plan", "status", "opened"}

// PresentOnly reports whether an order is by values of the present, which the ledger does not have for a past time.
func PresentOnly(sort string) bool { return sort == "spend" || sort == "used" }

// Selection selects and sorts accounts.
type Selection struct {
	Plan   plan.ID        // empty for all
	Status account.Status // empty for all
	// From and Until, if not zero, select the accounts that were opened from a time on and before another.
	From, Until time.Time
	// Sort is one of Sorts; by id if empty. By spend, the latest month in which an account was charged counts first.
	Sort       string
	Descending bool
}

// Opened reports whether an account was opened from From on and before Until.
func (s *Selection) Opened(a Account) bool {
	return !a.OpenedAt.Before(s.From) && (s.Until.IsZero() || a.OpenedAt.Before(s.Until))
}

// Select returns at most limit accounts (no more than MaxPage) after the given one, which is nil for the first page. If
// an account changes its place in the order between two pages, it is returned twice or not at all. Errors:
// projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err(), or an error that names an unknown Sort.
func (m *Model) Select(ctx context.Context, s Selection, after *Account, limit int) ([]Account, error) {
	by, ok := sorts[s.Sort]
	if !ok {
		return nil, fmt.Errorf("accounts cannot be sorted by %q", s.Sort)
	}
	page := projections.Page[string, Account]{By: by, Descending: s.Descending,
		Limit: min(max(limit, 0), MaxPage), After: after}
	page.Equal("plan", string(s.Plan))
	page.Equal("status", string(s.Status))
	page.Between("opened_at", s.From, s.Until)
	if after != nil {
		page.AfterKey = after.ID
	}
	all, err := table.Page(ctx, m.Handle(), page)
	return all, sqlstore.Wrap(err, "list accounts")
}

// Find returns the accounts that have one of some values as their id or their holder, by both. Errors: as List.
func (m *Model) Find(ctx context.Context, values []any) (map[string]*Account, error) {
	found := map[string]*Account{}
	err := m.Handle().Read(func(q projections.Queryer, t *projections.Tables) error {
		keep := func(_ string, a Account) { found[a.ID], found[a.Holder] = &a, &a }
		for part := range slices.Chunk(values, perQuery) {
			if err := cmp.Or(table.In(ctx, q, t, "id", part, keep), table.In(ctx, q, t, "holder", part, keep)); err != nil {
				return err
			}
		}
		return nil
	})
	return found, sqlstore.Wrap(err, "find accounts")
}

// List returns at most limit accounts (no more than MaxPage) with ids after the given one, ordered by
// id. Errors: projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) List(ctx context.Context, after string, limit int) ([]Account, error) {
	all, err := table.List(ctx, m.Handle(), "WHERE id > $1 ORDER BY id LIMIT $2", after, min(max(limit, 0), MaxPage))
	return all, sqlstore.Wrap(err, "list accounts")
}

// Outstanding is the credits that the accounts of a plan and a status have.
type Outstanding struct {
	Plan     plan.ID        `json:"plan"`
	Status   account.Status `json:"status"`
	Accounts int64          `json:"accounts"` // whose balance is above zero
	Credits  int64          `json:"credits"`  // the sum of these balances
}

// Outstanding returns the credits outstanding, ordered by plan and status. Errors: projections.ErrNotReady,
// sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) Outstanding(ctx context.Context) ([]Outstanding, error) {
	var all []Outstanding
	err := m.Handle().Read(func(q projections.Queryer, t *projections.Tables) (err error) {
		all, err = sqlstore.AllRows(ctx, q,
			t.SQL(selectOutstanding), func(o *Outstanding, row projections.Scanner) error {
				return row.Scan(&o.Plan, &o.Status, &o.Accounts, &o.Credits)
			})
		return err
	})
	return all, sqlstore.Wrap(err, "sum up the credits outstanding")
}

// fold applies an event. Ticks of several nodes come in any order.
func fold(rows *projections.Rows[string, Account], e *projections.Event) error {
	ticked, ok := e.Body.(eventschemas.UsageTicked)
	if !ok && e.Prefix == account.StreamPrefix {
		apply(rows.Change(e.Subject), e)
	}
	for i := range ticked.Entries {
		u := &ticked.Entries[i]
		for _, used := range u.KeysUsed {
			if a := rows.Get(u.AccountID); a != nil && used.At.After(a.UsedAt) {
				rows.Change(u.AccountID).UsedAt = used.At.UTC().Truncate(time.Microsecond)
			}
		}
	}
	return nil
}

// subjects returns the accounts that events are about.
func subjects(events []*projections.Event) iter.Seq[string] {
	var all []string
	for _, e := range events {
		if e.Prefix == account.StreamPrefix {
			all = append(all, e.Subject)
		}
		if ticked, ok := e.Body.(eventschemas.UsageTicked); ok {
			for i := range ticked.Entries {
				if len(ticked.Entries[i].KeysUsed) > 0 {
					all = append(all, ticked.Entries[i].AccountID)
				}
			}
		}
	}
	return slices.Values(all)
}

func apply(a *Account, e *projections.Event) {
	a.Revision = e.Revision
	a.Balance += account.Delta(e.Body)
	switch ev := e.Body.(type) {
	case eventschemas.AccountOpened:
		a.Holder, a.Plan, a.Status, a.OpenedAt = ev.Holder, plan.ID(ev.Plan), account.Active, e.OccurredAt
	case eventschemas.PlanChanged:
		a.Plan = plan.ID(ev.To)
	case eventschemas.AccountSuspended:
		a.Status = account.Suspended
	case eventschemas.AccountReinstated:
		a.Status = account.Active
	case eventschemas.AccountClosed:
		a.Status = account.Closed
	case eventschemas.CreditsHeld:
		a.used(e.OccurredAt)
	case eventschemas.CreditsCharged:
		if month := books.MonthOf(e.OccurredAt); !month.Equal(a.SpentMonth) {
			a.SpentMonth, a.Spent = month, 0
		}
		a.Spent += ev.Credits
		a.used(e.OccurredAt)
	case eventschemas.ChargeReversed: // of this month, or of the last hours of the month before
		a.Spent = max(a.Spent-ev.Credits, 0)
	}
}

func (a *Account) used(at time.Time) {
	if at.After(a.UsedAt) {
		a.UsedAt = at
	}
}
