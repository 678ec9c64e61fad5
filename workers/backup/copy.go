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
	"letterhead/domain/account"
	"letterhead/internal/eventlog"
)

// verifiers is the number of hash chains that are verified concurrently.
const verifiers = 4

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
	accounts map[string]struct{} // streams with a chain
	long     []string            // of these, those with at least Config.LongStream events
}

func newCopier(cfg Config, from origin, to eventlog.Log) *copier {
	return &copier{cfg: cfg, from: from, to: to, missing: newWindow(cfg), accounts: map[string]struct{}{}}
}

// compare reads the rest of the target and expects each event to be the origin's next one of that stream.
// An importing target has the events in the origin's order. Other targets may have them in another order
// within a window, or in the origin's order if an earlier release filled them.
//
// It writes nothing. Errors: ErrNotEmpty.
func (c *copier) compare(ctx context.Context, stage Stage) error {
	head, err := headOf(ctx, c.to, c.cfg.RetryAfter)
	if err != nil {
		return fmt.Errorf("read the target: %w", err)
	}
	target := readAhead(ctx, &logFeed{log: c.to, at: c.at, until: head, retryAfter: c.cfg.RetryAfter})
	defer target.stop()
	from := readAhead(ctx, c.from.behind(c.source))
	defer from.stop()
	_, ordered := c.to.(eventlog.Importer)
	var page []eventlog.Recorded // of the origin, after source
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
				if len(page) == 0 {
					if page, err = from.next(ctx); err != nil {
						return fmt.Errorf("read the source: %w", err)
					}
				}
				if len(page) == 0 {
					return fmt.Errorf("%w: it continues after the end of the source, with revision %d of %s",
						ErrNotEmpty, held[i].Revision, held[i].Stream)
				}
				if found = ordered || page[0].Stream == held[i].Stream; found {
					expected = page[0]
				} else if !c.missing.add(page[0]) {
					return fmt.Errorf("%w: its revision %d of %s is not among the next %d events of the source, which continues with revision %d of %s",
						ErrNotEmpty, held[i].Revision, held[i].Stream, c.cfg.windowEvents,
						page[0].Revision, page[0].Stream)
				}
				c.source, page = page[0].Position, page[1:]
			}
			if what := difference(&expected, &held[i]); what != "" {
				return fmt.Errorf(
					"%w: in the place of the source's revision %d of %s it has revision %d of %s (another %s)",
					ErrNotEmpty, expected.Revision, expected.Stream, held[i].Revision, held[i].Stream, what)
			}
			c.know(held[i].Stream)
			c.at = held[i].Position
			c.readers.pass(expected.Position, c.at)
			c.compared++
		}
		c.progress(stage, c.compared, c.source)
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

// know records a stream that has a chain.
func (c *copier) know(stream string) {
	if strings.HasPrefix(stream, account.StreamPrefix) {
		if _, known := c.accounts[stream]; !known {
			c.accounts[strings.Clone(stream)] = struct{}{} // cloned, to release its page
		}
	}
}

func (c *copier) progress(stage Stage, done uint64, upTo eventlog.Position) {
	p := Progress{Stage: stage, Done: done, Total: c.from.size()}
	if o, ok := c.from.(logOrigin); ok {
		p.Position, p.Head = upTo, o.until
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

// appendRest appends the missing events to the target, then reads them back and compares them.
//
// Errors: ErrForeignWriter, ErrDiffers.
func (c *copier) appendRest(ctx context.Context) (err error) {
	want := c.compared // including the events appended here
	written := func(events int, upTo eventlog.Position) {
		want += uint64(events)
		c.progress(StageEvents, want, upTo)
	}
	if to, ok := c.to.(eventlog.Importer); ok {
		err = c.importRest(ctx, to, written)
	} else {
		err = c.appendWindows(ctx, written)
	}
	if err != nil {
		return err
	}
	if err := c.compare(ctx, StageCompare); err != nil {
		if errors.Is(err, ErrNotEmpty) {
			return fmt.Errorf("%w after it was written: %w", ErrDiffers, err)
		}
		return err
	}
	if c.compared != want || c.missing.count > 0 {
		return fmt.Errorf("%w: %d events were written, but %d can be read", ErrDiffers, want, c.compared)
	}
	return nil
}

// importRest imports the events after source, in order. It calls written after each import.
func (c *copier) importRest(ctx context.Context, to eventlog.Importer,
	written func(events int, upTo eventlog.Position)) error {
	return c.eachRestPage(ctx, func(events []eventlog.Recorded) error {
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

// eachRestPage calls do with the events after source, in order, a page at a time.
func (c *copier) eachRestPage(ctx context.Context, do func(events []eventlog.Recorded) error) error {
	from := readAhead(ctx, c.from.behind(c.source))
	defer from.stop()
	for {
		events, err := from.next(ctx)
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

// verifyChains verifies the hash chain of every account in the target. It returns the number of verified
// events, and records the long streams.
//
// Errors: *commands.ChainError of each broken chain.
func (c *copier) verifyChains(ctx context.Context) (events uint64, err error) {
	streams := slices.Sorted(maps.Keys(c.accounts))
	type checked struct {
		stream string
		events int
		err    error
	}
	results := make(chan checked)
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(verifiers)
	go func() {
		for _, s := range streams {
			group.Go(func() error {
				var n int
				err := retry(inner, c.cfg.RetryAfter, func() (err error) {
					n, err = commands.Chain.Verify(inner, c.to, s)
					return err
				})
				results <- checked{s, n, err}
				return nil
			})
		}
		_ = group.Wait() // its functions pass their errors to results
		close(results)
	}()
	var errs []error
	done := uint64(0)
	for r := range results {
		done++
		events += uint64(r.events)
		if r.events >= c.cfg.LongStream {
			c.long = append(c.long, r.stream)
		}
		if r.err != nil && len(errs) < maxListed {
			errs = append(errs, r.err)
		}
		c.cfg.Progress(Progress{Stage: StageChains, Done: done, Total: uint64(len(streams))})
	}
	if ctx.Err() != nil {
		return events, ctx.Err()
	}
	return events, errors.Join(errs...)
}
