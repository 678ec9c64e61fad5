package esdbtest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

const (
	// recentLimit is the maximum number of events in store.recent.
	recentLimit = 50_000
	// maxGroupBytes is the size of a group above which further appends wait before they are decided.
	maxGroupBytes = 8 << 20
)

var (
	errClosed = errors.New("the log is closed")
	// errNotIndexed means that an append repeats one that is written but not yet indexed.
	errNotIndexed = errors.New("the append repeats one that is not yet indexed")
)

// store is the log. It is completely in memory, and also in the journal if there is one. Appends are decided one after
// the other. All events that were written since the last flush are flushed together and then indexed. Until then
// readers do not see them, and their appends get no answer.
type store struct {
	now       func() time.Time
	flushTime time.Duration // minimum duration of a flush
	journal   *journal      // nil if the log is only in memory
	kick      chan struct{}
	ended     chan struct{} // closed when the flusher has returned
	held      sync.Mutex    // held during a flush, and to prevent flushes
	rejected  atomic.Int64  // appends

	mu      sync.Mutex
	streams map[string][]*record
	all     []*record
	next    uint64 // position of the next record
	visible int    // number of flushed records in all
	shown   uint64 // position of the last flushed record
	// recent has the last event that was written with each id, across streams. The server keeps 8 MiB of them
	// (IndexWriter._committedEvents).
	recent   map[uuid.UUID]*record
	news     chan struct{} // closed when more records are visible
	pending  *group        // to be flushed next
	flushing *group        // being flushed, or nil
	failed   error         // why nothing can be appended any more
}

// group contains events that are flushed together.
type group struct {
	events int
	frame  []byte
	done   chan struct{} // closed after the flush, also if it failed
	err    error
}

func newGroup() *group {
	return &group{frame: make([]byte, frameHead), done: make(chan struct{})}
}

// openStore opens the log in a folder. If dir is empty, it returns an empty log in memory.
func openStore(dir string, flushTime time.Duration, now func() time.Time) (*store, error) {
	s := &store{
		now: now, flushTime: flushTime, streams: map[string][]*record{}, recent: map[uuid.UUID]*record{},
		news: make(chan struct{}), pending: newGroup(), kick: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	if dir != "" {
		var err error
		if s.journal, err = openJournal(dir, s.restore); err != nil {
			return nil, err
		}
		s.visible = len(s.all)
	}
	go s.flush()
	if len(s.all) > 0 {
		s.shown = s.all[len(s.all)-1].position
		return s, nil
	}
	// A new server begins its log with system events, so the first events of clients are neither first nor at position 0.
	if err := errors.Join(s.system("$users", "$User", "application/json", `{}`), s.system("$settings", "$settings", "application/json", `{}`)); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// restore adds an event of the journal.
func (s *store) restore(wire []byte) error {
	r, next, err := decodeRecord(wire)
	if err != nil {
		return err
	}
	if r.position != s.next || r.revision != uint64(len(s.streams[r.stream])) {
		return fmt.Errorf("revision %d of %s at position %d is out of order", r.revision, r.stream, r.position)
	}
	s.add(r)
	s.next = next
	return nil
}

// add adds a record to the indices.
func (s *store) add(r *record) {
	if held := s.streams[r.stream]; len(held) > 0 {
		r.stream = held[0].stream // share the string
	}
	s.streams[r.stream] = append(s.streams[r.stream], r)
	s.all = append(s.all, r)
	if len(s.recent) >= recentLimit {
		clear(s.recent)
	}
	s.recent[r.id] = r
}

// expectation is the expected revision of an append.
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
	position uint64 // of the last event; 0 to omit it
	current  uint64 // revision of the stream if the append is rejected
	empty    bool   // the append is rejected, and the stream has no events
}

// append decides about an append, writes the events, and returns when everything that the decision depends on is
// durable. A rejection may depend on events that are still being flushed.
//
// Errors: errNotIndexed, errClosed, ctx.Err(), the errors of the journal.
func (s *store) append(ctx context.Context, stream string, expected expectation, events []*proposal) (verdict, error) {
	v, wait, err := s.decide(stream, expected, events)
	if err != nil || wait == nil {
		return v, err
	}
	select {
	case <-wait.done:
		return v, wait.err
	case <-ctx.Done():
		return verdict{}, ctx.Err()
	}
}

// decide decides about an append and writes its events. It returns the group to wait for, or nil.
func (s *store) decide(stream string, expected expectation, events []*proposal) (verdict, *group, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.pending.frame) > maxGroupBytes && s.failed == nil {
		before := s.flushing
		if before == nil {
			before = s.pending
		}
		s.mu.Unlock()
		<-before.done
		s.mu.Lock()
	}
	if s.failed != nil {
		return verdict{}, nil, s.failed
	}
	v, decided := s.judge(stream, expected, events)
	switch {
	case decided && v.ok && !s.indexed(s.streams[stream][v.last]):
		return verdict{}, nil, errNotIndexed // CommitDecision.IdempotentNotReady, which the server does not answer
	case decided && v.ok:
		return v, nil, nil
	case decided:
		s.rejected.Add(1)
	default:
		var err error
		if v, err = s.write(stream, events); err != nil {
			return verdict{}, nil, err
		}
	}
	if s.pending.events > 0 {
		return v, s.pending, nil
	}
	return v, s.flushing, nil
}

