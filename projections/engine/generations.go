package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

// States of a generation in projections_registry.
const (
	stateLive     = "live"     // it is read
	stateBuilding = "building" // it will be live when it has caught up
	// stateNext: the version is newer than the live one and becomes live when the upgrade is finished. Releases that do
	// not know the state ignore such a generation.
	stateNext    = "next"
	stateScratch = "scratch" // for one Verify
	stateFilling = "filling" // Replace fills and compares it, or was interrupted; no loop folds it
	stateRetired = "retired" // its tables are to be dropped
	stateFailed  = "failed"  // a rebuild could not fill it; the reason is kept for the node that asked
)

const createGenerations = `
CREATE TABLE IF NOT EXISTS projections_registry (
	name         TEXT   NOT NULL,
	fold_version BIGINT NOT NULL,
	generation   BIGINT NOT NULL,
	state        TEXT   NOT NULL,
	position     BIGINT NOT NULL,
	failure      TEXT   NOT NULL,
	PRIMARY KEY (name, generation)
)`

// record is a row of projections_registry.
type record struct {
	name       string
	version    int
	generation int
	state      string
	position   eventlog.Position
	failure    string // why it is quarantined, or empty
}

// find returns the record of a read model with a state, or nil.
func find(records []record, name, state string) *record {
	i := slices.IndexFunc(records, func(e record) bool { return e.name == name && e.state == state })
	if i < 0 {
		return nil
	}
	return &records[i]
}

func readGenerations(ctx context.Context, q projections.Queryer) ([]record, error) {
	all, err := sqlstore.AllRows(ctx, q, `
SELECT name, fold_version, generation, state, position, failure
FROM projections_registry ORDER BY name, generation`, func(e *record, row projections.Scanner) error {
		return row.Scan(&e.name, &e.version, &e.generation, &e.state, &e.position, &e.failure)
	})
	return all, sqlstore.Wrap(err, "read projections_registry")
}

// positionSQL is NULL if the tables are not live in the state of the database that the statement sees, else the
// position up to which they are folded there.
func positionSQL(name string, generation int) string {
	return fmt.Sprintf(
		"(SELECT position FROM projections_registry WHERE name = '%s' AND generation = %d AND state = '%s')",
		name, generation, stateLive) // a name is a word: see validate
}

// readRecord reads one generation's row.
func readRecord(ctx context.Context, q projections.Queryer, name string, generation int) (record, error) {
	e := record{name: name, generation: generation}
	err := q.QueryRowContext(ctx, `
SELECT fold_version, state, position, failure FROM projections_registry WHERE name = $1 AND generation = $2`,
		name, generation).Scan(&e.version, &e.state, &e.position, &e.failure)
	if errors.Is(err, sql.ErrNoRows) {
		return record{}, fmt.Errorf("%s generation %d is not registered: %w", name, generation, projections.ErrRetired)
	}
	return e, sqlstore.Wrap(err, "read the position of %s", name)
}

// replaceRecord replaces a row of the same name and generation.
const replaceRecord = `
ON CONFLICT (name, generation) DO UPDATE SET fold_version = excluded.fold_version, position = excluded.position, failure = excluded.failure`

// insertRecord inserts a row. If there is one of that name and generation, it fails, unless conflict is a clause.
func insertRecord(ctx context.Context, tx *sqlstore.Tx, e record, conflict string) error {
	_, err := tx.ExecContext(ctx, `
INSERT INTO projections_registry (name, fold_version, generation, state, position, failure)
VALUES ($1, $2, $3, $4, $5, $6) `+conflict,
		e.name, e.version, e.generation, e.state, int64(e.position), e.failure)
	return sqlstore.Wrap(err, "register %s generation %d", e.name, e.generation)
}

// errDeposed: the state in the database is not the one that this node left, so another node leads.
var errDeposed = errors.New("another node has taken over the read models")

// oneRow returns nil if a statement changed one row, else errDeposed.
func oneRow(res sql.Result, err error) error {
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

// setState changes the state of a generation that is still in the state and at the position in which this node left it.
// Errors: errDeposed.
func setState(ctx context.Context, tx *sqlstore.Tx, g *generation, state string) error {
	return sqlstore.Wrap(update(ctx, tx, g, "state", state), "make %s generation %d %s", g.model.name, g.number, state)
}

// setFailure records why a generation is stopped, under the condition of setState. Errors: errDeposed.
func setFailure(ctx context.Context, tx *sqlstore.Tx, g *generation, failure string) error {
	return sqlstore.Wrap(update(ctx, tx, g, "failure", failure), "record the failure of %s", g.model.name)
}

func update(ctx context.Context, tx *sqlstore.Tx, g *generation, column, value string) error {
	return oneRow(tx.ExecContext(ctx, `
UPDATE projections_registry SET `+column+` = $1 WHERE name = $2 AND generation = $3 AND state = $4 AND position = $5`,
		value, g.model.name, int64(g.number), g.state, int64(g.position())))
}

// checkpoint moves all generations of a loop from their positions to another, or checks only their positions if that is
// 0. It is part of every live batch, so it is one statement for all of them. Errors: errDeposed if one of them is not
// at the position or in the state that this node knows; then nothing of the batch may be written.
func checkpoint(ctx context.Context, tx *sqlstore.Tx, units []*generation, to eventlog.Position) error {
	if to > math.MaxInt64 {
		return fmt.Errorf("checkpoint: position %d exceeds the range of the database", to)
	}
	if len(units) == 0 {
		return nil
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
	res, err := tx.ExecContext(ctx, `
UPDATE projections_registry SET position = CASE WHEN $1 > 0 THEN $1 ELSE position END WHERE `+where.String(), args...)
	if err != nil {
		return fmt.Errorf("checkpoint at position %d: %w", to, err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return fmt.Errorf("checkpoint at position %d: %w", to, err)
	}
	if n != int64(len(units)) {
		return fmt.Errorf("checkpoint at position %d: %d of %d generations are unchanged: %w",
			to, n, len(units), errDeposed)
	}
	return nil
}
