package eventlogtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/internal/eventlog"
)

// RunAppend tests Append with a single caller.
func RunAppend(t *testing.T, open Open) {
	for name, test := range map[string]func(*fixture){
		"returns the appended events":             appendRoundTrip,
		"returns revisions and position":          appendResult,
		"expected revisions":                      appendExpected,
		"a repeat returns the first result":       appendRepeat,
		"a partly overlapping repeat is rejected": appendPartialRepeat,
		"a repeat with another event is rejected": appendOtherRepeat,
		"limits":           appendLimits,
		"at the limits":    appendAtLimits,
		"malformed":        appendMalformed,
		"canceled context": appendContext,
		"closed":           appendClosed,
	} {
		t.Run(name, func(t *testing.T) { test(start(t, open)) })
	}
}

func appendRoundTrip(f *fixture) {
	full := eventlog.Proposed{
		ID: uuid.MustParse("7f0c4a52-6f0e-5c35-9a55-1d1c2d3e4f50"), Type: "CreditsCharged", SchemaVersion: 3,
		OccurredAt: time.Date(2026, 2, 28, 23, 59, 59, 999_999_000, time.UTC),
		// The bytes matter, because the hash chain covers them: spaces, order, escapes and big numbers must survive.
		Data: []byte("{ \"z\":1, \"a\": \"\\u00e9é\\n\", \"big\":12345678901234567890.10 }"),
		Metadata: eventlog.Metadata{
			RequestID: "req-1", Actor: "operator:Zoë \"Z\" <z>", CorrelationID: "cor", CausationID: "cau",
			Hash: strings.Repeat("0af9", 16),
		},
	}
	bare := eventlog.Proposed{
		ID: id(2), Type: "Bare", OccurredAt: time.Date(1969, 12, 31, 23, 0, 0, 1000, time.UTC), Data: []byte(`{}`),
	}
	const stream = "brand-bücher.example/ünï&co"
	if _, err := f.log.Append(f.ctx, stream, eventlog.NoStream(), []eventlog.Proposed{full, bare}); err != nil {
		f.t.Fatal(err)
	}
	read := f.stream(stream)
	if len(read) != 2 {
		f.t.Fatalf("the stream holds %d events, want 2", len(read))
	}
	want := []eventlog.Recorded{
		{Proposed: full, Stream: stream, Revision: 0, Position: read[0].Position},
		{Proposed: bare, Stream: stream, Revision: 1, Position: read[1].Position},
	}
	same(f.t, "read as a stream", read, want)
	same(f.t, "read in the global order", f.all(0, eventlog.Filter{}, 10), want)
	if read[0].Position == 0 || read[1].Position <= read[0].Position {
		f.t.Errorf("positions %d, %d do not grow from above 0", read[0].Position, read[1].Position)
	}
}

func appendResult(f *fixture) {
	first := f.append("a", eventlog.NoStream(), 1, 2, 3)
	other := f.append("b", eventlog.NoStream(), 4)
	second := f.append("a", eventlog.Exact(2), 5, 6)
	for _, c := range []struct {
		what        string
		got         eventlog.Appended
		first, last uint64
	}{{"first", first, 0, 2}, {"other", other, 0, 0}, {"second", second, 3, 4}} {
		if c.got.FirstRevision != c.first || c.got.LastRevision != c.last {
			f.t.Errorf("%s append returned revisions %d to %d, want %d to %d", c.what, c.got.FirstRevision, c.got.LastRevision, c.first, c.last)
		}
	}
	order := f.all(0, eventlog.Filter{}, 100)
	if len(order) != 6 {
		f.t.Fatalf("the log holds %d events, want 6", len(order))
	}
	within := func(what string, p eventlog.Position, last, next int) {
		if p < order[last].Position || next < len(order) && p >= order[next].Position {
			f.t.Errorf("%s append: position %d is not between its last event and the next one", what, p)
		}
	}
	within("first", first.Position, 2, 3)
	within("other", other.Position, 3, 4)
	within("second", second.Position, 5, 6)
}

func appendExpected(f *fixture) {
	f.append("s", eventlog.NoStream(), 1)
	f.append("s", eventlog.Exact(0), 2, 3)
	for _, expected := range []eventlog.Expected{
		eventlog.NoStream(), eventlog.Exact(0), eventlog.Exact(1), eventlog.Exact(3), eventlog.Exact(1 << 40),
	} {
		f.rejected(eventlog.ErrWrongRevision, "s", expected, events(9))
	}
	f.rejected(eventlog.ErrWrongRevision, "nothing", eventlog.Exact(0), events(9))

	_, err := f.log.Append(f.ctx, "s", eventlog.Exact(7), events(9))
	var wrong *eventlog.WrongRevisionError
	if !errors.As(err, &wrong) || wrong.Stream != "s" || wrong.Expected != eventlog.Exact(7) {
		f.t.Errorf("the error is %#v, want stream s at revision 7", err)
	}
	f.append("s", eventlog.After(3), 4)
	f.append("t", eventlog.After(0), 5)
	f.holds("s", 1, 2, 3, 4)
	f.holds("nothing")
	if n := len(f.all(0, eventlog.Filter{}, 100)); n != 5 {
		f.t.Errorf("the log holds %d events, want 5: rejected appends must write nothing", n)
	}
}

