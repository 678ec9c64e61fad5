package esdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"letterhead/internal/eventlog"
)

const (
	// A filtered page reads filterRatio events for each requested one, but at least leastScan and at most
	// MaxPage: events after the last selected one are transferred in vain.
	filterRatio = 8
	leastScan   = 64
	// farBytes is the minimum distance from the end, in positions, at which a filtered read is worth the
	// two additional round trips of a subscription: some thousand events.
	farBytes = 4 << 20
	// scanTime is when a page that is read through a subscription ends with the events it has.
	scanTime = 5 * time.Second
	// maxPageBytes ends a page of the global order early, so that large events do not fill the memory.
	maxPageBytes = 16 << 20
)

// receive calls do with every event of a read, until do returns false or the read ends. A stream that does
// not exist is empty; the client reports that only here, not when the read begins.
func receive(in *esdb.ReadStream, do func(*esdb.ResolvedEvent) (bool, error)) error {
	defer in.Close()
	for {
		event, err := in.Recv()
		switch {
		case errors.Is(err, io.EOF), isNotFound(err):
			return nil
		case err != nil:
			return err
		}
		if more, err := do(event); err != nil || !more {
			return err
		}
	}
}

func (l *Log) ReadStream(ctx context.Context, stream string, from uint64, direction eventlog.Direction,
	limit int) ([]eventlog.Recorded, error) {
	attempt := "read " + stream
	if err := eventlog.CheckStream(stream); err != nil {
		return nil, fmt.Errorf("read a stream: %w", err)
	}
	if err := eventlog.CheckLimit(limit); err != nil {
		return nil, fmt.Errorf("%s: %w", attempt, err)
	}
	options := esdb.ReadStreamOptions{From: esdb.Revision(from), Direction: esdb.Forwards}
	switch {
	case direction == eventlog.Backward:
		options.Direction = esdb.Backwards
		if from > math.MaxInt64 {
			options.From = esdb.End{}
		}
	case from > math.MaxInt64: // more than the server can count
		return nil, l.usable(ctx, attempt)
	}
	events, err := read(ctx, l, func(ctx context.Context, m *member) ([]eventlog.Recorded, error) {
		in, err := m.client.ReadStream(ctx, stream, options, uint64(limit))
		if err != nil {
			return nil, err
		}
		var events []eventlog.Recorded
		err = receive(in, func(event *esdb.ResolvedEvent) (bool, error) {
			e, ours, err := fromClient(event)
			if ours && err == nil {
				events = append(events, e)
			}
			return true, err
		})
		return events, err
	})
	if err != nil {
		return nil, readError(ctx, attempt, err)
	}
	return events, nil
}

// usable reports why a read cannot begin.
func (l *Log) usable(ctx context.Context, attempt string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if l.closing.Err() != nil {
		return fmt.Errorf("%s: %w", attempt, eventlog.ErrClosed)
	}
	return nil
}

// ReadAll implements eventlog.Log. The server filters only subscriptions, so a filtered read that begins
// far from the end uses one; all other reads filter here.
func (l *Log) ReadAll(ctx context.Context, after eventlog.Position, filter eventlog.Filter,
	limit int) (eventlog.Page, error) {
	const attempt = "read all streams"
	if err := eventlog.CheckLimit(limit); err != nil {
		return eventlog.Page{}, fmt.Errorf("%s: %w", attempt, err)
	}
	far := !filter.All() && l.lastSeen().Position > after+farBytes
	page, err := read(ctx, l, func(ctx context.Context, m *member) (eventlog.Page, error) {
		if far && m.filters {
			return l.scan(ctx, m, after, filter, limit)
		}
		return readPage(ctx, m, after, filter, limit)
	})
	if err != nil {
		return eventlog.Page{}, readError(ctx, attempt, err)
	}
	if n := len(page.Events); n > 0 {
		l.noteSeen(eventlog.MarkOf(&page.Events[n-1]))
	}
	return page, nil
}

// readPage reads events and filters them.
func readPage(ctx context.Context, m *member, after eventlog.Position, filter eventlog.Filter,
	limit int) (eventlog.Page, error) {
	count := limit + 1 // the server begins with the event at the position itself
	if !filter.All() {
		count = min(max(filterRatio*limit, leastScan), eventlog.MaxPage)
	}
	in, err := m.client.ReadAll(ctx, esdb.ReadAllOptions{From: startAt(after), Direction: esdb.Forwards}, uint64(count))
	if err != nil {
		return eventlog.Page{}, err
	}
	page := eventlog.Page{Next: after}
	looked, bytes := 0, 0
	err = receive(in, func(event *esdb.ResolvedEvent) (bool, error) {
		looked++
		at := position(event)
		if at <= after {
			return true, nil
		}
		e, ours, err := fromClient(event)
		if err != nil {
			return false, err
		}
		page.Next = at
		if ours && filter.Match(e.Stream, e.Type) {
			page.Events = append(page.Events, e)
			bytes += len(e.Data)
		}
		return len(page.Events) < limit && bytes < maxPageBytes, nil
	})
	page.End = looked < count && len(page.Events) < limit && bytes < maxPageBytes
	return page, err
}

// scan reads a page through a subscription that the server filters. It never reports the end, because
// events that the server skipped may follow.
func (l *Log) scan(ctx context.Context, m *member, after eventlog.Position, filter eventlog.Filter,
	limit int) (eventlog.Page, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f, err := l.follow(ctx, m, after, filter, catchingUp)
	if err != nil {
		return eventlog.Page{}, err
	}
	var page eventlog.Page
	bytes, began := 0, time.Now()
	for {
		event, err := f.next(ctx)
		if err != nil {
			return eventlog.Page{}, err
		}
		e, chosen, err := f.take(ctx, event)
		if err != nil {
			return eventlog.Page{}, err
		}
		page.Next = f.at
		if chosen {
			page.Events = append(page.Events, e)
			bytes += len(e.Data)
		}
		long := time.Since(began) > scanTime && f.at > after
		if event.CaughtUp != nil || len(page.Events) == limit || bytes >= maxPageBytes || long {
			return page, nil
		}
	}
}

// startAt converts a position for the client. Commit and prepare positions are equal for events that were
// appended in one step, as all are since version 5 of the server.
func startAt(p eventlog.Position) esdb.AllPosition {
	if p == 0 {
		return esdb.Start{}
	}
	return esdb.Position{Commit: uint64(p), Prepare: uint64(p)}
}

// readBack reads the global order backwards, beginning before the event at the position.
func readBack(ctx context.Context, client *esdb.Client, from esdb.AllPosition,
	count uint64) ([]*esdb.ResolvedEvent, error) {
	in, err := client.ReadAll(ctx, esdb.ReadAllOptions{From: from, Direction: esdb.Backwards}, count)
	if err != nil {
		return nil, err
	}
	var events []*esdb.ResolvedEvent
	err = receive(in, func(event *esdb.ResolvedEvent) (bool, error) {
		events = append(events, event)
		return true, nil
	})
	return events, err
}
