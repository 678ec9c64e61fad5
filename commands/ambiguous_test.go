package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/commands/streamwriter"
	"letterhead/internal/testmust"
)

// logLines keeps the lines of its logger for the test.
type logLines struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(b)
}

// of returns the lines with a message, at least at the given level.
func (l *logLines) of(t testing.TB, least slog.Level, message string) (lines []map[string]any) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range bytes.Lines(l.out.Bytes()) {
		var fields map[string]any
		var level slog.Level
		testmust.Succeed(t, json.Unmarshal(line, &fields))
		testmust.Succeed(t, level.UnmarshalText([]byte(fields["level"].(string))))
		if level >= least && fields["msg"] == message {
			lines = append(lines, fields)
		}
	}
	return lines
}

func (l *logLines) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(l, nil)) }

// counted returns the value of a counter without labels.
func counted(t testing.TB, from prometheus.Gatherer, name string) float64 {
	t.Helper()
	groups := testmust.Get(from.Gather())(t)
	for _, f := range groups {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// watched starts a writer whose log and metrics the test reads.
func (w *world) watched(cfg AccountWriterConfig) (*AccountWriter, *logLines, *prometheus.Registry) {
	lines, metrics := new(logLines), prometheus.NewRegistry()
	cfg.Logger, cfg.Registerer = lines.logger(), metrics
	return w.writer(cfg), lines, metrics
}

const gaveUp = "could not compensate a command whose caller got no answer"

// chargeAmbiguously appends a charge whose caller gets ErrUnknownOutcome. After that the stream cannot be read.
func (w *world) chargeAmbiguously(d *AccountWriter, id string) (requestID string) {
	w.Helper()
	w.log.set(func(f *faults) {
		f.after = func(sentAppend, error) error {
			w.log.set(func(f *faults) { f.reading = func(string) error { return unavailable() } })
			return ambiguous()
		}
	})
	in := w.lookup(id)
	w.fails(ErrUnknownOutcome)(d.ChargeLookup(context.Background(), in))
	w.log.set(func(f *faults) { f.after = nil })
	return in.Request.ID
}

func (w *world) readable() { w.log.set(func(f *faults) { f.reading = nil }) }

// A writer that shuts down with an ambiguous charge, and cannot read the stream until its deadline,
// leaves the charge to an operator by its request id. Other requests, and those with nothing to
// compensate, are not reported to the operator.
func TestDrain_AmbiguousAppend_IsLeftToOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d, lines, metrics := w.watched(AccountWriterConfig{Config: streamwriter.Config{KnowWithin: time.Millisecond}})
		id := w.opened(d, 0)
		request := w.chargeAmbiguously(d, id)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		w.failed(d.Drain(ctx), context.DeadlineExceeded)
		left := lines.of(t, slog.LevelError, gaveUp)
		if len(left) != 1 || left[0]["request_id"] != request || counted(t, metrics, "letterhead_desk_not_handed_back_total") != 1 {
			t.Errorf("the log for the operator has %v", left)
		}
		w.readable()
		if l := w.ledger(id); l.charges[request] != 1 || len(l.reversed) != 0 {
			t.Errorf("ledger %+v, want one charge and no reversal", l)
		}
	})
}

// The last check is repeated until the stream can be read, and reverses the charges that it finds.
func TestDrain_AmbiguousAppend_WaitsForStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d, lines, metrics := w.watched(AccountWriterConfig{Config: streamwriter.Config{KnowWithin: time.Millisecond}})
		id := w.opened(d, 0)
		request := w.chargeAmbiguously(d, id)
		time.AfterFunc(20*time.Second, w.readable)
		w.drain(d)
		if l := w.ledger(id); l.charges[request] != 1 || l.reversed[request] != 1 {
			t.Errorf("ledger %+v, want one charge and its reversal", l)
		}
		if n := counted(t, metrics, "letterhead_desk_not_handed_back_total"); n != 0 || len(lines.of(t, slog.LevelError, gaveUp)) != 0 {
			t.Errorf("%v not compensated", n)
		}
	})
}

// If a running writer cannot read the stream for streamwriter.AmbiguousUnreadFor, it also leaves the charge to an
// operator. It logs the failure to read once, not at every check.
func TestAmbiguousAppend_UnreadableStream_IsLeftToOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d, lines, metrics := w.watched(AccountWriterConfig{Config: streamwriter.Config{KnowWithin: time.Millisecond}})
		id := w.opened(d, 0)
		request := w.chargeAmbiguously(d, id)
		time.Sleep(streamwriter.AmbiguousUnreadFor - 2*streamwriter.CheckAmbiguousEvery)
		synctest.Wait()
		if left := lines.of(t, slog.LevelError, gaveUp); len(left) != 0 {
			t.Fatalf("too early: %v", left)
		}
		if warned := lines.of(t, slog.LevelWarn, "stream with an ambiguous append cannot be read"); len(warned) != 1 {
			t.Errorf("%d warnings about one stream, want 1", len(warned))
		}
		time.Sleep(4 * streamwriter.CheckAmbiguousEvery)
		synctest.Wait()
		left := lines.of(t, slog.LevelError, gaveUp)
		if len(left) != 1 || left[0]["request_id"] != request || counted(t, metrics, "letterhead_desk_not_handed_back_total") != 1 {
			t.Errorf("the log for the operator has %v", left)
		}
		w.readable()
	})
}

// An append that was never stored is not left to an operator.
func TestAmbiguousAppend_NeverStored_IsNotLeftToOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d, lines, metrics := w.watched(AccountWriterConfig{Config: streamwriter.Config{KnowWithin: time.Millisecond}})
		id := w.opened(d, 0)
		w.log.set(func(f *faults) { f.before = func(sentAppend) error { return ambiguous() } })
		in := w.lookup(id)
		w.fails(ErrUnknownOutcome)(d.ChargeLookup(t.Context(), in))
		w.log.set(func(f *faults) { f.before = nil })
		w.drain(d)
		lost := lines.of(t, slog.LevelWarn, "an ambiguous append is treated as lost")
		if n := counted(t, metrics, "letterhead_desk_not_handed_back_total"); n != 0 || len(lost) != 1 {
			t.Errorf("%v not compensated, logged %v", n, lost)
		}
		if ids := lost[0]["request_ids"].([]any); len(ids) != 1 || ids[0] != in.Request.ID {
			t.Errorf("requests %v", ids)
		}
	})
}

// Compensations that are pending when the time of Drain is over are logged, including those that arrive while it waits
// for the next attempt.
func TestDrain_PendingCompensations_AreLeftToOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d, lines, metrics := w.watched(AccountWriterConfig{})
		id := w.opened(d, 0)
		in := w.lookup(id)
		receipt := w.charged(d, in)
		w.log.set(func(f *faults) { f.before = func(sentAppend) error { return unavailable() } })
		back := func() {
			if err := d.ReverseUndelivered(UndeliveredCharge{Request: in.Request, AccountID: id, Receipt: receipt}); err != nil {
				t.Error(err)
			}
		}
		back()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		drained := make(chan error)
		go func() { drained <- d.Drain(ctx) }()
		<-ctx.Done()
		synctest.Wait()
		back()
		if err := <-drained; !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("drain: %v", err)
		}
		if n := counted(t, metrics, "letterhead_desk_not_handed_back_total"); n != 2 || len(lines.of(t, slog.LevelError, gaveUp)) != 2 {
			t.Errorf("%v of 2 logged", n)
		}
		w.log.set(func(f *faults) { f.before = nil })
	})
}