func appendRepeat(f *fixture) {
	first := f.append("s", eventlog.NoStream(), 1)
	second := f.append("s", eventlog.Exact(0), 2, 3, 4)
	f.append("other", eventlog.NoStream(), 8)
	third := f.append("s", eventlog.Exact(3), 5)

	for range 2 {
		for _, c := range []struct {
			want     eventlog.Appended
			expected eventlog.Expected
			numbers  []uint64
		}{
			{first, eventlog.NoStream(), []uint64{1}},
			{second, eventlog.Exact(0), []uint64{2, 3, 4}},
			{third, eventlog.Exact(3), []uint64{5}},
		} {
			got := f.append("s", c.expected, c.numbers...)
			if got.FirstRevision != c.want.FirstRevision || got.LastRevision != c.want.LastRevision {
				f.t.Errorf("the repeat of %v returned revisions %d to %d, want %d to %d", c.numbers,
					got.FirstRevision, got.LastRevision, c.want.FirstRevision, c.want.LastRevision)
			}
			f.reaches("s", got)
		}
	}
	f.holds("s", 1, 2, 3, 4, 5)
}

// reaches checks that the position of an append is at or after its last event, so that it is enough to wait for it.
func (f *fixture) reaches(stream string, got eventlog.Appended) {
	f.t.Helper()
	for _, e := range f.stream(stream) {
		if e.Revision == got.LastRevision && got.Position < e.Position {
			f.t.Errorf("position %d is before the append's last event at %d", got.Position, e.Position)
		}
	}
}

func appendPartialRepeat(f *fixture) {
	f.append("s", eventlog.NoStream(), 1, 2, 3)
	f.rejected(eventlog.ErrWrongRevision, "s", eventlog.NoStream(), events(1, 2, 3, 4))
	f.rejected(eventlog.ErrWrongRevision, "s", eventlog.Exact(1), events(3, 4))
	f.holds("s", 1, 2, 3)
}

func appendOtherRepeat(f *fixture) {
	f.append("s", eventlog.NoStream(), 1, 2, 3)
	f.rejected(eventlog.ErrWrongRevision, "s", eventlog.NoStream(), events(9, 2, 3))
	f.rejected(eventlog.ErrWrongRevision, "s", eventlog.NoStream(), events(1, 9, 3))
	f.rejected(eventlog.ErrWrongRevision, "s", eventlog.NoStream(), events(1, 2, 9))
	f.rejected(eventlog.ErrWrongRevision, "s", eventlog.NoStream(), events(2, 1, 3))
	// The right events at the wrong revision.
	f.rejected(eventlog.ErrWrongRevision, "s", eventlog.Exact(0), events(1))
	f.rejected(eventlog.ErrWrongRevision, "t", eventlog.Exact(0), events(2, 3))
	f.holds("s", 1, 2, 3)
}

// sized returns an event with that many bytes of data and no metadata.
func sized(n uint64, bytes int) eventlog.Proposed {
	e := event(n)
	e.Metadata = eventlog.Metadata{}
	e.Data = []byte(`"` + strings.Repeat("x", bytes-2) + `"`)
	return e
}

func appendLimits(f *fixture) {
	many := make([]eventlog.Proposed, eventlog.MaxAppendEvents+1)
	for i := range many {
		many[i] = event(uint64(i + 1))
	}
	f.rejected(eventlog.ErrTooLarge, "s", eventlog.NoStream(), many)

	var heavy []eventlog.Proposed
	for n, left := uint64(1), eventlog.MaxAppendBytes+1; left > 0; n++ {
		size := min(left, eventlog.MaxEventBytes-1)
		heavy = append(heavy, sized(n, max(size, 2)))
		left -= size
	}
	f.rejected(eventlog.ErrTooLarge, "s", eventlog.NoStream(), heavy)
	f.rejected(eventlog.ErrTooLarge, "s", eventlog.NoStream(), []eventlog.Proposed{sized(1, eventlog.MaxEventBytes+1)})

	// Metadata counts as well.
	wordy := sized(1, eventlog.MaxEventBytes-9)
	wordy.Metadata.CorrelationID = "0123456789"
	f.rejected(eventlog.ErrTooLarge, "s", eventlog.NoStream(), []eventlog.Proposed{wordy})

	f.rejected(eventlog.ErrTooLarge, strings.Repeat("s", eventlog.MaxStreamName+1), eventlog.NoStream(), events(1))
	long := event(1)
	long.Type = strings.Repeat("T", eventlog.MaxTypeName+1)
	f.rejected(eventlog.ErrTooLarge, "s", eventlog.NoStream(), []eventlog.Proposed{long})
	f.holds("s")
}

