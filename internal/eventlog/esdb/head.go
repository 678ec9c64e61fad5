package esdb

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"letterhead/internal/eventlog"
)

const (
	// headFirst is the number of events in the first read of the log's end: the last one is ours, unless
	// the server has just written its own.
	headFirst = 4
	// headScan is the number of events in further reads, to get past the server's own.
	headScan = 64
)

// headReads shares reads of the log's end between concurrent callers: a caller that arrives during a read waits for the
// next one, which begins after it arrived, as do all others. However many callers there are, at most two reads exist.
type headReads struct {
	mu            sync.Mutex
	running, next *headRead
}

type headRead struct {
	done     chan struct{}
	position eventlog.Position
	err      error
}

// Head implements eventlog.Log: one round trip, shared by concurrent callers.
func (l *Log) Head(ctx context.Context) (eventlog.Position, error) {
	const attempt = "read the head"
	if err := l.usable(ctx, attempt); err != nil {
		return 0, err
	}
	r, began := l.joinHead(), time.Now()
	select {
	case <-r.done:
	case <-ctx.Done():
		l.supervisor.judgeCurrent(ctx.Err(), time.Since(began))
		return 0, ctx.Err()
	case <-l.closing.Done():
		return 0, fmt.Errorf("%s: %w", attempt, eventlog.ErrClosed)
	}
	if r.err != nil && l.closing.Err() != nil {
		return 0, fmt.Errorf("%s: %w", attempt, eventlog.ErrClosed)
	}
	if r.err != nil {
		return 0, readError(ctx, attempt, r.err)
	}
	return r.position, nil
}

// joinHead returns a read that has not begun yet.
func (l *Log) joinHead() *headRead {
	h := &l.heads
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next == nil {
		h.next = &headRead{done: make(chan struct{})}
	}
	r := h.next
	if h.running == nil {
		h.running, h.next = r, nil
		go l.readHeads(r)
	}
	return r
}

// readHeads reads as long as a caller waits. The reads are independent of their callers: they end by
// CallTimeout and with the log. A read whose connection is replaced is repeated.
func (l *Log) readHeads(r *headRead) {
	for r != nil {
		r.position, r.err = read(l.closing, l, l.readHead)
		h := &l.heads
		h.mu.Lock()
		h.running, h.next = h.next, nil
		next := h.running
		h.mu.Unlock()
		close(r.done)
		r = next
	}
}

// readHead reads backwards past the server's own events, at most to the last known head.
func (l *Log) readHead(ctx context.Context, m *member) (eventlog.Position, error) {
	seen := l.lastSeen().Position
	var from esdb.AllPosition = esdb.End{}
	for count := uint64(headFirst); ; count = headScan {
		events, err := readBack(ctx, m.client, from, count)
		if err != nil {
			return 0, err
		}
		for _, event := range events {
			at := position(event)
			if at <= seen {
				return seen, nil
			}
			if e, ours, err := fromClient(event); ours {
				if err == nil {
					l.noteSeen(eventlog.MarkOf(&e))
				}
				return at, nil
			}
			from = startAt(at)
		}
		if uint64(len(events)) < count {
			return 0, nil
		}
	}
}

// lastPosition returns the position of the last record, including the server's own records. The caller must hold
// the member.
func (l *Log) lastPosition(ctx context.Context, m *member) (eventlog.Position, error) {
	return l.positionBefore(ctx, m, esdb.End{})
}

// positionBefore returns the position of the last event before another position, 0 if there is none.
func (l *Log) positionBefore(ctx context.Context, m *member, from esdb.AllPosition) (eventlog.Position, error) {
	return callOn(ctx, l, m, func(ctx context.Context) (eventlog.Position, error) {
		events, err := readBack(ctx, m.client, from, 1)
		if err != nil || len(events) == 0 {
			return 0, err
		}
		return position(events[0]), nil
	})
}
