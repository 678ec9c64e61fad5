package readapi

import (
	"errors"
	"sync"
	"sync/atomic"
)

// bulkhead limits the callers inside a part that may be stuck, so that waiting requests do not
// accumulate without limit: beyond the limit they are refused immediately.
type bulkhead struct {
	limit  int64
	inside atomic.Int64
}

// errStuck is the reason of a bulkhead's refusal.
var errStuck = errors.New("too many requests are waiting for another part")

// enter returns the function that leaves again, or nil and false if the bulkhead is full.
func (b *bulkhead) enter() (leave func(), ok bool) {
	if b.inside.Add(1) > b.limit {
		b.inside.Add(-1)
		return nil, false
	}
	return b.leave, true
}

func (b *bulkhead) leave() { b.inside.Add(-1) }

// shares is a bulkhead per key, so that no key uses up the capacity of all.
type shares struct {
	limit  int
	mu     sync.Mutex
	inside map[string]int
}

// enter returns the function that leaves again, or nil and false if the key's share is used up.
func (s *shares) enter(key string) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inside[key] >= s.limit {
		return nil, false
	}
	if s.inside == nil {
		s.inside = map[string]int{}
	}
	s.inside[key]++
	return func() { s.leave(key) }, true
}

func (s *shares) leave(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inside[key]--; s.inside[key] == 0 {
		delete(s.inside, key)
	}
}
