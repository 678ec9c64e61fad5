package brands

import (
	"sync"

	"letterhead/internal/eventlog"
)

// followed is the range of the log whose brand events were reported to the cache. The zero value is empty.
type followed struct {
	mu          sync.Mutex
	after, upTo eventlog.Position
}

// extend adds a range. A range that does not continue the last one replaces it.
func (f *followed) extend(after, upTo eventlog.Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if after != f.upTo {
		f.after = after
	}
	f.upTo = upTo
}

// cover reports whether the events after one position, up to and including another, are known.
func (f *followed) cover(after, upTo eventlog.Position) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.after < f.upTo && f.after <= after && upTo <= f.upTo
}

// Event removes the brand of a domain from the cache until the tables include the event at the position. On a shared
// database each node's own reader of the log calls it; in a single process the fold does this.
func (m *Model) Event(domain string, at eventlog.Position) {
	if m.shared {
		m.cache.event(domain, at)
	}
}

// Followed reports that Event was called for all events that change brands after one position, up to and including
// another. Changes that the reader has not seen, because it is behind or disconnected, are read by the Model from the
// database.
func (m *Model) Followed(after, upTo eventlog.Position) {
	if m.shared {
		m.followed.extend(after, upTo)
	}
}