func appendAtLimits(f *fixture) {
	many := make([]eventlog.Proposed, eventlog.MaxAppendEvents)
	metadata := eventlog.Metadata{RequestID: "r", Actor: "a", CorrelationID: "c", CausationID: "d", Hash: "e"}
	for i := range many {
		many[i] = sized(uint64(i+1), eventlog.MaxAppendBytes/eventlog.MaxAppendEvents-5)
		many[i].Type = strings.Repeat("T", eventlog.MaxTypeName)
		many[i].Metadata = metadata
	}
	stream := strings.Repeat("s", eventlog.MaxStreamName)
	first, err := f.log.Append(f.ctx, stream, eventlog.NoStream(), many)
	if err != nil {
		f.t.Fatal(err)
	}
	again, err := f.log.Append(f.ctx, stream, eventlog.NoStream(), many)
	if err != nil || again.LastRevision != first.LastRevision {
		f.t.Errorf("the repeat gave %+v, %v; want %+v", again, err, first)
	}
	largest := sized(5000, eventlog.MaxEventBytes)
	if _, err := f.log.Append(f.ctx, stream, eventlog.Exact(first.LastRevision), []eventlog.Proposed{largest}); err != nil {
		f.t.Fatal(err)
	}
	read := f.stream(stream)
	if len(read) != len(many)+1 {
		f.t.Fatalf("the stream holds %d events, want %d", len(read), len(many)+1)
	}
	for i, want := range append(many, largest) {
		if read[i].ID != want.ID || string(read[i].Data) != string(want.Data) || read[i].Type != want.Type {
			f.t.Fatalf("event %d came back changed", i)
		}
	}
}

func appendMalformed(f *fixture) {
	f.rejected(eventlog.ErrInvalid, "", eventlog.NoStream(), events(1))
	f.rejected(eventlog.ErrInvalid, "$streams", eventlog.NoStream(), events(1))
	f.rejected(eventlog.ErrInvalid, "a\xff", eventlog.NoStream(), events(1))
	f.rejected(eventlog.ErrInvalid, "a\x00b", eventlog.NoStream(), events(1))
	f.rejected(eventlog.ErrInvalid, "s", eventlog.NoStream(), nil)
	for what, change := range map[string]func(*eventlog.Proposed){
		"nil id":           func(e *eventlog.Proposed) { e.ID = uuid.Nil },
		"no type":          func(e *eventlog.Proposed) { e.Type = "" },
		"a system type":    func(e *eventlog.Proposed) { e.Type = "$metadata" },
		"type not text":    func(e *eventlog.Proposed) { e.Type = "\xc3" },
		"metadata":         func(e *eventlog.Proposed) { e.Metadata.Actor = "\xc3" },
		"negative version": func(e *eventlog.Proposed) { e.SchemaVersion = -1 },
	} {
		two := events(1, 2)
		change(&two[1])
		if _, err := f.log.Append(f.ctx, "s", eventlog.NoStream(), two); !errors.Is(err, eventlog.ErrInvalid) {
			f.t.Errorf("%s: %v, want %q", what, err, eventlog.ErrInvalid)
		}
	}
	f.holds("s")
}

func appendContext(f *fixture) {
	f.append("s", eventlog.NoStream(), 1)
	canceled, cancel := context.WithCancel(f.ctx)
	cancel()
	late, cancel := context.WithDeadline(f.ctx, time.Now().Add(-time.Second))
	defer cancel()
	for ctx, want := range map[context.Context]error{canceled: context.Canceled, late: context.DeadlineExceeded} {
		_, err := f.log.Append(ctx, "s", eventlog.Exact(0), events(2))
		if !errors.Is(err, want) || errors.Is(err, eventlog.ErrAmbiguous) {
			f.t.Errorf("append with a canceled context: %v, want %v", err, want)
		}
	}
	f.holds("s", 1)
}

func appendClosed(f *fixture) {
	f.append("s", eventlog.NoStream(), 1)
	if err := f.log.Close(); err != nil {
		f.t.Fatal(fmt.Errorf("close: %w", err))
	}
	f.rejected(eventlog.ErrClosed, "s", eventlog.Exact(0), events(2))
	if err := f.log.Close(); err != nil {
		f.t.Errorf("second close: %v", err)
	}
}
