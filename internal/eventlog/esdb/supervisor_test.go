package esdb_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb"
	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/testlink"
	"letterhead/internal/testmust"
)

// metric reads one number of a registry.
func metric(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families := testmust.Get(registry.Gather())(t)
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// eventually repeats an append until it succeeds; errors until then must permit the repeat.
func eventually(t *testing.T, l eventlog.Log, at uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	for {
		_, err := l.Append(ctx, stream, eventlog.After(at), batch(at, 1))
		if err == nil {
			return
		}
		if !errors.Is(err, eventlog.ErrAmbiguous) && !errors.Is(err, eventlog.ErrUnavailable) {
			t.Fatalf("append %d: %v", at, err)
		}
	}
}

// callsEndByContext makes many calls, none of which can succeed, and checks that all end by their contexts.
func callsEndByContext(t *testing.T, l eventlog.Log, at uint64) {
	t.Helper()
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			_, err := l.Append(ctx, stream, eventlog.After(at), batch(at, 1))
			if !errors.Is(err, eventlog.ErrAmbiguous) && !errors.Is(err, eventlog.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("append without a server: %v, want ErrAmbiguous, ErrUnavailable or DeadlineExceeded", err)
			}
			if _, err := l.Head(ctx); err == nil {
				t.Error("the head was read without a server")
			}
		})
	}
	callers.Wait()
}

