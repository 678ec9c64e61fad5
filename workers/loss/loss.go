// Package loss compares the event log with all data about an earlier state of it, and lets an operator
// continue without missing events.
//
// The log is the only truth, so it cannot itself show that its end is gone. The database can: the registry of the read
// models (engine.FoldedLog: the first event, one of the last, a position for each read model), snapshots by the
// revision of their stream, the sweeper's memory, and the positions of relays and workers. The head marker next to a
// log file belongs to the log adapter (internal/eventlog/sqlite). A log that lacks what one of these witnesses
// remembers is shorter than it was, or is another log: Verify returns a *eventlog.LossError, and no process may append,
// fold or rebuild.
//
// Accept records the loss as an event (eventschemas.LossAccepted) and discards the data about the lost events. Filling
// does the same for a log that a restore or a migration writes. Both may be killed at any time: a row of the database
// records that they have begun, Verify fails while it exists, and running the command again finishes them.
package loss

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/runs"
	"letterhead/internal/sqlstore"
	"letterhead/projections/engine"
)

const (
	// MaxSnapshots limits the snapshots that one comparison looks up, starting with the longest streams. A look-up
	// takes about ten microseconds in a log file, and about a hundred in an event store.
	MaxSnapshots = 2048
	// lookups is how many snapshots are looked up at the same time.
	lookups = 32
	// looks is how often a shared store is compared before a loss is reported: a replica may lag for a moment.
	looks = 5
)

// lookPause is the pause between two comparisons; tests shorten it.
var lookPause = time.Second

// Kinds of work that may be in progress.
const (
	acceptWork = "recover accept-loss"
	// Restore and Migrate fill a log; see Filling.
	Restore = "restore"
	Migrate = "migrate"
)

// UnfinishedError reports that a command which replaces the log, or the data about it, was interrupted.
type UnfinishedError struct {
	Work  string // the command's name without "letterhead"
	Since time.Time
}

func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("%q was begun at %s and has not finished; run it again to finish it",
		"letterhead "+e.Work, e.Since.UTC().Format(time.RFC3339))
}

// Is makes errors.Is(err, eventlog.ErrLoss) true while a loss is being accepted.
func (e *UnfinishedError) Is(target error) bool {
	return target == eventlog.ErrLoss && e.Work == acceptWork
}

// Verify compares a log with all data about it in the database. With a shared database it compares
// several times before it reports a loss.
//
// Errors: a *eventlog.LossError for the witness that remembers most; *UnfinishedError; the errors of the
// log and of the database; ctx.Err().
func Verify(ctx context.Context, store *sqlstore.Store, log eventlog.Prober) error {
	p, err := readPending(ctx, store)
	if err != nil {
		return err
	}
	if p != nil {
		return &UnfinishedError{Work: p.Work, Since: p.Since}
	}
	losses, err := survey(ctx, store, log, false, store.Shared())
	if err != nil || len(losses) == 0 {
		return err
	}
	worst := Worst(losses)
	worst.Shared = store.Shared()
	memory, err := engine.ReadFoldedLog(ctx, store)
	if err != nil {
		return err
	}
	first, found, err := log.First(ctx)
	if err != nil && !errors.Is(err, eventlog.ErrCorrupt) {
		return err
	}
	if found { // also one that another program has written
		worst.HeldFirst = first.ID
	}
	if memory.First.ID != uuid.Max { // otherwise it could not be read
		worst.RememberedFirst = memory.First.ID
	}
	for _, at := range memory.Positions {
		worst.Remembered = max(worst.Remembered, at)
	}
	worst.Remembered = max(worst.Remembered, memory.Last.Position)
	return worst
}

// Worst returns the loss whose witness remembers most, of several the one with the first name, with the number of other
// witnesses in its detail.
func Worst(losses []*eventlog.LossError) *eventlog.LossError {
	worst := *slices.MaxFunc(losses, func(a, b *eventlog.LossError) int {
		return cmp.Or(cmp.Compare(a.Remembered, b.Remembered), cmp.Compare(b.Witness, a.Witness))
	})
	if more := len(losses) - 1; more > 0 {
		worst.Detail += fmt.Sprintf(" (%d other witnesses agree)", more)
	}
	return &worst
}

// Survey returns one loss for each witness in the database that remembers more than the log contains.
// Errors: as the log and of the database, ctx.Err().
func Survey(ctx context.Context, store *sqlstore.Store, log eventlog.Prober) ([]*eventlog.LossError, error) {
	return survey(ctx, store, log, true, store.Shared())
}

