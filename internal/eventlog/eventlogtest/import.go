package eventlogtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"letterhead/internal/eventlog"
)

// RunImport tests an eventlog.Importer; the opened log must be one.
func RunImport(t *testing.T, open Open) {
	for name, test := range map[string]func(*importing){
		"exactly the given order":                 (*importing).order,
		"a run continues an earlier one":          (*importing).goesOn,
		"a repeat changes nothing":                (*importing).repeat,
		"a partial repeat writes the rest":        (*importing).repeatInPart,
		"one rejected run fails all":              (*importing).rejectedWhole,
		"limits":                                  (*importing).limits,
		"at the limits":                           (*importing).atLimits,
		"canceled context":                        (*importing).context,
		"closed":                                  (*importing).closed,
		"followers see imports like appends":      (*importing).followed,
		"readers see only whole imports":          (*importing).whole,
		"concurrent appends":                      (*importing).concurrentAppends,
		"contexts canceled during imports":        (*importing).cancel,
		"the same import many times concurrently": (*importing).repeatAtOnce,
		"imported streams accept appends":         (*importing).appendAfter,
	} {
		t.Run(name, func(t *testing.T) { test(importer(start(t, open))) })
	}
	t.Run("random imports agree with the model", func(t *testing.T) { importsAgreeWithModel(t, start(t, open)) })
}

type importing struct {
	*fixture
	to eventlog.Importer
}

func importer(f *fixture) *importing {
	f.t.Helper()
	log := f.log.(*uniqueIDs).Log
	to, ok := log.(eventlog.Importer)
	if !ok {
		f.t.Fatalf("%T is not an eventlog.Importer", log)
	}
	return &importing{f, to}
}

// run returns a run with one event for each number.
func run(stream string, after uint64, numbers ...uint64) eventlog.Run {
	return eventlog.Run{Stream: stream, Expected: eventlog.After(after), Events: events(numbers...)}
}

func (f *importing) done(runs ...eventlog.Run) {
	f.t.Helper()
	if err := f.to.Import(f.ctx, runs); err != nil {
		f.t.Fatalf("import: %v", err)
	}
}

func (f *importing) rejects(want error, runs ...eventlog.Run) {
	f.t.Helper()
	if err := f.to.Import(f.ctx, runs); !errors.Is(err, want) {
		f.t.Errorf("import of %d runs: %v, want %q", len(runs), err, want)
	}
}

// ordered checks the ids of the whole log.
func (f *importing) ordered(numbers ...uint64) {
	f.t.Helper()
	if got := idsOf(f.all(0, eventlog.Filter{}, 100)); !slices.Equal(got, ids(numbers)) {
		f.t.Errorf("the global order is %v, want %v", got, ids(numbers))
	}
}

func (f *importing) order() {
	f.done(run("b", 0, 1), run("a", 0, 2, 3), run("c", 0, 4), run("b", 1, 5), run("a", 2, 6))
	f.ordered(1, 2, 3, 4, 5, 6)
	f.holds("a", 2, 3, 6)
	f.holds("b", 1, 5)
	f.holds("c", 4)
	whole := f.all(0, eventlog.Filter{}, 4)
	if len(whole) != 6 {
		f.t.Fatalf("the log holds %d events, want 6", len(whole))
	}
	for i, want := range events(1, 2, 3, 4, 5, 6) {
		if got := whole[i]; got.Type != want.Type || string(got.Data) != string(want.Data) || got.Metadata != want.Metadata ||
			!got.OccurredAt.Equal(want.OccurredAt) || i > 0 && got.Position <= whole[i-1].Position {
			f.t.Errorf("event %d is %+v", i, got)
		}
	}
	if head := f.head(); head != whole[5].Position {
		f.t.Errorf("head %d, the last event is at %d", head, whole[5].Position)
	}
}

func (f *importing) goesOn() {
	f.append("s", eventlog.NoStream(), 1)
	f.done(run("s", 1, 2), run("s", 2, 3, 4), run("t", 0, 5), run("s", 4, 6))
	f.ordered(1, 2, 3, 4, 5, 6)
	f.holds("s", 1, 2, 3, 4, 6)
}

