package eventlogtest

import (
	"context"
	"crypto/sha1"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"letterhead/internal/eventlog"
)

// Scope makes a part of a log in use look like an empty log: streams whose names begin with an unused
// prefix, after the current end of the log. With it the suite can run on a server that cannot be emptied.
// Head is the log's: there must be no other writers.
//
// An unfiltered read becomes a read filtered by the prefix. The prefix also changes event ids, because earlier
// runs have used the same ones.
func Scope(t testing.TB, log eventlog.Log, prefix string) eventlog.Log {
	t.Helper()
	base, err := log.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &scope{Log: log, prefix: prefix, base: base, mask: sha1.Sum([]byte(prefix)), cut: map[string]string{}}
}

type scope struct {
	eventlog.Log
	prefix string
	base   eventlog.Position
	mask   [sha1.Size]byte // for event ids

	mu sync.Mutex
	// cut maps names that became too long with the prefix to the original ones.
	cut map[string]string
}

// name adds the prefix to a stream's name. Names that the log must reject stay unchanged.
func (s *scope) name(stream string) string {
	if eventlog.CheckStream(stream) != nil {
		return stream
	}
	name := s.prefix + stream
	if len(name) > eventlog.MaxStreamName {
		name = name[:eventlog.MaxStreamName]
		s.mu.Lock()
		defer s.mu.Unlock()
		s.cut[name] = stream
	}
	return name
}

// id converts an event's id to its id in the log, and back.
func (s *scope) id(id uuid.UUID) uuid.UUID {
	if id == uuid.Nil { // which the log must reject
		return id
	}
	for i := range id {
		id[i] ^= s.mask[i]
	}
	return id
}

func (s *scope) events(events []eventlog.Recorded) []eventlog.Recorded {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range events {
		e := &events[i]
		e.ID = s.id(e.ID)
		if stream, cut := s.cut[e.Stream]; cut {
			e.Stream = stream
		} else {
			e.Stream = strings.TrimPrefix(e.Stream, s.prefix)
		}
	}
	return events
}

func (s *scope) filter(f eventlog.Filter) eventlog.Filter {
	prefixes := []string{s.prefix}
	if len(f.StreamPrefixes) > 0 {
		prefixes = nil
		for _, p := range f.StreamPrefixes {
			prefixes = append(prefixes, s.prefix+p)
		}
	}
	return eventlog.Filter{StreamPrefixes: prefixes, EventTypes: f.EventTypes}
}

// Append implements eventlog.Log.
func (s *scope) Append(ctx context.Context, stream string, expected eventlog.Expected, events []eventlog.Proposed) (eventlog.Appended, error) {
	events = slices.Clone(events)
	for i := range events {
		events[i].ID = s.id(events[i].ID)
	}
	got, err := s.Log.Append(ctx, s.name(stream), expected, events)
	if wrong, ok := errors.AsType[*eventlog.WrongRevisionError](err); ok {
		return got, &eventlog.WrongRevisionError{Stream: stream, Expected: wrong.Expected}
	}
	return got, err
}

// ReadStream implements eventlog.Log.
func (s *scope) ReadStream(ctx context.Context, stream string, from uint64, direction eventlog.Direction, limit int) ([]eventlog.Recorded, error) {
	events, err := s.Log.ReadStream(ctx, s.name(stream), from, direction, limit)
	return s.events(events), err
}

// ReadAll implements eventlog.Log.
func (s *scope) ReadAll(ctx context.Context, after eventlog.Position, filter eventlog.Filter, limit int) (eventlog.Page, error) {
	page, err := s.Log.ReadAll(ctx, max(after, s.base), s.filter(filter), limit)
	s.events(page.Events)
	return page, err
}

// Subscribe implements eventlog.Log.
func (s *scope) Subscribe(ctx context.Context, after eventlog.Position, filter eventlog.Filter) (eventlog.Subscription, error) {
	sub, err := s.Log.Subscribe(ctx, max(after, s.base), s.filter(filter))
	if err != nil {
		return nil, err
	}
	return &scopedSubscription{Subscription: sub, scope: s}, nil
}

type scopedSubscription struct {
	eventlog.Subscription
	scope *scope
}

// Next implements eventlog.Subscription.
func (s *scopedSubscription) Next(ctx context.Context) (eventlog.Batch, error) {
	batch, err := s.Subscription.Next(ctx)
	s.scope.events(batch.Events)
	return batch, err
}

// Head implements eventlog.Log.
func (s *scope) Head(ctx context.Context) (eventlog.Position, error) {
	head, err := s.Log.Head(ctx)
	if head <= s.base {
		return 0, err
	}
	return head, err
}
