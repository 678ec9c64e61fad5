package engine

import (
	"context"
	"fmt"
	"sync/atomic"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

// generation is one set of a read model's tables with the fold that fills it. The fold belongs to the loop that the
// generation is in; only that loop moves the position. A node that does not fold has no fold.
type generation struct {
	model   *model
	version *projections.Version
	number  int
	tables  *projections.Tables
	state   string           // as in projections_registry; changes between two batches of the loop
	fold    projections.Fold // nil on a follower
	hold    bool             // the fold may keep rows in memory, see projections.Tables.Hold
	at      atomic.Uint64
	readers *readers
}

func (g *generation) position() eventlog.Position { return eventlog.Position(g.at.Load()) }

// reset drops what the fold has in memory. Rows that it held are folded again from the generation's position on.
func (g *generation) reset() {
	g.fold.Reset()
	g.tables.Hold(g.hold)
}

// committed tells the fold that its changes are committed. It holds the model's lock, so that a generation that was
// live when the transaction ended cannot inform readers after another one replaced it.
func (g *generation) committed(c projections.Changes) {
	if c.Committed == nil {
		return
	}
	g.model.mu.Lock()
	defer g.model.mu.Unlock()
	c.Committed(g.model.live == g)
}

// withoutFold returns a generation that this node only reads.
func (m *model) withoutFold(v *projections.Version, e record) *generation {
	g := &generation{
		model: m, version: v, number: e.generation, state: e.state, tables: m.tables(v, e.generation),
		readers: &readers{},
	}
	g.at.Store(uint64(e.position))
	return g
}

// withFold returns a generation that this node folds.
func (m *model) withFold(v *projections.Version, e record) *generation {
	g := m.withoutFold(v, e)
	g.tables.Shared = m.r.shared
	g.fold = v.NewFold(g.tables, e.position == 0)
	return g
}

func (m *model) tables(v *projections.Version, generation int) *projections.Tables {
	return projections.NewTables(m.name, v, generation, positionSQL(m.name, generation))
}

// nextNumber returns a number that no generation has, or had since this process started.
func (m *model) nextNumber(records []record) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range records {
		if e.name == m.name {
			m.lastGen = max(m.lastGen, e.generation)
		}
	}
	m.lastGen++
	return m.lastGen
}

// begin registers a new generation and creates its tables, without the indexes.
func (m *model) begin(ctx context.Context, tx *sqlstore.Tx, v *projections.Version, number int,
	state string) (record, error) {
	e := record{name: m.name, version: v.Number, generation: number, state: state}
	tables, store := m.tables(v, number), m.r.store
	for _, t := range v.Tables {
		if _, err := tx.ExecContext(ctx, store.DDL(tables.SQL(t.Create))); err != nil {
			return record{}, fmt.Errorf("create table %s: %w", tables.Name(t.Name), err)
		}
	}
	return e, insertRecord(ctx, tx, e, "")
}

// index creates missing indexes.
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

// drop deletes a generation, which must be in the record's state, and its tables. Errors: errDeposed if it is in
// another state or gone.
func drop(ctx context.Context, tx *sqlstore.Tx, e record) error {
	err := oneRow(tx.ExecContext(ctx,
		"DELETE FROM projections_registry WHERE name = $1 AND generation = $2 AND state = $3",
		e.name, int64(e.generation), e.state))
	if err != nil {
		return fmt.Errorf("forget %s generation %d: %w", e.name, e.generation, err)
	}
	return dropTables(ctx, tx, e)
}

// dropTables finds the tables by the common prefix of their names: this binary may not know the version.
func dropTables(ctx context.Context, tx *sqlstore.Tx, e record) error {
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
