package eventlogtest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/internal/eventlog"
)

// timeout bounds every wait of the suite; only a hanging test reaches it.
const timeout = 60 * time.Second

// reporter is the common part of *testing.T and *rapid.T.
type reporter interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// fixture is a log under test with helpers for tests.
type fixture struct {
	t   reporter
	ctx context.Context
	log eventlog.Log
}

func start(t *testing.T, open Open) *fixture {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	return &fixture{t: t, ctx: ctx, log: &uniqueIDs{Log: open(t), t: t, streams: &sync.Map{}}}
}

// uniqueIDs is a log that fails the test if an event id is appended to two streams. EventStoreDB finds repeats by id
// across streams, and production ids are unique: a suite with duplicate ids would test cases that never occur.
type uniqueIDs struct {
	eventlog.Log
	t       reporter
	streams *sync.Map // stream by event id
}

// Append implements eventlog.Log.
func (u *uniqueIDs) Append(ctx context.Context, stream string, expected eventlog.Expected, events []eventlog.Proposed) (eventlog.Appended, error) {
	got, err := u.Log.Append(ctx, stream, expected, events)
	if err != nil {
		return got, err
	}
	for i := range events {
		if other, used := u.streams.LoadOrStore(events[i].ID, stream); used && other != stream {
			u.t.Errorf("the event id %s is appended to %s and to %s", events[i].ID, other, stream)
		}
	}
	return got, nil
}

// id returns an event id for a number.
func id(n uint64) uuid.UUID {
	var u uuid.UUID
	binary.BigEndian.PutUint64(u[8:], n)
	u[6] = 0x50 // looks like version 5
	return u
}

// event returns an event whose id, data and time derive from a number.
func event(n uint64) eventlog.Proposed {
	return eventlog.Proposed{
		ID: id(n), Type: "Counted", SchemaVersion: 1,
		OccurredAt: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Microsecond),
		Data:       fmt.Appendf(nil, `{"n":%d}`, n),
		Metadata:   eventlog.Metadata{RequestID: fmt.Sprintf("r%d", n), Actor: "system:test"},
	}
}

// events returns one event for each number.
func events(numbers ...uint64) []eventlog.Proposed {
	out := make([]eventlog.Proposed, len(numbers))
	for i, n := range numbers {
		out[i] = event(n)
	}
	return out
}

func (f *fixture) append(stream string, expected eventlog.Expected, numbers ...uint64) eventlog.Appended {
	f.t.Helper()
	got, err := f.log.Append(f.ctx, stream, expected, events(numbers...))
	if err != nil {
		f.t.Fatalf("append %v to %s at %s: %v", numbers, stream, expected, err)
	}
	return got
}

// End returns what an append to the end of a stream expects.
func End(t testing.TB, log eventlog.Log, stream string) eventlog.Expected {
	t.Helper()
	last, err := log.ReadStream(t.Context(), stream, eventlog.End, eventlog.Backward, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(last) == 0 {
		return eventlog.NoStream()
	}
	return eventlog.Exact(last[0].Revision)
}

// rejected appends and expects an error.
func (f *fixture) rejected(want error, stream string, expected eventlog.Expected, events []eventlog.Proposed) {
	f.t.Helper()
	if got, err := f.log.Append(f.ctx, stream, expected, events); !errors.Is(err, want) {
		f.t.Errorf("append to %.60q at %s gave %+v, %v; want the error %q", stream, expected, got, err, want)
	}
}

// stream reads a whole stream forward.
func (f *fixture) stream(name string) []eventlog.Recorded {
	f.t.Helper()
	got, err := f.log.ReadStream(f.ctx, name, 0, eventlog.Forward, eventlog.MaxPage)
	if err != nil {
		f.t.Fatalf("read %s: %v", name, err)
	}
	return got
}

// all reads the global order from a position to the end, in pages of at most limit.
func (f *fixture) all(after eventlog.Position, filter eventlog.Filter, limit int) []eventlog.Recorded {
	f.t.Helper()
	var out []eventlog.Recorded
	for at := after; ; {
		page, err := f.log.ReadAll(f.ctx, at, filter, limit)
		if err != nil {
			f.t.Fatalf("read all after %d: %v", at, err)
		}
		if len(page.Events) > limit {
			f.t.Fatalf("read all after %d gave %d events, limit %d", at, len(page.Events), limit)
		}
		if n := len(page.Events); n > 0 && (page.Next < page.Events[n-1].Position || page.Events[0].Position <= at) {
			f.t.Fatalf("read all after %d gave positions %d to %d and continues after %d",
				at, page.Events[0].Position, page.Events[n-1].Position, page.Next)
		}
		out = append(out, page.Events...)
		if page.End {
			return out
		}
		if page.Next <= at {
			f.t.Fatalf("read all after %d does not advance: next %d, not the end", at, page.Next)
		}
		at = page.Next
	}
}

// head reads the position of the last event.
func (f *fixture) head() eventlog.Position {
	f.t.Helper()
	head, err := f.log.Head(f.ctx)
	if err != nil {
		f.t.Fatalf("head: %v", err)
	}
	return head
}

// holds checks that a stream consists of exactly these events, in order, from revision 0.
func (f *fixture) holds(stream string, numbers ...uint64) {
	f.t.Helper()
	got := f.stream(stream)
	if want := ids(numbers); !slices.Equal(idsOf(got), want) {
		f.t.Errorf("%s holds %v, want %v", stream, idsOf(got), want)
	}
	for i, e := range got {
		if e.Revision != uint64(i) || e.Stream != stream {
			f.t.Errorf("event %d of %s is revision %d of %s", i, stream, e.Revision, e.Stream)
		}
	}
}

func ids(numbers []uint64) []uuid.UUID {
	out := make([]uuid.UUID, len(numbers))
	for i, n := range numbers {
		out[i] = id(n)
	}
	return out
}

func idsOf(events []eventlog.Recorded) []uuid.UUID {
	out := make([]uuid.UUID, len(events))
	for i := range events {
		out[i] = events[i].ID
	}
	return out
}

// same compares all fields of events.
func same(t reporter, what string, got, want []eventlog.Recorded) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d events, want %d", what, len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		g, w := got[i], want[i]
		g.Decoding, w.Decoding = nil, nil
		if !reflect.DeepEqual(g, w) {
			t.Fatalf("%s: event %d is\n%+v\nwant\n%+v", what, i, g, w)
		}
	}
}
