// Package accounts is the read model of accounts: holder, plan, status and balance of each. It lags
// the log by moments; only the account stream decides what a request may spend.
package accounts

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const (
	// Name of the read model.
	Name    = "accounts"
	version = 1

	// MaxPage limits the accounts that Select and List return.
	MaxPage = 10_000
	// keptRows limits the rows, of about 200 bytes each, that the fold keeps between batches.
	keptRows = 100_000
)

// ErrNotFound: there is no such account.
var ErrNotFound = errors.New("account not found")

// opened_at is microseconds since 1970.
const create = `
CREATE TABLE {accounts} (
	id        TEXT   NOT NULL PRIMARY KEY,
	holder    TEXT   NOT NULL,
	plan      TEXT   NOT NULL,
	status    TEXT   NOT NULL,
	balance   BIGINT NOT NULL,
	opened_at BIGINT NOT NULL,
	revision  BIGINT NOT NULL
)`

var table = projections.Keyed[string, Account]{
	Table:     projections.Table{Name: "accounts", Create: create, Key: []string{"id"}},
	Columns:   []string{"holder", "plan", "status", "balance", "opened_at", "revision"},
	Compare:   strings.Compare,
	AppendKey: projections.AppendText,
	AppendRow: func(values []any, a *Account) []any {
		return append(values, a.Holder, string(a.Plan), string(a.Status), a.Balance, a.OpenedAt.UnixMicro(), int64(a.Revision))
	},
	Scan: func(row projections.Scanner, id *string, a *Account) error {
		var opened int64
		err := row.Scan(id, &a.Holder, &a.Plan, &a.Status, &a.Balance, &opened, &a.Revision)
		a.ID, a.OpenedAt = *id, time.UnixMicro(opened).UTC()
		return err
	},
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
		Categories: projections.Accounts,
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
var sorts = map[string]string{"": "", "id": "", "balance": "balance", "plan": "plan", "status": "status", "opened": "opened_at"}

// Sorts are the values of Selection.Sort.
var Sorts = []string{"id", "balance", "plan", "status", "opened"}

// Selection selects and sorts accounts.
type Selection struct {
	Plan       plan.ID        // empty for all
	Status     account.Status // empty for all
	Sort       string         // one of Sorts; by id if empty
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
	if err := f.rows.Want(ctx, q, projections.Subjects(events)); err != nil {
		return projections.Changes{}, err
	}
	for _, e := range events {
		apply(f.rows.Change(e.Subject), e)
	}
	return projections.Changes{Write: table.Take(f.tables, f.rows, nil)}, nil
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
	}
}
