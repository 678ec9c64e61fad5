// Package failures is the read model of crawls that failed, across all brands.
package failures

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const (
	// Name of the read model.
	Name    = "failures"
	version = 1

	// keptRows limits the rows that the fold keeps between batches. It never reads one again.
	keptRows = 1
)

// at is microseconds since 1970.
const (
	create = `
CREATE TABLE {failures} (
	position BIGINT NOT NULL PRIMARY KEY,
	at       BIGINT NOT NULL,
	domain   TEXT   NOT NULL,
	crawl_id TEXT   NOT NULL,
	outcome  TEXT   NOT NULL,
	detail   TEXT   NOT NULL
)`
	indexOutcome = `CREATE INDEX IF NOT EXISTS {failures}_by_outcome ON {failures} (outcome, position)`
)

var table = projections.Keyed[uint64, Failure]{
	Table:     projections.Table{Name: "failures", Create: create, Indexes: []string{indexOutcome}, Key: []string{"position"}},
	Columns:   []string{"at", "domain", "crawl_id", "outcome", "detail"},
	Compare:   cmp.Compare[uint64],
	AppendKey: func(values []any, position uint64) []any { return append(values, int64(position)) },
	AppendRow: func(values []any, f *Failure) []any {
		return append(values, f.At.UnixMicro(), f.Domain, f.CrawlID, f.Outcome, f.Detail)
	},
	Scan: func(row projections.Scanner, position *uint64, f *Failure) error {
		var at int64
		err := row.Scan(position, &at, &f.Domain, &f.CrawlID, &f.Outcome, &f.Detail)
		f.Position, f.At = *position, time.UnixMicro(at).UTC()
		return err
	},
}

// Failure is a crawl that failed.
type Failure struct {
	Position uint64    `json:"position"`
	At       time.Time `json:"at"`
	Domain   string    `json:"domain"`
	CrawlID  string    `json:"crawl_id"`
	Outcome  string    `json:"outcome"` // timeout, blocked, fetch_failed, dns, no_data
	Detail   string    `json:"detail"`  // why, in a sentence
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
		Categories: projections.Brands,
		Tables:     []projections.Table{table.Table},
		NewFold: func(t *projections.Tables, empty bool) projections.Fold {
			return &fold{tables: t, rows: table.Rows(t, keptRows, empty)}
		},
	}}
}

// List returns the failures with an outcome, all if it is empty, before a position, the last ones if it is 0, the newest
// first. Errors: projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) List(ctx context.Context, outcome string, before uint64, limit int) ([]Failure, error) {
	page := projections.Page[uint64, Failure]{Descending: true, Limit: max(limit, 0), AfterKey: before}
	page.Equal("outcome", outcome)
	if before > 0 {
		page.After = &Failure{}
	}
	all, err := table.Page(ctx, m.handle, page)
	if err != nil {
		return nil, fmt.Errorf("list crawls that failed: %w", err)
	}
	return all, nil
}

type fold struct {
	tables *projections.Tables
	rows   *projections.Rows[uint64, Failure]
}

// Fold implements projections.Fold.
func (f *fold) Fold(_ context.Context, _ projections.Queryer, events []*projections.Event) (projections.Changes, error) {
	for _, e := range events {
		if ev, ok := e.Body.(eventschemas.CrawlFailed); ok {
			*f.rows.Change(uint64(e.Position)) = Failure{
				Position: uint64(e.Position), At: e.OccurredAt, Domain: e.Subject, CrawlID: ev.CrawlID, Outcome: ev.Outcome, Detail: ev.Detail,
			}
		}
	}
	return projections.Changes{Write: table.Take(f.tables, f.rows, nil)}, nil
}

// Reset implements projections.Fold.
func (f *fold) Reset() { f.rows.Reset() }
