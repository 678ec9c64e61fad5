package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/mod/sumdb/note"

	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/workers/checkpoint"
)

// counted is a log that counts the reads of the last events of the stream of checkpoints, with which a look begins.
type counted struct {
	eventlog.Log
	looks chan struct{}
}

func (c *counted) ReadStream(ctx context.Context, stream string, from uint64, direction eventlog.Direction, limit int) ([]eventlog.Recorded, error) {
	if stream == eventschemas.CheckpointsStream && direction == eventlog.Backward {
		select {
		case c.looks <- struct{}{}:
		case <-ctx.Done():
		}
	}
	return c.Log.ReadStream(ctx, stream, from, direction, limit)
}

// regular runs a checkpoint.Regular on a world whose clock is set with the first function. The second one returns the
// number of checkpoints after a whole look.
func (w *world) regular(key func(string) (note.Signer, error), lines testwait.Lines) (set func(time.Time), size func() int) {
	w.Helper()
	var now atomic.Pointer[time.Time]
	set = func(at time.Time) { now.Store(&at) }
	set(w.now)
	log := &counted{Log: w.log, looks: make(chan struct{})}
	r := &checkpoint.Regular{Maker: *w.maker, Look: time.Microsecond, Logger: lines.Logger()}
	r.Log, r.Now, r.Key = log, func() time.Time { return *now.Load() }, key
	ctx, stop := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	w.Cleanup(func() {
		stop()
		if err := testwait.Receive(w, ended, "the end of Run"); err != nil {
			w.Errorf("Run ended with %v", err)
		}
	})
	return set, func() int {
		w.Helper()
		for range 2 { // the first look may have begun before what the test did
			testwait.Receive(w, log.looks, "a look")
		}
		testwait.Receive(w, log.looks, "the look after it")
		page := testmust.Get(w.log.ReadStream(w.Context(), eventschemas.CheckpointsStream, 0, eventlog.Forward, 100))(w)
		return len(page) / 2
	}
}

// record appends an event to a stream that is no account's.
func (w *world) record(stream string, revision uint64, body eventschemas.Event) {
	w.Helper()
	enc, err := eventschemas.Encode(body)
	testmust.Succeed(w, err)
	_, err = w.log.Append(w.Context(), stream, eventlog.After(revision), []eventlog.Proposed{{
		ID: eventschemas.EventID(stream, string(rune('a'+revision)), enc.Type, ""), Type: enc.Type, SchemaVersion: enc.SchemaVersion, OccurredAt: w.now, Data: enc.Data,
		Metadata: eventlog.Metadata{Actor: "operator:test", RequestID: "r"}}})
	testmust.Succeed(w, err)
}

func TestRegular_EventsOfADay_MakeOneCheckpoint(t *testing.T) {
	w := newWorld(t)
	set, size := w.regular(w.maker.Key, testwait.NewLines())
	want := func(n int, when string) {
		t.Helper()
		if got := size(); got != n {
			t.Errorf("%s: %d checkpoints, want %d", when, got, n)
		}
	}
	want(1, "at the start")
	w.open(w.now, first)
	set(w.now.Add(checkpoint.MaxAge - time.Microsecond))
	want(1, "with a new account, before a day is over")
	set(w.now.Add(checkpoint.MaxAge))
	want(2, "after a day")
	w.record(eventschemas.BooksStream, 0, eventschemas.PeriodEnded{Month: "2026-11"})
	set(w.now.Add(3 * checkpoint.MaxAge))
	want(2, "after days without an event of an account")
	w.append(w.now, first, charged("c1"))
	want(3, "after an event later")
}

func TestRegular_MonthIsClosed_MakesACheckpointOfNewEvents(t *testing.T) {
	w := newWorld(t)
	_, size := w.regular(w.maker.Key, testwait.NewLines())
	closed := func(month string) eventschemas.Event {
		return eventschemas.PeriodClosed{Month: month, Digest: "d", Totals: []eventschemas.PeriodTotal{}}
	}
	revision := uint64(0)
	for i, step := range []struct {
		bodies []eventschemas.Event
		want   int
	}{
		{[]eventschemas.Event{eventschemas.PeriodEnded{Month: "2026-09"}}, 1},
		{[]eventschemas.Event{closed("2026-09")}, 2},
		{[]eventschemas.Event{eventschemas.PeriodEnded{Month: "2026-10"}}, 2},
		{[]eventschemas.Event{closed("2026-10"), eventschemas.PeriodEnded{Month: "2026-11"}}, 3},
	} {
		w.open(w.now, fmt.Sprintf("5f0c6a1e-6f0b-4f6e-9d51-%012d", i))
		for _, body := range step.bodies {
			w.record(eventschemas.BooksStream, revision, body)
			revision++
		}
		if got := size(); got != step.want {
			t.Errorf("after step %d of the books: %d checkpoints, want %d", i, got, step.want)
		}
	}
	w.record(eventschemas.BooksStream, revision, closed("2026-11"))
	if got := size(); got != 3 {
		t.Errorf("after a month was closed without new events: %d checkpoints, want 3", got)
	}
}