// survey looks at the log until nothing is missing, at most looks times, or once if it is not shared. It looks up each
// snapshot once, and again only if its revision was missing. Without all, snapshots are not looked up while another
// witness remembers more than the log holds.
func survey(ctx context.Context, store *sqlstore.Store, log eventlog.Prober, all bool,
	shared bool) ([]*eventlog.LossError, error) {
	var missing map[string]uint64 // nil before the first look at snapshots
	for look := 1; ; look++ {
		losses, err := lostPositions(ctx, store, log)
		if err != nil {
			return nil, err
		}
		if all || len(losses) == 0 {
			if missing == nil {
				if missing, err = readSnapshots(ctx, store, MaxSnapshots); err != nil {
					return nil, err
				}
			}
			lost, err := lostSnapshots(ctx, log, missing)
			if err != nil {
				return nil, err
			}
			maps.DeleteFunc(missing, func(stream string, _ uint64) bool { return lost[stream] == nil })
			losses = slices.AppendSeq(losses, maps.Values(lost))
		}
		if len(losses) == 0 || !shared || look == looks {
			return losses, nil
		}
		if err := delay.For(ctx, lookPause); err != nil {
			return nil, err
		}
	}
}

// lostPositions compares the marks of the registry and all positions with the log.
func lostPositions(ctx context.Context, store *sqlstore.Store, log eventlog.Prober) ([]*eventlog.LossError, error) {
	memory, err := engine.ReadFoldedLog(ctx, store)
	if err != nil {
		return nil, err
	}
	positions, err := readPositions(ctx, store)
	if err != nil {
		return nil, err
	}
	// The data has been read; the log only grows after that.
	losses, err := memory.Losses(ctx, log)
	if err != nil {
		return nil, err
	}
	end, err := log.End(ctx)
	if err != nil {
		return nil, err
	}
	for name, at := range positions {
		if at > end {
			losses = append(losses, &eventlog.LossError{Witness: "checkpoint of " + name, Remembered: at, Head: end,
				Detail: "it has read events that are missing from the log"})
		}
	}
	return losses, nil
}

// lostSnapshots returns the loss for each stream with a snapshot of a revision that it does not have. Snapshots are
// the revisions by stream.
func lostSnapshots(ctx context.Context, log eventlog.Prober,
	snapshots map[string]uint64) (map[string]*eventlog.LossError, error) {
	end, err := log.End(ctx)
	if err != nil {
		return nil, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(lookups)
	var mu sync.Mutex
	lost := map[string]*eventlog.LossError{}
	for stream, revision := range snapshots {
		group.Go(func() error {
			loss, err := lostUnder(ctx, log, stream, revision, end)
			if loss != nil {
				mu.Lock()
				defer mu.Unlock()
				lost[stream] = loss
			}
			return err
		})
	}
	return lost, group.Wait()
}

// lostUnder compares one snapshot with its stream.
func lostUnder(ctx context.Context, log eventlog.Prober, stream string, revision uint64,
	end eventlog.Position) (*eventlog.LossError, error) {
	if stream == sweeperMemory {
		if at := eventlog.Position(revision); at > end {
			return &eventlog.LossError{Witness: "memory of the sweeper", Remembered: at, Head: end,
				Detail: "it has read events that are missing from the log"}, nil
		}
		return nil, nil
	}
	_, found, err := log.At(ctx, stream, revision)
	if err != nil || found {
		return nil, err
	}
	return &eventlog.LossError{Witness: "snapshot of " + stream, Head: end,
		Detail: fmt.Sprintf("the snapshot of %s is of revision %d, which the stream does not have",
			stream, revision)}, nil
}

// pending is work in progress, as stored in the database.
type pending struct {
	Work   string                     `json:"work"`
	Since  time.Time                  `json:"since"`
	ID     uuid.UUID                  `json:"id"`
	Actor  string                     `json:"actor,omitempty"`
	Reason string                     `json:"reason,omitempty"`
	Losses []eventschemas.LossWitness `json:"losses,omitempty"`
	Other  bool                       `json:"other,omitempty"`
}

// pendingName is the row of sqlstore.CreateLogWork for the work in progress, one command at a time.
const pendingName = "pending"

func readPending(ctx context.Context, store *sqlstore.Store) (*pending, error) {
	var text string
	err := store.Read().QueryRowContext(ctx, "SELECT state FROM log_work WHERE name = $1", pendingName).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) || sqlstore.IsUndefinedTable(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the pending loss or restore: %w", sqlstore.Classify(err))
	}
	p := &pending{}
	if err := json.Unmarshal([]byte(text), p); err != nil {
		return nil, fmt.Errorf("read the interrupted loss or restore: %w: %w", sqlstore.ErrCorrupt, err)
	}
	return p, nil
}