// The server stops and restarts repeatedly: the client itself would be unusable after the first time, and its
// callers would hang forever.
func TestServerRestarts_LogReconnects(t *testing.T) {
	registry := prometheus.NewRegistry()
	var warnings strings.Builder
	server := esdbtest.Start(t)
	l := open(t, server, esdb.Config{
		Calls: 8, ConnectWait: 100 * time.Millisecond, Registerer: registry,
		Logger: slog.New(slog.NewTextHandler(&warnings, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	const rounds = 3
	for round := range uint64(rounds) {
		eventually(t, l, round)
		server.Stop()
		callsEndByContext(t, l, round+1)
		restart(t, server)
	}
	eventually(t, l, rounds)
	holds(t, l, rounds+1)
	if n := metric(t, registry, "letterhead_eventlog_reconnects_total"); n < rounds {
		t.Errorf("%v reconnects, want at least %d", n, rounds)
	}
	if n := metric(t, registry, "letterhead_eventlog_append_duration_seconds"); n < rounds+1 {
		t.Errorf("%v appends were timed, want at least %d", n, rounds+1)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if warnings.Len() > 0 { // such as that calls are stuck
		t.Error(warnings.String())
	}
}

// The server accepts connections but never answers: calls end by their contexts, Open fails, and after the
// server has recovered everything continues.
func TestServerHangs_CallsEndByTheirContexts(t *testing.T) {
	server := esdbtest.Start(t)
	p := testlink.Through(t, server.Addresses()[0])
	cfg := esdb.Config{ConnectionString: strings.Replace(server.ConnectionString(), server.Addresses()[0], p.Address(), 1), ConnectWait: 100 * time.Millisecond}
	l := connectTo(t, cfg)
	eventually(t, l, 0)
	sub := testmust.Get(l.Subscribe(t.Context(), 0, eventlog.Filter{}))(t)
	p.Hang()
	callsEndByContext(t, l, 1)
	cfg.ConnectTimeout = 400 * time.Millisecond // the test waits this long
	if _, err := esdb.Open(t.Context(), cfg); !errors.Is(err, eventlog.ErrUnavailable) {
		t.Errorf("open on a server that hangs: %v, want %q", err, eventlog.ErrUnavailable)
	}
	// Long enough for the client to be suspected, tested and replaced.
	ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
	defer cancel()
	if _, err := l.Append(ctx, stream, eventlog.Exact(0), batch(1, 1)); err == nil {
		t.Error("an append on a server that hangs succeeded")
	}
	p.Cut()
	callsEndByContext(t, l, 1)
	p.Resume()
	eventually(t, l, 1)
	holds(t, l, 2)
	for next := uint64(0); next < 2; {
		b := testmust.Get(sub.Next(t.Context()))(t)
		for _, e := range b.Events {
			if e.Revision != next {
				t.Fatalf("revision = %d, want %d", e.Revision, next)
			}
			next++
		}
	}
}

// Without a server, calls fail soon instead of at their deadlines.
func TestCalls_NoServer_FailSoon(t *testing.T) {
	server := esdbtest.Start(t)
	l := open(t, server, esdb.Config{ConnectWait: 50 * time.Millisecond})
	eventually(t, l, 0)
	server.Stop()
	for err := error(nil); !errors.Is(err, eventlog.ErrUnavailable) || !strings.Contains(err.Error(), "no connection"); {
		_, err = l.Append(t.Context(), stream, eventlog.Exact(0), batch(1, 1))
	}
	if _, err := l.Head(t.Context()); !errors.Is(err, eventlog.ErrUnavailable) {
		t.Errorf("head: %v, want %q", err, eventlog.ErrUnavailable)
	}
	restart(t, server)
	eventually(t, l, 1)
}

// Appends find the leader by the followers' hints, and again after another one is elected. The client's own
// setting for it has no effect.
func TestLeaderChanges_AppendsFindIt(t *testing.T) {
	server := esdbtest.StartWith(t, esdbtest.Config{
		Listen: []string{"127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"}, FollowersReject: true,
	})
	l := connectTo(t, esdb.Config{ConnectionString: server.ConnectionString() + "&nodePreference=follower"})
	for i := range uint64(6) {
		server.Lead(int(i) % 3)
		if _, err := l.Append(t.Context(), stream, eventlog.After(i), batch(i, 1)); err != nil {
			t.Fatalf("append %d: %v", i, err)
		}
	}
	holds(t, l, 6)
	server.Faults.Append(esdbtest.NotLeader, esdbtest.NotLeader, esdbtest.NotLeader)
	if _, err := l.Append(t.Context(), stream, eventlog.Exact(5), batch(6, 1)); !errors.Is(err, eventlog.ErrUnavailable) {
		t.Errorf("append without a leader: %v, want %q", err, eventlog.ErrUnavailable)
	}
	holds(t, l, 6)
	eventually(t, l, 6)
}

// With several seeds one that answers is enough, whatever the scheme; and a cluster stays usable without
// the node of the current connection.
func TestSeeds_OneAnswers_Connects(t *testing.T) {
	server := esdbtest.StartWith(t, esdbtest.Config{Listen: []string{"127.0.0.1:0", "127.0.0.1:0"}})
	for i, format := range []string{
		"esdb+discover://127.0.0.1:1,%s,%s?tls=false", "esdb://127.0.0.1:1,%s,%s?tls=false", "esdb+discover://%[2]s?tls=false",
	} {
		addresses := server.Addresses()
		l := connectTo(t, esdb.Config{ConnectionString: strings.Split(fmt.Sprintf(format, addresses[0], addresses[1]), "%!")[0]})
		if _, err := l.Append(t.Context(), fmt.Sprintf("s-%d", i), eventlog.NoStream(), batch(0, 1)); err != nil {
			t.Errorf("%s: %v", format, err)
		}
	}
	l := connectTo(t, esdb.Config{ConnectionString: server.ConnectionString()})
	eventually(t, l, 0)
	server.StopNode(0)
	server.Lead(1)
	eventually(t, l, 1)
	testmust.Succeed(t, server.RestartNode(0))
	server.Lead(0)
	server.StopNode(1)
	eventually(t, l, 2)
	holds(t, l, 3)
}

// However many callers request the head concurrently, the server gets only a few reads; a single call causes one.
func TestHead_ConcurrentCallers_ShareReads(t *testing.T) {
	server := esdbtest.Start(t)
	l := open(t, server, esdb.Config{SilentFor: time.Hour}) // no reads of the watch
	eventually(t, l, 0)
	head := func() { // also checks it
		got, err := l.Head(t.Context())
		if err != nil || got == 0 {
			t.Errorf("head = %d, %v, want a position", got, err)
		}
	}
	before := server.Counts()
	const alone = 20
	for range alone {
		head()
	}
	after := server.Counts()
	if n := after.Reads - before.Reads; n != alone {
		t.Errorf("%d reads for %d calls of Head, want one each", n, alone)
	}
	if n := after.Sent - before.Sent; n > 4*alone {
		t.Errorf("%d events were sent for %d calls of Head, want at most %d", n, alone, 4*alone)
	}
	// All callers that arrive while one read hangs share the next one.
	l = open(t, server, esdb.Config{CallTimeout: 500 * time.Millisecond})
	before = server.Counts()
	server.Faults.Read(esdbtest.HangRead)
	const many = 200
	var hung sync.WaitGroup
	for range many {
		hung.Go(func() {
			if _, err := l.Head(t.Context()); err != nil && !errors.Is(err, eventlog.ErrUnavailable) {
				t.Errorf("head: %v", err)
			}
		})
	}
	hung.Wait()
	// One for Open, one that hangs, one for all others, and some for stragglers.
	if n := server.Counts().Reads - before.Reads; n > many/10 {
		t.Errorf("%d reads for %d concurrent calls of Head, want at most %d", n, many, many/10)
	}
}

func TestAppend_TooLarge_IsNotSent(t *testing.T) {
	server := esdbtest.Start(t)
	l := open(t, server, esdb.Config{})
	events := batch(0, eventlog.MaxAppendEvents+1)
	if _, err := l.Append(t.Context(), stream, eventlog.NoStream(), events); !errors.Is(err, eventlog.ErrTooLarge) {
		t.Errorf("append: %v, want %q", err, eventlog.ErrTooLarge)
	}
	if n := server.Counts().Appends; n != 0 {
		t.Errorf("%d appends reached the server, want 0", n)
	}
	server.Faults.Append(esdbtest.Deleted)
	if _, err := l.Append(t.Context(), stream, eventlog.NoStream(), batch(0, 1)); !errors.Is(err, eventlog.ErrInvalid) {
		t.Errorf("append to a deleted stream: %v, want %q", err, eventlog.ErrInvalid)
	}
}
