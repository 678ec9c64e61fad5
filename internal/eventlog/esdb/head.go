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
	// headFirst is how many events the first look at the end of the log takes: the last one is ours, unless
	// the server has just written of its own.
	headFirst = 4
	// headScan is how many further looks take, to get past what the server wrote.
	headScan = 64
)

// headReads shares looks at the end of the log among those who ask at the same time: whoever comes while
// one is under way waits for the next one, which begins after they came, and so do all others. However
// many ask, two are there at most.
type headReads struct {
	mu            sync.Mutex
	running, next *headRead
}

// headRead is one look.
type headRead struct {
	done     chan struct{}
	position eventlog.Position
	err      error
}

// Head implements eventlog.Log: one round trip, which callers share.
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

// joinHead gives a look that has not begun yet.
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

// readHeads looks, for as long as somebody waits. The looks belong to nobody: they end by CallTimeout and
// with the log. One whose connection is given up is begun again.
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

// readHead reads backwards past the server's own events, at most to where the head was seen before.
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
					l.saw(seenOf(&e))
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

// lastPosition is where the last event stands, whoever wrote it. The caller holds the member.
func (l *Log) lastPosition(ctx context.Context, m *member) (eventlog.Position, error) {
	return l.positionBefore(ctx, m, esdb.End{})
}

// positionBefore is where the last event before a place stands, 0 when there is none.
func (l *Log) positionBefore(ctx context.Context, m *member, place esdb.AllPosition) (eventlog.Position, error) {
	return beside(ctx, l, m, func(ctx context.Context) (eventlog.Position, error) {
		events, err := readBack(ctx, m.client, place, 1)
		if err != nil || len(events) == 0 {
			return 0, err
		}
		return position(events[0]), nil
	})
}
