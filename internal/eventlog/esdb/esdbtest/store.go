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
	// recentLimit bounds what is remembered for appends at any revision, in events.
	recentLimit = 50_000
	// maxGroupBytes bounds what waits for a flush; who comes when there is more waits before being decided.
	maxGroupBytes = 8 << 20
)

var (
	errClosed = errors.New("the log is closed")
	// errNotIndexed is a repeat of an append that was written and is not indexed yet.
	errNotIndexed = errors.New("the append is repeated before it is indexed")
)

// store is the log: all of it in memory, and in a journal when there is one. Appends are decided one
// after the other; what was decided since the last flush is flushed together, and only then indexed: until
// then no reader sees it and its appends have no answer.
type store struct {
	now       func() time.Time
	flushTime time.Duration // of each flush, at least
	journal   *journal      // nil in memory
	kick      chan struct{}
	ended     chan struct{} // closed when the flusher has ended
	held      sync.Mutex    // held during a flush, and by those who keep flushes from beginning
	refused   atomic.Int64  // appends

	mu      sync.Mutex
	streams map[string][]*record
	all     []*record
	next    uint64 // position of the next record
	visible int    // of all, how many are flushed
	shown   uint64 // position of the last visible one
	// recent finds an event by its id, across streams: the last one that was written with it. The server keeps
	// 8 MiB of it (IndexWriter._committedEvents).
	recent   map[uuid.UUID]*record
	news     chan struct{} // closed when more is visible
	pending  *group        // to be flushed next
	flushing *group        // nil when none is
	failed   error         // the journal cannot be written any more
}

// group is what is flushed together.
type group struct {
	events int
	frame  []byte
	done   chan struct{} // closed when flushed, or not
	err    error
}

func newGroup() *group {
	return &group{frame: make([]byte, frameHead), done: make(chan struct{})}
}

// openStore opens the log in a folder; without one it is an empty log in memory.
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
	// A new server has written events of its own before anybody else: the order of all does not begin with
	// ours, and not at 0.
	if err := errors.Join(s.system("$users", "$User", "application/json", `{}`), s.system("$settings", "$settings", "application/json", `{}`)); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// restore takes an event of the journal.
func (s *store) restore(wire []byte) error {
	r, next, err := decodeRecord(wire)
	if err != nil {
		return err
	}
	if r.position != s.next || r.revision != uint64(len(s.streams[r.stream])) {
		return fmt.Errorf("revision %d of %s at position %d does not follow", r.revision, r.stream, r.position)
	}
	s.add(r)
	s.next = next
	return nil
}

// add takes a record into the indices.
func (s *store) add(r *record) {
	if held := s.streams[r.stream]; len(held) > 0 {
		r.stream = held[0].stream // one string for all
	}
	s.streams[r.stream] = append(s.streams[r.stream], r)
	s.all = append(s.all, r)
	if len(s.recent) >= recentLimit {
		clear(s.recent)
	}
	s.recent[r.id] = r
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

// append decides, writes, and returns when what it says is durable: also a refusal, which may stand on
// what is being flushed.
//
// Errors: errNotIndexed, errClosed, ctx.Err(), the journal's.
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

// decide decides about an append and adds it. It returns the group to wait for, nil for none.
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
		s.refused.Add(1)
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

// judge follows IndexWriter.CheckCommit. It returns false when the append is to be written.
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

// compare is what the server does with an append behind the end: the ids from the expected revision on
// must be those that are there. The first that differs is a wrong version; a later one is a corrupted
// repeat, which the server also answers as a wrong version.
//
// It looks each id up among the recent ones, and reads the stream only when the last event with that id is
// another one. The stream is read from the index: what is not indexed yet is not there, so that a repeat
// whose ids another stream has used meanwhile is a wrong version.
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

// seenRecently is idempotency at any revision: as far as the server remembers.
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

// write adds events at the end of a stream: to memory, and to the group that is flushed next.
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

// flush writes what has gathered while the last flush was under way, until the log is closed.
func (s *store) flush() {
	defer close(s.ended)
	for range s.kick {
		s.flushPending()
	}
}

// flushPending makes what has gathered durable and visible.
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
		// What memory holds and what the disk holds may differ now: nothing more is taken.
		s.failed = fmt.Errorf("the log takes nothing more: %w", g.err)
		s.pending.err = g.err
		close(s.pending.done)
	} else {
		s.show(count)
	}
	s.mu.Unlock()
	g.frame = nil
	close(g.done)
}

// hold keeps what is appended from now on from being flushed until release, which may be called again.
func (s *store) hold() (release func()) {
	s.held.Lock()
	return sync.OnceFunc(s.held.Unlock)
}

// system appends an event of the server's own.
func (s *store) system(stream, typ, content, data string) error {
	// Not a caller's context: what the server writes of its own ends by itself.
	_, err := s.append(context.Background(), stream, expectation{}, []*proposal{{id: uuid.New(), typ: typ, content: content, data: []byte(data)}})
	return err
}

// noise appends what a real server appends between other people's events: statistics, and links of
// projections to events that are there.
func (s *store) noise(stream string) error {
	return errors.Join(
		s.system("$stats-127.0.0.1:2113", "$statsCollected", "application/json", `{}`),
		s.system("by-stream-"+stream, "$>", "application/octet-stream", "0@"+stream))
}

// stream returns a stream's visible events; the slice is not changed any more.
func (s *store) stream(name string) []*record {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.streams[name]
	for len(held) > 0 && held[len(held)-1].position > s.shown {
		held = held[:len(held)-1]
	}
	return held
}

// everything returns the order of all visible events, and the channel that is closed when there are more.
func (s *store) everything() ([]*record, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[:s.visible:s.visible], s.news
}

// end is the position behind the last visible event, where the next one stands or will stand.
func (s *store) end(all []*record) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(all) < len(s.all) {
		return s.all[len(all)].position
	}
	return s.next
}

// close ends the log. Nothing may be appended any more.
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