func (f *importing) repeat() {
	runs := []eventlog.Run{run("a", 0, 1, 2), run("b", 0, 3), run("a", 2, 4)}
	for range 3 {
		f.done(runs...)
		f.ordered(1, 2, 3, 4)
	}
	f.append("a", eventlog.Exact(2), 5)
	f.done(runs...)
	f.ordered(1, 2, 3, 4, 5)
	// One run was appended before and one repeats an append.
	f.done(run("a", 3, 5))
	f.append("b", eventlog.NoStream(), 3)
	f.ordered(1, 2, 3, 4, 5)
}

func (f *importing) repeatInPart() {
	f.done(run("a", 0, 1, 2), run("b", 0, 3))
	f.done(run("a", 0, 1, 2), run("b", 0, 3), run("a", 2, 4), run("b", 1, 5))
	f.ordered(1, 2, 3, 4, 5)
	// The same ids within one import are also a repeat.
	f.done(run("c", 0, 6), run("c", 0, 6), run("c", 1, 7))
	f.ordered(1, 2, 3, 4, 5, 6, 7)
}

func (f *importing) rejectedWhole() {
	f.done(run("a", 0, 1, 2))
	for _, wrong := range []eventlog.Run{
		run("a", 0, 9), run("a", 1, 2, 9), run("a", 1, 9), run("a", 4, 9), run("b", 2, 9), run("new", 1, 9),
	} {
		for _, runs := range [][]eventlog.Run{
			{wrong}, {wrong, run("b", 0, 3)}, {run("b", 0, 3), wrong}, {run("b", 0, 3), wrong, run("a", 2, 4)},
		} {
			f.rejects(eventlog.ErrWrongRevision, runs...)
		}
	}
	f.ordered(1, 2)
	f.holds("b")
	err := f.to.Import(f.ctx, []eventlog.Run{run("b", 0, 3), run("a", 7, 9), run("a", 8, 9)})
	var wrong *eventlog.WrongRevisionError
	if !errors.As(err, &wrong) || wrong.Stream != "a" || wrong.Expected != eventlog.After(7) {
		f.t.Errorf("the error %#v does not name the first rejected run", err)
	}
	// A rejected import leaves nothing behind that could prevent later ones.
	f.done(run("b", 0, 3), run("new", 0, 4), run("a", 2, 5))
	f.ordered(1, 2, 3, 4, 5)
}

func (f *importing) limits() {
	f.rejects(eventlog.ErrInvalid)
	f.rejects(eventlog.ErrInvalid, run("a", 0, 1), run("b", 0))
	f.rejects(eventlog.ErrInvalid, run("a", 0, 1), run("$b", 0, 2))
	nameless := run("b", 0, 2)
	nameless.Events[0].ID = uuid.Nil
	f.rejects(eventlog.ErrInvalid, run("a", 0, 1), nameless)
	long := run("b", 0)
	for n := range uint64(eventlog.MaxAppendEvents + 1) {
		long.Events = append(long.Events, event(n+1))
	}
	f.rejects(eventlog.ErrTooLarge, run("a", 0, 1<<40), long)
	f.rejects(eventlog.ErrTooLarge, append(manyRuns(eventlog.MaxImportEvents), run("one", 0, 1<<40))...)
	f.rejects(eventlog.ErrTooLarge, append(heavyRuns(), run("one", 0, 1<<40))...)
	f.ordered()
}

// manyRuns returns runs of one event each.
func manyRuns(n int) []eventlog.Run {
	runs := make([]eventlog.Run, n)
	for i := range runs {
		runs[i] = run(fmt.Sprintf("s-%d", i%1000), uint64(i/1000), uint64(i+1))
	}
	return runs
}

// heavyRuns returns runs with exactly the maximum number of bytes of an import.
func heavyRuns() (runs []eventlog.Run) {
	left := eventlog.MaxImportBytes
	for n := uint64(1); left > 0; n++ {
		size := min(left, eventlog.MaxEventBytes)
		runs = append(runs, eventlog.Run{Stream: "heavy", Expected: eventlog.After(n - 1), Events: []eventlog.Proposed{sized(n, size)}})
		left -= size
	}
	return runs
}

