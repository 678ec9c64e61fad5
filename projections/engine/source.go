package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/projections"
)

// A model is the projections.Source of its read model's Handle.
var _ projections.Source = (*model)(nil)

// Enter implements projections.Source.
func (m *model) Enter() (*projections.Tables, func(), error) {
	g, err := m.enter()
	if err != nil {
		return nil, nil, err
	}
	return g.tables, g.readers.leave, nil
}

// Refresh implements projections.Source.
func (m *model) Refresh(ctx context.Context) error { return m.r.refresh(ctx) }

// Position implements projections.Source.
func (m *model) Position(ctx context.Context, q projections.Queryer, t *projections.Tables) (eventlog.Position, error) {
	e, err := readRecord(ctx, q, m.name, t.Generation)
	if err != nil {
		return 0, err
	}
	if e.state != stateLive {
		return 0, fmt.Errorf("%s generation %d is %s: %w", m.name, t.Generation, e.state, projections.ErrRetired)
	}
	return e.position, nil
}

// Refreshed implements projections.Source.
func (m *model) Refreshed() time.Time {
	if at := m.r.lastPoll.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// enter returns the live generation, which its reader must leave.
func (m *model) enter() (*generation, error) {
	for {
		g := m.reading.Load()
		if g == nil {
			if err := m.readError(); err != nil {
				return nil, err
			}
			return nil, fmt.Errorf("%s: %w", m.name, projections.ErrNotReady)
		}
		if g.readers.enter() {
			return g, nil
		}
		// It was replaced between the two lines above; reading has its successor.
	}
}

// readError returns why the live tables must not be read here: ErrNewerRelease if they belong to a release that this
// one cannot read, errWithheld if their rows are wrong.
func (m *model) readError() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.blocked
}

// readers counts the readers of a generation's tables.
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

// retire admits no more readers and returns a channel that is closed when all have left.
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
