package readapi

import (
	"errors"
	"sync"
	"sync/atomic"
)

// bulkhead bounds how many are inside something that may be stuck, so that requests which wait for it do not
// pile up without end: past the limit they are refused at once.
type bulkhead struct {
	limit  int64
	inside atomic.Int64
}

// errStuck is why a bulkhead refuses.
var errStuck = errors.New("too many requests are waiting for another part")

// enter returns what leaves again, and false, without anything to leave, when it is full.
func (b *bulkhead) enter() (leave func(), ok bool) {
	if b.inside.Add(1) > b.limit {
		b.inside.Add(-1)
		return nil, false
	}
	return b.leave, true
}

func (b *bulkhead) leave() { b.inside.Add(-1) }

// shares are a bulkhead for each key, so that one of them does not take all there is for all.
type shares struct {
	limit  int
	mu     sync.Mutex
	inside map[string]int
}

// enter returns what leaves again, and false, without anything to leave, when the key's share is used up.
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
