package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"letterhead/commands"
	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
)

// copier makes a log contain the events of an origin: all streams, with the same revisions. An importing
// log takes some thousand events at a time, in exactly the origin's order. Other logs, which take one
// stream per append, get the events in windows; see window.
type copier struct {
	cfg  Config
	from origin
	to   eventlog.Log

	// at and source are the positions up to which the logs have been compared: the target's and the origin's.
	at, source eventlog.Position
	// missing are the events up to source that are not in the target, because a window was interrupted.
	missing  *window
	compared uint64 // events
	readers  readers
	accounts map[string]*chain // streams with a chain
	long     []string          // of these, those with at least Config.LongStream events
}

// chain is a hash chain of the target, as far as it was compared.
type chain struct {
	head   streamwriter.Hash
	events uint64
	broken error
}

// rest reads the events of an origin that have not been compared.
type rest struct {
	*ahead
	page []eventlog.Recorded
}

func newCopier(cfg Config, from origin, to eventlog.Log) *copier {
	return &copier{cfg: cfg, from: from, to: to, missing: newWindow(cfg), accounts: map[string]*chain{}}
}

// compare reads the rest of the target and expects each event to be the origin's next one of that stream.
// An importing target has the events in the origin's order. Other targets may have them in another order
// within a window, or in the origin's order if an earlier release filled them.
//
// It verifies the hash chains too, and writes nothing. Errors: ErrNotEmpty.
func (c *copier) compare(ctx context.Context, stage Stage) error {
	from := rest{ahead: readAhead(ctx, c.from.behind(c.source))}
	defer from.stop()
	return c.compareWith(ctx, &from, func() { c.progress(stage, c.compared, c.source) })
}

func (c *copier) compareWith(ctx context.Context, from *rest, compared func()) error {
	head, err := headOf(ctx, c.to, c.cfg.RetryAfter)
	if err != nil {
		return fmt.Errorf("read the target: %w", err)
	}
	all := &logFeed{log: c.to, at: c.at, until: head, retryAfter: c.cfg.RetryAfter}
	target := readAhead(ctx, all.next)
	defer target.stop()
	_, ordered := c.to.(eventlog.Importer)
	for {
		held, err := target.next(ctx)
		if err != nil {
			return fmt.Errorf("read the target: %w", err)
		}
		if len(held) == 0 {
			return nil
		}
		for i := range held {
			expected, found := c.missing.take(held[i].Stream)
			for !found {
				if len(from.page) == 0 {
					if from.page, err = from.next(ctx); err != nil {
						return fmt.Errorf("read the source: %w", err)
					}
				}
				if len(from.page) == 0 {
					return fmt.Errorf("%w: it continues after the end of the source, with revision %d of %s",
						ErrNotEmpty, held[i].Revision, held[i].Stream)
				}
				next := from.page[0]
				if found = ordered || next.Stream == held[i].Stream; found {
					expected = next
				} else if !c.missing.add(next) {
					return fmt.Errorf("%w: its revision %d of %s is not among the next %d events of the source, which continues with revision %d of %s",
						ErrNotEmpty, held[i].Revision, held[i].Stream, c.cfg.windowEvents, next.Revision, next.Stream)
				}
				c.source, from.page = next.Position, from.page[1:]
			}
			if what := difference(&expected, &held[i]); what != "" {
				return fmt.Errorf(
					"%w: in the place of the source's revision %d of %s it has revision %d of %s (another %s)",
					ErrNotEmpty, expected.Revision, expected.Stream, held[i].Revision, held[i].Stream, what)
			}
			c.link(&held[i])
			c.at = held[i].Position
			c.readers.pass(expected.Position, c.at)
			c.compared++
		}
		compared()
	}
}

// readers are the positions of readers, by name, in both logs.
type readers map[string]*readerPosition

type readerPosition struct {
	source, target eventlog.Position
	passed         bool // the target has an event after target that the reader has not read
}

func readersAt(source map[string]eventlog.Position) readers {
	r := readers{}
	for name, at := range source {
		r[name] = &readerPosition{source: at}
	}
	return r
}

// pass records that two events are equal. It is called in the target's order. In the target a reader continues before
// the first event that it has not read in the source: it may read events of that window again, but misses none.
func (r readers) pass(source, target eventlog.Position) {
	for _, at := range r {
		if source > at.source {
			at.passed = true
		}
		if !at.passed {
			at.target = target
		}
	}
}

// between reports whether a reader has read the first event but not the second.
func (r readers) between(first, second eventlog.Position) bool {
	for _, at := range r {
		if first <= at.source && at.source < second {
			return true
		}
	}
	return false
}

func (r readers) inTarget() map[string]eventlog.Position {
	out := map[string]eventlog.Position{}
	for name, at := range r {
		out[name] = at.target
	}
	return out
}

