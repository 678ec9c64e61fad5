package projections

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
)

// Errors of readers. Use errors.Is.
var (
	// ErrNotReady: the read model is being built for the first time, or rebuilt for this release. It can be read
	// after it has caught up.
	ErrNotReady = errors.New("read model is being built")
	// ErrRetired: the tables are no longer live. A function that Read runs returns it when its statement found that
	// ({position} was NULL), and Read runs it again on the live tables. Read returns it only after maxReads such
	// attempts; callers may try again later.
	ErrRetired = errors.New("tables of the read model are not live any more")
	// ErrNewerRelease: a newer release of Letterhead has written the read models, or the upgrade to one is finished.
	ErrNewerRelease = errors.New("read models were written by a newer release of Letterhead")
)

const (
	// maxReads limits how often Read runs a function. The second attempt uses the tables that the database names as
	// live at that moment, and they are retired before its statement runs at most once in a rebuild.
	maxReads = 3
	// refreshTimeout limits how long a reader of retired tables waits for the live ones, because Read has no context.
	refreshTimeout = 2 * time.Second
)

// Source knows the live tables of one read model. The engine implements it.
type Source interface {
	// Enter returns the live tables. If no other process shares the database, they exist until leave is called.
	// Errors: ErrNotReady, ErrNewerRelease.
	Enter() (t *Tables, leave func(), err error)
	// Refresh reads from the database which tables are live.
	Refresh(ctx context.Context) error
	// Position returns the position up to which tables are folded, in the state of the database that q sees. Errors:
	// ErrRetired if they are not live in that state.
	Position(ctx context.Context, q Queryer, t *Tables) (eventlog.Position, error)
	// Refreshed returns when the last successful Refresh of a shared database began, and the zero time before the
	// first.
	Refreshed() time.Time
}

// Handle gives readers the live tables of a read model. NewHandle returns one.
//
// If several nodes share the database, another node may make other tables live and drop these. The engine on this node
// notices a moment later. Until then readers get tables that are complete up to the swap but no longer folded. They are
// dropped only some time later, and Read repeats a function whose table no longer exists on the live tables.
//
// A read whose answer must not be outdated proves in its own statement that the tables are live: it also selects
// {position}. That is the position up to which the tables are folded, in the state of the database that the statement
// sees, and NULL if they are not live in that state. So one round trip returns the row and the proof:
//
//	var at sql.NullInt64
//	err := h.Read(func(q Queryer, t *Tables) error {
//		err := q.QueryRowContext(ctx, t.SQL(`
//	SELECT {position}, k.id FROM (SELECT 1) AS one LEFT JOIN {keys} AS k ON k.hash = $1`), hash).Scan(&at, &id)
//		if err == nil && !at.Valid {
//			return projections.ErrRetired // Read finds the live tables and runs this again
//		}
//		return err
//	})
type Handle struct {
	name   string
	store  *sqlstore.Store
	source atomic.Pointer[Source] // nil before the engine starts
}

// NewHandle returns a handle that answers ErrNotReady until the engine starts.
func NewHandle(name string, store *sqlstore.Store) *Handle {
	return &Handle{name: name, store: store}
}

// Bind makes readers get the tables of the source. Only the engine calls it.
func (h *Handle) Bind(s Source) { h.source.Store(&s) }

// Read runs fn on the live tables. If a table no longer exists, as may happen on a shared database, or fn returns
// ErrRetired, Read runs fn again, at most maxReads times in all. fn must discard the results of earlier attempts.
//
// Errors: ErrNotReady, ErrNewerRelease, ErrRetired, sqlstore.ErrUnavailable, sqlstore.ErrCorrupt, or the error of fn.
func (h *Handle) Read(fn func(q Queryer, t *Tables) error) error {
	return h.attempt(func(_ Source, t *Tables) error { return fn(h.store.Read(), t) })
}

