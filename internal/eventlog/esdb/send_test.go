package esdb_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb"
	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/eventlog/eventlogtest"
	"letterhead/internal/testwait"
)

// silent starts a server that never answers a repeat while the first append is in flight: only reading the
// stream shows its outcome within the time of a test.
func silent(t *testing.T, flushTime time.Duration) *esdbtest.Server {
	return esdbtest.StartWith(t, esdbtest.Config{FlushTime: flushTime, PhaseTimeout: time.Hour})
}

func TestContract_RepeatsInFlightAreDropped(t *testing.T) {
	const flushTime = 2 * time.Millisecond
	eventlogtest.RunRepeats(t, func(t *testing.T) eventlog.Log { return open(t, silent(t, flushTime), esdb.Config{}) })
	eventlogtest.RunNodeRepeats(t, func(t *testing.T) (_, _ eventlog.Log) {
		server := silent(t, flushTime)
		return open(t, server, esdb.Config{}), open(t, server, esdb.Config{})
	})
}

// The server drops 119 of 120 simultaneous repeats. All of them return the result of the first.
// Rule 2.
func TestAppend_RepeatsInFlight_ReturnFirstResult(t *testing.T) {
	const callers = 120
	server := silent(t, 0)
	cfg := esdb.Config{CallTimeout: testwait.Timeout} // all callers must be waiting at the same time
	nodes := []eventlog.Log{open(t, server, cfg), open(t, server, cfg)}
	if _, err := nodes[0].Append(t.Context(), stream, eventlog.NoStream(), batch(0, 2)); err != nil {
		t.Fatal(err)
	}
	before := server.Counts()
	release := server.HoldIndex()
	defer release()
	results := make([]eventlog.Appended, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			var err error
			if results[i], err = nodes[i%2].Append(t.Context(), stream, eventlog.Exact(1), batch(2, 3)); err != nil {
				t.Errorf("caller %d: %v", i, err)
			}
		})
	}
	await(t, "all but one to be dropped", func() bool { return server.Counts().Dropped-before.Dropped == callers-1 })
	release()
	all.Wait()
	for i, r := range results {
		if r != results[0] || r.FirstRevision != 2 || r.LastRevision != 4 || r.Position == 0 {
			t.Fatalf("caller %d got %+v, the first %+v", i, r, results[0])
		}
	}
	if sent := server.Counts().Appends - before.Appends; sent != callers {
		t.Errorf("%d appends were sent for %d calls, want one each", sent, callers)
	}
	holds(t, nodes[0], 5)
}

// An append that the server dropped without writing it is repeated until it is written.
// Rule 2.
func TestAppend_DroppedUnwritten_IsRepeated(t *testing.T) {
	server := esdbtest.StartWith(t, esdbtest.Config{PhaseTimeout: time.Millisecond})
	l := open(t, server, esdb.Config{})
	server.Faults.Append(esdbtest.Drop, esdbtest.Drop, esdbtest.NotReady, esdbtest.TimeOut)
	appended, err := l.Append(t.Context(), stream, eventlog.NoStream(), batch(0, 3))
	if err != nil || appended.FirstRevision != 0 || appended.LastRevision != 2 {
		t.Errorf("append = %+v, %v, want revisions 0 to 2", appended, err)
	}
	holds(t, l, 3)
	// Another event at the revision resolves it as well.
	server.Faults.Append(esdbtest.Drop)
	if _, err := l.Append(t.Context(), stream, eventlog.Exact(0), batch(7, 1)); !errors.Is(err, eventlog.ErrWrongRevision) {
		t.Errorf("an append behind the end: %v, want %q", err, eventlog.ErrWrongRevision)
	}
}

// After an attempt with an unknown outcome no later rejection may claim that nothing was written.
func TestAppend_DroppedAndThenRejected_IsAmbiguous(t *testing.T) {
	server := esdbtest.StartWith(t, esdbtest.Config{PhaseTimeout: time.Millisecond})
	l := open(t, server, esdb.Config{})
	rejected := make([]esdbtest.Fault, 1000)
	for i := range rejected {
		rejected[i] = esdbtest.NotReady
	}
	server.Faults.Append(append([]esdbtest.Fault{esdbtest.Drop}, rejected...)...)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	done := make(chan error, 1)
	go func() {
		_, err := l.Append(ctx, stream, eventlog.NoStream(), batch(0, 1))
		done <- err
	}()
	await(t, "the append to be dropped and then rejected", func() bool { return server.Counts().Appends > 2 })
	leave()
	if err := <-done; !errors.Is(err, eventlog.ErrAmbiguous) || errors.Is(err, eventlog.ErrUnavailable) {
		t.Errorf("%v, want %q alone", err, eventlog.ErrAmbiguous)
	}
}

// An append in flight is resolved neither by another writer's event at its revision nor by a part of its own events.
func TestAppend_InFlight_WaitsForTheServer(t *testing.T) {
	server := silent(t, 0)
	l := open(t, server, esdb.Config{})
	release := server.HoldIndex()
	defer release()
	reads := server.Counts().Reads
	done := make(chan error, 1)
	go func() {
		_, err := l.Append(t.Context(), stream, eventlog.NoStream(), batch(0, 2))
		done <- err
	}()
	await(t, "two looks at the stream", func() bool { return server.Counts().Reads-reads >= 2 })
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	holds(t, l, 2)
}

// await waits for a condition.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	if took, ok := testwait.Until(testwait.Timeout, so); !ok {
		t.Fatalf("waited %s for %s", took, what)
	}
}
