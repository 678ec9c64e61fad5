package brands

import (
	"sync"

	"letterhead/internal/eventlog"
)

// followed is the part of the log whose events of brands the cache was told of. The zero value is empty.
type followed struct {
	mu          sync.Mutex
	after, upTo eventlog.Position
}

// extend adds a part. One that does not go on where the last ended takes its place.
func (f *followed) extend(after, upTo eventlog.Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if after != f.upTo {
		f.after = after
	}
	f.upTo = upTo
}

// cover reports whether the events after one position, up to and with another, are known.
func (f *followed) cover(after, upTo eventlog.Position) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.after < f.upTo && f.after <= after && upTo <= f.upTo
}

// Event takes the brand of a domain out of the cache until the tables hold the event at the position. It is for a
// reader of the log on a node of several; the fold does it in one process.
func (m *Model) Event(domain string, at eventlog.Position) {
	if m.shared {
		m.cache.event(domain, at)
	}
}

// Followed says that Event was called for all events that change brands after one position, up to and with another. What the
// reader has not seen, because it is behind or cut off, the Model reads from the database.
func (m *Model) Followed(after, upTo eventlog.Position) {
	if m.shared {
		m.followed.extend(after, upTo)
	}
}
