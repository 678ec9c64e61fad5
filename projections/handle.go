package projections

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
)

// ErrNotReady: the read model is being built for the first time, or anew for this release; it answers when
// it has caught up.
var ErrNotReady = errors.New("read model is being built")

// ErrRetired: the tables are not live any more. A function that Read runs returns it when its statement
// found so ({position} was NULL), and is run again on the tables that are. Readers get it only when that
// happened maxReads times in a row; they may try again later.
var ErrRetired = errors.New("tables of the read model are not live any more")

const (
	// maxReads is how often a reader is run in all. The second time it has what the registry says at that
	// moment; a swap between that and its statement is seen once in a rebuild.
	maxReads = 3
	// refreshTimeout bounds the look at the registry that a reader of retired tables waits for. Read brings
	// no context.
	refreshTimeout = 2 * time.Second
)

// Handle leads readers to the live tables of a read model. Make it with NewHandle.
//
// On a database that several nodes share, another node may make other tables live and drop these. The
// Runner here learns of it a moment later (pollPause), until when readers are led to tables that are
// complete up to the swap and are not folded any more. They are dropped only after Config.DropAfter, and a
// reader that meets a table that is gone looks at the registry and begins again.
//
// A read whose answer must be right at once proves in its own statement that the tables are live: it selects
// {position} beside what it wants. That is the position up to which the tables are folded, in the very
// state of the database that the statement sees, and NULL when they are not live there. So one round trip
// gives the row and the proof:
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
	name  string
	store *sqlstore.Store
	live  atomic.Pointer[generation]
	// runner finds the live tables for readers that were overtaken; nil before Start.
	runner atomic.Pointer[Runner]
}

// NewHandle returns a handle that answers ErrNotReady until a Runner starts.
func NewHandle(name string, store *sqlstore.Store) *Handle {
	return &Handle{name: name, store: store}
}

// Read runs fn on the live tables. On a database of this process alone they stay until fn returns, also when
// others become live meanwhile. When a table is gone, as on a shared one it may be, or fn returns ErrRetired,
// fn is run again, at most maxReads times in all: it must begin anew each time, and empty what it collected.
//
// Errors: ErrNotReady, ErrNewerRelease, ErrRetired, sqlstore.ErrUnavailable, sqlstore.ErrCorrupt, or what fn
// returned.
func (h *Handle) Read(fn func(q Queryer, t *Tables) error) error {
	return h.attempt(func(g *generation) error { return fn(h.store.Read(), g.tables) })
}

// Snapshot is Read with all of fn's questions answered from one state of the database, and with the
// position up to which that state is folded. In that state the tables are live.
func (h *Handle) Snapshot(ctx context.Context, fn func(q Queryer, t *Tables, at eventlog.Position) error) error {
	return h.attempt(func(g *generation) error {
		tx, err := h.store.Snapshot(ctx)
		if err != nil {
			return fmt.Errorf("begin reading %s: %w", h.name, err)
		}
		defer tx.Rollback() // nothing was written
		e, err := readEntry(ctx, tx, h.name, g.number)
		if err != nil {
			return err
		}
		if e.state != stateLive {
			return fmt.Errorf("%s generation %d is %s: %w", h.name, g.number, e.state, ErrRetired)
		}
		return fn(tx, g.tables, e.position)
	})
}

// Looked returns when the last look at the registry of a shared database began that went well, the zero time before
// the first. What is kept in memory of the live tables was true then.
func (h *Handle) Looked() time.Time {
	if r := h.runner.Load(); r != nil {
		if at := r.looked.Load(); at != nil {
			return *at
		}
	}
	return time.Time{}
}

// attempt runs fn on the live generation, and again on the next one when it was overtaken.
func (h *Handle) attempt(fn func(g *generation) error) error {
	for tries := 1; ; tries++ {
		err := h.once(fn)
		r := h.runner.Load()
		if r == nil || !overtaken(err) {
			return err
		}
		if tries == maxReads {
			if !errors.Is(err, ErrRetired) {
				err = fmt.Errorf("%w: %w", ErrRetired, err)
			}
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), refreshTimeout)
		rerr := r.refresh(ctx)
		cancel()
		if rerr != nil {
			return fmt.Errorf("%s: find the live tables: %w", h.name, rerr)
		}
	}
}

func (h *Handle) once(fn func(g *generation) error) error {
	g, err := h.enter()
	if err != nil {
		return err
	}
	defer g.readers.leave()
	return sqlstore.Classify(fn(g))
}

// overtaken says that a reader's tables are not live any more, or gone.
func overtaken(err error) bool {
	return err != nil && (errors.Is(err, ErrRetired) || sqlstore.IsUndefinedTable(err))
}

func (h *Handle) enter() (*generation, error) {
	for {
		g := h.live.Load()
		if g == nil {
			if r := h.runner.Load(); r != nil {
				if err := r.refused(h.name); err != nil {
					return nil, err
				}
			}
			return nil, fmt.Errorf("%s: %w", h.name, ErrNotReady)
		}
		if g.readers.enter() {
			return g, nil
		}
		// It was replaced between the two lines above; the next one is there already.
	}
}

// readers counts who is reading a generation's tables.
type readers struct {
	mu      sync.Mutex
	inside  int
	retired bool
	gone    chan struct{}
}

func (r *readers) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.retired {
		return false
	}
	r.inside++
	return true
}

func (r *readers) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inside--
	if r.retired && r.inside == 0 {
		close(r.gone)
	}
}

// retire lets nobody in any more and returns a channel that is closed when all have left.
func (r *readers) retire() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.retired {
		r.retired, r.gone = true, make(chan struct{})
		if r.inside == 0 {
			close(r.gone)
		}
	}
	return r.gone
}
