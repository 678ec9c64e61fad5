package esdb_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb"
	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
)

// asRemembered admits a store that begins with the same event as the first one and holds that many events of stream.
func asRemembered(first *atomic.Pointer[eventlog.Recorded], count *atomic.Uint64) func(context.Context, eventlog.Prober, eventlog.Mark) error {
	return func(ctx context.Context, store eventlog.Prober, _ eventlog.Mark) error {
		held, found, err := store.First(ctx)
		if err != nil {
			return err
		}
		if before := first.Load(); before != nil && (!found || held.ID != before.ID) {
			return &eventlog.LossError{Witness: "test", Detail: "it is another store"}
		}
		if n := count.Load(); n > 0 {
			_, found, err = store.At(ctx, stream, n-1)
			if err == nil && !found {
				err = &eventlog.LossError{Witness: "test", Detail: "it is shorter"}
			}
		}
		return err
	}
}

// A store that comes back without acknowledged events is neither read nor written.
// Rule 8.
func TestAdmit_StoreComesBackShorter_IsNotUsed(t *testing.T) {
	addresses := []string{"127.0.0.1:0"}
	server := esdbtest.StartWith(t, esdbtest.Config{Listen: addresses, Noise: true})
	var first atomic.Pointer[eventlog.Recorded]
	var count atomic.Uint64
	l := connectTo(t, esdb.Config{ConnectionString: server.ConnectionString(), ConnectWait: 100 * time.Millisecond, Admit: asRemembered(&first, &count)})
	eventually(t, l, 0)
	eventually(t, l, 1)
	held, found, err := l.First(t.Context())
	last, _, lastErr := l.Last(t.Context())
	end, endErr := l.End(t.Context())
	head, headErr := l.Head(t.Context())
	if err := errors.Join(err, lastErr, endErr, headErr); err != nil || !found || held.ID != batch(0, 1)[0].ID || last.ID != batch(1, 1)[0].ID || last.Position != head || end < head {
		t.Fatalf("first = %v, last = %v at %d, head = %d, end = %d, %v", held.ID, last.ID, last.Position, head, end, err)
	}
	first.Store(&held)
	count.Store(2)

	address := server.Addresses()[0]
	server.Stop()
	for err = nil; err == nil; { // until the log has detected it
		_, err = l.Head(t.Context())
	}
	empty := esdbtest.StartWith(t, esdbtest.Config{Listen: []string{address}})
	for _, use := range []func() error{
		func() error {
			_, err := l.Append(t.Context(), "account-2", eventlog.NoStream(), batch(7, 1))
			return err
		},
		func() error {
			_, err := l.Head(t.Context())
			return err
		},
	} {
		for {
			err := use()
			if errors.Is(err, eventlog.ErrLoss) {
				if !errors.Is(err, eventlog.ErrUnavailable) || !strings.Contains(err.Error(), "another store") {
					t.Errorf("error = %v, want %q because of another store", err, eventlog.ErrUnavailable)
				}
				break
			}
			if err == nil {
				t.Fatal("the other store was used")
			}
		}
	}
	if n := empty.Counts().Appends; n != 0 {
		t.Errorf("the other store got %d appends, want 0", n)
	}
	testmust.Succeed(t, empty.Close())
	testmust.Succeed(t, server.Restart())
	eventually(t, l, 2)
}

// A server that is asked to stop lets subscriptions continue while its client reconnects by itself with the
// next call. Another server that has the address by then gets nothing before it was compared.
// Rule 2.
func TestAdmit_AnotherServerTakesCalls_WhileConnectionLasts_GetsNothing(t *testing.T) {
	server := esdbtest.Start(t)
	var first atomic.Pointer[eventlog.Recorded]
	var count atomic.Uint64
	l := connectTo(t, esdb.Config{ConnectionString: server.ConnectionString(), ConnectWait: 100 * time.Millisecond, Admit: asRemembered(&first, &count)})
	eventually(t, l, 0)
	held, _, err := l.First(t.Context())
	testmust.Succeed(t, err)
	first.Store(&held)
	server.Leave()
	var other *esdbtest.Server
	if _, ok := testwait.Until(testwait.Timeout, func() bool { // the address becomes free
		other, err = esdbtest.New(esdbtest.Config{Listen: server.Addresses()})
		return err == nil
	}); !ok {
		t.Fatal(err)
	}
	defer other.Close()
	for at := uint64(0); ; at++ {
		_, err := l.Append(t.Context(), "account-2", eventlog.NoStream(), batch(7+at, 1))
		if other.Counts().Appends > 0 { // the first one may have taken some, until its client learned of the shutdown
			t.Fatal("the other store was used")
		}
		if got, err := l.ReadStream(t.Context(), stream, 0, eventlog.Forward, 1); err == nil && len(got) == 0 {
			t.Fatal("the other store was read")
		}
		if errors.Is(err, eventlog.ErrLoss) {
			break
		}
	}
	other.Stop()
	server.Stop()
	testmust.Succeed(t, server.Restart())
	eventually(t, l, 1)
}

