// Package accounts is the read model of accounts: holder, plan, status, balance, spend and last use of each. It
// lags the log by moments; only the account stream decides what a request may spend.
package accounts

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"letterhead/domain/account"
	"letterhead/domain/books"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const (
	// Name of the read model.
	Name = "accounts"
	// version of the table.
	version = 2

	// MaxPage limits the accounts that Select and List return.
	MaxPage = 10_000
	// keptRows limits the rows, of about 200 bytes each, that the fold keeps between batches.
	keptRows = 100_000
)

// ErrNotFound: there is no such account.
var ErrNotFound = errors.New("account not found")

// opened_at and used_at are microseconds since 1970, spent_month is months since the year 0; the last two are 0 for never.
const (
	create = `
CREATE TABLE {accounts} (
	id          TEXT   NOT NULL PRIMARY KEY,
	holder      TEXT   NOT NULL,
	plan        TEXT   NOT NULL,
	status      TEXT   NOT NULL,
	balance     BIGINT NOT NULL,
	opened_at   BIGINT NOT NULL,
	revision    BIGINT NOT NULL,
	spent_month BIGINT NOT NULL,
	spent       BIGINT NOT NULL,
	used_at     BIGINT NOT NULL
)`
	// The indexes let a page of a sorted listing read its own rows only. They have plan and status, because a
	// filter that few accounts match would otherwise read all rows in the order of an index: a second for 100,000 accounts.
	indexBalance = `CREATE INDEX IF NOT EXISTS {accounts}_by_balance ON {accounts} (balance, id, plan, status)`
	indexSpend   = `CREATE INDEX IF NOT EXISTS {accounts}_by_spend ON {accounts} (spent_month, spent, id, plan, status)`
	indexUse     = `CREATE INDEX IF NOT EXISTS {accounts}_by_use ON {accounts} (used_at, id, plan, status)`
	// indexCredits is for selectOutstanding, whose order it has. It has a condition so that listings do not use it.
	indexCredits = `CREATE INDEX IF NOT EXISTS {accounts}_by_credits ON {accounts} (plan, status, balance) WHERE balance > 0`

	selectOutstanding = `SELECT plan, status, count(*), sum(balance) FROM {accounts} WHERE balance > 0 GROUP BY plan, status ORDER BY plan, status`
)

var table = projections.Keyed[string, Account]{
	Table: projections.Table{
		Name: "accounts", Create: create, Key: []string{"id"},
		Indexes: []string{indexBalance, indexSpend, indexUse, indexCredits},
	},
	Columns: []string{
		"holder", "plan", "status", "balance", "opened_at", "revision", "spent_month", "spent", "used_at",
	},
	Compare:   strings.Compare,
	AppendKey: projections.AppendText,
	AppendRow: func(values []any, a *Account) []any {
		return append(values, a.Holder, string(a.Plan), string(a.Status), a.Balance, a.OpenedAt.UnixMicro(),
			int64(a.Revision), monthNumber(a.SpentMonth), a.Spent, micros(a.UsedAt))
	},
	Scan: func(row projections.Scanner, id *string, a *Account) error {
		var opened, month, used int64
		err := row.Scan(id, &a.Holder, &a.Plan, &a.Status, &a.Balance, &opened, &a.Revision, &month, &a.Spent, &used)
		a.ID, a.OpenedAt = *id, time.UnixMicro(opened).UTC()
		if month != 0 {
			a.SpentMonth = time.Date(int(month/12), time.Month(month%12)+1, 1, 0, 0, 0, 0, time.UTC)
		}
		if used != 0 {
			a.UsedAt = time.UnixMicro(used).UTC()
		}
		return err
	},
}

// monthNumber returns the months since the year 0, and 0 for the zero time.
func monthNumber(month time.Time) int64 {
	if month.IsZero() {
		return 0
	}
	return int64(month.Year())*12 + int64(month.Month()) - 1
}

func micros(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMicro()
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
	// UsedAt is the time of the latest look-up that held or cost credits, or of the latest use of a key that is recorded. It
	// is zero before.
	UsedAt time.Time `json:"used_at"`
}

// Model is the read model.
type Model struct{ handle *projections.Handle }

// New returns the read model; it answers once a Runner has started it.
func New(store *sqlstore.Store) *Model {
	return &Model{handle: projections.NewHandle(Name, store)}
}

// Name implements projections.Projection.
func (m *Model) Name() string { return Name }

// Handle implements projections.Projection.
func (m *Model) Handle() *projections.Handle { return m.handle }

// Versions implements projections.Projection.
func (m *Model) Versions() []projections.Version {
	return []projections.Version{{
		Number:     version,
		Categories: projections.Accounts | projections.Usage,
		Tables:     []projections.Table{table.Table},
		NewFold:    newFold,
	}}
}

