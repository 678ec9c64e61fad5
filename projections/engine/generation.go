package engine

import (
	"context"
	"fmt"
	"sync/atomic"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

// generation is one set of a read model's tables with the fold that fills it. The fold belongs to the lane
// that the generation is in, which alone moves the position. A node that does not fold has none.
type generation struct {
	model   *model
	version *projections.Version
	number  int
	tables  *projections.Tables
	state   string           // of the registry; it changes while the lane is between two batches
	fold    projections.Fold // nil on a node that only reads
	at      atomic.Uint64
	readers *readers
}

func (g *generation) position() eventlog.Position { return eventlog.Position(g.at.Load()) }

// committed tells the fold that its changes stand. Under the model's lock, so that what was live when the
// transaction ended cannot tell readers anything after another generation took its place.
func (g *generation) committed(c projections.Changes) {
	if c.Committed == nil {
		return
	}
	g.model.mu.Lock()
	defer g.model.mu.Unlock()
	c.Committed(g.model.live == g)
}

// known is a generation without a fold.
func (m *model) known(v *projections.Version, e entry) *generation {
	g := &generation{
		model: m, version: v, number: e.generation, state: e.state, tables: m.tables(v, e.generation), readers: &readers{},
	}
	g.at.Store(uint64(e.position))
	return g
}

// generation is one that this node folds.
func (m *model) generation(v *projections.Version, e entry) *generation {
	g := m.known(v, e)
	g.fold = v.NewFold(g.tables, e.position == 0)
	return g
}

func (m *model) tables(v *projections.Version, generation int) *projections.Tables {
	return projections.NewTables(m.name, v, generation, positionSQL(m.name, generation))
}

// following is a number that no generation has, or had in this process's time.
func (m *model) following(entries []entry) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range entries {
		if e.name == m.name {
			m.lastGen = max(m.lastGen, e.generation)
		}
	}
	m.lastGen++
	return m.lastGen
}

// begin registers a new generation and makes its tables, with indexes when nothing will be loaded in bulk.
func (m *model) begin(ctx context.Context, tx *sqlstore.Tx, v *projections.Version, number int, state string) (entry, error) {
	e := entry{name: m.name, version: v.Number, generation: number, state: state}
	tables, store := m.tables(v, number), m.r.store
	for _, t := range v.Tables {
		if _, err := tx.ExecContext(ctx, store.DDL(tables.SQL(t.Create))); err != nil {
			return entry{}, fmt.Errorf("create table %s: %w", tables.Name(t.Name), err)
		}
	}
	return e, insertEntry(ctx, tx, e)
}

// index makes the indexes that are not there yet.
func (g *generation) index(ctx context.Context, tx *sqlstore.Tx) error {
	for _, t := range g.version.Tables {
		for _, statement := range t.Indexes {
			if _, err := tx.ExecContext(ctx, g.tables.SQL(statement)); err != nil {
				return fmt.Errorf("create index on %s: %w", g.tables.Name(t.Name), err)
			}
		}
	}
	return nil
}

// drop deletes a generation, whose state is the entry's, and its tables. Errors: errDeposed when it is in
// another state or gone.
func drop(ctx context.Context, tx *sqlstore.Tx, e entry) error {
	err := one(tx.ExecContext(ctx, "DELETE FROM projections_registry WHERE name = $1 AND generation = $2 AND state = $3",
		e.name, int64(e.generation), e.state))
	if err != nil {
		return fmt.Errorf("forget %s generation %d: %w", e.name, e.generation, err)
	}
	return dropTables(ctx, tx, e)
}

// dropTables finds the tables by their names, which begin alike: the version may be one that this binary
// does not know.
func dropTables(ctx context.Context, tx *sqlstore.Tx, e entry) error {
	prefix := fmt.Sprintf("%s_v%d_g%d_", e.name, e.version, e.generation)
	names, err := sqlstore.TablesWithPrefix(ctx, tx, prefix)
	if err != nil {
		return fmt.Errorf("find tables of %s generation %d: %w", e.name, e.generation, err)
	}
	for _, name := range names {
		if _, err := tx.ExecContext(ctx, `DROP TABLE IF EXISTS "`+name+`"`); err != nil {
			return fmt.Errorf("drop table %s: %w", name, err)
		}
	}
	return nil
}
