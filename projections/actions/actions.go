// Package actions is the read model of what operators have done: every event that an operator caused.
package actions

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const (
	// Name of the read model.
	Name    = "actions"
	version = 1

	// keptRows limits the rows that the fold keeps between batches. It never reads one again.
	keptRows = 1

	// actorPrefix precedes the id of a token, or cli for the command line, in the actor of what operators do.
	actorPrefix = "operator:"
)

// at is microseconds since 1970.
const (
	create = `
CREATE TABLE {actions} (
	position   BIGINT NOT NULL PRIMARY KEY,
	at         BIGINT NOT NULL,
	actor      TEXT   NOT NULL,
	type       TEXT   NOT NULL,
	stream     TEXT   NOT NULL,
	revision   BIGINT NOT NULL,
	request_id TEXT   NOT NULL
)`
	indexActor  = `CREATE INDEX IF NOT EXISTS {actions}_by_actor ON {actions} (actor, position)`
	indexStream = `CREATE INDEX IF NOT EXISTS {actions}_by_stream ON {actions} (stream, position)`
)

var table = projections.Keyed[uint64, Action]{
	Table:     projections.Table{Name: "actions", Create: create, Indexes: []string{indexActor, indexStream}, Key: []string{"position"}},
	Columns:   []string{"at", "actor", "type", "stream", "revision", "request_id"},
	Compare:   cmp.Compare[uint64],
	AppendKey: func(values []any, position uint64) []any { return append(values, int64(position)) },
	AppendRow: func(values []any, a *Action) []any {
		return append(values, a.At.UnixMicro(), a.Actor, a.Type, a.Stream, int64(a.Revision), a.RequestID)
	},
	Scan: func(row projections.Scanner, position *uint64, a *Action) error {
		var at int64
		err := row.Scan(position, &at, &a.Actor, &a.Type, &a.Stream, &a.Revision, &a.RequestID)
		a.Position, a.At = *position, time.UnixMicro(at).UTC()
		return err
	},
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
		Categories: projections.Accounts | projections.Brands | projections.Books | projections.Checkpoints | projections.Operators | projections.Notices | projections.SignIns | projections.Billing,
		Tables:     []projections.Table{table.Table},
		NewFold: func(t *projections.Tables, empty bool) projections.Fold {
			return &fold{tables: t, rows: table.Rows(t, keptRows, empty)}
		},
	}}
}

// Filter selects actions. Empty fields select all.
type Filter struct{ Actor, Stream string }

// List returns the selected actions before a position, the last ones if it is 0, the newest first. Errors:
// projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) List(ctx context.Context, f Filter, before uint64, limit int) ([]Action, error) {
	below := int64(math.MaxInt64)
	if before > 0 {
		below = int64(before)
	}
	where, args := "WHERE position < $1", []any{below}
	for _, column := range []struct{ name, value string }{{"actor", f.Actor}, {"stream", f.Stream}} {
		if column.value != "" {
			args = append(args, column.value)
			where += fmt.Sprintf(" AND %s = $%d", column.name, len(args))
		}
	}
	args = append(args, max(limit, 0))
	all, err := table.List(ctx, m.handle, fmt.Sprintf("%s ORDER BY position DESC LIMIT $%d", where, len(args)), args...)
	if err != nil {
		return nil, fmt.Errorf("list actions of operators: %w", err)
	}
	return all, nil
}

type fold struct {
	tables *projections.Tables
	rows   *projections.Rows[uint64, Action]
}

// Fold implements projections.Fold.
func (f *fold) Fold(_ context.Context, _ projections.Queryer, events []*projections.Event) (projections.Changes, error) {
	for _, e := range events {
		if strings.HasPrefix(e.Metadata.Actor, actorPrefix) {
			*f.rows.Change(uint64(e.Position)) = Action{
				Position: uint64(e.Position), At: e.OccurredAt, Actor: e.Metadata.Actor, Type: e.Type, Stream: e.Stream, Revision: e.Revision, RequestID: e.Metadata.RequestID,
			}
		}
	}
	return projections.Changes{Write: table.Take(f.tables, f.rows, nil)}, nil
}

// Reset implements projections.Fold.
func (f *fold) Reset() { f.rows.Reset() }
