package esdb_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb"
	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/testmust"
)

const stream = "account-1"

// batch returns events whose ids derive from their revisions.
func batch(from, count uint64) []eventlog.Proposed {
	out := make([]eventlog.Proposed, count)
	for i := range out {
		n := from + uint64(i)
		out[i] = eventlog.Proposed{
			ID: uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "%d", n)), Type: "Counted", SchemaVersion: 1,
			OccurredAt: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), Data: fmt.Appendf(nil, `{"n":%d}`, n),
		}
	}
	return out
}

// holds checks that the stream consists of the first count events.
func holds(t *testing.T, l eventlog.Log, count uint64) {
	t.Helper()
	got, err := l.ReadStream(t.Context(), stream, 0, eventlog.Forward, eventlog.MaxPage)
	testmust.Succeed(t, err)
	if uint64(len(got)) != count {
		t.Errorf("the stream holds %d events, want %d", len(got), count)
	}
	for i, e := range got {
		if e.ID != batch(uint64(i), 1)[0].ID {
			t.Errorf("event %d is not the one appended there", i)
		}
	}
}

// shortCall is the CallTimeout of tests with missing answers. On a busy machine the calls that are answered need
// part of it. The client reads an append's trailers without synchronization if the timeout expires while it is
// still sending, which takes long under the race detector.
const shortCall = 3 * time.Second

// Repeating a broken append that was ambiguous resolves it.
func TestAppend_Broken_IsAmbiguousOrRetried(t *testing.T) {
	for name, c := range map[string]struct {
		fault   esdbtest.Fault
		want    error
		written bool
	}{
		"the answer is lost":         {esdbtest.LoseReply, eventlog.ErrAmbiguous, true},
		"the request is lost":        {esdbtest.LoseRequest, eventlog.ErrAmbiguous, false},
		"the server ends it early":   {esdbtest.EndEarly, eventlog.ErrAmbiguous, false},
		"the server times out":       {esdbtest.TimeOut, nil, true},
		"no answer comes":            {esdbtest.Hang, eventlog.ErrAmbiguous, false},
		"no answer comes, written":   {esdbtest.CommitAndHang, nil, true},
		"the server is not ready":    {esdbtest.NotReady, eventlog.ErrUnavailable, false},
		"the answer has no position": {esdbtest.NoPosition, nil, true},
		"no fault, for comparison":   {esdbtest.None, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			server := esdbtest.Start(t)
			cfg := esdb.Config{}
			if c.fault == esdbtest.Hang || c.fault == esdbtest.CommitAndHang {
				cfg.CallTimeout = shortCall // the test waits this long
			}
			l := open(t, server, cfg)
			testmust.Succeed(t, testmust.Err(l.Append(t.Context(), stream, eventlog.NoStream(), batch(0, 2))))
			const many = 200 // enough that the client is still sending when the server has ended the call
			server.Faults.Append(c.fault)
			appended, err := l.Append(t.Context(), stream, eventlog.Exact(1), batch(2, many))
			if !errors.Is(err, c.want) {
				t.Errorf("the broken append returned %v, want %v", err, c.want)
			}
			if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
				t.Errorf("%v means that nothing was sent", err)
			}
			if c.written {
				holds(t, l, 2+many)
			} else {
				holds(t, l, 2)
			}
			again, err := l.Append(t.Context(), stream, eventlog.Exact(1), batch(2, many))
			if err != nil || again.FirstRevision != 2 || again.LastRevision != 1+many {
				t.Errorf("repeat = %+v, %v, want revisions 2 to %d", again, err, 1+many)
			}
			if c.want == nil && again != appended {
				t.Errorf("repeat = %+v, want %+v as the first time", again, appended)
			}
			holds(t, l, 2+many)
		})
	}
}

