// Package actions is the read model of what operators have done: every event that an operator caused.
package actions

import (
	"cmp"
	"context"
	"strings"
	"time"

	"letterhead/domain/account"
	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const (
	// Name of the read model.
	Name = "actions"
	// keptRows limits the rows that the fold keeps between batches. It never reads one again.
	keptRows = 1

	// actorPrefix precedes the id of a token, or cli for the command line, in the actor of what operators do.
	actorPrefix = "operator:"
)

var table = projections.Keyed[uint64, Action]{
	Name: "actions",
	Key:  projections.NumberKey("position"),
	Columns: []projections.Column[Action]{
		projections.Time("at", func(a *Action) *time.Time { return &a.At }),
		projections.Text("actor", func(a *Action) *string { return &a.Actor }),
		projections.Text("type", func(a *Action) *string { return &a.Type }),
		projections.Text("stream", func(a *Action) *string { return &a.Stream }),
		projections.Number("revision", func(a *Action) *uint64 { return &a.Revision }),
		projections.Text("request_id", func(a *Action) *string { return &a.RequestID }),
	},
	Indexes: []projections.Index{{Name: "by_actor", On: "(actor, position)"}, {Name: "by_stream",
		On: "(stream, position)"}},
	Compare: cmp.Compare[uint64],
	Found:   func(position uint64, a *Action) { a.Position = position },
}

// Action is an event that an operator caused.
type Action struct {
	Position  uint64    `json:"position"`
	At        time.Time `json:"at"`
	Actor     string    `json:"actor"` // operator:ID of a token, or operator:cli
	Type      string    `json:"type"`  // of the event
	Stream    string    `json:"stream"`
	Revision  uint64    `json:"revision"`
	RequestID string    `json:"request_id"`
}

// Model is the read model.
type Model struct{ projections.Model }

// New returns the read model; it answers once a Runner has started it.
func New(store *sqlstore.Store) *Model {
	return &Model{projections.NewModel(Name, store, projections.Version{
		Number: 1,
		Streams: []string{account.StreamPrefix,
			brand.StreamPrefix, eventschemas.BooksStream, eventschemas.CheckpointsStream, eventschemas.OperatorsStream,
			eventschemas.NoticesPrefix, eventschemas.SignInsPrefix, eventschemas.BillingPrefix},
		Tables:  []projections.Table{table.Table()},
		NewFold: table.Fold(keptRows, nil, fold),
	})}
}

// Filter selects actions. Empty fields select all.
type Filter struct {
	Actor, Stream string    // empty for all
	From, Until   time.Time // from a time on and before another; zero is open
}

// List returns the selected actions before a position, the last ones if it is 0, the newest first. Errors:
// projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) List(ctx context.Context, f Filter, before uint64, limit int) ([]Action, error) {
	page := projections.Page[uint64, Action]{Descending: true, Limit: max(limit, 0), AfterKey: before}
	page.Equal("actor", f.Actor)
	page.Equal("stream", f.Stream)
	page.Between("at", f.From, f.Until)
	if before > 0 {
		page.After = &Action{}
	}
	all, err := table.Page(ctx, m.Handle(), page)
	return all, sqlstore.Wrap(err, "list actions of operators")
}

func fold(rows *projections.Rows[uint64, Action], e *projections.Event) error {
	if strings.HasPrefix(e.Metadata.Actor, actorPrefix) {
		*rows.Change(uint64(e.Position)) = Action{
			At: e.OccurredAt, Actor: e.Metadata.Actor, Type: e.Type, Stream: e.Stream, Revision: e.Revision,
			RequestID: e.Metadata.RequestID,
		}
	}
	return nil
}
