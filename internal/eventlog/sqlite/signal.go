package sqlite

import "sync"

// signal wakes everybody who waits for news.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

// wait returns a channel that the next give closes. Take it before looking whether there is news, or
// what comes in between is missed.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *signal) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
