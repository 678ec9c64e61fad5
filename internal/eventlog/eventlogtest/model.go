package eventlogtest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"letterhead/internal/eventlog"
)

// model is a simple model of the port: a list for each stream, and a list of all events.
type model struct {
	streams map[string][]uuid.UUID
	order   []uuid.UUID
}

// append returns the expected answer of the log.
func (m *model) append(stream string, expected eventlog.Expected, ids []uuid.UUID) (first uint64, ok bool) {
	held := m.streams[stream]
	next := expected.Next()
	if next == uint64(len(held)) {
		m.streams[stream] = append(held, ids...)
		m.order = append(m.order, ids...)
		return uint64(len(held)), true
	}
	end := next + uint64(len(ids))
	return next, end <= uint64(len(held)) && slices.Equal(held[next:end], ids)
}

// agreeWithModel runs random sequences of appends and reads. All runs share one log: each has its own
// streams and reads the global order from its own beginning.
func agreeWithModel(t *testing.T, f *fixture) {
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		mine := *f
		mine.t = t // so that rapid sees failures and shrinks them
		run := &modelRun{
			f: &mine, begin: mine.head(),
			prefix: fmt.Sprintf("run-%d-", runs),
			number: uint64(runs),
			model:  model{streams: map[string][]uuid.UUID{}},
		}
		t.Repeat(map[string]func(*rapid.T){
			"append":      run.append,
			"read stream": run.readStream,
			"read all":    run.readAll,
		})
		run.readAll(t)
	})
}

type modelRun struct {
	f      *fixture
	prefix string
	number uint64 // of the run
	begin  eventlog.Position
	model  model
}

// numbers returns numbers of events that only this run uses, and only in this stream.
func (r *modelRun) numbers(stream string, drawn ...uint64) []uint64 {
	for i := range drawn {
		drawn[i] |= r.number<<32 | uint64(stream[len(stream)-1])<<24
	}
	return drawn
}

func (r *modelRun) stream(t *rapid.T) string {
	return r.prefix + rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "stream")
}

func (r *modelRun) append(t *rapid.T) {
	stream := r.stream(t)
	count := uint64(len(r.model.streams[stream]))
	// Ids from a small range produce whole and partial repeats.
	numbers := r.numbers(stream, rapid.SliceOfN(rapid.Uint64Range(1, 6), 1, 3).Draw(t, "events")...)
	expected := rapid.OneOf(
		rapid.Just(eventlog.NoStream()), rapid.Just(eventlog.After(count)),
		rapid.Custom(func(t *rapid.T) eventlog.Expected {
			return eventlog.Exact(rapid.Uint64Range(0, count+2).Draw(t, "revision"))
		}),
	).Draw(t, "expected")
	first, ok := r.model.append(stream, expected, ids(numbers))
	got, err := r.f.log.Append(r.f.ctx, stream, expected, events(numbers...))
	switch {
	case ok && err != nil:
		t.Fatalf("append %v to %s at %s: %v", numbers, stream, expected, err)
	case ok && (got.FirstRevision != first || got.LastRevision != first+uint64(len(numbers))-1):
		t.Fatalf("append %v to %s at %s returned revisions %d to %d, want from %d",
			numbers, stream, expected, got.FirstRevision, got.LastRevision, first)
	case !ok && !errors.Is(err, eventlog.ErrWrongRevision):
		t.Fatalf("append %v to %s at %s gave %v, want %q", numbers, stream, expected, err, eventlog.ErrWrongRevision)
	}
}

func (r *modelRun) readStream(t *rapid.T) {
	stream := r.stream(t)
	held := r.model.streams[stream]
	from := rapid.Uint64Range(0, uint64(len(held))+1).Draw(t, "from")
	limit := rapid.IntRange(1, 5).Draw(t, "limit")
	direction := rapid.SampledFrom([]eventlog.Direction{eventlog.Forward, eventlog.Backward}).Draw(t, "direction")
	got, err := r.f.log.ReadStream(r.f.ctx, stream, from, direction, limit)
	if err != nil {
		t.Fatal(err)
	}
	want := held[min(from, uint64(len(held))):]
	if direction == eventlog.Backward {
		want = slices.Clone(held[:min(from+1, uint64(len(held)))])
		slices.Reverse(want)
	}
	if want = want[:min(limit, len(want))]; !slices.Equal(idsOf(got), want) {
		t.Fatalf("%s from %d, direction %d, limit %d holds %v, want %v", stream, from, direction, limit, idsOf(got), want)
	}
}

func (r *modelRun) readAll(t *rapid.T) {
	limit := rapid.IntRange(4, 50).Draw(t, "limit")
	whole := r.f.all(r.begin, eventlog.Filter{StreamPrefixes: []string{r.prefix}}, limit)
	if !slices.Equal(idsOf(whole), r.model.order) {
		t.Fatalf("the global order is %v, want %v", idsOf(whole), r.model.order)
	}
}
