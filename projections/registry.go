package projections

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
)

// States of a generation in the registry.
const (
	stateLive     = "live"     // it is read
	stateBuilding = "building" // it will be live when it has caught up
	stateScratch  = "scratch"  // it is for one comparison
	stateRetired  = "retired"  // its tables are to be dropped
)

const createRegistry = `
CREATE TABLE IF NOT EXISTS projections_registry (
	name         TEXT   NOT NULL,
	fold_version BIGINT NOT NULL,
	generation   BIGINT NOT NULL,
	state        TEXT   NOT NULL,
	position     BIGINT NOT NULL,
	failure      TEXT   NOT NULL,
	PRIMARY KEY (name, generation)
)`

// entry is a row of the registry.
type entry struct {
	name       string
	version    int
	generation int
	state      string
	position   eventlog.Position
	failure    string // why it was set aside, empty when it was not
}

func readRegistry(ctx context.Context, q Queryer) ([]entry, error) {
	rows, err := q.QueryContext(ctx, `
SELECT name, fold_version, generation, state, position, failure
FROM projections_registry ORDER BY name, generation`)
	if err != nil {
		return nil, fmt.Errorf("read the registry of projections: %w", err)
	}
	defer rows.Close()
	var all []entry
	for rows.Next() {
		var e entry
		if err := rows.Scan(&e.name, &e.version, &e.generation, &e.state, &e.position, &e.failure); err != nil {
			return nil, fmt.Errorf("read the registry of projections: %w", err)
		}
		all = append(all, e)
	}
	return all, rows.Err()
}

func readPosition(ctx context.Context, q Queryer, name string, generation int) (eventlog.Position, error) {
	var at int64
	err := q.QueryRowContext(ctx, `
SELECT position FROM projections_registry WHERE name = $1 AND generation = $2`, name, generation).Scan(&at)
	if err != nil {
		return 0, fmt.Errorf("read the position of %s: %w", name, err)
	}
	return eventlog.Position(at), nil
}

func insertEntry(ctx context.Context, tx *sqlstore.Tx, e entry) error {
	_, err := tx.ExecContext(ctx, `
INSERT INTO projections_registry (name, fold_version, generation, state, position, failure)
VALUES ($1, $2, $3, $4, $5, $6)`, e.name, e.version, e.generation, e.state, int64(e.position), e.failure)
	if err != nil {
		return fmt.Errorf("register %s generation %d: %w", e.name, e.generation, err)
	}
	return nil
}

func setState(ctx context.Context, tx *sqlstore.Tx, name string, generation int, state string) error {
	_, err := tx.ExecContext(ctx, `
UPDATE projections_registry SET state = $1 WHERE name = $2 AND generation = $3`, state, name, generation)
	if err != nil {
		return fmt.Errorf("make %s generation %d %s: %w", name, generation, state, err)
	}
	return nil
}

func setFailure(ctx context.Context, tx *sqlstore.Tx, name string, generation int, failure string) error {
	_, err := tx.ExecContext(ctx, `
UPDATE projections_registry SET failure = $1 WHERE name = $2 AND generation = $3`, failure, name, generation)
	if err != nil {
		return fmt.Errorf("note the failure of %s: %w", name, err)
	}
	return nil
}

// checkpoint moves all generations of a lane to one position. The statement is one however many there
// are: it is part of every live batch.
func checkpoint(ctx context.Context, tx *sqlstore.Tx, units []*generation, to eventlog.Position) error {
	if to > math.MaxInt64 {
		return fmt.Errorf("checkpoint: position %d is past what the database can hold", to)
	}
	var where strings.Builder
	args := make([]any, 1, 1+2*len(units))
	args[0] = int64(to)
	for i, g := range units {
		if i > 0 {
			where.WriteString(" OR ")
		}
		fmt.Fprintf(&where, "(name = $%d AND generation = $%d)", len(args)+1, len(args)+2)
		args = append(args, g.model.name, int64(g.number))
	}
	res, err := tx.ExecContext(ctx, "UPDATE projections_registry SET position = $1 WHERE "+where.String(), args...)
	if err != nil {
		return fmt.Errorf("checkpoint at position %d: %w", to, err)
	}
	if n, err := res.RowsAffected(); err != nil || n != int64(len(units)) {
		return errors.Join(err, fmt.Errorf("checkpoint at position %d: %d of %d generations are registered", to, n, len(units)))
	}
	return nil
}
