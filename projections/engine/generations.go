package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

// States of a generation in the registry.
const (
	stateLive     = "live"     // it is read
	stateBuilding = "building" // it will be live when it has caught up
	// stateNext: its version is newer than the live one and will be live when the upgrade is finished. Releases that
	// do not know the state leave such a generation alone.
	stateNext    = "next"
	stateScratch = "scratch" // it is for one comparison
	stateRetired = "retired" // its tables are to be dropped
	stateFailed  = "failed"  // a rebuild could not fill it; the reason is for who asked for it
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

func readRegistry(ctx context.Context, q projections.Queryer) ([]entry, error) {
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

// positionSQL is NULL if the tables are not live in the state of the database that the statement sees, else the
// position up to which they are folded there.
func positionSQL(name string, generation int) string {
	return fmt.Sprintf("(SELECT position FROM projections_registry WHERE name = '%s' AND generation = %d AND state = '%s')",
		name, generation, stateLive) // a name is a word: see validate
}

// readEntry reads one generation's row.
func readEntry(ctx context.Context, q projections.Queryer, name string, generation int) (entry, error) {
	e := entry{name: name, generation: generation}
	err := q.QueryRowContext(ctx, `
SELECT fold_version, state, position, failure FROM projections_registry WHERE name = $1 AND generation = $2`,
		name, generation).Scan(&e.version, &e.state, &e.position, &e.failure)
	if errors.Is(err, sql.ErrNoRows) {
		return entry{}, fmt.Errorf("%s generation %d is not registered: %w", name, generation, projections.ErrRetired)
	}
	if err != nil {
		return entry{}, fmt.Errorf("read the position of %s: %w", name, err)
	}
	return e, nil
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

// errDeposed: what this node works on is not as it left it: another node leads.
var errDeposed = errors.New("another node has taken the read models over")

// one is nil when a statement changed one row, else errDeposed.
func one(res sql.Result, err error) error {
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err != nil {
		return err
	}
	if n != 1 {
		return errDeposed
	}
	return nil
}

// setState moves a generation that stands where this node left it from its state to another. Errors:
// errDeposed.
func setState(ctx context.Context, tx *sqlstore.Tx, g *generation, state string) error {
	err := one(tx.ExecContext(ctx, `
UPDATE projections_registry SET state = $1 WHERE name = $2 AND generation = $3 AND state = $4 AND position = $5`,
		state, g.model.name, int64(g.number), g.state, int64(g.position())))
	if err != nil {
		return fmt.Errorf("make %s generation %d %s: %w", g.model.name, g.number, state, err)
	}
	return nil
}

// setFailure notes why a generation does not go on, if it stands where this node left it. Errors: errDeposed.
func setFailure(ctx context.Context, tx *sqlstore.Tx, g *generation, failure string) error {
	err := one(tx.ExecContext(ctx, `
UPDATE projections_registry SET failure = $1 WHERE name = $2 AND generation = $3 AND state = $4 AND position = $5`,
		failure, g.model.name, int64(g.number), g.state, int64(g.position())))
	if err != nil {
		return fmt.Errorf("note the failure of %s: %w", g.model.name, err)
	}
	return nil
}

// checkpoint moves all generations of a lane from where each stands to one position. The statement is one
// however many there are: it is part of every live batch. Errors: errDeposed when one of them does not
// stand there or is not in the state that this node knows; then nothing of the batch may be written.
func checkpoint(ctx context.Context, tx *sqlstore.Tx, units []*generation, to eventlog.Position) error {
	if to > math.MaxInt64 {
		return fmt.Errorf("checkpoint: position %d is past what the database can hold", to)
	}
	var where strings.Builder
	const each = 4
	args := make([]any, 1, 1+each*len(units))
	args[0] = int64(to)
	for i, g := range units {
		if i > 0 {
			where.WriteString(" OR ")
		}
		n := len(args)
		fmt.Fprintf(&where, "(name = $%d AND generation = $%d AND state = $%d AND position = $%d)", n+1, n+2, n+3, n+4)
		args = append(args, g.model.name, int64(g.number), g.state, int64(g.position()))
	}
	res, err := tx.ExecContext(ctx, "UPDATE projections_registry SET position = $1 WHERE "+where.String(), args...)
	if err != nil {
		return fmt.Errorf("checkpoint at position %d: %w", to, err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return fmt.Errorf("checkpoint at position %d: %w", to, err)
	}
	if n != int64(len(units)) {
		return fmt.Errorf("checkpoint at position %d: %d of %d generations stand where they did: %w", to, n, len(units), errDeposed)
	}
	return nil
}
