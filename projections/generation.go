package projections

import (
	"context"
	"fmt"
	"sync/atomic"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
)

// generation is one set of a read model's tables with the fold that fills it. The fold belongs to the lane
// that the generation is in, which alone moves the position.
type generation struct {
	model   *model
	version *Version
	number  int
	tables  *Tables
	fold    Fold
	at      atomic.Uint64
	readers readers
}

func (g *generation) position() eventlog.Position { return eventlog.Position(g.at.Load()) }

// committed tells the fold that its changes stand. Under the model's lock, so that what was live when the
// transaction ended cannot tell readers anything after another generation took its place.
func (g *generation) committed(c Changes) {
	if c.Committed == nil {
		return
	}
	g.model.mu.Lock()
	defer g.model.mu.Unlock()
	c.Committed(g.model.live == g)
}

func (m *model) generation(v *Version, number int, position eventlog.Position) *generation {
	g := &generation{model: m, version: v, number: number, tables: newTables(m.name, v, number)}
	g.at.Store(uint64(position))
	g.fold = v.NewFold(g.tables, position == 0)
	return g
}

// create makes the tables of a generation, with indexes when nothing will be loaded in bulk.
func (g *generation) create(ctx context.Context, tx *sqlstore.Tx, state string) error {
	for _, t := range g.version.Tables {
		if _, err := tx.ExecContext(ctx, g.tables.SQL(t.Create)); err != nil {
			return fmt.Errorf("create table %s: %w", g.tables.names[t.Name], err)
		}
	}
	return insertEntry(ctx, tx, entry{
		name: g.model.name, version: g.version.Number, generation: g.number, state: state, position: g.position(),
	})
}

// index makes the indexes that are not there yet.
func (g *generation) index(ctx context.Context, tx *sqlstore.Tx) error {
	for _, t := range g.version.Tables {
		for _, statement := range t.Indexes {
			if _, err := tx.ExecContext(ctx, g.tables.SQL(statement)); err != nil {
				return fmt.Errorf("create index on %s: %w", g.tables.names[t.Name], err)
			}
		}
	}
	return nil
}

// drop deletes a generation that may be of a version that this binary does not know: its tables are those
// whose names begin as its tables' do.
func drop(ctx context.Context, tx *sqlstore.Tx, e entry) error {
	prefix := fmt.Sprintf("%s_v%d_g%d_", e.name, e.version, e.generation)
	names, err := sqlstore.TablesWithPrefix(ctx, tx, prefix)
	if err != nil {
		return fmt.Errorf("find tables of %s generation %d: %w", e.name, e.generation, err)
	}
	for _, name := range names {
		if _, err := tx.ExecContext(ctx, `DROP TABLE "`+name+`"`); err != nil {
			return fmt.Errorf("drop table %s: %w", name, err)
		}
	}
	_, err = tx.ExecContext(ctx, "DELETE FROM projections_registry WHERE name = $1 AND generation = $2", e.name, e.generation)
	if err != nil {
		return fmt.Errorf("forget %s generation %d: %w", e.name, e.generation, err)
	}
	return nil
}
