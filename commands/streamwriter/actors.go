package streamwriter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"letterhead/internal/deadline"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
)

// Limits of Actors.
const (
	// maxFindAttempts limits the attempts to find a live actor: each fails if an actor retires in between.
	maxFindAttempts = 16
	// evictSample is the number of actors examined to find one to retire; the least used of a sample
	// is nearly as good as the least used of all.
	evictSample = 64
)

// Actors contains the actors in use of one kind of stream, at most one per key. It is safe for concurrent use.
type Actors[S State] struct {
	cfg       Config
	kind      Kind[S]
	log       eventlog.Log
	snapshots Snapshots // nil for none
	saver     *saver
	metrics   *metrics

	ctx      context.Context // canceled when Drain runs out of time
	cancel   context.CancelFunc
	callers  sync.Pool // of *caller; one that has left is not used again
	stopping chan struct{}
	loads    chan struct{} // has an entry for each stream that is loaded in the background
	actors   sync.WaitGroup

	mu      sync.Mutex // locked before an actor's mu
	live    map[string]*Actor[S]
	closing bool

	calls struct { // of the log, which share a deadline, and so a timer, if they begin at about the same time
		sync.Mutex
		since time.Time
		ctx   context.Context
		end   context.CancelFunc // never called: calls use ctx until it ends by itself
	}
}

// callTicks is how many contexts are made in AppendWithin at most: calls of the log may take that part longer.
const callTicks = 64

// callContext returns a context for an append that begins now.
func (all *Actors[S]) callContext(now time.Time) context.Context {
	c, tick := &all.calls, all.cfg.AppendWithin/callTicks
	c.Lock()
	defer c.Unlock()
	if c.ctx == nil || now.Sub(c.since) > tick {
		c.since = now
		c.ctx, c.end = context.WithTimeout(all.ctx, all.cfg.AppendWithin+tick)
	}
	return c.ctx
}

// New returns the actors for a kind of stream on a log. Snapshots may be nil: then every stream is
// folded from its beginning.
func New[S State](cfg Config, k Kind[S], log eventlog.Log, snapshots Snapshots) (*Actors[S], error) {
	if log == nil {
		return nil, errors.New("no event log")
	}
	m, err := newMetrics(k.Label, cfg.Registerer)
	if err != nil {
		return nil, err
	}
	all := &Actors[S]{
		cfg: cfg.withDefaults(k.Encoder), kind: k, log: log, snapshots: snapshots, metrics: m,
		stopping: make(chan struct{}), loads: make(chan struct{}, MaxLoads), live: map[string]*Actor[S]{},
	}
	// Not a request's context: actors outlive requests and end with Drain.
	all.ctx, all.cancel = context.WithCancel(context.Background())
	all.callers.New = func() any {
		c := &caller{outcome: make(chan error, 1), timer: time.NewTimer(0)}
		c.timer.Stop()
		return c
	}
	if snapshots != nil {
		all.saver = newSaver(snapshots, k.FoldVersion, all.cfg.Logger, m)
	}
	return all, nil
}

// Now returns the time of the actors' clock.
func (all *Actors[S]) Now() time.Time { return all.cfg.Now() }

// Live returns the number of streams in memory.
func (all *Actors[S]) Live() int {
	all.mu.Lock()
	defer all.mu.Unlock()
	return len(all.live)
}

// Observe adds the time from a call to its durable answer to the metrics.
func (all *Actors[S]) Observe(took time.Duration) { all.metrics.command.Observe(took.Seconds()) }

// actor returns the live actor of a key, starting one if there is none.
func (all *Actors[S]) actor(key string) (*Actor[S], error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if a, ok := all.live[key]; ok && !all.closing {
		return a, nil
	}
	if all.closing {
		all.metrics.rejected.WithLabelValues("shutdown").Inc()
		return nil, fmt.Errorf("shutting down: %w", ErrBusy)
	}
	stream, state, err := all.kind.Open(key)
	if err != nil {
		return nil, err
	}
	if len(all.live) >= all.cfg.MaxLive && !all.evict() {
		all.metrics.rejected.WithLabelValues("too_many").Inc()
		return nil, fmt.Errorf("%d streams are in use: %w", len(all.live), ErrBusy)
	}
	a := newActor(all, key, stream, state)
	all.live[key] = a
	all.metrics.live.Inc()
	all.actors.Go(func() {
		defer all.metrics.live.Dec()
		a.run()
	})
	return a, nil
}

// evict retires the least used in a sample of idle actors. mu is held.
func (all *Actors[S]) evict() bool {
	var victim *Actor[S]
	least, looked := uint64(0), 0
	for _, a := range all.live { // in random order
		a.mu.Lock()
		if a.Idle() && (victim == nil || a.uses < least) {
			victim, least = a, a.uses
		}
		a.mu.Unlock()
		if looked++; looked == evictSample {
			break
		}
	}
	if victim == nil {
		return false
	}
	victim.mu.Lock()
	defer victim.mu.Unlock()
	if !victim.Idle() { // used in between
		return false
	}
	victim.retired = true
	delete(all.live, victim.key)
	delay.Signal(victim.wake)
	all.metrics.evicted.Inc()
	return true
}

