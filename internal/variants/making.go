package variants

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

var (
	errEmpty = errors.New("make picture: it has no bytes")
	// errEnded is what a making says whose function ended its goroutine, as a test's Fatal does.
	errEnded = errors.New("make picture: it did not return")
)

// making is one picture on its way: from disk, or waiting for a turn, or being made.
type making struct {
	key    Key
	make   func(context.Context) ([]byte, error)
	disk   *disk // nil when it is not written
	ctx    context.Context
	cancel context.CancelFunc

	// Under the store's lock.
	waiters int
	begun   bool // it has its turn

	// done is closed when picture and err are set.
	done    chan struct{}
	picture Picture
	err     error
}

// join adds the caller to the making of a key, which it starts when there is none.
func (s *Store) join(ctx context.Context, key Key, how func(context.Context) ([]byte, error), written bool) (*making, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if m := s.makings[key]; m != nil {
		m.waiters++
		s.metrics.joined.Inc()
		return m, nil
	}
	m := &making{key: key, make: how, waiters: 1, done: make(chan struct{}), err: errEnded}
	if written {
		m.disk = s.disk
	}
	// It may have been made since the caller looked.
	if p, ok := s.memory.get(key); ok {
		s.metrics.memory.Inc()
		m.picture, m.err = p, nil
		m.ctx = ctx
		close(m.done)
		return m, nil
	}
	// The others who will wait for it must not lose it when this caller leaves.
	m.ctx, m.cancel = context.WithTimeout(context.WithoutCancel(ctx), s.cfg.MakeTimeout)
	s.makings[key] = m
	s.running.Add(1)
	go s.run(m)
	return m, nil
}

// leave takes a caller from a making. When it was the last, a making that has not begun is given up, so that
// a crowd that has left does not keep the processors from those who are there.
func (s *Store) leave(m *making) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.waiters--
	if m.waiters == 0 && !m.begun && s.makings[m.key] == m {
		delete(s.makings, m.key)
		m.cancel()
		s.metrics.abandoned.Inc()
	}
}

func (s *Store) run(m *making) {
	defer s.running.Done()
	defer s.end(m)
	m.picture, m.err = s.obtain(m)
}

// end answers those who wait. The picture is in memory by now: whoever comes after finds it there.
func (s *Store) end(m *making) {
	s.mu.Lock()
	if s.makings[m.key] == m {
		delete(s.makings, m.key)
	}
	s.mu.Unlock()
	close(m.done)
	m.cancel()
}

func (s *Store) obtain(m *making) (Picture, error) {
	if m.disk != nil {
		if p, ok := m.disk.get(m.key); ok {
			s.memory.put(m.key, p)
			s.metrics.disk.Inc()
			return p, nil
		}
	}
	if err := s.turn(m); err != nil {
		return Picture{}, err
	}
	defer s.turns.Release(1)
	if !s.begin(m) {
		return Picture{}, s.overdue(m)
	}
	start := time.Now()
	made := false
	defer func() {
		if !made {
			s.metrics.failed.Inc()
		}
	}()
	body, err := s.call(m)
	s.metrics.seconds.Observe(time.Since(start).Seconds())
	if err != nil {
		if m.ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", s.overdue(m), err)
		}
		return Picture{}, err
	}
	made = true
	s.metrics.made.Inc()
	if cap(body)-len(body) > len(body)/8 {
		body = bytes.Clone(body) // what is counted is what is held
	}
	p := Picture{Body: body, Sum: sha256.Sum256(body)}
	s.keep(m, p)
	return p, nil
}

// turn waits until the picture may be made. Turns are given in the order in which they were asked for.
func (s *Store) turn(m *making) error {
	if s.turns.TryAcquire(1) {
		return nil
	}
	if s.waiting.Add(1) > int64(s.cfg.Waiting) {
		s.waiting.Add(-1)
		s.metrics.refused.Inc()
		return ErrBusy
	}
	defer s.waiting.Add(-1)
	if s.turns.Acquire(m.ctx, 1) != nil {
		if errors.Is(m.ctx.Err(), context.DeadlineExceeded) {
			s.metrics.refused.Inc()
		}
		return s.overdue(m)
	}
	return nil
}

// begin says whether there is still somebody to make the picture for.
func (s *Store) begin(m *making) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.begun = m.waiters > 0 && m.ctx.Err() == nil
	return m.begun
}

// overdue says why a making's context ended before its picture was there.
func (s *Store) overdue(m *making) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errClosed
	case !m.begun:
		return fmt.Errorf("%w: no turn within %s", ErrBusy, s.cfg.MakeTimeout)
	}
	return fmt.Errorf("picture not made within %s: %w", s.cfg.MakeTimeout, context.DeadlineExceeded)
}

// call makes the picture. A panic is an error: the caller's own goroutine, which a server would end with the
// request alone, is not this one.
func (s *Store) call(m *making) (body []byte, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			s.cfg.Logger.Error("making a picture panicked", "panic", reason, "stack", string(debug.Stack()))
			body, err = nil, fmt.Errorf("make picture: panic: %v", reason)
		}
	}()
	if body, err = m.make(m.ctx); err == nil && len(body) == 0 {
		err = errEmpty
	}
	return body, err
}
