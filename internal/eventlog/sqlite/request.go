package sqlite

import (
	"context"
	"fmt"
	"sync/atomic"

	"letterhead/internal/eventlog"
)

// States of a ticket. Whoever moves it out of queued decides: the writer takes it, or the caller, whose
// context ended, withdraws it.
const (
	queued int32 = iota
	taken
	withdrawn
)

// ticket is what a caller waits on while its work is on the way to the writer. A run of an import has one
// that nobody waits on.
type ticket struct {
	state atomic.Int32
	done  chan struct{} // closed when err, and the result, are set
	err   error
}

// take says whether the writer may have it.
func (t *ticket) take() bool { return t.state.CompareAndSwap(queued, taken) }

// answer ends the wait.
func (t *ticket) answer(err error) {
	t.err = err
	close(t.done)
}

// wait waits for the answer, which is in err then. Errors: ctx.Err() when ctx ended first and the work was
// withdrawn, eventlog.ErrAmbiguous when the writer has it.
func (t *ticket) wait(ctx context.Context) error {
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
	}
	if t.state.CompareAndSwap(queued, withdrawn) {
		return ctx.Err()
	}
	select {
	case <-t.done:
		return nil
	default:
		return fmt.Errorf("%w: the wait for it ended (%v)", eventlog.ErrAmbiguous, ctx.Err())
	}
}

// request is an append on its way to the writer, or one run of an import. It holds copies: a caller who went
// away may change what it passed.
type request struct {
	ticket
	stream   string
	expected eventlog.Expected
	events   []prepared
	bytes    int
	result   eventlog.Appended
	refused  error // what the writer has against it
}

// bulk is an import on its way to the writer.
type bulk struct {
	ticket
	runs []*request
}

// prepared is an event encoded as far as its caller can, so that the one writer does not have to. The
// writer fills in the place.
type prepared struct {
	recorded eventlog.Recorded
	envelope []byte
	crc      uint32
}

func newRequest(stream string, expected eventlog.Expected, events []eventlog.Proposed) *request {
	r := &request{stream: stream, expected: expected, events: make([]prepared, len(events))}
	for i := range events {
		p := &r.events[i]
		p.recorded.Proposed, p.recorded.Stream = events[i], stream
		p.recorded.OccurredAt = microseconds(events[i].OccurredAt)
		p.envelope, p.recorded.Data, p.crc = encodeEnvelope(&events[i])
		r.bytes += len(p.envelope) + len(p.recorded.Data)
	}
	return r
}