// link checks an event of the target against the chain of its stream, if that has one.
func (c *copier) link(e *eventlog.Recorded) {
	if !strings.HasPrefix(e.Stream, account.StreamPrefix) {
		return
	}
	of := c.accounts[e.Stream]
	if of == nil {
		of = &chain{}
		c.accounts[strings.Clone(e.Stream)] = of // cloned, to release its page
	}
	if of.broken == nil {
		if of.head, of.broken = commands.Chain.Check(of.head, e.Stream, of.events, e); of.broken == nil {
			of.events++
		}
	}
}

func (c *copier) progress(stage Stage, done uint64, upTo eventlog.Position) {
	p := Progress{Stage: stage, Done: done, Total: c.from.events, Head: c.from.head}
	if p.Head > 0 {
		p.Position = upTo
	}
	c.cfg.Progress(p)
}

// difference names the first field that differs between two events, apart from positions.
func difference(a, b *eventlog.Recorded) string {
	switch {
	case a.Stream != b.Stream:
		return "stream"
	case a.Revision != b.Revision:
		return "revision"
	case a.ID != b.ID:
		return "id"
	case a.Type != b.Type:
		return "type"
	case a.SchemaVersion != b.SchemaVersion:
		return "schema version"
	case !a.OccurredAt.Equal(b.OccurredAt):
		return "time"
	case a.Metadata != b.Metadata:
		return "metadata"
	case !bytes.Equal(a.Data, b.Data):
		return "data"
	}
	return ""
}

// appendRest appends the missing events to the target. Meanwhile it reads them back and compares them. A difference
// ends the writing, and a failed append ends the comparison.
//
// Errors: ErrForeignWriter, ErrDiffers.
func (c *copier) appendRest(ctx context.Context) error {
	done := c.compared // including the events appended here
	durable := make(chan struct{}, 1)
	written := func(events int, upTo eventlog.Position) {
		done += uint64(events)
		c.progress(StageEvents, done, upTo)
		delay.Signal(durable)
	}
	from := rest{ahead: readAhead(ctx, c.from.behind(c.source))}
	defer from.stop()
	// Comparing moves both.
	source, missing := c.source, *c.missing
	missing.streams = maps.Clone(missing.streams)
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() error {
		for range durable {
			if err := c.compareWith(inner, &from, func() {}); err != nil {
				return err
			}
		}
		return nil
	})
	group.Go(func() error {
		defer close(durable)
		if to, ok := c.to.(eventlog.Importer); ok {
			return c.importRest(inner, to, source, written)
		}
		return c.appendWindows(inner, &missing, source, written)
	})
	err := group.Wait()
	if err == nil {
		err = c.compareWith(ctx, &from, func() {})
		c.progress(StageCompare, c.compared, c.source)
	}
	if err == nil && len(from.page) == 0 {
		from.page, err = from.next(ctx)
	}
	switch {
	case errors.Is(err, ErrNotEmpty):
		return fmt.Errorf("%w after it was written, or another process writes to it: %w", ErrDiffers, err)
	case err != nil:
		return err
	case c.missing.count > 0 || len(from.page) > 0:
		return fmt.Errorf("%w: only %d of its events can be read from the target", ErrDiffers, c.compared)
	}
	return nil
}

// importRest imports the events after source, in order. It calls written after each import.
func (c *copier) importRest(ctx context.Context, to eventlog.Importer, source eventlog.Position,
	written func(events int, upTo eventlog.Position)) error {
	return eachEvents(ctx, c.from.behind(source), func(events []eventlog.Recorded) error {
		for len(events) > 0 {
			runs, n := eventlog.Runs(events)
			if err := c.importRuns(ctx, to, runs); err != nil {
				return err
			}
			written(n, events[n-1].Position)
			events = events[n:]
		}
		return nil
	})
}

// importRuns repeats an import whose outcome is unknown, unchanged, so that nothing is written twice.
func (c *copier) importRuns(ctx context.Context, to eventlog.Importer, runs []eventlog.Run) error {
	err := retry(ctx, c.cfg.RetryAfter, func() error { return to.Import(ctx, runs) })
	switch {
	case err == nil:
		return nil
	case errors.Is(err, eventlog.ErrWrongRevision):
		return fmt.Errorf("%w: %w", ErrForeignWriter, err)
	}
	return fmt.Errorf("copy %d runs of events, the first to %s at %s: %w",
		len(runs), runs[0].Stream, runs[0].Expected, err)
}

// verifiedChains returns the number of events in the hash chains of the target, which were compared, and records the
// long streams.
//
// Errors: *commands.ChainError of each broken chain.
func (c *copier) verifiedChains() (events uint64, err error) {
	var errs []error
	for _, stream := range slices.Sorted(maps.Keys(c.accounts)) {
		of := c.accounts[stream]
		events += of.events
		if of.events >= uint64(c.cfg.LongStream) {
			c.long = append(c.long, stream)
		}
		if of.broken != nil && len(errs) < maxListed {
			errs = append(errs, of.broken)
		}
	}
	n := uint64(len(c.accounts))
	c.cfg.Progress(Progress{Stage: StageChains, Done: n, Total: n})
	return events, errors.Join(errs...)
}