func TestRead_Broken_IsRetried(t *testing.T) {
	server := esdbtest.Start(t)
	patient, impatient := open(t, server, esdb.Config{}), open(t, server, esdb.Config{CallTimeout: shortCall})
	testmust.Succeed(t, testmust.Err(patient.Append(t.Context(), stream, eventlog.NoStream(), batch(0, 5))))
	reads := map[string]func(eventlog.Log) error{
		"ReadStream": func(l eventlog.Log) error {
			_, err := l.ReadStream(t.Context(), stream, 0, eventlog.Forward, 10)
			return err
		},
		"ReadAll": func(l eventlog.Log) error {
			_, err := l.ReadAll(t.Context(), 0, eventlog.Filter{}, 10)
			return err
		},
		"Head": func(l eventlog.Log) error {
			_, err := l.Head(t.Context())
			return err
		},
	}
	for name, read := range reads {
		for what, c := range map[string]struct {
			faults []esdbtest.Fault
			want   error
		}{
			"the connection breaks":       {[]esdbtest.Fault{esdbtest.BreakRead}, nil}, // it is read again
			"the connection breaks twice": {[]esdbtest.Fault{esdbtest.BreakRead, esdbtest.BreakRead}, eventlog.ErrUnavailable},
			"the client panics":           {[]esdbtest.Fault{esdbtest.Surprise}, eventlog.ErrUnavailable},
			"nothing comes":               {[]esdbtest.Fault{esdbtest.HangRead}, eventlog.ErrUnavailable},
		} {
			l := patient
			if slices.Contains(c.faults, esdbtest.HangRead) {
				l = impatient
			}
			server.Faults.Read(c.faults...)
			if err := read(l); !errors.Is(err, c.want) {
				t.Errorf("%s, %s: %v, want %v", name, what, err, c.want)
			}
			if err := read(l); err != nil {
				t.Errorf("%s after %s: %v", name, what, err)
			}
		}
	}
	holds(t, patient, 5)
}

// While the server is unavailable calls end by their contexts, and afterwards the log continues.
func TestLog_ServerUnavailable_CallsEndWithContext(t *testing.T) {
	server := esdbtest.Start(t)
	l := open(t, server, esdb.Config{Calls: 8})
	testmust.Succeed(t, testmust.Err(l.Append(t.Context(), stream, eventlog.NoStream(), batch(0, 1))))
	server.Stop()
	var callers sync.WaitGroup
	for range 20 { // more than the permitted number of calls
		callers.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			_, err := l.Append(ctx, stream, eventlog.Exact(0), batch(1, 1))
			if !errors.Is(err, eventlog.ErrAmbiguous) && !errors.Is(err, eventlog.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("append without a server: %v, want ErrAmbiguous, ErrUnavailable or DeadlineExceeded", err)
			}
			if _, err := l.Head(ctx); err == nil {
				t.Error("the head was read without a server")
			}
		})
	}
	callers.Wait()
	restart(t, server)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		_, err := l.Append(ctx, stream, eventlog.Exact(0), batch(1, 1))
		if err == nil {
			break
		}
		if !errors.Is(err, eventlog.ErrAmbiguous) && !errors.Is(err, eventlog.ErrUnavailable) {
			t.Fatalf("append after the server's return: %v", err)
		}
	}
	holds(t, l, 2)
}