func TestAdmit_AnotherStore_OpenFails(t *testing.T) {
	server := esdbtest.Start(t)
	reject := func(context.Context, eventlog.Prober, eventlog.Mark) error {
		return &eventlog.LossError{Witness: "test"}
	}
	if _, err := esdb.Open(t.Context(), esdb.Config{ConnectionString: server.ConnectionString(), Admit: reject}); !errors.Is(err, eventlog.ErrLoss) {
		t.Errorf("open: %v, want %q", err, eventlog.ErrLoss)
	}
}

// Comparing a store takes longer than finding it and has its own timeout.
func TestAdmit_LastsLongerThanConnectTimeout_OpenSucceeds(t *testing.T) {
	server := esdbtest.Start(t)
	for connectTimeout := time.Second; ; connectTimeout *= 2 { // a busy machine may need longer to connect
		asked := false
		admit := func(ctx context.Context, _ eventlog.Prober, _ eventlog.Mark) error {
			asked = true
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(connectTimeout + connectTimeout/10):
				return nil
			}
		}
		l, err := esdb.Open(t.Context(), esdb.Config{ConnectionString: server.ConnectionString(), ConnectTimeout: connectTimeout, Admit: admit})
		if errors.Is(err, eventlog.ErrUnavailable) && !asked {
			continue
		}
		testmust.Succeed(t, err)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		return
	}
}

// A server may answer reads but not subscriptions: a connection to it is replaced.
func TestAdmit_SubscriptionIsNotConfirmed_TriesAgain(t *testing.T) {
	server := esdbtest.Start(t)
	admitted := func(context.Context, eventlog.Prober, eventlog.Mark) error { return nil }
	cfg := esdb.Config{ConnectionString: server.ConnectionString(), ConnectWait: 100 * time.Millisecond, Admit: admitted}
	l := connectTo(t, cfg)
	eventually(t, l, 0)
	// reaches waits until the server has received that many subscriptions.
	reaches := func(n int64) {
		t.Helper()
		for timeout := time.After(time.Minute); server.Counts().Subscriptions < n; {
			select {
			case <-timeout:
				t.Fatalf("the server got %d subscriptions, want %d", server.Counts().Subscriptions, n)
			case <-time.After(time.Millisecond):
			}
		}
	}
	release := server.WithholdConfirmations()

	ctx, cancel := context.WithCancel(t.Context())
	opened := make(chan error, 1)
	go func() {
		_, err := esdb.Open(ctx, cfg)
		opened <- err
	}()
	reaches(2)
	cancel()
	if err := <-opened; !errors.Is(err, context.Canceled) {
		t.Errorf("open: %v, want %v", err, context.Canceled)
	}

	server.BreakConnections()
	reaches(4) // the second one after the first connection was replaced
	release()
	eventually(t, l, 1)

	defer server.WithholdConfirmations()()
	before := server.Counts().Subscriptions
	server.BreakConnections()
	reaches(before + 1)
	if err := l.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// A server that rejects an append names the leader. The server at that address gets nothing before it was compared.
func TestAdmit_AnotherStoreIsNamedAsLeader_GetsNoAppend(t *testing.T) {
	server := esdbtest.StartWith(t, esdbtest.Config{Listen: []string{"127.0.0.1:0", "127.0.0.1:0"}, FollowersReject: true})
	var first atomic.Pointer[eventlog.Recorded]
	var count atomic.Uint64
	l := connectTo(t, esdb.Config{ConnectionString: "esdb://" + server.Addresses()[0] + "?tls=false", Admit: asRemembered(&first, &count)})
	eventually(t, l, 0)
	held, _, err := l.First(t.Context())
	testmust.Succeed(t, err)
	first.Store(&held)
	server.StopNode(1)
	other := esdbtest.StartWith(t, esdbtest.Config{Listen: server.Addresses()[1:]})
	server.Lead(1)
	for range 3 {
		if _, err := l.Append(t.Context(), stream, eventlog.After(1), batch(1, 1)); !errors.Is(err, eventlog.ErrUnavailable) {
			t.Errorf("append while another store has the leader's address: %v, want %q", err, eventlog.ErrUnavailable)
		}
	}
	if n := other.Counts().Appends; n != 0 {
		t.Errorf("the other store got %d appends, want 0", n)
	}
	testmust.Succeed(t, other.Close())
	testmust.Succeed(t, server.RestartNode(1))
	eventually(t, l, 1) // on the leader, which gossip names
}
