package ratelimit

import "sync"

// Shares limits the callers inside per key, so that no key uses up the capacity of all. It is safe for concurrent use.
type Shares struct {
	limit  int
	mu     sync.Mutex
	inside map[string]int
}

// NewShares returns shares of limit callers for each key.
func NewShares(limit int) *Shares { return &Shares{limit: limit, inside: map[string]int{}} }

// Enter returns the function that leaves again, or nil and false if the key's share is used up.
func (s *Shares) Enter(key string) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inside[key] >= s.limit {
		return nil, false
	}
	s.inside[key]++
	return func() { s.leave(key) }, true
}

func (s *Shares) leave(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inside[key]--; s.inside[key] == 0 {
		delete(s.inside, key)
	}
}
