package sqlite

import (
	"context"
	"errors"
	"fmt"

	"letterhead/internal/eventlog"
)

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

// borrow calls do with a reader from the pool.
func (l *Log) borrow(ctx context.Context, attempt string, do func(*reader) error) error {
	if err := l.usable(ctx, attempt); err != nil {
		return err
	}
	select {
	case r := <-l.readers:
		defer func() { l.readers <- r }()
		err := do(r)
		if err != nil && errors.Is(err, ctx.Err()) {
			return ctx.Err()
		}
		return classify(attempt, err)
	case <-ctx.Done():
		return ctx.Err()
	case <-l.closing.Done():
		return fmt.Errorf("%s: %w", attempt, eventlog.ErrClosed)
	}
}

// ReadStream implements eventlog.Log.
func (l *Log) ReadStream(ctx context.Context, stream string, from uint64, direction eventlog.Direction,
	limit int) ([]eventlog.Recorded, error) {
	attempt := "read " + stream
	if err := eventlog.CheckStream(stream); err != nil {
		return nil, fmt.Errorf("read a stream: %w", err)
	}
	if err := eventlog.CheckLimit(limit); err != nil {
		return nil, fmt.Errorf("%s: %w", attempt, err)
	}
	var events []eventlog.Recorded
	err := l.borrow(ctx, attempt, func(r *reader) (err error) {
		events, err = r.stream(ctx, stream, from, direction, limit)
		return err
	})
	return events, err
}

// ReadAll implements eventlog.Log.
func (l *Log) ReadAll(ctx context.Context, after eventlog.Position, filter eventlog.Filter,
	limit int) (eventlog.Page, error) {
	page, err := l.page(ctx, after, filter, limit)
	for i := range page.Events {
		page.Events[i].Decoding = nil // only subscriptions share it
	}
	return page, err
}

// page is ReadAll, keeping the Decoding of events that subscriptions share.
func (l *Log) page(ctx context.Context, after eventlog.Position, filter eventlog.Filter,
	limit int) (eventlog.Page, error) {
	const attempt = "read all streams"
	if err := eventlog.CheckLimit(limit); err != nil {
		return eventlog.Page{}, fmt.Errorf("%s: %w", attempt, err)
	}
	if err := l.usable(ctx, attempt); err != nil {
		return eventlog.Page{}, err
	}
	if page, ok := l.tail.read(after, filter, limit); ok {
		return page, nil
	}
	var page eventlog.Page
	err := l.borrow(ctx, attempt, func(r *reader) (err error) {
		page, err = r.all(ctx, after, filter, limit, l.tail.head())
		return err
	})
	if err != nil {
		return eventlog.Page{}, err
	}
	page.End = page.End || page.Next >= l.tail.head()
	return page, nil
}

// Subscribe implements eventlog.Log. ctx bounds the call only.
func (l *Log) Subscribe(ctx context.Context, after eventlog.Position,
	filter eventlog.Filter) (eventlog.Subscription, error) {
	if err := l.usable(ctx, "subscribe"); err != nil {
		return nil, err
	}
	s := &subscription{log: l, filter: filter, at: after}
	s.life, s.end = context.WithCancel(l.closing)
	return s, nil
}

// Head implements eventlog.Log.
func (l *Log) Head(ctx context.Context) (eventlog.Position, error) {
	if err := l.usable(ctx, "read the head"); err != nil {
		return 0, err
	}
	return l.tail.head(), nil
}
