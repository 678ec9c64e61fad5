// Package checkpoints is the read model of the ledger's checkpoints: the signed note of each.
package checkpoints

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const (
	// Name of the read model.
	Name    = "checkpoints"
	version = 1

	// keptRows limits the rows that the fold keeps between batches. It never reads one again.
	keptRows = 1
)

// ErrNone: the ledger has no checkpoint yet.
var ErrNone = errors.New("the ledger has no checkpoint")

// made_at is microseconds since 1970.
const create = `
CREATE TABLE {checkpoints} (
	size    BIGINT NOT NULL PRIMARY KEY,
	made_at BIGINT NOT NULL,
	note    TEXT   NOT NULL
)`

var table = projections.Keyed[uint64, Checkpoint]{
	Table:     projections.Table{Name: "checkpoints", Create: create, Key: []string{"size"}},
	Columns:   []string{"made_at", "note"},
	Compare:   cmp.Compare[uint64],
	AppendKey: func(values []any, size uint64) []any { return append(values, int64(size)) },
	AppendRow: func(values []any, c *Checkpoint) []any { return append(values, c.At.UnixMicro(), c.Note) },
	Scan: func(row projections.Scanner, size *uint64, c *Checkpoint) error {
		var at int64
		err := row.Scan(size, &at, &c.Note)
		c.Size, c.At = *size, time.UnixMicro(at).UTC()
		return err
	},
}

// Checkpoint is a checkpoint of the ledger.
type Checkpoint struct {
	Size uint64    // of the log of checkpoints, with this one
	At   time.Time // at which it began
	Note string    // signed
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
		Categories: projections.Checkpoints,
		Tables:     []projections.Table{table.Table},
		NewFold: func(t *projections.Tables, empty bool) projections.Fold {
			return &fold{tables: t, rows: table.Rows(t, keptRows, empty)}
		},
	}}
}

// Last returns the last checkpoint. Errors: ErrNone, projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) Last(ctx context.Context) (*Checkpoint, error) {
	all, err := table.List(ctx, m.handle, "ORDER BY size DESC LIMIT 1")
	if err != nil {
		return nil, fmt.Errorf("get the last checkpoint: %w", err)
	}
	if len(all) == 0 {
		return nil, ErrNone
	}
	return &all[0], nil
}

// MaxPage limits the checkpoints of a page.
const MaxPage = 1000

// List returns checkpoints before that of a size, the last ones if it is 0, the newest first. Errors: projections.ErrNotReady,
// sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) List(ctx context.Context, before uint64, limit int) ([]Checkpoint, error) {
	below := int64(math.MaxInt64)
	if before > 0 {
		below = int64(before)
	}
	all, err := table.List(ctx, m.handle, "WHERE size < $1 ORDER BY size DESC LIMIT $2", below, min(max(limit, 0), MaxPage))
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	return all, nil
}

type fold struct {
	tables *projections.Tables
	rows   *projections.Rows[uint64, Checkpoint]
}

// Fold implements projections.Fold.
func (f *fold) Fold(_ context.Context, _ projections.Queryer, events []*projections.Event) (projections.Changes, error) {
	for _, e := range events {
		if ev, ok := e.Body.(eventschemas.LedgerCheckpointed); ok {
			size := eventschemas.CheckpointSize(e.Revision)
			*f.rows.Change(size) = Checkpoint{Size: size, At: e.OccurredAt, Note: ev.Note}
		}
	}
	return projections.Changes{Write: table.Take(f.tables, f.rows, nil)}, nil
}

// Reset implements projections.Fold.
func (f *fold) Reset() { f.rows.Reset() }