func (f *importing) atLimits() {
	many := manyRuns(eventlog.MaxImportEvents)
	f.done(many...)
	f.done(many...)
	heavy := heavyRuns()
	f.done(heavy...)
	got := f.all(0, eventlog.Filter{}, 5000)
	if len(got) != len(many)+len(heavy) {
		f.t.Fatalf("the log holds %d events, want %d", len(got), len(many)+len(heavy))
	}
	for i, want := range append(many, heavy...) {
		if got[i].ID != want.Events[0].ID || got[i].Stream != want.Stream || len(got[i].Data) != len(want.Events[0].Data) {
			f.t.Fatalf("event %d is %s in %s, want %s in %s", i, got[i].ID, got[i].Stream, want.Events[0].ID, want.Stream)
		}
	}
}

func (f *importing) context() {
	ended, cancel := context.WithCancel(f.ctx)
	cancel()
	if err := f.to.Import(ended, []eventlog.Run{run("a", 0, 1)}); !errors.Is(err, context.Canceled) || errors.Is(err, eventlog.ErrAmbiguous) {
		f.t.Errorf("import with a canceled context: %v", err)
	}
	f.ordered()
}

func (f *importing) closed() {
	if err := f.log.Close(); err != nil {
		f.t.Fatal(err)
	}
	f.rejects(eventlog.ErrClosed, run("a", 0, 1))
}

func (f *importing) followed() {
	all := f.follow("all", 0, eventlog.Filter{})
	defer all.close()
	some := f.follow("some", 0, eventlog.Filter{StreamPrefixes: []string{"b"}})
	defer some.close()
	all.untilLive()
	some.untilLive()
	for i := range uint64(20) {
		f.done(run("a", 3*i, 100+6*i), run("b", 2*i, 101+6*i, 102+6*i), run("a", 3*i+1, 103+6*i, 104+6*i))
		f.append("c", eventlog.After(i), 105+6*i)
	}
	head := f.head()
	all.until(head)
	some.until(head)
	whole := f.all(0, eventlog.Filter{}, 1000)
	if len(whole) != 120 {
		f.t.Errorf("the log holds %d events, want 120", len(whole))
	}
	same(f.t, all.what, all.got, whole)
	same(f.t, some.what, some.got, choose(eventlog.Filter{StreamPrefixes: []string{"b"}}, whole))
}

// whole reads during imports of two runs: readers must see both or neither.
func (f *importing) whole() {
	const rounds = 60
	var work sync.WaitGroup
	work.Go(func() {
		for i := range uint64(rounds) {
			if err := f.to.Import(f.ctx, []eventlog.Run{run("a", i, 2*i+1), run("b", i, 2*i+2)}); err != nil {
				f.t.Errorf("import %d: %v", i, err)
			}
		}
	})
	defer work.Wait()
	for seen := 0; seen < 2*rounds; {
		order := f.all(0, eventlog.Filter{}, 1000)
		if len(order)%2 != 0 || len(order) < seen {
			f.t.Fatalf("a read saw %d events after %d: a part of an import", len(order), seen)
		}
		seen = len(order)
	}
}

func (f *importing) concurrentAppends() {
	const writers, perWriter, imports = 4, 40, 40
	var work sync.WaitGroup
	for w := range uint64(writers) {
		work.Go(func() {
			for n := range uint64(perWriter) {
				if _, err := f.log.Append(f.ctx, fmt.Sprintf("writer-%d", w), eventlog.After(n), events(w<<32|n+1)); err != nil {
					f.t.Errorf("append %d of writer %d: %v", n, w, err)
				}
			}
		})
	}
	work.Go(func() {
		for i := range uint64(imports) {
			if err := f.to.Import(f.ctx, []eventlog.Run{
				run("i", 2*i, 1<<50+3*i), run("j", i, 1<<50+3*i+1), run("i", 2*i+1, 1<<50+3*i+2),
			}); err != nil {
				f.t.Errorf("import %d: %v", i, err)
			}
		}
	})
	work.Wait()
	order := f.all(0, eventlog.Filter{}, 500)
	if len(order) != writers*perWriter+3*imports {
		f.t.Errorf("the log holds %d events, want %d", len(order), writers*perWriter+3*imports)
	}
	// Nothing comes between the events of an import.
	for i := range order {
		if order[i].Stream == "j" && (i == 0 || i+1 == len(order) || order[i-1].Stream != "i" || order[i+1].Stream != "i") {
			f.t.Errorf("the import around position %d is torn", order[i].Position)
		}
	}
}

