package variants

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"letterhead/internal/membudget"
)

var (
	errEmpty = errors.New("make image: it has no bytes")
	// errEnded is the error of a job whose function called runtime.Goexit, as a test's Fatal does.
	errEnded = errors.New("make image: it did not return")
)

// job waits for a turn and makes one image.
type job struct {
	key    Key
	make   func(context.Context) ([]byte, error)
	within bool // runs in the turn of another job
	ctx    context.Context
	cancel context.CancelFunc

	// Guarded by the store's lock.
	waiters int
	begun   bool // has its turn

	// done is closed when image and err are set.
	done  chan struct{}
	image Image
	err   error
}

// join adds the caller to the job of a key, and starts the job if there is none.
func (s *Store) join(ctx context.Context, key Key, how func(context.Context) ([]byte, error),
	within bool) (*job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if m := s.jobs[key]; m != nil {
		m.waiters++
		s.metrics.joined.Inc()
		return m, nil
	}
	m := &job{key: key, make: how, within: within, waiters: 1, done: make(chan struct{}), err: errEnded}
	// The image may have been made since the caller's check.
	if p, ok := s.memory.GetIfPresent(key); ok {
		s.metrics.memory.Inc()
		m.image, m.err = p, nil
		m.ctx = ctx
		close(m.done)
		return m, nil
	}
	// Other callers may join, so the job must outlive this caller.
	m.ctx, m.cancel = context.WithTimeout(context.WithoutCancel(ctx), s.cfg.MakeTimeout)
	s.jobs[key] = m
	s.running.Go(func() {
		defer s.end(m)
		m.image, m.err = s.obtain(m)
	})
	return m, nil
}

// leave removes a caller from a job, and reports whether the job has begun. When the last caller
// leaves, a job that has not begun is abandoned, so that it does not use processors that others need.
func (s *Store) leave(m *job) (begun bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.waiters--
	if m.waiters == 0 && !m.begun && s.jobs[m.key] == m {
		s.abandon(m)
	}
	return m.begun
}

// end wakes the waiting callers. The image is in memory by now, where later callers find it.
func (s *Store) end(m *job) {
	s.mu.Lock()
	if s.jobs[m.key] == m {
		delete(s.jobs, m.key)
	}
	s.mu.Unlock()
	close(m.done)
	m.cancel()
}

func (s *Store) obtain(m *job) (Image, error) {
	t := &turn{store: s, job: m}
	if !m.within {
		if err := t.take(membudget.Share{}); err != nil {
			return Image{}, err
		}
	}
	defer t.end()
	body, err := t.make()
	if err != nil {
		return Image{}, err
	}
	if cap(body)-len(body) > len(body)/8 {
		body = bytes.Clone(body) // do not hold uncounted capacity
	}
	p := Image{Body: body, Sum: sha256.Sum256(body)}
	if len(body) <= maxKept && inMemory(p) <= s.cfg.MemoryBytes {
		s.memory.Set(m.key, p)
	}
	return p, nil
}

// turn holds a job's shared resources: permission to work, and memory.
type turn struct {
	store *Store
	job   *job
	has   bool // permission to work
	share membudget.Share
}

// take waits until the memory is free, and then until the image may be made. Both are granted in the order
// of the requests.
func (t *turn) take(want membudget.Share) error {
	s, ctx := t.store, t.job.ctx
	if want == (membudget.Share{}) && s.turns.TryAcquire(1) {
		t.has = true
		return nil
	}
	if s.waiting.Add(1) > int64(s.cfg.Waiting) {
		s.waiting.Add(-1)
		s.metrics.refused.Inc()
		return ErrBusy
	}
	defer s.waiting.Add(-1)
	err := want.Acquire(ctx)
	if err == nil {
		t.share = want
		err = s.turns.Acquire(ctx, 1)
		t.has = err == nil
	}
	if err == nil {
		return nil
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		s.metrics.refused.Inc()
	}
	return s.overdue(t.job)
}