// indexed reports whether an event was flushed. The caller holds mu.
func (s *store) indexed(r *record) bool { return s.visible > 0 && r.position <= s.shown }

// judge follows IndexWriter.CheckCommit. It returns false if the events must be written.
func (s *store) judge(stream string, expected expectation, events []*proposal) (verdict, bool) {
	held := s.streams[stream]
	wrong := verdict{empty: len(held) == 0}
	if len(held) > 0 {
		wrong.current = uint64(len(held) - 1)
	}
	switch expected.kind {
	case expectExists, expectAny:
		if expected.kind == expectExists && len(held) == 0 {
			return wrong, true
		}
		return s.seenRecently(stream, events, wrong)
	default:
		next := uint64(0)
		if expected.kind == expectRevision {
			next = expected.revision + 1
		}
		switch {
		case next > uint64(len(held)):
			return wrong, true
		case next < uint64(len(held)):
			return s.compare(stream, next, events, wrong), true
		}
	}
	return verdict{}, false
}

// compare decides about an append whose expected revision is before the end of the stream: it is a repeat if the ids of
// the events from that revision on are the same. If the first id differs, the version is wrong; if a later one differs,
// it is a corrupt repeat, which the server also answers with wrong version.
//
// It looks up each id among the recent events, and reads the stream only if the latest event with that id is another
// one. Like the server it reads the stream from the index, which does not contain the newest events. So if another
// stream has used the ids meanwhile, the repeat gets wrong version.
func (s *store) compare(stream string, next uint64, events []*proposal, wrong verdict) verdict {
	held := s.streams[stream]
	for i, e := range events {
		at := next + uint64(i)
		if r := s.recent[e.id]; r != nil && r.stream == stream && r.revision == at {
			continue
		}
		if at >= uint64(len(held)) || !s.indexed(held[at]) || held[at].id != e.id {
			return wrong
		}
	}
	last := held[next+uint64(len(events))-1]
	return verdict{ok: true, first: next, last: last.revision, position: last.position}
}

