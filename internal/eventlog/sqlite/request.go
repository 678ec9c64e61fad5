package sqlite

import (
	"sync/atomic"

	"letterhead/internal/eventlog"
)

// States of a request. Whoever moves it out of queued decides: the writer takes it, or the caller, whose
// context ended, withdraws it.
const (
	queued int32 = iota
	taken
	withdrawn
)

// request is an append on its way to the writer. It holds copies: a caller who went away may change what
// it passed.
type request struct {
	stream   string
	expected eventlog.Expected
	events   []prepared
	bytes    int
	state    atomic.Int32
	done     chan struct{} // closed when result and err are set
	result   eventlog.Appended
	err      error
}

// prepared is an event encoded as far as its caller can, so that the one writer does not have to. The
// writer fills in the place.
type prepared struct {
	recorded eventlog.Recorded
	envelope []byte
	crc      uint32
}

func newRequest(stream string, expected eventlog.Expected, events []eventlog.Proposed) *request {
	r := &request{stream: stream, expected: expected, events: make([]prepared, len(events)), done: make(chan struct{})}
	for i := range events {
		p := &r.events[i]
		p.recorded.Proposed, p.recorded.Stream = events[i], stream
		p.recorded.OccurredAt = microseconds(events[i].OccurredAt)
		p.envelope, p.recorded.Data, p.crc = encodeEnvelope(&events[i])
		r.bytes += len(p.envelope) + len(p.recorded.Data)
	}
	return r
}

func (r *request) answer(err error) {
	r.err = err
	close(r.done)
}