// cancel ends contexts during imports. Whatever the result, a repeat must complete the import.
func (f *importing) cancel() {
	for i := range uint64(60) {
		runs := []eventlog.Run{run("a", 2*i, 3*i+1), run("b", i, 3*i+2), run("a", 2*i+1, 3*i+3)}
		ctx, cancel := context.WithTimeout(f.ctx, time.Duration(i%7)*100*time.Microsecond)
		err := f.to.Import(ctx, runs)
		cancel()
		switch held := uint64(len(f.stream("b"))); {
		case err == nil && held != i+1:
			f.t.Fatalf("import %d was acknowledged but is missing", i)
		case err != nil && !errors.Is(err, eventlog.ErrAmbiguous) && (!errors.Is(err, context.DeadlineExceeded) || held != i):
			f.t.Fatalf("import %d: %v, but %d were written", i, err, held)
		}
		f.done(runs...)
	}
	var numbers []uint64
	for n := range uint64(180) {
		numbers = append(numbers, n+1)
	}
	f.ordered(numbers...)
}

func (f *importing) repeatAtOnce() {
	for i := range uint64(20) {
		var work sync.WaitGroup
		for range 4 {
			work.Go(func() {
				if err := f.to.Import(f.ctx, []eventlog.Run{run("a", i, 2*i+1), run("b", i, 2*i+2)}); err != nil {
					f.t.Errorf("round %d: %v", i, err)
				}
			})
		}
		work.Wait()
	}
	if n := len(f.all(0, eventlog.Filter{}, 100)); n != 40 {
		f.t.Errorf("the log holds %d events, want 40", n)
	}
}

func (f *importing) appendAfter() {
	f.done(run("a", 0, 1), run("b", 0, 2), run("a", 1, 3))
	f.rejected(eventlog.ErrWrongRevision, "a", eventlog.Exact(0), events(9))
	f.rejected(eventlog.ErrWrongRevision, "b", eventlog.NoStream(), events(9))
	if got := f.append("a", eventlog.Exact(1), 4); got.FirstRevision != 2 || got.Position < f.head() {
		f.t.Errorf("append = %+v, want revision 2 at or after the head", got)
	}
	f.append("b", eventlog.Exact(0), 5)
	f.ordered(1, 2, 3, 4, 5)
}

// importsAgreeWithModel mixes imports, appends and reads at random.
func importsAgreeWithModel(t *testing.T, f *fixture) {
	to := importer(f).to
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		mine := *f
		mine.t = t
		m := &modelRun{
			f: &mine, begin: mine.head(), prefix: fmt.Sprintf("import-%d-", runs), number: uint64(runs),
			model: model{streams: map[string][]uuid.UUID{}},
		}
		t.Repeat(map[string]func(*rapid.T){
			"import":      func(t *rapid.T) { m.importRuns(t, to) },
			"append":      m.append,
			"read stream": m.readStream,
			"read all":    m.readAll,
		})
		m.readAll(t)
	})
}

func (r *modelRun) importRuns(t *rapid.T, to eventlog.Importer) {
	var runs []eventlog.Run
	after := r.model.clone()
	accepted := true
	for range rapid.IntRange(1, 5).Draw(t, "runs") {
		stream := r.stream(t)
		held := uint64(len(after.streams[stream]))
		at := rapid.OneOf(rapid.Just(held), rapid.Just(held), rapid.Uint64Range(0, held+1)).Draw(t, "after")
		numbers := r.numbers(stream, rapid.SliceOfN(rapid.Uint64Range(1, 6), 1, 3).Draw(t, "events")...)
		runs = append(runs, eventlog.Run{Stream: stream, Expected: eventlog.After(at), Events: events(numbers...)})
		if accepted {
			_, accepted = after.append(stream, eventlog.After(at), ids(numbers))
		}
	}
	switch err := to.Import(r.f.ctx, runs); {
	case accepted && err != nil:
		t.Fatalf("import %+v: %v", runs, err)
	case !accepted && !errors.Is(err, eventlog.ErrWrongRevision):
		t.Fatalf("import %+v: %v, want %q", runs, err, eventlog.ErrWrongRevision)
	}
	if accepted {
		r.model = after
	}
}

func (m *model) clone() model {
	c := model{streams: map[string][]uuid.UUID{}, order: slices.Clone(m.order)}
	for name, held := range m.streams {
		c.streams[name] = slices.Clone(held)
	}
	return c
}
