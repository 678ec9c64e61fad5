package esdbtest

import (
	"bytes"
	"sync"
	"time"

	"github.com/google/uuid"
)

// record is an event as the server keeps it.
type record struct {
	id       uuid.UUID
	stream   string
	revision uint64
	position uint64 // commit and prepare are the same
	typ      string
	content  string // content type
	data     []byte
	metadata []byte
	created  time.Time
}

// sizeOnDisk is what an event counts against the largest append, and what positions grow by at least.
func (r *record) sizeOnDisk() int { return len(r.data) + len(r.metadata) + 2*len(r.typ) }

// store is the log in memory.
type store struct {
	mu      sync.Mutex
	streams map[string][]*record
	all     []*record
	next    uint64 // position of the next record
	// recent is what an append at any revision is compared with; the server keeps 8 MiB of it.
	recent map[uuid.UUID]*record
	news   chan struct{} // closed when something was appended
	now    func() time.Time
}

const (
	// recentLimit bounds recent, in events.
	recentLimit = 50_000
	// recordOverhead is a prepare record's own length, about.
	recordOverhead = 90
)

func newStore(now func() time.Time) *store {
	s := &store{streams: map[string][]*record{}, recent: map[uuid.UUID]*record{}, news: make(chan struct{}), now: now}
	// A new server has written events of its own before anybody else: the order of all does not begin with
	// ours, and not at 0.
	s.write("$users", []*record{{id: uuid.New(), typ: "$User", content: contentJSON, data: []byte(`{}`)}})
	s.write("$settings", []*record{{id: uuid.New(), typ: "$settings", content: contentJSON, data: []byte(`{}`)}})
	return s
}

// expectation is an append's expected revision.
type expectation struct {
	kind     expectationKind
	revision uint64
}

type expectationKind int

const (
	expectAny expectationKind = iota
	expectExists
	expectNone
	expectRevision
)

// verdict is the server's decision about an append.
type verdict struct {
	ok       bool
	first    uint64 // revisions
	last     uint64
	position uint64 // of the last event; 0 when it is left out
	current  uint64 // of a refused append's stream
	empty    bool   // the stream has no events
}

// append decides and writes. It follows IndexWriter.CheckCommit.
func (s *store) append(stream string, expected expectation, events []*record) verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.streams[stream]
	wrong := verdict{empty: len(held) == 0}
	if len(held) > 0 {
		wrong.current = uint64(len(held) - 1)
	}
	switch expected.kind {
	case expectExists, expectAny:
		if expected.kind == expectExists && len(held) == 0 {
			return wrong
		}
		if v, decided := s.seenRecently(stream, events, wrong); decided {
			return v
		}
	default:
		next := uint64(0)
		if expected.kind == expectRevision {
			next = expected.revision + 1
		}
		switch {
		case next > uint64(len(held)):
			return wrong
		case next < uint64(len(held)):
			return compare(held, next, events, wrong)
		}
	}
	s.write(stream, events)
	last := events[len(events)-1]
	return verdict{ok: true, first: events[0].revision, last: last.revision, position: last.position}
}

// compare is what the server does with an append behind the end: the ids from the expected revision on
// must be those that are there. The first that differs is a wrong version; a later one is a corrupted
// repeat, which the server also answers as a wrong version.
func compare(held []*record, next uint64, events []*record, wrong verdict) verdict {
	for i, e := range events {
		at := next + uint64(i)
		if at >= uint64(len(held)) || held[at].id != e.id {
			return wrong
		}
	}
	last := held[next+uint64(len(events))-1]
	return verdict{ok: true, first: next, last: last.revision, position: last.position}
}

// seenRecently is idempotency at any revision: as far as the server remembers.
func (s *store) seenRecently(stream string, events []*record, wrong verdict) (verdict, bool) {
	var first, last *record
	for i, e := range events {
		r, seen := s.recent[e.id]
		if !seen || r.stream != stream {
			return wrong, i > 0
		}
		if i == 0 {
			first = r
		}
		last = r
	}
	return verdict{ok: true, first: first.revision, last: last.revision, position: last.position}, true
}

func (s *store) write(stream string, events []*record) {
	for _, e := range events {
		e.stream, e.revision, e.position, e.created = stream, uint64(len(s.streams[stream])), s.next, s.now()
		e.data, e.metadata = bytes.Clone(e.data), bytes.Clone(e.metadata)
		s.streams[stream] = append(s.streams[stream], e)
		s.all = append(s.all, e)
		s.next += uint64(recordOverhead + len(stream) + e.sizeOnDisk())
		if len(s.recent) >= recentLimit {
			clear(s.recent)
		}
		s.recent[e.id] = e
	}
	close(s.news)
	s.news = make(chan struct{})
}

// noise appends what a real server appends between other people's events: statistics, and links of
// projections to events that are there.
func (s *store) noise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write("$stats-127.0.0.1:2113", []*record{{id: uuid.New(), typ: "$statsCollected", content: contentJSON, data: []byte(`{}`)}})
	target := s.all[len(s.all)-2]
	s.write("by-type-"+target.typ, []*record{{id: uuid.New(), typ: "$>", content: "application/octet-stream",
		data: []byte("0@" + target.stream)}})
}

// stream returns a stream's events; the slice is not changed any more.
func (s *store) stream(name string) []*record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams[name]
}

// everything returns the order of all events, and the channel that is closed when there are more.
func (s *store) everything() ([]*record, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all, s.news
}
