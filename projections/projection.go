package projections

import (
	"context"
	"fmt"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
)

// Projection is a read model: its versions, and the handle of its readers.
type Projection interface {
	// Name returns a lower-case word that never changes.
	Name() string
	// Versions returns the versions that this release folds and reads: the current one first, then the one of the
	// previous release if it differs.
	Versions() []Version
	// Handle returns the handle to which the engine binds the live tables.
	Handle() *Handle
}

// Forgetter is a Projection that caches parts of its tables.
type Forgetter interface {
	// Forget drops everything that it caches. The engine calls it when readers have got other tables, none, or repaired
	// rows. What was read earlier must not be cached afterwards.
	Forget()
}

// Invalidator is a Projection that caches parts of its live tables in a process that may not fold them. On a node that
// folds, Changes.Committed reports changes. On others the engine calls Invalidate when it finds that the live tables
// have moved, before WaitFor returns for the new position. When a node begins or stops folding, and when other tables
// become live, the engine calls Forget first.
type Invalidator interface {
	// Invalidate drops everything that the events after one position, up to and including the other, may have
	// changed. It may query the tables, which are at upTo or later, but not the Handle, which waits for it. After an
	// error it is called again, for the same positions and newer ones.
	Invalidate(ctx context.Context, q Queryer, t *Tables, after, upTo eventlog.Position) error
}

// Swapper is a Projection that writes something when other tables become live.
type Swapper interface {
	// Swap is part of the transaction that makes the tables live, after they are marked so, or that repairs rows of
	// live ones. The rows may differ from the previous ones, even at the same position. Like Changes.Write, it may be
	// repeated.
	Swap(ctx context.Context, tx *sqlstore.Tx, t *Tables) error
}

// Version is one structure and meaning of a read model's rows.
type Version struct {
	// Number must grow when folding the same events would give other rows.
	Number int
	// Format is the data format (see engine.Config) with which readers begin to get this version. Until it is
	// in force, on a database that nodes of two releases share, its tables are folded next to those of the previous
	// version. It may be left out if the previous release has the version, too.
	Format int
	// Streams are the prefixes of the names of the streams that it folds. No prefix of a read model may begin with
	// another one.
	Streams []string
	Tables  []Table
	// Strict means that the tables are not read while rows are known to differ from the log and could not be repaired,
	// because a wrong row would admit a request.
	Strict bool
	// NewFold returns the fold that fills the tables. empty means that the tables have no rows yet.
	NewFold func(t *Tables, empty bool) Fold
}

// Table is one table of a version.
type Table struct {
	// Name is a lower-case word, unique in the version.
	Name string
	// Create is the CREATE TABLE statement, as sqlstore.Store.DDL takes it. In it, and in all SQL for Tables.SQL,
	// {name} is replaced by the physical name of a table and {position} by a value; see Handle.
	Create string
	// Indexes are CREATE INDEX IF NOT EXISTS statements. A generation gets them after its rows are loaded. A fold must
	// not depend on them.
	Indexes []string
	// Key is the columns of the primary key, in order.
	Key []string
}

// Fold turns events into rows. One goroutine at a time uses it.
//
// It works in two steps, so that a batch can be folded while the previous one is being written.
type Fold interface {
	// Fold folds events, in order, in memory, and returns the changes. It reads other rows from q, which may lack the
	// changes of the last call, but of no earlier one. After an error or a panic the read model is quarantined; a
	// failure of the database or the log makes the whole loop retry.
	//
	// If the tables hold rows (Tables.Hold), it may keep changed rows for a later call, also without events, which gives
	// the same rows as one call with all events. What it writes nevertheless must be written again, or deleted, when
	// the events are folded again after Reset: the checkpoint has not moved. In tables that are Shared, a fold that writes
	// in each call must keep nothing, because only a checkpoint that moves keeps two leaders apart.
	Fold(ctx context.Context, q Queryer, events []*Event) (Changes, error)
	// Reset drops everything in memory, because the last changes will not be written.
	Reset()
}

// Changes are the changes of a batch.
type Changes struct {
	// Write writes the rows. It may be called several times, because transactions are retried.
	Write func(ctx context.Context, tx *sqlstore.Tx) error
	// Committed, if not nil, is called once after the rows are committed. live reports whether readers use the tables.
	Committed func(live bool)
	// Unchanged reports that no answer which requests depend on changes. While the disk is full, readers of the tables
	// do not wait for the commit of such a batch.
	Unchanged bool
}

// Queryer runs queries. *sql.DB, *sql.Tx and *sqlstore.Tx are Queryers.
type Queryer = sqlstore.Queryer

// Event is a recorded event, decoded once for all folds. Folds share it and must not change it.
type Event struct {
	*eventlog.Recorded
	// Prefix is the prefix of the stream's name, one of Version.Streams, and Subject the rest: an account's id, a
	// brand's domain. Subject is empty if the stream has no other name than the prefix.
	Prefix, Subject string
	// Set is the set of streams, as the engine numbers them, that has only this prefix.
	Set uint64
	// Body is the current struct of the event's type, by value. It is nil if Err is not.
	Body eventlog.Body
	// Err is set if the event could not be decoded. The engine then quarantines every read model that folds the stream,
	// because such an event may have changed anything.
	Err error
}

// Errorf returns an error of a fold about an event, including the event's position.
func (e *Event) Errorf(format string, args ...any) error {
	return fmt.Errorf("%s at %s@%d (position %d): %w", e.Type, e.Stream, e.Revision, e.Position,
		fmt.Errorf(format, args...))
}
