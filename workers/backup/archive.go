package backup

import (
	"context"
	"fmt"
	"strings"
	"time"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// maxFailures bounds the streams that one archive step removes, at some 150 bytes of memory each. The next
// step removes more.
const maxFailures = 4 << 20

// Failures are the streams of domains that never became brands: crawls were requested, the last one failed,
// and nothing else happened.
type Failures struct {
	Streams, Events uint64

	cfg   Config
	log   eventlog.Log
	head  eventlog.Position
	names map[string]failure
}

type failure struct {
	events uint64
	failed bool // the last event is an outcome
	last   time.Time
}

// FindFailures finds the streams of failures whose last event is older than a time. Nothing may be appended
// until CopyRest or Migrate has returned. Errors: as the log, ctx.Err().
func FindFailures(ctx context.Context, cfg Config, log eventlog.Log, before time.Time) (*Failures, error) {
	f := &Failures{cfg: cfg.withDefaults(), log: log, names: map[string]failure{}}
	var err error
	if f.head, err = log.Head(ctx); err != nil {
		return nil, fmt.Errorf("look for what can be archived: %w", err)
	}
	err = f.each(ctx, nil, func(e *eventlog.Recorded) error {
		f.consider(e)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for what can be archived: %w", err)
	}
	for name, s := range f.names {
		if !s.failed || !s.last.Before(before) {
			delete(f.names, name)
			continue
		}
		f.Streams++
		f.Events += s.events
	}
	return f, nil
}

// consider adds the stream of an event to the failures, or removes it.
func (f *Failures) consider(e *eventlog.Recorded) {
	if !strings.HasPrefix(e.Stream, brand.StreamPrefix) {
		return
	}
	s, known := f.names[e.Stream]
	if !known && (e.Revision > 0 || len(f.names) == maxFailures) {
		return // already removed, or there are too many
	}
	switch e.Type {
	case eventschemas.CrawlFailed{}.EventType():
		s.failed = true
	case eventschemas.BrandDiscovered{}.EventType(), eventschemas.CrawlRequested{}.EventType():
		s.failed = false
	default:
		delete(f.names, e.Stream)
		return
	}
	s.events++
	s.last = e.OccurredAt
	f.names[strings.Clone(e.Stream)] = s
}

// others returns a function that selects the events of all other streams; nil, which selects all events, if f is nil.
func (f *Failures) others() func(*eventlog.Recorded) bool {
	if f == nil {
		return nil
	}
	return func(e *eventlog.Recorded) bool { return !f.holds(e) }
}

func (f *Failures) holds(e *eventlog.Recorded) bool {
	_, held := f.names[e.Stream]
	return held
}

// Each calls do for every event of the failures, in the order of the log. Errors: as do and of the log, ctx.Err().
func (f *Failures) Each(ctx context.Context, do func(*eventlog.Recorded) error) error {
	return f.each(ctx, f.holds, do)
}

func (f *Failures) each(ctx context.Context, keep func(*eventlog.Recorded) bool,
	do func(*eventlog.Recorded) error) error {
	from := &logFeed{log: f.log, until: f.head, retryAfter: f.cfg.RetryAfter, keep: keep}
	return eachEvents(ctx, from.next, func(events []eventlog.Recorded) error {
		for i := range events {
			if err := do(&events[i]); err != nil {
				return err
			}
		}
		f.cfg.Progress(Progress{Stage: StageCheck, Position: events[len(events)-1].Position, Head: f.head})
		return nil
	})
}

// Rest is the result of CopyRest.
type Rest struct {
	Events      uint64            `json:"events"`
	Accounts    uint64            `json:"accounts"`
	ChainEvents uint64            `json:"chain_events"` // every chain is valid
	Position    eventlog.Position `json:"position"`     // the new log's head
	// Readers are the positions of readers in the new log, by name.
	Readers map[string]eventlog.Position `json:"-"`
}

// CopyRest copies all events except the failures to an empty log, reads them back, compares each with its original and
// verifies the hash chain of every account. Positions change; streams, revisions, ids and times do not. readers has the
// positions of readers in the log, by name; Rest.Readers has the corresponding positions in the new log.
//
// Errors: ErrForeignWriter, ErrDiffers, *commands.ChainError, the errors of both logs, ctx.Err().
func (f *Failures) CopyRest(ctx context.Context, to eventlog.Log,
	readers map[string]eventlog.Position) (out Rest, err error) {
	from := logFeed{log: f.log, until: f.head, retryAfter: f.cfg.RetryAfter, keep: f.others()}
	c := newCopier(f.cfg, from.origin(), to)
	c.readers = readersAt(readers)
	if err := c.appendRest(ctx); err != nil {
		return out, err
	}
	if out.ChainEvents, err = c.verifiedChains(); err != nil {
		return out, err
	}
	out.Events, out.Accounts, out.Readers = c.compared, uint64(len(c.accounts)), c.readers.inTarget()
	out.Position, err = to.Head(ctx)
	return out, err
}
