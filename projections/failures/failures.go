// Package failures is the read model of crawls that failed, across all brands.
package failures

import (
	"cmp"
	"context"
	"time"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const (
	// Name of the read model.
	Name = "failures"
	// keptRows limits the rows that the fold keeps between batches. It never reads one again.
	keptRows = 1
)

var table = projections.Keyed[uint64, Failure]{
	Name: "failures",
	Key:  projections.NumberKey("position"),
	Columns: []projections.Column[Failure]{
		projections.Time("at", func(f *Failure) *time.Time { return &f.At }),
		projections.Text("domain", func(f *Failure) *string { return &f.Domain }),
		projections.Text("crawl_id", func(f *Failure) *string { return &f.CrawlID }),
		projections.Text("outcome", func(f *Failure) *string { return &f.Outcome }),
		projections.Text("detail", func(f *Failure) *string { return &f.Detail }),
	},
	Indexes: []projections.Index{{Name: "by_outcome", On: "(outcome, position)"}},
	Compare: cmp.Compare[uint64],
	Found:   func(position uint64, f *Failure) { f.Position = position },
}

// Failure is a crawl that failed.
type Failure struct {
	Position uint64    `json:"position"`
	At       time.Time `json:"at"`
	Domain   string    `json:"domain"`
	CrawlID  string    `json:"crawl_id"`
	Outcome  string    `json:"outcome"` // one of brand.Failures
	Detail   string    `json:"detail"`  // why, in a sentence
}

// Model is the read model.
type Model struct{ projections.Model }

// New returns the read model; it answers once a Runner has started it.
func New(store *sqlstore.Store) *Model {
	return &Model{projections.NewModel(Name, store, projections.Version{
		Number:  1,
		Streams: []string{brand.StreamPrefix},
		Tables:  []projections.Table{table.Table()},
		NewFold: table.Fold(keptRows, nil, fold),
	})}
}

// Filter selects failures.
type Filter struct {
	Outcome     string    // empty for all
	Domain      string    // empty for all
	DomainPart  string    // that domains have in them; empty for all
	From, Until time.Time // from a time on and before another; zero is open
}

// List returns the selected failures before a position, the last ones if it is 0, the
// newest first. Errors: projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) List(ctx context.Context, f Filter, before uint64, limit int) ([]Failure, error) {
	page := projections.Page[uint64, Failure]{Descending: true, Limit: max(limit, 0), AfterKey: before}
	page.Equal("outcome", f.Outcome)
	page.Equal("domain", f.Domain)
	page.Contains("domain", f.DomainPart)
	page.Between("at", f.From, f.Until)
	if before > 0 {
		page.After = &Failure{}
	}
	all, err := table.Page(ctx, m.Handle(), page)
	return all, sqlstore.Wrap(err, "list crawls that failed")
}

func fold(rows *projections.Rows[uint64, Failure], e *projections.Event) error {
	if ev, ok := e.Body.(eventschemas.CrawlFailed); ok {
		*rows.Change(uint64(e.Position)) = Failure{
			At: e.OccurredAt, Domain: e.Subject, CrawlID: ev.CrawlID, Outcome: ev.Outcome, Detail: ev.Detail,
		}
	}
	return nil
}