func writePending(ctx context.Context, store *sqlstore.Store, tx *sqlstore.Tx, p *pending) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, store.DDL(sqlstore.CreateLogWork))
	if err == nil {
		_, err = tx.ExecContext(ctx,
			"INSERT INTO log_work (name, state) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET state = excluded.state",
			pendingName, string(text))
	}
	return sqlstore.Wrap(err, "record the pending loss or restore")
}

func endPending(ctx context.Context, store *sqlstore.Store, tx *sqlstore.Tx) error {
	_, err := tx.ExecContext(ctx, store.DDL(sqlstore.CreateLogWork))
	if err == nil {
		_, err = tx.ExecContext(ctx, "DELETE FROM log_work WHERE name = $1", pendingName)
	}
	return sqlstore.Wrap(err, "clear the pending loss or restore")
}

// blocks returns the reason why other work cannot begin, or nil.
func (p *pending) blocks(work string) error {
	if p != nil && p.Work != work {
		return &UnfinishedError{Work: p.Work, Since: p.Since}
	}
	return nil
}

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
	return out, sqlstore.Wrap(err, "read the revisions of snapshots")
}

// readPositions returns the positions up to which relays and workers have read the log.
func readPositions(ctx context.Context, store *sqlstore.Store) (map[string]eventlog.Position, error) {
	out := map[string]eventlog.Position{}
	err := eachRow(ctx, store, "SELECT name, position FROM "+positionsTable, nil,
		func(name string, at int64) { out[name] = eventlog.Position(at) })
	return out, sqlstore.Wrap(err, "read the checkpoints")
}

// eachRow calls do for each row of a text and a number; a missing table has none.
func eachRow(ctx context.Context, store *sqlstore.Store, query string, args []any, do func(string, int64)) error {
	err := sqlstore.EachRow(ctx, store.Read(), query, func(row sqlstore.Scanner) error {
		var name string
		var number int64
		if err := row.Scan(&name, &number); err != nil {
			return err
		}
		do(name, number)
		return nil
	}, args...)
	if sqlstore.IsUndefinedTable(err) {
		return nil
	}
	return sqlstore.Classify(err)
}

// change runs a statement on a table, for each list of arguments, if the database has the table.
func change(ctx context.Context, tx *sqlstore.Tx, table, statement string, rows ...[]any) error {
	names, err := sqlstore.TablesWithPrefix(ctx, tx, table)
	if err != nil || !slices.Contains(names, table) {
		return err
	}
	for _, args := range rows {
		if _, err := tx.ExecContext(ctx, statement, args...); err != nil {
			return fmt.Errorf("change the rows of %s: %w", table, err)
		}
	}
	return nil
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
	return cmp.Or(
		change(ctx, tx, positionsTable, "DELETE FROM "+positionsTable, nil),
		change(ctx, tx, runs.Table, runs.Forget, nil),
		change(ctx, tx, snapshotTable, "DELETE FROM "+snapshotTable+snapshots, nil))
}

// forgetSnapshots deletes the snapshots of streams that lost events.
func forgetSnapshots(ctx context.Context, tx *sqlstore.Tx, streams iter.Seq[string]) error {
	var rows [][]any
	for stream := range streams {
		rows = append(rows, []any{stream})
	}
	return change(ctx, tx, snapshotTable, "DELETE FROM "+snapshotTable+" WHERE stream = $1", rows...)
}

// resetPositions moves checkpoints past the head back to it.
func resetPositions(ctx context.Context, tx *sqlstore.Tx, head eventlog.Position) error {
	return change(ctx, tx, positionsTable, "UPDATE positions SET position = $1 WHERE position > $1", []any{int64(head)})
}

// setPositions sets the checkpoints of the named readers to a position.
func setPositions(ctx context.Context, tx *sqlstore.Tx, names []string, head eventlog.Position) error {
	var rows [][]any
	for _, name := range names {
		rows = append(rows, []any{name, int64(head)})
	}
	return change(ctx, tx, positionsTable, "INSERT INTO positions (name, position) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET position = excluded.position", rows...)
}