// seenRecently decides whether an append at any revision is a repeat. It finds only recent events.
func (s *store) seenRecently(stream string, events []*proposal, wrong verdict) (verdict, bool) {
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

// write adds events to the end of a stream, in memory, and to the group that is flushed next.
func (s *store) write(stream string, events []*proposal) (verdict, error) {
	records := make([]*record, len(events))
	next, revision, created := s.next, uint64(len(s.streams[stream])), s.now()
	for i, e := range events {
		r := &record{id: e.id, stream: stream, typ: e.typ, revision: revision + uint64(i), position: next}
		if err := r.encode(e, created); err != nil {
			return verdict{}, fmt.Errorf("encode an event: %w", err)
		}
		records[i] = r
		next += growth(stream, e)
	}
	for _, r := range records {
		s.add(r)
		if s.journal != nil {
			s.pending.frame = binary.AppendUvarint(s.pending.frame, uint64(len(r.wire)))
			s.pending.frame = append(s.pending.frame, r.wire...)
		}
	}
	s.next = next
	s.pending.events += len(records)
	select {
	case s.kick <- struct{}{}:
	default:
	}
	last := records[len(records)-1]
	return verdict{ok: true, first: records[0].revision, last: last.revision, position: last.position}, nil
}

// show makes events visible to readers.
func (s *store) show(count int) {
	s.visible, s.shown = count, s.all[count-1].position
	close(s.news)
	s.news = make(chan struct{})
}

// flush flushes pending events until the log is closed.
func (s *store) flush() {
	defer close(s.ended)
	for range s.kick {
		s.flushPending()
	}
}

// flushPending makes the pending events durable and visible.
func (s *store) flushPending() {
	s.held.Lock()
	defer s.held.Unlock()
	s.mu.Lock()
	g, count := s.pending, len(s.all)
	if g.events == 0 || s.failed != nil && s.failed != errClosed {
		s.mu.Unlock()
		return
	}
	s.pending, s.flushing = newGroup(), g
	s.mu.Unlock()
	time.Sleep(s.flushTime)
	if s.journal != nil {
		g.err = s.journal.write(g.frame)
	}
	s.mu.Lock()
	s.flushing = nil
	if g.err != nil {
		// Memory and disk may differ now, so reject all further appends.
		s.failed = fmt.Errorf("the log has failed: %w", g.err)
		s.pending.err = g.err
		close(s.pending.done)
	} else {
		s.show(count)
	}
	s.mu.Unlock()
	g.frame = nil
	close(g.done)
}

// hold prevents flushes until release is called. release may be called several times.
func (s *store) hold() (release func()) {
	s.held.Lock()
	return sync.OnceFunc(s.held.Unlock)
}

// system appends a system event.
func (s *store) system(stream, typ, content, data string) error {
	// The context of a caller must not cancel writes of the server itself.
	_, err := s.append(context.Background(), stream, expectation{}, []*proposal{{id: uuid.New(), typ: typ, content: content, data: []byte(data)}})
	return err
}

// noise appends events that a real server adds between the clients' events: statistics, and a link as projections make
// them.
func (s *store) noise(stream string) error {
	return errors.Join(
		s.system("$stats-127.0.0.1:2113", "$statsCollected", "application/json", `{}`),
		s.system("by-stream-"+stream, "$>", "application/octet-stream", "0@"+stream))
}

// stream returns the visible events of a stream. The slice does not change later.
func (s *store) stream(name string) []*record {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.streams[name]
	for len(held) > 0 && held[len(held)-1].position > s.shown {
		held = held[:len(held)-1]
	}
	return held
}

// everything returns all visible events in order, and a channel that is closed when there are more.
func (s *store) everything() ([]*record, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[:s.visible:s.visible], s.news
}

// end returns the position of the event after those in all, or the position that the next event will get.
func (s *store) end(all []*record) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(all) < len(s.all) {
		return s.all[len(all)].position
	}
	return s.next
}

// close closes the log. Further appends fail.
func (s *store) close() error {
	s.mu.Lock()
	if s.failed == nil {
		s.failed = errClosed
	}
	s.mu.Unlock()
	close(s.kick)
	<-s.ended
	if s.journal == nil {
		return nil
	}
	return s.journal.close()
}
