package sqlite

import (
	"sync"

	"letterhead/internal/eventlog"
)

// tailBytes bounds the data of the events kept in memory. The values that readers decode from them are kept
// too, and take about three times as much.
const tailBytes = 8 << 20

// tail keeps the end of the log in memory. All live subscriptions read the same few events; without it each of them
// would read and decode its own copy from the file at every commit, and those with a filter would drop most of them.
type tail struct {
	mu    sync.RWMutex
	ring  []eventlog.Recorded // event p is in slot p % len(ring)
	first eventlog.Position   // the oldest event in the ring
	last  eventlog.Position   // the log's head
	bytes int                 // of the data in the ring
}

func newTail(head eventlog.Position, events int) *tail {
	return &tail{ring: make([]eventlog.Recorded, events), first: head + 1, last: head}
}

func (t *tail) slot(p eventlog.Position) *eventlog.Recorded {
	return &t.ring[p%eventlog.Position(len(t.ring))]
}

// push adds the events of a commit, in order.
func (t *tail) push(requests []*request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range requests {
		for i := range r.events {
			e := &r.events[i].recorded
			if e.Position != t.last+1 {
				continue // rejected, or a repeat
			}
			if e.Position-t.first == eventlog.Position(len(t.ring)) {
				t.drop()
			}
			slot := t.slot(e.Position)
			*slot = *e
			slot.Decoding = new(eventlog.Decoding)
			t.last = e.Position
			t.bytes += len(e.Data)
		}
	}
	for t.bytes > tailBytes {
		t.drop()
	}
}

func (t *tail) drop() {
	slot := t.slot(t.first)
	t.bytes -= len(slot.Data)
	*slot = eventlog.Recorded{}
	t.first++
}

// read returns a page of the global order, and false if it begins before the oldest event in memory.
func (t *tail) read(after eventlog.Position, filter eventlog.Filter, limit int) (eventlog.Page, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if after+1 < t.first {
		return eventlog.Page{}, false
	}
	page := eventlog.Page{Next: after}
	everything := filter.All()
	if everything && after < t.last {
		page.Events = make([]eventlog.Recorded, 0, min(uint64(limit), uint64(t.last-after)))
	}
	for page.Next < t.last && len(page.Events) < limit {
		page.Next++
		if e := t.slot(page.Next); everything || filter.Match(e.Stream, e.Type) {
			page.Events = append(page.Events, *e)
		}
	}
	page.End = page.Next >= t.last
	return page, true
}

// head returns the position of the log's last event.
func (t *tail) head() eventlog.Position {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.last
}

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
