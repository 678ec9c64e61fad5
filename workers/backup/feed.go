package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
)

// feed returns events in the order of the source, some at a time, and none at its end.
type feed func(ctx context.Context) ([]eventlog.Recorded, error)

// origin is the source of a copy.
type origin struct {
	behind func(after eventlog.Position) feed // reads the events after a position of the source
	events uint64                             // their number, 0 if it is unknown
	head   eventlog.Position                  // of a log
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

// origin returns the log up to a position as an origin.
func (f logFeed) origin() origin {
	return origin{head: f.until, behind: func(after eventlog.Position) feed {
		behind := f
		behind.at = after
		return behind.next
	}}
}

func backupOrigin(from place, c *codec, m *Manifest) origin {
	return origin{events: m.Events, behind: func(after eventlog.Position) feed {
		segment := 0 // the next to be read
		return func(ctx context.Context) ([]eventlog.Recorded, error) {
			for segment < len(m.Segments) && m.Segments[segment].Through <= after {
				segment++
			}
			if segment == len(m.Segments) {
				return nil, nil
			}
			s, err := readSegment(ctx, from, c, m, segment)
			segment++
			for len(s.events) > 0 && s.events[0].Position <= after {
				s.events = s.events[1:]
			}
			return s.events, err
		}
	}}
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
			events, err := from(ctx)
			if err == nil && len(events) > 0 {
				err = delay.Send(ctx, a.pages, events)
			}
			if err != nil || len(events) == 0 {
				a.err = err
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

// eachEvents calls do with the events of a feed, in order, some at a time. It reads ahead.
func eachEvents(ctx context.Context, from feed, do func([]eventlog.Recorded) error) error {
	pages := readAhead(ctx, from)
	defer pages.stop()
	for {
		events, err := pages.next(ctx)
		if err != nil {
			return fmt.Errorf("read the source: %w", err)
		}
		if len(events) == 0 {
			return nil
		}
		if err := do(events); err != nil {
			return err
		}
	}
}

// stop ends the reading and waits for its end.
func (a *ahead) stop() {
	a.cancel()
	for range a.pages { //nolint:revive // to the end
	}
}

// Limits of a window. A later release must not lower them, or it would reject a target whose copy was
// interrupted in a larger window.
const (
	windowEvents = eventlog.MaxDisorder
	windowBytes  = 4 << 20
)

// writers is the number of streams of a window that are appended to concurrently. The store flushes their events
// together.
const writers = 256

// window is a sequence of events of an origin, by stream. Several streams of a window are appended to concurrently, so
// its events may be swapped with events of other streams of the window. Each window is completed before the next one
// begins. At any moment the target therefore holds the beginning of the origin and some of the next windowEvents
// events; the same is true for a run that continues after an interruption, although its windows begin elsewhere.
//
// The accounts of a window are completed before its other streams begin: read models use the account stream's
// data about a key before the usage ticks that name the key. An event of the books, of a checkpoint or of notices has
// a separate window, so that no event moves from one side of it to the other: what follows the end of a month is
// booked later, what follows the beginning of a checkpoint is not in its tree, and the settings of notices apply to
// what follows.
type window struct {
	maxEvents, maxBytes int
	streams             map[string][]eventlog.Recorded
	count               int
	bytes               int
}

func newWindow(cfg Config) *window {
	return &window{maxEvents: cfg.windowEvents, maxBytes: cfg.windowBytes, streams: map[string][]eventlog.Recorded{}}
}

// divides reports whether an event of a stream has a separate window.
func divides(stream string) bool {
	return stream == eventschemas.BooksStream || stream == eventschemas.CheckpointsStream ||
		strings.HasPrefix(stream, eventschemas.NoticesPrefix)
}

// add reports false if the window is full.
func (w *window) add(e eventlog.Recorded) bool {
	size := eventlog.Size(&e.Proposed)
	if w.count == w.maxEvents || w.count > 0 && w.bytes+size > w.maxBytes {
		return false
	}
	w.streams[e.Stream] = append(w.streams[e.Stream], e)
	w.count++
	w.bytes += size
	return true
}

// take removes and returns the first event of a stream. It returns false if there is none.
func (w *window) take(stream string) (eventlog.Recorded, bool) {
	events := w.streams[stream]
	if len(events) == 0 {
		return eventlog.Recorded{}, false
	}
	if len(events) == 1 {
		delete(w.streams, stream)
	} else {
		w.streams[stream] = events[1:]
	}
	w.count--
	w.bytes -= eventlog.Size(&events[0].Proposed)
	return events[0], true
}

// appendWindows appends the events missing after an interruption, and then the events after source. It
// calls written after each window.
func (c *copier) appendWindows(ctx context.Context, missing *window, source eventlog.Position,
	written func(events int, upTo eventlog.Position)) error {
	// The missing events are completed before the next window begins.
	if err := c.appendWindow(ctx, missing); err != nil {
		return err
	}
	at, w := source, newWindow(c.cfg)
	written(missing.count, at)
	put := func() error {
		if err := c.appendWindow(ctx, w); err != nil {
			return err
		}
		written(w.count, at)
		w = newWindow(c.cfg)
		return nil
	}
	divided := false // the last event divides the others
	err := eachEvents(ctx, c.from.behind(source), func(events []eventlog.Recorded) error {
		for i := range events {
			// A window that ends at a reader's position gives the reader an exact position in the target.
			alone := divides(events[i].Stream)
			if w.count > 0 && (c.readers.between(at, events[i].Position) || alone || divided) || !w.add(events[i]) {
				if err := put(); err != nil {
					return err
				}
				w.add(events[i])
			}
			at, divided = events[i].Position, alone
		}
		return nil
	})
	if err != nil {
		return err
	}
	return put()
}

// appendWindow returns when every event of the window is in the target, or one has failed permanently.
func (c *copier) appendWindow(ctx context.Context, w *window) error {
	var accounts, others [][]eventlog.Recorded
	for stream, events := range w.streams {
		if strings.HasPrefix(stream, account.StreamPrefix) {
			accounts = append(accounts, events)
		} else {
			others = append(others, events)
		}
	}
	if err := c.appendStreams(ctx, accounts); err != nil {
		return err
	}
	return c.appendStreams(ctx, others)
}

// appendStreams appends the events of several streams, each stream in its order.
func (c *copier) appendStreams(ctx context.Context, streams [][]eventlog.Recorded) error {
	slices.SortFunc(streams, byPosition)
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for _, events := range streams {
		group.Go(func() error {
			for len(events) > 0 && inner.Err() == nil {
				n := eventlog.Together(events)
				if err := c.appendEvents(inner, events[:n]); err != nil {
					return err
				}
				events = events[n:]
			}
			return inner.Err()
		})
	}
	err := group.Wait()
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// byPosition sorts the streams of a window by their first events.
func byPosition(a, b []eventlog.Recorded) int { return cmp.Compare(a[0].Position, b[0].Position) }

// appendEvents appends consecutive events of one stream. It repeats an append whose outcome is unknown,
// unchanged, so that nothing is written twice.
func (c *copier) appendEvents(ctx context.Context, events []eventlog.Recorded) error {
	stream, expected := events[0].Stream, eventlog.After(events[0].Revision)
	proposed := eventlog.Proposals(events)
	err := retry(ctx, c.cfg.RetryAfter, func() error {
		_, err := c.to.Append(ctx, stream, expected, proposed)
		return err
	})
	wrong := errors.Is(err, eventlog.ErrWrongRevision)
	switch {
	case err == nil:
		return nil
	case (wrong || errors.Is(err, eventlog.ErrTooLarge)) && len(events) > 1:
		// A store may also count what it adds itself. An append of a killed run may have been written after the target
		// was compared: then the first of these events exist, and appending only them again succeeds.
		half := len(events) / 2
		if err := c.appendEvents(ctx, events[:half]); err != nil {
			return err
		}
		return c.appendEvents(ctx, events[half:])
	case wrong:
		return fmt.Errorf("%w: %w", ErrForeignWriter, err)
	}
	return fmt.Errorf("copy revision %d of %s: %w", events[0].Revision, stream, err)
}
