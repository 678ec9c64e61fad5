package loss

import (
	"context"
	"fmt"
	"slices"

	"letterhead/domain/account"
	"letterhead/internal/eventlog"
	"letterhead/internal/runs"
	"letterhead/internal/sqlstore"
)

// sweeperMemory is the name in the table of snapshots under which the sweeper saves a position, not a
// revision (workers/sweep).
const sweeperMemory = "sweep"

const snapshotTable, positionsTable = "stream_snapshots", "positions"

// readSnapshots returns the highest revision of the snapshots of each stream, for the longest streams.
func readSnapshots(ctx context.Context, store *sqlstore.Store, limit int) (map[string]uint64, error) {
	out := map[string]uint64{}
	const longest = "SELECT stream, max(revision) FROM " + snapshotTable + " GROUP BY stream ORDER BY 2 DESC LIMIT $1"
	err := eachRow(ctx, store, longest, []any{limit},
		func(stream string, revision int64) { out[stream] = uint64(revision) })
	if err != nil {
		return nil, fmt.Errorf("read the revisions of snapshots: %w", err)
	}
	return out, nil
}

// readPositions returns the positions up to which relays and workers have read the log.
func readPositions(ctx context.Context, store *sqlstore.Store) (map[string]eventlog.Position, error) {
	out := map[string]eventlog.Position{}
	err := eachRow(ctx, store, "SELECT name, position FROM "+positionsTable, nil,
		func(name string, at int64) { out[name] = eventlog.Position(at) })
	if err != nil {
		return nil, fmt.Errorf("read the checkpoints: %w", err)
	}
	return out, nil
}

// eachRow calls do for each row of a text and a number; a missing table has none.
func eachRow(ctx context.Context, store *sqlstore.Store, query string, args []any, do func(string, int64)) error {
	rows, err := store.Read().QueryContext(ctx, query, args...)
	if sqlstore.IsUndefinedTable(err) {
		return nil
	}
	if err != nil {
		return sqlstore.Classify(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var number int64
		if err := rows.Scan(&name, &number); err != nil {
			return sqlstore.Classify(err)
		}
		do(name, number)
	}
	return sqlstore.Classify(rows.Err())
}

// present returns the tables that exist in the database.
func present(ctx context.Context, tx *sqlstore.Tx, tables ...string) ([]string, error) {
	var out []string
	for _, table := range tables {
		names, err := sqlstore.TablesWithPrefix(ctx, tx, table)
		if err != nil {
			return nil, err
		}
		if slices.Contains(names, table) {
			out = append(out, table)
		}
	}
	return out, nil
}

// Snapshots that forget deletes.
const (
	allSnapshots = ""
	// notOfAccounts selects those that may contain positions, such as the sweeper's memory.
	notOfAccounts = " WHERE stream NOT LIKE '" + account.StreamPrefix + "%'"
)

// forget deletes what depends on positions: every checkpoint, which charges of earlier runs were answered, and the
// snapshots selected by allSnapshots or notOfAccounts.
func forget(ctx context.Context, tx *sqlstore.Tx, snapshots string) error {
	tables, err := present(ctx, tx, positionsTable, runs.Table, snapshotTable)
	if err != nil {
		return err
	}
	for _, table := range tables {
		if table == runs.Table {
			if err := runs.Forget(ctx, tx); err != nil {
				return fmt.Errorf("forget which charges were answered: %w", err)
			}
			continue
		}
		where := snapshots
		if table == positionsTable {
			where = ""
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+where); err != nil {
			return fmt.Errorf("forget the rows of %s: %w", table, err)
		}
	}
	return nil
}

// forgetSnapshots deletes the snapshots of streams that lost events.
func forgetSnapshots(ctx context.Context, tx *sqlstore.Tx, streams []string) error {
	tables, err := present(ctx, tx, snapshotTable)
	if err != nil || len(tables) == 0 {
		return err
	}
	for _, stream := range streams {
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+snapshotTable+" WHERE stream = $1", stream); err != nil {
			return fmt.Errorf("forget the snapshot of %s: %w", stream, err)
		}
	}
	return nil
}

// resetPositions moves checkpoints past the head back to it.
func resetPositions(ctx context.Context, tx *sqlstore.Tx, head eventlog.Position) error {
	tables, err := present(ctx, tx, positionsTable)
	if err != nil || len(tables) == 0 {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE positions SET position = $1 WHERE position > $1",
		int64(head)); err != nil {
		return fmt.Errorf("move checkpoints back: %w", err)
	}
	return nil
}

// setPositions sets the checkpoints of the named readers to a position.
func setPositions(ctx context.Context, tx *sqlstore.Tx, names []string, head eventlog.Position) error {
	tables, err := present(ctx, tx, positionsTable)
	if err != nil || len(tables) == 0 {
		return err
	}
	for _, name := range names {
		_, err := tx.ExecContext(ctx, "INSERT INTO positions (name, position) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET position = excluded.position",
			name, int64(head))
		if err != nil {
			return fmt.Errorf("set the checkpoint of %s: %w", name, err)
		}
	}
	return nil
}