func TestRegular_KeyFails_TriesAgain(t *testing.T) {
	w := newWorld(t)
	var fails atomic.Bool
	fails.Store(true)
	lines := testwait.NewLines()
	_, size := w.regular(func(origin string) (note.Signer, error) {
		if fails.Load() {
			return nil, errors.New("the key is elsewhere")
		}
		return w.maker.Key(origin)
	}, lines)
	if got := size(); got != 0 {
		t.Errorf("%d checkpoints without a key", got)
	}
	lines.Wait(t, 1, "the key is elsewhere")
	fails.Store(false)
	if got := size(); got != 1 {
		t.Errorf("%d checkpoints after the failure, want 1", got)
	}
}

func TestRegular_KeyFails_MetricStaysBehind(t *testing.T) {
	w, lines, registry := newWorld(t), testwait.NewLines(), prometheus.NewRegistry()
	var fails atomic.Bool
	fails.Store(true)
	start := w.now
	r := &checkpoint.Regular{Maker: *w.maker, Look: time.Microsecond, Logger: lines.Logger(), Registerer: registry}
	r.Now = func() time.Time {
		if fails.Load() {
			return start
		}
		return start.Add(time.Hour)
	}
	r.Key = func(origin string) (note.Signer, error) {
		if fails.Load() {
			return nil, errors.New("the key is elsewhere")
		}
		return w.maker.Key(origin)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	current := func(want time.Time) {
		t.Helper()
		families := testmust.Get(registry.Gather())(t)
		if len(families) != 2 || families[1].GetMetric()[0].GetGauge().GetValue() != float64(want.Unix()) {
			t.Errorf("the metrics are %v, want %d", families, want.Unix())
		}
	}
	lines.Wait(t, 1, "the key is elsewhere")
	current(start)
	fails.Store(false)
	lines.Wait(t, 1, "made a checkpoint")
	current(start.Add(time.Hour))
	stop()
	testmust.Succeed(t, testwait.Receive(t, ended, "the end of Run"))
}

// full fails to keep files while it is full.
type full struct {
	checkpoint.Keeper
	is atomic.Bool
}

func (f *full) Keep(ctx context.Context, name string, data []byte) error {
	if f.is.Load() {
		return errors.New("the disk is full")
	}
	return f.Keeper.Keep(ctx, name, data)
}

// A checkpoint that was signed and not kept is kept as soon as that is possible, and only then counts as made.
func TestRegular_KeepFails_KeepsItLater(t *testing.T) {
	w, lines, registry := newWorld(t), testwait.NewLines(), prometheus.NewRegistry()
	w.open(november, first)
	keeper := &full{Keeper: w.maker.Keeper}
	keeper.is.Store(true)
	w.maker.Keeper = keeper
	r := &checkpoint.Regular{Maker: *w.maker, Look: time.Microsecond, Logger: lines.Logger(), Registerer: registry}
	var later atomic.Bool
	r.Now = func() time.Time {
		if later.Load() {
			return w.now.Add(time.Hour)
		}
		return w.now
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	current := func(want time.Time) bool {
		return testmust.Get(registry.Gather())(t)[1].GetMetric()[0].GetGauge().GetValue() == float64(want.Unix())
	}
	lines.Wait(t, 1, "the disk is full")
	later.Store(true)
	lines.Wait(t, 3, "the disk is full")
	if !current(w.now) {
		t.Error("the gauge is not that of the start while the checkpoint is not kept")
	}
	keeper.is.Store(false)
	if _, ok := testwait.Until(time.Minute, func() bool { return current(w.now.Add(time.Hour)) }); !ok {
		t.Error("the gauge stays behind")
	}
	if text := testmust.Get(w.maker.Compare(t.Context(), true, nil))(t); !strings.Contains(text, "1 account(s) are as they were signed in checkpoint 1") {
		t.Errorf("comparison: %q, want one with the accounts that are kept", text)
	}
	stop()
	testmust.Succeed(t, testwait.Receive(t, ended, "the end of Run"))
}