// Snapshot is Read with one state of the database for all queries of fn. The tables are live in that state, and at is
// the position up to which they are folded.
func (h *Handle) Snapshot(ctx context.Context, fn func(q Queryer, t *Tables, at eventlog.Position) error) error {
	return h.attempt(func(s Source, t *Tables) error {
		tx, err := h.store.Snapshot(ctx)
		if err != nil {
			return fmt.Errorf("begin reading %s: %w", h.name, err)
		}
		defer tx.Rollback() // nothing was written
		at, err := s.Position(ctx, tx, t)
		if err != nil {
			return err
		}
		return fn(tx, t, at)
	})
}

// Refreshed returns when the last successful check of a shared database for live tables and their position began, and
// the zero time before the first. Cached rows of the live tables were current at that time.
func (h *Handle) Refreshed() time.Time {
	if s := h.source.Load(); s != nil {
		return (*s).Refreshed()
	}
	return time.Time{}
}

// attempt runs fn on the live tables, and again if other tables became live in the meantime.
func (h *Handle) attempt(fn func(s Source, t *Tables) error) error {
	source := h.source.Load()
	if source == nil {
		return fmt.Errorf("%s: %w", h.name, ErrNotReady)
	}
	for tries := 1; ; tries++ {
		err := once(*source, fn)
		if err == nil || !errors.Is(err, ErrRetired) && !sqlstore.IsUndefinedTable(err) {
			return err
		}
		if tries == maxReads {
			if !errors.Is(err, ErrRetired) {
				err = fmt.Errorf("%w: %w", ErrRetired, err)
			}
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), refreshTimeout)
		rerr := (*source).Refresh(ctx)
		cancel()
		if rerr != nil {
			return fmt.Errorf("%s: find the live tables: %w", h.name, rerr)
		}
	}
}

func once(s Source, fn func(s Source, t *Tables) error) error {
	t, leave, err := s.Enter()
	if err != nil {
		return err
	}
	defer leave()
	return sqlstore.Classify(fn(s, t))
}

// PositionWord cannot be the name of a table, because {position} is replaced by a value; see Handle.
const PositionWord = "position"

// ScrubPrefix and the name of a read model are the name of the row of projections_registry about its scrubs. The row's
// fold_version is the generation that no node reads, because rows of it could not be repaired, or 0.
const ScrubPrefix = "@scrub "

// Tables has the physical names of one generation's tables.
type Tables struct {
	Version    int
	Generation int
	Shared     bool // another node may take itself for the leader and write, too

	names    map[string]string
	replacer *strings.Replacer
	hold     bool
	held     int
	texts    sync.Map // SQL with names in place of {name}
}

// NewTables returns the tables of a generation. position is the SQL expression that replaces {position}.
func NewTables(model string, v *Version, generation int, position string) *Tables {
	t := &Tables{Version: v.Number, Generation: generation, names: make(map[string]string, len(v.Tables))}
	pairs := []string{"{" + PositionWord + "}", position}
	for _, table := range v.Tables {
		name := model + "_v" + strconv.Itoa(v.Number) + "_g" + strconv.Itoa(generation) + "_" + table.Name
		t.names[table.Name] = name
		pairs = append(pairs, "{"+table.Name+"}", name)
	}
	t.replacer = strings.NewReplacer(pairs...)
	return t
}

// Hold sets whether the fold of these tables keeps changed rows in memory when a batch ends. A build holds rows so that
// it writes a row once for many batches. The first batch that is folded without holding writes all rows that were kept.
func (t *Tables) Hold(hold bool) { t.hold, t.held = hold, 0 }

// Keep reports whether a number of changed rows stays in memory.
func (t *Tables) Keep(rows int) bool {
	if t.hold {
		t.held += rows
	}
	return t.hold
}

// Held returns the number of rows that the last batch kept.
func (t *Tables) Held() int { return t.held }

// Name returns the physical name of a table.
func (t *Tables) Name(table string) string { return t.names[table] }

// SQL returns the text with physical names in place of {name}. The text must be a constant, because the result for
// each text is cached.
func (t *Tables) SQL(text string) string {
	if sql, ok := t.texts.Load(text); ok {
		return sql.(string)
	}
	sql := t.replacer.Replace(text)
	t.texts.Store(text, sql)
	return sql
}
