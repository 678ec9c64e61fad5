package sqlite

import "sync"

// signal wakes all goroutines that wait for new events.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

// wait returns a channel that the next give closes. Call it before checking for new events, or events that
// arrive in between are missed.
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