// Idle reports whether the actor has nothing to do and nothing to lose. The lock must be held.
func (a *Actor[S]) Idle() bool {
	return !a.working && !a.retired && len(a.queue) == 0 && len(a.submitted) == 0 && a.state.Idle()
}

// With calls f with the key's live actor while holding the actor's lock. Errors: ErrBusy, and the errors of Kind.Open.
func (all *Actors[S]) With(key string, f func(a *Actor[S])) error {
	for range maxFindAttempts {
		a, err := all.actor(key)
		if err != nil {
			return err
		}
		a.mu.Lock()
		if a.retired {
			a.mu.Unlock()
			continue
		}
		a.uses++
		f(a)
		a.mu.Unlock()
		return nil
	}
	return fmt.Errorf("%s: %w", key, ErrBusy)
}

// Do queues a command at the key's actor and returns its final outcome. If ctx ends first it returns
// ctx.Err(), and the actor skips the command or compensates its effect.
//
// Errors: the command's rejection, ErrBusy (a *LoadingError while a long stream is loaded),
// ErrUnknownOutcome, eventlog.ErrUnavailable, eventlog.ErrCorrupt (the stream cannot be trusted; a
// *ChainError has the place), ctx.Err(), and the errors of Kind.Open.
func (all *Actors[S]) Do(ctx context.Context, key string, request Request, c Command[S]) error {
	w, err := all.Enqueue(ctx, key, request, c)
	if err != nil {
		return err
	}
	return w.Wait()
}

// caller is what a caller waits with.
type caller struct {
	outcome chan error
	timer   *time.Timer // of the deadline
}

// Waiter is the caller of a queued command.
type Waiter[S State] struct {
	queued  *queued[S]
	caller  *caller
	callers *sync.Pool
}

// Enqueue queues a command. Unless it returns an error, Finished will be called on the command, and
// Wait must be called, by who calls End if ctx is a deadline.Context. Errors: as Do.
func (all *Actors[S]) Enqueue(ctx context.Context, key string, request Request, c Command[S]) (Waiter[S], error) {
	if err := ctx.Err(); err != nil {
		return Waiter[S]{}, err
	}
	who := all.callers.Get().(*caller)
	t := &queued[S]{
		ctx: ctx, request: request, command: c, caller: who.outcome, patient: waitsForLoading(ctx),
	}
	for range maxFindAttempts {
		a, err := all.actor(key)
		if err != nil {
			return Waiter[S]{}, err
		}
		if ok, err := a.push(t); ok {
			return Waiter[S]{t, who, &all.callers}, err
		}
	}
	return Waiter[S]{}, fmt.Errorf("%s: %w", key, ErrBusy)
}

// Wait returns the final outcome, as Do.
func (w Waiter[S]) Wait() error {
	t := w.queued
	outside, at := deadline.Bounds(t.ctx)
	var late <-chan time.Time
	if !at.IsZero() {
		w.caller.timer.Reset(time.Until(at))
		late = w.caller.timer.C
	}
	select {
	case err := <-t.caller:
		w.caller.timer.Stop()
		w.callers.Put(w.caller)
		return err
	case <-outside.Done():
	case <-late:
	}
	if t.state.move(callerLeft) {
		return cmp.Or(t.ctx.Err(), context.DeadlineExceeded) // the latter if a clock was set back
	}
	return <-t.caller // answered at the same moment
}

// Compensate passes a compensation to the key's actor, which appends it without a caller, and returns once the actor
// has accepted it. It bypasses the queue, and during shutdown it still finds an actor that is working.
//
// Errors: ErrBusy (too many compensations are pending, or Drain was called), and the errors of Kind.Open.
func (all *Actors[S]) Compensate(key string, c Compensation[S]) error {
	err := all.compensate(key, c.queued())
	if err != nil {
		all.metrics.notCompensated.Inc()
	}
	return err
}

func (all *Actors[S]) compensate(key string, t *queued[S]) error {
	for range maxFindAttempts {
		all.mu.Lock()
		a := all.live[key]
		all.mu.Unlock()
		if a == nil {
			var err error
			if a, err = all.actor(key); err != nil {
				return err
			}
		}
		if ok, err := a.submit(t); ok {
			return err
		}
	}
	return fmt.Errorf("%s: %w", key, ErrBusy)
}

// Drain rejects new commands with ErrBusy, finishes the queued ones, and ends all actors. If ctx ends
// first, running commands are cut off, their callers get an error, and Drain returns ctx.Err().
func (all *Actors[S]) Drain(ctx context.Context) error {
	all.mu.Lock()
	first := !all.closing
	all.closing = true
	all.mu.Unlock()
	if first {
		close(all.stopping)
	}
	done := make(chan struct{})
	go func() {
		all.actors.Wait()
		all.saver.close()
		close(done)
	}()
	select {
	case <-done:
		all.cancel()
		return nil
	case <-ctx.Done():
		all.cancel()
		<-done // appends and saves end with their contexts
		return fmt.Errorf("drain: %w", ctx.Err())
	}
}
