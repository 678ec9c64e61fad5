package commands

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// Limits of a registry.
const (
	// maxFindAttempts limits the attempts to find a live actor: each fails if an actor retires in
	// between.
	maxFindAttempts = 16
	// evictSample is the number of actors examined to find one to retire; the least used of a sample
	// is nearly as good as the least used of all.
	evictSample = 64
)

// actorConfig is the common part of the desks' configurations, with defaults filled in.
type actorConfig struct {
	MaxQueue      int
	MaxLive       int
	IdleAfter     time.Duration
	SettleWithin  time.Duration
	KnowWithin    time.Duration
	AppendWithin  time.Duration
	LoadWithin    time.Duration
	SnapshotEvery int
	Shared        bool // other nodes append to the same streams
	Events        eventschemas.Encoder
	Now           func() time.Time
	Logger        *slog.Logger
}

// kind describes the streams that the registry serves.
type kind[S streamState] struct {
	foldVersion int
	// open returns the stream of a key and its state before the first event, or an error for a key
	// that cannot have a stream.
	open func(key string) (stream string, state S, err error)
}

// registry contains the actors in use, at most one per key.
type registry[S streamState] struct {
	cfg       actorConfig
	kind      kind[S]
	log       eventlog.Log
	snapshots Snapshots // nil for none
	saver     *saver
	metrics   *deskMetrics

	ctx      context.Context // canceled when Drain runs out of time
	cancel   context.CancelFunc
	stopping chan struct{}
	loads    chan struct{} // has an entry for each stream that is loaded in the background
	actors   sync.WaitGroup

	mu      sync.Mutex // locked before an actor's mu
	live    map[string]*actor[S]
	closing bool
}

func newRegistry[S streamState](cfg actorConfig, k kind[S], log eventlog.Log, snapshots Snapshots, m *deskMetrics) *registry[S] {
	r := &registry[S]{
		cfg: cfg, kind: k, log: log, snapshots: snapshots, metrics: m,
		stopping: make(chan struct{}), loads: make(chan struct{}, maxLoads), live: map[string]*actor[S]{},
	}
	// Not a request's context: actors outlive requests and end with Drain.
	r.ctx, r.cancel = context.WithCancel(context.Background())
	if snapshots != nil {
		r.saver = newSaver(snapshots, k.foldVersion, cfg.Logger, m)
	}
	return r
}

// actor returns the live actor of a key, starting one if there is none.
func (r *registry[S]) actor(key string) (*actor[S], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a, ok := r.live[key]; ok && !r.closing {
		return a, nil
	}
	if r.closing {
		r.metrics.refused.WithLabelValues("shutdown").Inc()
		return nil, fmt.Errorf("shutting down: %w", ErrBusy)
	}
	stream, state, err := r.kind.open(key)
	if err != nil {
		return nil, err
	}
	if len(r.live) >= r.cfg.MaxLive && !r.evict() {
		r.metrics.refused.WithLabelValues("too_many").Inc()
		return nil, fmt.Errorf("%d streams are in use: %w", len(r.live), ErrBusy)
	}
	a := newActor(r, key, stream, state)
	r.live[key] = a
	r.metrics.live.Inc()
	r.actors.Go(func() {
		defer r.metrics.live.Dec()
		a.run()
	})
	return a, nil
}

// evict retires the least used in a sample of idle actors. mu is held.
func (r *registry[S]) evict() bool {
	var victim *actor[S]
	least, looked := uint64(0), 0
	for _, a := range r.live { // in random order
		a.mu.Lock()
		if a.restsLocked() && (victim == nil || a.uses < least) {
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
	if !victim.restsLocked() { // used in between
		return false
	}
	victim.retired = true
	delete(r.live, victim.key)
	select {
	case victim.wake <- struct{}{}:
	default:
	}
	r.metrics.evicted.Inc()
	return true
}

// restsLocked reports whether the actor has nothing to do and nothing to lose.
func (a *actor[S]) restsLocked() bool {
	return !a.working && !a.retired && len(a.queue) == 0 && len(a.handed) == 0 && a.state.Idle()
}

// with calls f while holding the lock of the key's live actor.
func (r *registry[S]) with(key string, f func(a *actor[S])) error {
	for range maxFindAttempts {
		a, err := r.actor(key)
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

// do queues a job at the key's actor and returns its final outcome.
func (r *registry[S]) do(ctx context.Context, key string, t *task[S]) error {
	if err := r.enqueue(ctx, key, t); err != nil {
		return err
	}
	return t.wait()
}

// enqueue queues a job. Unless it returns an error, finished will be called on the job.
func (r *registry[S]) enqueue(ctx context.Context, key string, t *task[S]) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.ctx, t.caller, t.patient = ctx, make(chan error, 1), waitsForLoading(ctx)
	for range maxFindAttempts {
		a, err := r.actor(key)
		if err != nil {
			return err
		}
		if ok, err := a.push(t); ok {
			return err
		}
	}
	return fmt.Errorf("%s: %w", key, ErrBusy)
}

// handIn submits a compensation, which has no waiting caller, to the key's actor. During shutdown it
// still finds an actor that is working.
func (r *registry[S]) handIn(key string, t *task[S]) error {
	for range maxFindAttempts {
		r.mu.Lock()
		a := r.live[key]
		r.mu.Unlock()
		if a == nil {
			var err error
			if a, err = r.actor(key); err != nil {
				return err
			}
		}
		if ok, err := a.handIn(t); ok {
			return err
		}
	}
	return fmt.Errorf("%s: %w", key, ErrBusy)
}

// wait returns the final outcome. If the caller's context ends first it returns ctx.Err(), and the
// actor skips the job or compensates its effect.
func (t *task[S]) wait() error {
	select {
	case err := <-t.caller:
		return err
	case <-t.ctx.Done():
		if t.state.move(callerLeft) {
			return t.ctx.Err()
		}
		return <-t.caller // answered at the same moment
	}
}

// drain refuses new work, finishes the queue and ends all actors. If ctx ends first, running work is
// cut off and ctx.Err() returned.
func (r *registry[S]) drain(ctx context.Context) error {
	r.mu.Lock()
	first := !r.closing
	r.closing = true
	r.mu.Unlock()
	if first {
		close(r.stopping)
	}
	done := make(chan struct{})
	go func() {
		r.actors.Wait()
		r.saver.close()
		close(done)
	}()
	select {
	case <-done:
		r.cancel()
		return nil
	case <-ctx.Done():
		r.cancel()
		<-done // appends and saves end with their contexts
		return fmt.Errorf("drain: %w", ctx.Err())
	}
}