// Get returns an account. Errors: ErrNotFound, projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) Get(ctx context.Context, id string) (*Account, error) {
	a, found, err := table.Get(ctx, m.handle, id)
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
	"": nil, "id": nil, "balance": {"balance"}, "spend": {"spent_month", "spent"}, "used": {"used_at"}, "plan": {"plan"}, "status": {"status"}, "opened": {"opened_at"},
}

// Sorts are the values of Selection.Sort.
var Sorts = []string{"id", "balance", "spend", "used", "plan", "status", "opened"}

// PresentOnly reports whether an order is by values of the present, which the ledger does not have for a past time.
func PresentOnly(sort string) bool { return sort == "spend" || sort == "used" }

// Selection selects and sorts accounts.
type Selection struct {
	Plan   plan.ID        // empty for all
	Status account.Status // empty for all
	// Sort is one of Sorts; by id if empty. By spend, the latest month in which an account was charged counts first.
	Sort       string
	Descending bool
}

// Select returns at most limit accounts (no more than MaxPage) after the given one, which is nil for the
// first page. If an account changes its place in the order between two pages, it is returned twice or
// not at all. Errors: projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err(), or an error that
// names an unknown Sort.
func (m *Model) Select(ctx context.Context, s Selection, after *Account, limit int) ([]Account, error) {
	by, ok := sorts[s.Sort]
	if !ok {
		return nil, fmt.Errorf("accounts cannot be sorted by %q", s.Sort)
	}
	page := projections.Page[string, Account]{By: by, Descending: s.Descending, Limit: min(max(limit, 0), MaxPage), After: after}
	page.Equal("plan", string(s.Plan))
	page.Equal("status", string(s.Status))
	if after != nil {
		page.AfterKey = after.ID
	}
	all, err := table.Page(ctx, m.handle, page)
	if err != nil {
		return nil, fmt.Errorf("list accounts: %w", err)
	}
	return all, nil
}

// List returns at most limit accounts (no more than MaxPage) with ids after the given one, ordered by
// id. Errors: projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) List(ctx context.Context, after string, limit int) ([]Account, error) {
	all, err := table.List(ctx, m.handle, "WHERE id > $1 ORDER BY id LIMIT $2", after, min(max(limit, 0), MaxPage))
	if err != nil {
		return nil, fmt.Errorf("list accounts: %w", err)
	}
	return all, nil
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
	err := m.handle.Read(func(q projections.Queryer, t *projections.Tables) error {
		all = nil // drops rows of an earlier attempt
		rows, err := q.QueryContext(ctx, t.SQL(selectOutstanding))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var o Outstanding
			if err := rows.Scan(&o.Plan, &o.Status, &o.Accounts, &o.Credits); err != nil {
				return err
			}
			all = append(all, o)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("sum up the credits outstanding: %w", err)
	}
	return all, nil
}

// fold caches the rows it touches.
type fold struct {
	tables *projections.Tables
	rows   *projections.Rows[string, Account]
}

func newFold(t *projections.Tables, empty bool) projections.Fold {
	return &fold{tables: t, rows: table.Rows(t, keptRows, empty)}
}

// Fold implements projections.Fold.
func (f *fold) Fold(ctx context.Context, q projections.Queryer, events []*projections.Event) (projections.Changes, error) {
	if err := f.rows.Want(ctx, q, subjects(events)); err != nil {
		return projections.Changes{}, err
	}
	for _, e := range events {
		if ticked, ok := e.Body.(eventschemas.UsageTicked); ok {
			f.tick(ticked)
		} else if e.Category == projections.Accounts {
			apply(f.rows.Change(e.Subject), e)
		}
	}
	return projections.Changes{Write: table.Take(f.tables, f.rows, nil)}, nil
}

// subjects returns the accounts that events are about.
func subjects(events []*projections.Event) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, e := range events {
			if e.Category == projections.Accounts && !yield(e.Subject) {
				return
			}
			if ticked, ok := e.Body.(eventschemas.UsageTicked); ok {
				for i := range ticked.Entries {
					if len(ticked.Entries[i].KeysUsed) > 0 && !yield(ticked.Entries[i].AccountID) {
						return
					}
				}
			}
		}
	}
}

// tick records uses of keys. Ticks of several nodes come in any order.
func (f *fold) tick(ticked eventschemas.UsageTicked) {
	for i := range ticked.Entries {
		u := &ticked.Entries[i]
		for _, used := range u.KeysUsed {
			if a := f.rows.Get(u.AccountID); a != nil && used.At.After(a.UsedAt) {
				f.rows.Change(u.AccountID).UsedAt = used.At.UTC().Truncate(time.Microsecond)
			}
		}
	}
}

// Reset implements projections.Fold.
func (f *fold) Reset() { f.rows.Reset() }

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