// A subscription survives drops, resets and restarts, without a gap or a repeat.
func TestSubscription_ServerFails_Continues(t *testing.T) {
	server := esdbtest.Start(t)
	server.Noise()
	l := open(t, server, esdb.Config{})
	sub, err := l.Subscribe(t.Context(), 0, eventlog.Filter{})
	testmust.Succeed(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	next := uint64(0)
	follow := func(count uint64) {
		t.Helper()
		for next < count {
			b, err := sub.Next(ctx)
			testmust.Succeed(t, err)
			for _, e := range b.Events {
				if e.Revision != next {
					t.Fatalf("revision = %d, want %d", e.Revision, next)
				}
				next++
			}
		}
	}
	written := uint64(0)
	write := func() {
		t.Helper()
		for range 5 {
			for {
				_, err := l.Append(ctx, stream, eventlog.After(written), batch(written, 3))
				if err == nil {
					break
				}
				if !errors.Is(err, eventlog.ErrAmbiguous) && !errors.Is(err, eventlog.ErrUnavailable) {
					t.Fatal(err)
				}
			}
			written += 3
		}
	}
	for _, trouble := range []func(){
		func() {}, server.DropSubscriptions, server.BreakConnections, server.DropSubscriptions,
		func() { server.Stop(); restart(t, server) },
	} {
		write()
		trouble()
		write()
		follow(written)
	}
	testmust.Succeed(t, sub.Close())
}

func TestRead_ForeignEvents_AreCorrupt(t *testing.T) {
	server := esdbtest.Start(t)
	l := open(t, server, esdb.Config{})
	testmust.Succeed(t, testmust.Err(l.Append(t.Context(), stream, eventlog.NoStream(), batch(0, 1))))
	sub, err := l.Subscribe(t.Context(), 0, eventlog.Filter{})
	testmust.Succeed(t, err)
	if b, err := sub.Next(t.Context()); err != nil || len(b.Events) != 1 {
		t.Fatalf("%+v, %v", b, err)
	}

	conf, err := client.ParseConnectionString(server.ConnectionString())
	testmust.Succeed(t, err)
	conf.Logger = client.NoopLogging()
	other, err := client.NewClient(conf)
	testmust.Succeed(t, err)
	defer other.Close()
	id := uuid.New()
	if _, err := other.AppendToStream(t.Context(), stream, client.AppendToStreamOptions{}, client.EventData{
		EventID: id, EventType: "Foreign", Data: []byte("x"), Metadata: []byte(`{"occurred_at":"yesterday"}`),
	}); err != nil {
		t.Fatal(err)
	}
	_, err = l.ReadStream(t.Context(), stream, 0, eventlog.Forward, 10)
	corrupt := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, eventlog.ErrCorrupt) || !strings.Contains(err.Error(), stream) {
			t.Errorf("%s: %v, want %q and the stream", what, err, eventlog.ErrCorrupt)
		}
	}
	corrupt("ReadStream", err)
	_, err = l.ReadAll(t.Context(), 0, eventlog.Filter{}, 10)
	corrupt("ReadAll", err)
	held, found, err := l.At(t.Context(), stream, 1)
	corrupt("At", err)
	if !found || held.ID != id { // identifies a store
		t.Errorf("the event of the other program is %s (%t), want %s", held.ID, found, id)
	}
	for range 2 { // it stays so
		for err = nil; err == nil; {
			_, err = sub.Next(t.Context())
		}
		corrupt("Next", err)
	}
}

func TestOpen_WithoutServer_Fails(t *testing.T) {
	server := esdbtest.Start(t)
	server.Stop()
	cfg := esdb.Config{ConnectionString: server.ConnectionString(), ConnectTimeout: 300 * time.Millisecond}
	if _, err := esdb.Open(t.Context(), cfg); !errors.Is(err, eventlog.ErrUnavailable) {
		t.Errorf("open without a server: %v, want %q", err, eventlog.ErrUnavailable)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := esdb.Open(ended, cfg); !errors.Is(err, context.Canceled) {
		t.Errorf("open with a canceled context: %v, want %v", err, context.Canceled)
	}
}

// The client writes nothing to the console, and Close unregisters metrics.
func TestClient_WritesNothingToTheConsole(t *testing.T) {
	var console bytes.Buffer
	before := log.Writer()
	log.SetOutput(&console)
	defer log.SetOutput(before)
	registry := prometheus.NewRegistry()
	server := esdbtest.Start(t)
	for range 2 {
		l, err := esdb.Open(t.Context(), esdb.Config{ConnectionString: server.ConnectionString(), Registerer: registry})
		testmust.Succeed(t, err)
		server.Faults.Append(esdbtest.LoseReply)
		if _, err := l.Append(t.Context(), uuid.NewString(), eventlog.NoStream(), batch(0, 1)); !errors.Is(err, eventlog.ErrAmbiguous) {
			t.Errorf("append: %v, want %q", err, eventlog.ErrAmbiguous)
		}
		testmust.Succeed(t, l.Close())
	}
	if console.Len() > 0 {
		t.Errorf("on the console: %s", console.String())
	}
}

func restart(t *testing.T, server *esdbtest.Server) {
	t.Helper()
	testmust.Succeed(t, server.Restart())
}
