package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

// QuarantinedError: a read model is stopped because its fold failed; the fold is being retried.
type QuarantinedError struct {
	Name     string
	Position eventlog.Position // up to which it is folded
	Err      error
}

func (e *QuarantinedError) Error() string {
	return fmt.Sprintf("read model %s is stopped at position %d: %v", e.Name, e.Position, e.Err)
}

func (e *QuarantinedError) Unwrap() error { return e.Err }

// watermark is a position that callers can wait for.
type watermark struct {
	mu      sync.Mutex
	known   bool // there are live tables, at the position
	at      eventlog.Position
	err     error         // why it is stopped
	changed chan struct{} // closed at the next change; nil without waiters
}

// fail makes waiters return an error until the position moves.
func (w *watermark) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
	w.notify()
}

// reach sets the position of the live tables, and why the node that folds them has stopped them, if it has.
func (w *watermark) reach(at eventlog.Position, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known, w.at, w.err = true, at, err
	w.notify()
}

// stopped returns why the position does not move, or nil.
func (w *watermark) stopped() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// clear means that there are no live tables any more.
func (w *watermark) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known, w.err = false, nil
	w.notify()
}

func (w *watermark) notify() {
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

func (w *watermark) wait(ctx context.Context, at eventlog.Position) error {
	for {
		w.mu.Lock()
		if w.known && w.at >= at {
			w.mu.Unlock()
			return nil
		}
		if w.err != nil {
			defer w.mu.Unlock()
			return w.err
		}
		if w.changed == nil {
			w.changed = make(chan struct{})
		}
		changed := w.changed
		w.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// WaitFor waits until a read model has live tables and its readers, and its caches, reflect all events up to a
// position.
// It makes a leader fold immediately. A follower polls projections_registry often, and sees an event at most
// liveGatherMost later than the leader. Errors: ErrUnknown, ErrNewerRelease, a *QuarantinedError if the read model is
// stopped before the position, ctx.Err().
func (r *Runner) WaitFor(ctx context.Context, name string, position eventlog.Position) error {
	r.want(position)
	if r.shared && !r.leads.Load() {
		r.waiting.Add(1)
		defer r.waiting.Add(-1)
		delay.Signal(r.pollNow)
	}
	return r.Await(ctx, name, position)
}

func (r *Runner) want(position eventlog.Position) {
	for {
		now := r.wanted.Load()
		if uint64(position) <= now {
			return // reached, or being folded without a pause
		}
		if r.wanted.CompareAndSwap(now, uint64(position)) {
			break
		}
	}
	delay.Signal(r.hurry)
}

// Await is WaitFor for callers that follow a read model permanently: it does not shorten the pauses that keep folding
// cheap. Errors: as WaitFor.
func (r *Runner) Await(ctx context.Context, name string, position eventlog.Position) error {
	m := r.model(name)
	if m == nil {
		return fmt.Errorf("%w: %q", ErrUnknown, name)
	}
	return sqlstore.Wrap(m.mark.wait(ctx, position), "wait for %s at position %d", name, position)
}

// Names returns the names of the read models that readers may depend on, in the order in which New got them: all but
// those that are new in this release, until the upgrade is finished.
func (r *Runner) Names() []string {
	var names []string
	for _, m := range r.models {
		if !r.isNew(m) {
			names = append(names, m.name)
		}
	}
	return names
}

// CatchUp waits until every read model has folded the present end of the log. Errors: as WaitFor and of the log.
func (r *Runner) CatchUp(ctx context.Context) error {
	head, err := r.log.Head(ctx)
	if err != nil {
		return fmt.Errorf("catch up: %w", err)
	}
	for _, m := range r.models {
		if err := r.WaitFor(ctx, m.name, head); err != nil {
			return err
		}
	}
	return nil
}

// Ready returns nil if every read model has live tables, else ErrNotReady with the names of the others, and why those
// that are stopped are: *QuarantinedError, ErrNewerRelease.
func (r *Runner) Ready() error {
	var missing []string
	stopped := []error{projections.ErrNotReady}
	for _, m := range r.models {
		if m.liveGeneration() == nil && !r.isNew(m) {
			missing, stopped = append(missing, m.name), append(stopped, m.mark.stopped())
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s: %w", strings.Join(missing, ", "), errors.Join(stopped...))
	}
	return nil
}

// Status is the state of a read model.
type Status struct {
	Name string `json:"name"`
	// State is live, building (there are no live tables yet) or set_aside.
	State string `json:"state"`
	// Version and Generation identify the live tables, or are 0.
	Version    int               `json:"version"`
	Generation int               `json:"generation"`
	Position   eventlog.Position `json:"position"`
	// Lag is the number of positions between Position and the head of the log. Not all logs have a position for each
	// event, and no other.
	Lag uint64 `json:"lag"`
	// Behind is the age of the oldest event that is not folded.
	Behind time.Duration `json:"behind_ns"`
	// Error is why the model is quarantined or cannot be built.
	Error    string    `json:"error,omitempty"`
	Attempts int       `json:"attempts,omitempty"`
	RetryAt  time.Time `json:"retry_at,omitzero"`
	// Building is the generation that becomes live next.
	Building *Building `json:"building,omitempty"`
	// Scrub is nil until rows were compared with the log; see Runner.Scrub.
	Scrub *Scrubbed `json:"scrub,omitempty"`
	// Kept is a generation that a rebuild fills beside the live one before it compares both, or that it left when it
	// was interrupted.
	Kept *Building `json:"kept,omitempty"`
}

// Late says how far the model is behind the log, such as "3s behind".
func (s Status) Late() string { return Late(s.Lag, s.Behind) }

// Late says how far something is behind the log that has processed all but some positions, and all events up to an age.
func Late(lag uint64, behind time.Duration) string {
	if lag == 0 {
		return "up to date"
	}
	return max(behind.Round(time.Second), time.Second).String() + " behind"
}

// Building is a generation that is being filled.
type Building struct {
	Version    int               `json:"version"`
	Generation int               `json:"generation"`
	Position   eventlog.Position `json:"position"`
}

const stateQuarantined = "set_aside"

// Live is the State of a read model whose tables are read and folded.
const Live = stateLive

// States are the values of Status.State.
var States = []string{stateLive, stateBuilding, stateQuarantined}

// List returns the state of every read model, by name. Errors: sqlstore.ErrUnavailable, the errors of the log.
func (r *Runner) List(ctx context.Context) ([]Status, error) {
	head, err := r.log.Head(ctx)
	if err != nil {
		return nil, fmt.Errorf("list projections: %w", err)
	}
	records, err := readGenerations(ctx, r.store.Read())
	if err != nil && !sqlstore.IsUndefinedTable(err) { // no read model was ever folded
		return nil, fmt.Errorf("list projections: %w", sqlstore.Classify(err))
	}
	all := make([]Status, 0, len(r.models))
	for _, m := range r.models {
		s := m.status()
		if e := find(records, m.name, stateFilling); e != nil {
			s.Kept = &Building{Version: e.version, Generation: e.generation, Position: e.position}
		}
		if scrub := scrubbedOf(records, m.name); scrub != (Scrubbed{}) {
			s.Scrub = &scrub
		}
		if s.Lag = lag(s.Position, head); s.Lag > 0 {
			if s.Behind, err = r.Behind(ctx, s.Position); err != nil {
				return nil, fmt.Errorf("list projections: %w", err)
			}
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func (m *model) status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Status{Name: m.name, State: stateBuilding}
	if m.buildErr != nil {
		s.Error = m.buildErr.Error()
	}
	if g := m.live; g != nil {
		s.State, s.Version, s.Generation, s.Position = stateLive, g.version.Number, g.number, g.position()
	}
	if m.blocked != nil {
		s.Error = m.blocked.Error()
	}
	if f := m.failure; f != nil {
		s.State, s.Error, s.Attempts, s.RetryAt = stateQuarantined, f.err.Error(), f.attempts, f.retryAt
	}
	if g := m.building; g != nil {
		s.Building = &Building{Version: g.version.Number, Generation: g.number, Position: g.position()}
	}
	return s
}

func lag(at, head eventlog.Position) uint64 {
	if at >= head {
		return 0
	}
	return uint64(head - at)
}

// Behind returns the age of the first event after a position; 0 if there is none. Errors: as the log.
func (r *Runner) Behind(ctx context.Context, at eventlog.Position) (time.Duration, error) {
	page, err := r.log.ReadAll(ctx, at, eventlog.Filter{}, 1)
	if err != nil || len(page.Events) == 0 {
		return 0, err
	}
	return max(0, r.cfg.Now().Sub(page.Events[0].OccurredAt)), nil
}
