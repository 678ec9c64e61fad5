package sqlite

import (
	"context"
	"fmt"
	"sync/atomic"

	"letterhead/internal/eventlog"
)

// States of a ticket. Either the writer takes a queued ticket, or its caller withdraws it because the context ended.
const (
	queued int32 = iota
	taken
	withdrawn
)

// ticket is the handle on which a caller waits for the writer. A run of an import has one without a waiting caller.
type ticket struct {
	state atomic.Int32
	done  chan struct{} // closed after err and the result are set
	err   error
}

// take reports whether the writer may process the work.
func (t *ticket) take() bool { return t.state.CompareAndSwap(queued, taken) }

// answer ends the wait.
func (t *ticket) answer(err error) {
	t.err = err
	close(t.done)
}

// wait waits for the answer and leaves it in err. Errors: ctx.Err() if the caller withdrew the work,
// eventlog.ErrAmbiguous if the writer already has it.
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

// request is an append, or one run of an import, for the writer. It holds copies: a caller that left may
// change its arguments.
type request struct {
	ticket
	stream   string
	expected eventlog.Expected
	events   []prepared
	one      [1]prepared // the memory of events if there is one
	bytes    int
	result   eventlog.Appended
	rejected error // why the writer rejected it
}

// bulk is an import for the writer.
type bulk struct {
	ticket
	runs []*request
}

// prepared is an event that its caller has encoded as far as possible, to save work in the single writer.
// The writer adds the row key.
type prepared struct {
	recorded       eventlog.Recorded
	envelope, data []byte // the columns
	crc            uint32
	packed         bool // the form
}

func newRequest(stream string, expected eventlog.Expected, events []eventlog.Proposed, packed bool) *request {
	r := &request{stream: stream, expected: expected}
	if r.events = r.one[:]; len(events) != 1 {
		r.events = make([]prepared, len(events))
	}
	for i := range events {
		p := &r.events[i]
		p.recorded.Proposed, p.recorded.Stream = events[i], stream
		p.recorded.OccurredAt = microseconds(events[i].OccurredAt)
		if packed {
			p.envelope, p.recorded.Data, p.crc, p.packed = encodePacked(&events[i], stream)
			p.data = []byte{}
		}
		if !p.packed {
			p.envelope, p.data, p.crc = encodePlain(&events[i])
			p.recorded.Data = p.data
		}
		r.bytes += len(p.envelope) + len(p.data)
	}
	return r
}
