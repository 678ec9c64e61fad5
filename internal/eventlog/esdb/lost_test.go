package esdb_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb"
	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/testmust"
)

// lostTimeout bounds the recovery after a connection was lost.
const lostTimeout = time.Minute

// unaided opens a log that recovers only by its own watch: no keepalive, and no call times out.
func unaided(t *testing.T, server *esdbtest.Server, silentFor time.Duration) *esdb.Log {
	t.Helper()
	return connectTo(t, esdb.Config{
		ConnectionString: server.ConnectionString() + "&keepAliveInterval=-1",
		CallTimeout:      time.Hour, SilentFor: silentFor,
	})
}

// The network silently loses the connection and accepts new ones. Calls fail or continue elsewhere: reads
// of streams and of the head are retried, an append is ambiguous, a subscription continues.
func TestConnectionLostSilently_CallsRecoverOrAreAmbiguous(t *testing.T) {
	const silentFor = 100 * time.Millisecond
	for name, check := range map[string]func(context.Context, *esdb.Log) error{
		"Head": func(ctx context.Context, l *esdb.Log) error {
			_, err := l.Head(ctx)
			return err
		},
		"ReadStream": func(ctx context.Context, l *esdb.Log) error {
			got, err := l.ReadStream(ctx, stream, 0, eventlog.Forward, 10)
			if err == nil && len(got) != 1 {
				err = fmt.Errorf("%d events, want 1", len(got))
			}
			return err
		},
		"ReadAll": func(ctx context.Context, l *esdb.Log) error {
			_, err := l.ReadAll(ctx, 0, eventlog.Filter{}, 10)
			return err
		},
		"Append": func(ctx context.Context, l *esdb.Log) error {
			_, err := l.Append(ctx, stream, eventlog.Exact(0), batch(1, 1))
			if !errors.Is(err, eventlog.ErrAmbiguous) || ctx.Err() != nil {
				return fmt.Errorf("the call returned %w, the context %w", err, ctx.Err())
			}
			_, err = l.Append(ctx, stream, eventlog.Exact(0), batch(1, 1))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := esdbtest.Start(t)
			l := unaided(t, server, silentFor)
			eventually(t, l, 0)
			server.LoseConnections()
			ctx, cancel := context.WithTimeout(t.Context(), lostTimeout)
			defer cancel()
			if err := check(ctx, l); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("Subscribe", func(t *testing.T) {
		t.Parallel()
		server := esdbtest.Start(t)
		l, other := unaided(t, server, silentFor), open(t, server, esdb.Config{})
		eventually(t, l, 0)
		sub := testmust.Get(l.Subscribe(t.Context(), 0, eventlog.Filter{}))(t)
		defer sub.Close()
		followTo(t, sub, 1)
		server.LoseConnections()
		eventually(t, other, 1)
		ctx, cancel := context.WithTimeout(t.Context(), lostTimeout)
		defer cancel()
		for seen := 0; seen == 0; {
			b := testmust.Get(sub.Next(ctx))(t)
			seen = len(b.Events)
		}
	})
}

// Callers of Head leave at their own deadlines, regardless of the shared read, and thereby cast suspicion
// on the connection: the next read uses a new one.
func TestHead_LostConnection_CallersKeepTheirDeadlines(t *testing.T) {
	server := esdbtest.Start(t)
	l := unaided(t, server, time.Hour)
	eventually(t, l, 0)
	server.LoseConnections()
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
			defer cancel()
			if _, err := l.Head(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("head on a lost connection: %v, want %v", err, context.DeadlineExceeded)
			}
		})
	}
	callers.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), lostTimeout)
	defer cancel()
	if at, err := l.Head(ctx); err != nil || at == 0 {
		t.Errorf("head = %d, %v, want a position", at, err)
	}
}
