package variants

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"letterhead/internal/room"
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
	within bool  // the turn of another making
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
func (s *Store) join(ctx context.Context, key Key, how func(context.Context) ([]byte, error), kind making) (*making, error) {
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
	m := &making{key: key, make: how, disk: kind.disk, within: kind.within, waiters: 1, done: make(chan struct{}), err: errEnded}
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

// leave takes a caller from a making, and says whether that has begun. When it was the last, a making that has not is
// given up, so that a crowd that has left does not keep the processors from those who are there.
func (s *Store) leave(m *making) (begun bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.waiters--
	if m.waiters == 0 && !m.begun && s.makings[m.key] == m {
		s.giveUp(m)
	}
	return m.begun
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
	t := &turn{store: s, making: m}
	if !m.within {
		if err := t.take(room.Part{}); err != nil {
			return Picture{}, err
		}
	}
	defer t.end()
	body, err := t.make()
	if err != nil {
		return Picture{}, err
	}
	if cap(body)-len(body) > len(body)/8 {
		body = bytes.Clone(body) // what is counted is what is held
	}
	p := Picture{Body: body, Sum: sha256.Sum256(body)}
	s.keep(m, p)
	return p, nil
}

// turn is what a making has of what all of them share: leave to work, and room.
type turn struct {
	store  *Store
	making *making
	has    bool // leave to work
	part   room.Part
}

// take waits until there is room, and then until the picture may be made. Both are given in the order in which they
// were asked for.
func (t *turn) take(want room.Part) error {
	s, ctx := t.store, t.making.ctx
	if want == (room.Part{}) && s.turns.TryAcquire(1) {
		t.has = true
		return nil
	}
	if s.waiting.Add(1) > int64(s.cfg.Waiting) {
		s.waiting.Add(-1)
		s.metrics.refused.Inc()
		return ErrBusy
	}
	defer s.waiting.Add(-1)
	err := want.Wait(ctx)
	if err == nil {
		t.part = want
		err = s.turns.Acquire(ctx, 1)
		t.has = err == nil
	}
	if err == nil {
		return nil
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		s.metrics.refused.Inc()
	}
	return s.overdue(t.making)
}

// end gives everything back.
func (t *turn) end() {
	t.part.Give()
	t.part = room.Part{}
	if t.has {
		t.store.turns.Release(1)
	}
	t.has = false
}

// make makes the picture. As often as it needs more room than there is, its turn is another's meanwhile.
func (t *turn) make() ([]byte, error) {
	s, m := t.store, t.making
	asks := t
	if m.within {
		asks = nil // and not the turn of the making that it is within, whose context this one's comes of
	}
	ctx := context.WithValue(m.ctx, turnKey{}, asks)
	var took time.Duration
	failed := false // also when the function ends its goroutine
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
		var full *noRoom
		if errors.As(err, &full) && m.ctx.Err() == nil {
			failed = false
			t.end()
			if !s.pause(m) {
				return nil, s.overdue(m)
			}
			if err := t.take(full.Part); err != nil {
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

// begin says whether there is still somebody to make the picture for.
func (s *Store) begin(m *making) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.begun = m.waiters > 0 && m.ctx.Err() == nil
	return m.begun
}

// pause takes it back that a making has begun. ok is false, and the making given up, when all have left.
func (s *Store) pause(m *making) (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.begun = false
	if m.waiters > 0 || s.closed {
		return true
	}
	s.giveUp(m)
	return false
}

// giveUp ends a making that nobody waits for. The lock is held.
func (s *Store) giveUp(m *making) {
	if s.makings[m.key] == m {
		delete(s.makings, m.key)
	}
	m.cancel()
	s.metrics.abandoned.Inc()
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
func (s *Store) call(ctx context.Context, m *making) (body []byte, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			s.cfg.Logger.Error("making a picture panicked", "panic", reason, "stack", string(debug.Stack()))
			body, err = nil, fmt.Errorf("make picture: panic: %v", reason)
		}
	}()
	if body, err = m.make(ctx); err == nil && len(body) == 0 {
		err = errEmpty
	}
	return body, err
}

// noRoom is what a making returns that may not hold what it needs yet.
type noRoom struct{ room.Part }

func (*noRoom) Error() string { return "too little room to make the picture in" }

// turnKey is what a making's context has the turn under that Need asks for; nil where it asks for nothing.
type turnKey struct{}

// Need asks for what a making is about to hold, in bytes: all of it, and what it asked for before is in that. ctx is
// the making's; with any other, Need has nothing to say.
//
// An error means that others hold too much. The making must return it: it is called again when there is room, and
// meanwhile its turn is another's.
func Need(ctx context.Context, bytes int64) error {
	t, _ := ctx.Value(turnKey{}).(*turn)
	if t == nil || bytes <= t.part.Bytes() {
		return nil
	}
	t.part.Give() // who waits for a part has no other, so that nobody waits for him
	t.part = room.Part{}
	want := t.store.cfg.Room.Part(bytes)
	if !want.Try() {
		return &noRoom{want}
	}
	t.part = want
	return nil
}