// end returns all resources.
func (t *turn) end() {
	t.share.Release()
	t.share = membudget.Share{}
	if t.has {
		t.store.turns.Release(1)
	}
	t.has = false
}

// make makes the image. Whenever it needs more memory than is free, it releases its turn to others and is retried.
func (t *turn) make() ([]byte, error) {
	s, m := t.store, t.job
	asks := t
	if m.within {
		asks = nil // not the turn of the enclosing job, whose context is the parent of this one
	}
	ctx := context.WithValue(m.ctx, turnKey{}, asks)
	var took time.Duration
	failed := false // true also if the function ends its goroutine
	defer func() {
		if failed {
			s.metrics.failed.Inc()
		}
	}()
	for {
		if !s.begin(m) {
			return nil, s.overdue(m)
		}
		failed = true
		start := time.Now()
		body, err := s.call(ctx, m)
		took += time.Since(start)
		if full, ok := errors.AsType[*overBudget](err); ok && m.ctx.Err() == nil {
			failed = false
			t.end()
			if !s.pause(m) {
				return nil, s.overdue(m)
			}
			if err := t.take(full.Share); err != nil {
				return nil, err
			}
			continue
		}
		s.metrics.seconds.Observe(took.Seconds())
		if err == nil {
			failed = false
			s.metrics.made.Inc()
			return body, nil
		}
		if m.ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", s.overdue(m), err)
		}
		return nil, err
	}
}

// begin reports whether callers still wait for the image.
func (s *Store) begin(m *job) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.begun = m.waiters > 0 && m.ctx.Err() == nil
	return m.begun
}

// pause marks a job as not begun. If all callers have left, it abandons the job and returns false.
func (s *Store) pause(m *job) (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.begun = false
	if m.waiters > 0 || s.closed {
		return true
	}
	s.abandon(m)
	return false
}

// abandon abandons a job without callers. The lock is held.
func (s *Store) abandon(m *job) {
	if s.jobs[m.key] == m {
		delete(s.jobs, m.key)
	}
	m.cancel()
	s.metrics.abandoned.Inc()
}

// overdue returns the reason why the context of an unfinished job ended.
func (s *Store) overdue(m *job) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errClosed
	case !m.begun:
		return fmt.Errorf("%w: no turn within %s", ErrBusy, s.cfg.MakeTimeout)
	}
	return fmt.Errorf("image not made within %s: %w", s.cfg.MakeTimeout, context.DeadlineExceeded)
}

// call makes the image. It converts a panic to an error: it does not run on the caller's goroutine,
// where a server would recover it.
func (s *Store) call(ctx context.Context, m *job) (body []byte, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			s.cfg.Logger.Error("making an image panicked", "panic", reason, "stack", string(debug.Stack()))
			body, err = nil, fmt.Errorf("make image: panic: %v", reason)
		}
	}()
	if body, err = m.make(ctx); err == nil && len(body) == 0 {
		err = errEmpty
	}
	return body, err
}

// overBudget is the error of a job that needs more memory than is free.
type overBudget struct{ membudget.Share }

func (*overBudget) Error() string { return "too little memory in the budget to make the image" }

// turnKey is the context key of the turn that Need uses; the value is nil in a nested job.
type turnKey struct{}

// Need reserves the total number of bytes that a job is about to hold, including earlier requests.
// ctx is the context of the job; with any other context Need does nothing.
//
// An error means that others hold too much. The job must return it: it is called again when
// memory is free, and its turn goes to others in the meantime.
func Need(ctx context.Context, bytes int64) error {
	t, _ := ctx.Value(turnKey{}).(*turn)
	if t == nil || bytes <= t.share.Bytes() {
		return nil
	}
	t.share.Release() // a waiting job holds no memory, so that jobs never wait for each other
	t.share = membudget.Share{}
	want := t.store.cfg.MemoryBudget.Share(bytes)
	if !want.TryAcquire() {
		return &overBudget{want}
	}
	t.share = want
	return nil
}
