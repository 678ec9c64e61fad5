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
	Name = "checkpoints"
	// MaxPage limits the checkpoints of a page.
	MaxPage = 1000
	// keptRows limits the rows that the fold keeps between batches. It never reads one again.
	keptRows = 1
)

// ErrNone: the ledger has no checkpoint yet.
var ErrNone = errors.New("the ledger has no checkpoint")

var table = projections.Keyed[uint64, Checkpoint]{
	Name: "checkpoints",
	Key:  projections.NumberKey("size"),
	Columns: []projections.Column[Checkpoint]{
		projections.Time("made_at", func(c *Checkpoint) *time.Time { return &c.At }),
		projections.Text("note", func(c *Checkpoint) *string { return &c.Note }),
	},
	Compare: cmp.Compare[uint64],
	Found:   func(size uint64, c *Checkpoint) { c.Size = size },
}

// Checkpoint is a checkpoint of the ledger.
type Checkpoint struct {
	Size uint64    // of the log of checkpoints, with this one
	At   time.Time // at which it began
	Note string    // signed
}

// Model is the read model.
type Model struct{ projections.Model }

// New returns the read model; it answers once a Runner has started it.
func New(store *sqlstore.Store) *Model {
	return &Model{projections.NewModel(Name, store, projections.Version{
		Number:  1,
		Streams: []string{eventschemas.CheckpointsStream},
		Tables:  []projections.Table{table.Table()},
		NewFold: table.Fold(keptRows, nil, fold),
	})}
}

// Last returns the last checkpoint. Errors: ErrNone, projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) Last(ctx context.Context) (*Checkpoint, error) {
	all, err := table.List(ctx, m.Handle(), "ORDER BY size DESC LIMIT 1")
	if err != nil {
		return nil, fmt.Errorf("get the last checkpoint: %w", err)
	}
	if len(all) == 0 {
		return nil, ErrNone
	}
	return &all[0], nil
}

// List returns checkpoints before the one of a size, the last ones if it is 0, the newest first. Errors:
// projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) List(ctx context.Context, before uint64, limit int) ([]Checkpoint, error) {
	below := int64(math.MaxInt64)
	if before > 0 {
		below = int64(before)
	}
	all, err := table.List(ctx, m.Handle(), "WHERE size < $1 ORDER BY size DESC LIMIT $2", below,
		min(max(limit, 0), MaxPage))
	return all, sqlstore.Wrap(err, "list checkpoints")
}

func fold(rows *projections.Rows[uint64, Checkpoint], e *projections.Event) error {
	if ev, ok := e.Body.(eventschemas.LedgerCheckpointed); ok {
		*rows.Change(eventschemas.CheckpointSize(e.Revision)) = Checkpoint{At: e.OccurredAt, Note: ev.Note}
	}
	return nil
}
