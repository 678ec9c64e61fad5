package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"letterhead/internal/eventlog"
)

// feed returns events in the order of the source, some at a time, and none at its end.
type feed interface {
	next(ctx context.Context) ([]eventlog.Recorded, error)
}

// origin is the source of a copy.
type origin interface {
	// behind reads the events after a position of the source.
	behind(after eventlog.Position) feed
	// size returns the number of events, 0 if it is unknown.
	size() uint64
}

// logFeed reads a log up to a position.
type logFeed struct {
	log        eventlog.Log
	at, until  eventlog.Position
	retryAfter time.Duration
	keep       func(*eventlog.Recorded) bool // nil: all events
}

func (f *logFeed) next(ctx context.Context) ([]eventlog.Recorded, error) {
	for f.at < f.until {
		var page eventlog.Page
		err := retry(ctx, f.retryAfter, func() (err error) {
			page, err = f.log.ReadAll(ctx, f.at, eventlog.Filter{}, pageEvents)
			return err
		})
		if err != nil {
			return nil, err
		}
		events := page.Events
		for len(events) > 0 && events[len(events)-1].Position > f.until {
			events = events[:len(events)-1]
		}
		if page.End && page.Next < f.until && len(events) == 0 {
			return nil, fmt.Errorf("%w: its head is %d, but it ends at %d", eventlog.ErrCorrupt, f.until, page.Next)
		}
		f.at = page.Next
		if len(events) > 0 {
			f.at = events[len(events)-1].Position
			if events = f.kept(events); len(events) > 0 {
				return events, nil
			}
		}
	}
	return nil, nil
}

func (f *logFeed) kept(events []eventlog.Recorded) []eventlog.Recorded {
	if f.keep == nil {
		return events
	}
	kept := make([]eventlog.Recorded, 0, len(events))
	for i := range events {
		if f.keep(&events[i]) {
			kept = append(kept, events[i])
		}
	}
	return kept
}

// logOrigin is a log up to a position.
type logOrigin logFeed

func (o logOrigin) behind(after eventlog.Position) feed {
	o.at = after
	return (*logFeed)(&o)
}

func (o logOrigin) size() uint64 { return 0 }

type backupOrigin struct {
	place place
	codec *codec
	m     *Manifest
}

func (o backupOrigin) behind(after eventlog.Position) feed { return &segmentFeed{o, 0, after} }

func (o backupOrigin) size() uint64 { return o.m.Events }

type segmentFeed struct {
	backupOrigin
	segment int // the next to be read
	after   eventlog.Position
}

func (f *segmentFeed) next(ctx context.Context) ([]eventlog.Recorded, error) {
	for f.segment < len(f.m.Segments) {
		i := f.segment
		f.segment++
		if f.m.Segments[i].Through <= f.after {
			continue
		}
		s, err := readSegment(ctx, f.place, f.codec, f.m, i)
		if err != nil {
			return nil, err
		}
		for len(s.events) > 0 && s.events[0].Position <= f.after {
			s.events = s.events[1:]
		}
		return s.events, nil
	}
	return nil, nil
}

// readChecked reads a file, verifies its checksum and decompresses it. Errors: ErrDamaged.
func readChecked(ctx context.Context, from place, c *codec, name, sum string) ([]byte, error) {
	data, err := from.get(ctx, name, maxSegmentBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s is missing", ErrDamaged, name)
	}
	if err != nil {
		return nil, err
	}
	if hexSum(data) != sum {
		return nil, fmt.Errorf("%w: %s is damaged (its checksum does not match)", ErrDamaged, name)
	}
	raw, err := c.expand(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return raw, nil
}

// readSegment reads segment i of a backup and compares it with the manifest. Errors: ErrDamaged, ErrNewer.
func readSegment(ctx context.Context, from place, c *codec, m *Manifest, i int) (segment, error) {
	f := m.Segments[i]
	raw, err := readChecked(ctx, from, c, f.Name, f.SHA256)
	if err != nil {
		return segment{}, err
	}
	s, err := decodeSegment(raw)
	if err != nil {
		return segment{}, fmt.Errorf("%s: %w", f.Name, err)
	}
	if s.number != uint64(i+1) || s.after != f.After || s.through != f.Through || uint64(len(s.events)) != f.Events {
		return segment{}, fmt.Errorf("%w: %s is not the segment that the manifest lists", ErrDamaged, f.Name)
	}
	return s, nil
}

// ahead reads one page in advance.
type ahead struct {
	pages  chan []eventlog.Recorded
	err    error // set before pages is closed
	cancel context.CancelFunc
}

func readAhead(ctx context.Context, from feed) *ahead {
	ctx, cancel := context.WithCancel(ctx)
	a := &ahead{pages: make(chan []eventlog.Recorded, 1), cancel: cancel}
	go func() {
		defer close(a.pages)
		for {
			events, err := from.next(ctx)
			if err != nil || len(events) == 0 {
				a.err = err
				return
			}
			select {
			case a.pages <- events:
			case <-ctx.Done():
				a.err = ctx.Err()
				return
			}
		}
	}()
	return a
}

func (a *ahead) next(ctx context.Context) ([]eventlog.Recorded, error) {
	select {
	case events, open := <-a.pages:
		if !open {
			return nil, a.err
		}
		return events, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// stop ends the reading and waits for its end.
func (a *ahead) stop() {
	a.cancel()
	for range a.pages { //nolint:revive // to the end
	}
}
