package projections

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
)

// ErrNotReady: the read model is being built for the first time, or anew for this release; it answers when
// it has caught up.
var ErrNotReady = errors.New("read model is being built")

// Handle leads readers to the live tables of a read model. Make it with NewHandle.
type Handle struct {
	name  string
	store *sqlstore.Store
	live  atomic.Pointer[generation]
}

// NewHandle returns a handle that answers ErrNotReady until a Runner starts.
func NewHandle(name string, store *sqlstore.Store) *Handle {
	return &Handle{name: name, store: store}
}

// Read runs fn on the live tables. They stay until fn returns, also when others become live meanwhile.
// Errors: ErrNotReady, sqlstore.ErrUnavailable, sqlstore.ErrCorrupt, or what fn returned.
func (h *Handle) Read(fn func(q Queryer, t *Tables) error) error {
	g, err := h.enter()
	if err != nil {
		return err
	}
	defer g.readers.leave()
	return sqlstore.Classify(fn(h.store.Read(), g.tables))
}

// Snapshot is Read with all of fn's questions answered from one state of the database, and with the
// position up to which that state is folded.
func (h *Handle) Snapshot(ctx context.Context, fn func(q Queryer, t *Tables, at eventlog.Position) error) error {
	g, err := h.enter()
	if err != nil {
		return err
	}
	defer g.readers.leave()
	tx, err := h.store.Read().BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("begin reading %s: %w", h.name, sqlstore.Classify(err))
	}
	defer tx.Rollback() // nothing was written
	at, err := readPosition(ctx, tx, h.name, g.number)
	if err != nil {
		return sqlstore.Classify(err)
	}
	return sqlstore.Classify(fn(tx, g.tables, at))
}

func (h *Handle) enter() (*generation, error) {
	for {
		g := h.live.Load()
		if g == nil {
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
