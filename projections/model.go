package projections

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"

	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
)

// Model is what read models have in common. A read model embeds it to be a Projection.
type Model struct {
	name     string
	handle   *Handle
	versions []Version
}

// NewModel returns the Model with a name and versions; see Projection. Its handle answers once an engine has started
// it.
func NewModel(name string, store *sqlstore.Store, versions ...Version) Model {
	return Model{name, NewHandle(name, store), versions}
}

// Name implements Projection.
func (m *Model) Name() string { return m.name }

// Handle implements Projection.
func (m *Model) Handle() *Handle { return m.handle }

// Versions implements Projection.
func (m *Model) Versions() []Version { return m.versions }

// Opened is a Model whose rows decide who may enter. After a crash its tables may lack a revocation that was confirmed,
// so Current does not read them before they are folded up to a position.
type Opened struct {
	Model
	from atomic.Uint64
}

// Open sets that position: the head of the log when the node started.
func (m *Opened) Open(from eventlog.Position) { m.from.Store(uint64(from)) }

// Current is Handle.Snapshot of tables that are folded up to that position. A change that they hold takes effect on
// every node as soon as it is folded. Other errors: ErrNotReady.
func (m *Opened) Current(ctx context.Context, fn func(q Queryer, t *Tables) error) error {
	return m.handle.Snapshot(ctx, func(q Queryer, t *Tables, at eventlog.Position) error {
		if from := eventlog.Position(m.from.Load()); at < from {
			return fmt.Errorf("%s: before position %d: %w", m.name, from, ErrNotReady)
		}
		return fn(q, t)
	})
}

// Fold returns the NewFold of a version whose only table is d. want returns the keys of the rows that apply reads; it
// is nil if apply reads none. apply applies one event. About limit rows are kept between batches.
func (d *Keyed[K, V]) Fold(limit int, want func([]*Event) iter.Seq[K],
	apply func(*Rows[K, V], *Event) error) func(*Tables, bool) Fold {
	return func(t *Tables, empty bool) Fold {
		return &keyedFold[K, V]{table: d, tables: t, rows: d.Rows(t, limit, empty), want: want, apply: apply}
	}
}

type keyedFold[K comparable, V any] struct {
	table  *Keyed[K, V]
	tables *Tables
	rows   *Rows[K, V]
	want   func([]*Event) iter.Seq[K]
	apply  func(*Rows[K, V], *Event) error
}

func (f *keyedFold[K, V]) Fold(ctx context.Context, q Queryer, events []*Event) (Changes, error) {
	if f.want != nil {
		if err := f.rows.Want(ctx, q, f.want(events)); err != nil {
			return Changes{}, err
		}
	}
	for i := range delay.InTurns(len(events)) {
		if err := f.apply(f.rows, events[i]); err != nil {
			return Changes{}, events[i].Errorf("%w", err)
		}
	}
	return Changes{Write: f.table.Take(f.tables, f.rows, nil)}, nil
}

func (f *keyedFold[K, V]) Reset() { f.rows.Reset() }

// Writing returns the Write of Changes that calls functions in order.
func Writing(all ...func(context.Context, *sqlstore.Tx) error) func(context.Context, *sqlstore.Tx) error {
	return func(ctx context.Context, tx *sqlstore.Tx) error {
		for _, write := range all {
			if err := write(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	}
}

// Keys returns the keys that of returns for events, where it reports one.
func Keys[K any](of func(e *Event) (k K, ok bool)) func(events []*Event) iter.Seq[K] {
	return func(events []*Event) iter.Seq[K] {
		return func(yield func(K) bool) {
			for _, e := range events {
				if k, ok := of(e); ok && !yield(k) {
					return
				}
			}
		}
	}
}

// Verification is the result of a comparison for one read model.
type Verification struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	// Position is where both sets of tables were compared, Rows the number of rows.
	Position eventlog.Position `json:"position"`
	Rows     int64             `json:"rows"`
	// Difference is the first one found, nil if every column of every row agrees.
	Difference *Difference `json:"difference,omitempty"`
	// Err is the reason why nothing could be compared: the read model is quarantined, or its fold failed in the replay.
	Err error `json:"-"`
}

// OK reports whether the tables were compared and agree.
func (v Verification) OK() bool { return v.Err == nil && v.Difference == nil }

// Difference is a row or column in which the live tables differ from those folded from the log.
type Difference struct {
	Table string `json:"table"`
	// Key is the row's primary key.
	Key string `json:"key"`
	// Column is empty if one side has no such row.
	Column  string `json:"column,omitempty"`
	Live    string `json:"live"`
	Rebuilt string `json:"rebuilt"`
}

func (d *Difference) String() string {
	if d.Column == "" {
		return fmt.Sprintf("table %s, row %s: live %s, rebuilt %s", d.Table, d.Key, d.Live, d.Rebuilt)
	}
	return fmt.Sprintf("table %s, row %s, column %s: live %s, rebuilt %s", d.Table, d.Key, d.Column, d.Live, d.Rebuilt)
}

// Comparison is the result of comparing the live tables of a read model with rebuilt ones.
type Comparison struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	// Position is where both sets of tables were compared.
	Position eventlog.Position `json:"position"`
	Tables   []TableComparison `json:"tables"`
	// Err is the reason why nothing could be compared.
	Err error `json:"-"`
}

// Same reports whether the tables were compared and agree.
func (c *Comparison) Same() bool {
	for i := range c.Tables {
		if t := &c.Tables[i]; t.OnlyLive+t.OnlyRebuilt+t.Changed > 0 {
			return false
		}
	}
	return c.Err == nil
}

// TableComparison counts the rows of a table by what became of them.
type TableComparison struct {
	Table       string `json:"table"`
	Same        int64  `json:"same"`
	OnlyLive    int64  `json:"only_live"`
	OnlyRebuilt int64  `json:"only_rebuilt"`
	Changed     int64  `json:"changed"`
	// First are the first rows that differ, in the order of the key; of a changed row, the first column that differs.
	First []Difference `json:"first,omitempty"`
}
