package projections

import (
	"context"
	"database/sql"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
)

// Projection is a read model: its versions and the door for its readers.
type Projection interface {
	// Name is a lower-case word, the same for ever.
	Name() string
	// Versions returns those this release can fold and read: the current one first, then the one of the
	// release before if it was another.
	Versions() []Version
	// Handle is where the Runner says which tables are live.
	Handle() *Handle
}

// Reloader is a Projection that keeps something of its tables in memory.
type Reloader interface {
	// Reload reads what it keeps from tables that are about to become live, and returns what puts it in
	// the place of what it kept before. No fold writes meanwhile. The Runner calls apply once the tables
	// are live, or not at all.
	Reload(ctx context.Context, q Queryer, t *Tables) (apply func(), err error)
}

// Invalidator is a Projection that keeps something of its live tables in memory, in a process that may not be
// the one that folds them. On a node that folds, Changes.Committed says what changed. On all others the
// Runner calls Invalidate when it finds that the live tables have moved, before WaitFor lets those go on who
// wait for the new position. When a node begins or ceases to fold, and when other tables become live,
// Reload comes first.
type Invalidator interface {
	// Invalidate forgets what the events after one position, up to and with the other, may have changed. It
	// may ask the tables, which stand at upTo or past it, but not the Handle: the Runner holds it up
	// meanwhile. After an error it is called again, for the same positions and what came since.
	Invalidate(ctx context.Context, q Queryer, t *Tables, after, upTo eventlog.Position) error
}

// Swapper is a Projection that writes something when other tables become live.
type Swapper interface {
	// Swap is part of the transaction that makes the tables live, after they are marked so. Their rows may differ from
	// those that were live before, also at the same position. Like Changes.Write, it may be repeated.
	Swap(ctx context.Context, tx *sqlstore.Tx, t *Tables) error
}

// Version is one shape and meaning of a read model's rows.
type Version struct {
	// Number grows whenever folding the same events would give other rows.
	Number int
	// Format is the data format (see eventschemas.Format) with which readers begin to get this version. Until it is in
	// force, on a database that nodes of two releases share, its tables are folded beside those of the version before.
	Format int
	// Categories are the streams that it folds.
	Categories Category
	Tables     []Table
	// NewFold returns the fold that fills the tables. With empty the tables have no rows yet.
	NewFold func(t *Tables, empty bool) Fold
}

// Table is one table of a version.
type Table struct {
	// Name is a lower-case word, unique in the version.
	Name string
	// Create is the CREATE TABLE statement, as sqlstore.Store.DDL takes it. In it and in all SQL that goes
	// through Tables.SQL, {name} stands for the physical name of a table, {position} for a value; see Handle.
	Create string
	// Indexes are CREATE INDEX IF NOT EXISTS statements. A generation that is built gets them when its
	// rows are loaded. A fold must not depend on them.
	Indexes []string
	// Key is the columns of the primary key, in their order.
	Key []string
}

// Fold turns events into rows. It is for one goroutine at a time.
//
// It works in two steps, so that one batch is folded while the one before is being written.
type Fold interface {
	// Fold folds events, in order, in memory, and returns what changed. Rows that it has not in memory it
	// reads from q, which may not hold what the last Fold returned yet, but all before. An error or a panic
	// sets the read model aside; a fault of the database or the log makes the whole lane try again.
	Fold(ctx context.Context, q Queryer, events []*Event) (Changes, error)
	// Reset drops everything in memory: what Fold returned last will not be written.
	Reset()
}

// Changes are what a batch changed.
type Changes struct {
	// Write writes the rows, the same each time it is called: a transaction may have to be repeated.
	Write func(ctx context.Context, tx *sqlstore.Tx) error
	// Committed is called once, when the rows stand; nil does nothing. With live the tables are those that
	// are read.
	Committed func(live bool)
}

// Queryer runs questions. *sql.DB, *sql.Tx and *sqlstore.Tx are Queryers.
type Queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}
