package esdb_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb"
	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/testmust"
)

// fill appends that many events of each of two kinds, alternately.
func fill(t *testing.T, l eventlog.Log, count int) {
	t.Helper()
	const perAppend = 500
	for i := 0; i < count; i += perAppend {
		for _, stream := range []string{"account-1", "brand-1"} {
			batch := make([]eventlog.Proposed, min(perAppend, count-i))
			for j := range batch {
				batch[j] = charge(uint64(i + j))
				batch[j].ID = uuid.NewSHA1(batch[j].ID, []byte(stream))
			}
			testmust.Succeed(t, testmust.Err(l.Append(t.Context(), stream, eventlog.After(uint64(i)), batch)))
		}
	}
}

// Excluded events are not transferred: neither while catching up nor live nor in reads from far back.
func TestSubscribe_Filter_IsAppliedByTheServer(t *testing.T) {
	server := esdbtest.Start(t)
	l := open(t, server, esdb.Config{})
	const count = 6000
	fill(t, l, count)
	chosen := eventlog.Filter{StreamPrefixes: []string{"brand-"}}
	before := server.Counts().Sent
	sub := testmust.Get(l.Subscribe(t.Context(), 0, chosen))(t)
	defer sub.Close()
	seen := 0
	until := func(p eventlog.Position) {
		for at := eventlog.Position(0); at < p; {
			b := testmust.Get(sub.Next(t.Context()))(t)
			seen, at = seen+len(b.Events), b.Position
		}
	}
	head, err := l.Head(t.Context())
	testmust.Succeed(t, err)
	until(head)
	const excluded = 5000 // appended while the subscription is live
	for at := uint64(count); at < count+excluded; at += 1000 {
		testmust.Succeed(t, testmust.Err(l.Append(t.Context(), "account-1", eventlog.Exact(at-1), batch(at, 1000))))
	}
	if head, err = l.Head(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(head)
	// The follower also looks up positions, an event each, and more of them on a slow machine.
	if sent := server.Counts().Sent - before; seen != count || sent >= count+excluded {
		t.Errorf("%d events were sent for %d selected ones, want fewer than %d for %d", sent, seen, count+excluded, count)
	}

	before = server.Counts().Sent
	page, err := l.ReadAll(t.Context(), 0, chosen, 1000)
	if err != nil || len(page.Events) != 1000 {
		t.Fatalf("%d events, %v, want 1000", len(page.Events), err)
	}
	if sent := server.Counts().Sent - before; sent > 3000 {
		t.Errorf("%d events were sent for a page of 1000 from far back", sent)
	}
}

// A server of version 24.10 that finds a full page at the end of the log sends a checkpoint after it, at
// the start of the next event. Treating it as that event's position would lose the event.
func TestCheckpoints_BeforeAnEvent_AdvancePosition(t *testing.T) {
	const page = 32 // the server's
	for count := uint64(page - 1); count <= page+1; count++ {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			server := esdbtest.Start(t)
			l := open(t, server, esdb.Config{})
			testmust.Succeed(t, testmust.Err(l.Append(t.Context(), stream, eventlog.NoStream(), batch(0, count))))
			chosen := eventlog.Filter{StreamPrefixes: []string{stream}}
			sub, err := l.Subscribe(t.Context(), 0, chosen)
			testmust.Succeed(t, err)
			at := followTo(t, sub, count)
			testmust.Succeed(t, sub.Close())
			// Another subscription begins at the position of this one, and so does a read.
			if sub, err = l.Subscribe(t.Context(), at, chosen); err != nil {
				t.Fatal(err)
			}
			defer sub.Close()
			testmust.Succeed(t, testmust.Err(l.Append(t.Context(), stream, eventlog.Exact(count-1), batch(count, 1))))
			followTo(t, sub, 1)
			got, err := l.ReadAll(t.Context(), at, chosen, 10)
			if err != nil || len(got.Events) != 1 || got.Events[0].Revision != count {
				t.Errorf("after %d: %+v, %v", at, got.Events, err)
			}
		})
	}
}

// followTo takes events until it has the given number and the subscription is live, and returns its position.
func followTo(t *testing.T, sub eventlog.Subscription, count uint64) eventlog.Position {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	seen := uint64(0)
	for {
		b, err := sub.Next(ctx)
		if err != nil {
			t.Fatalf("after %d of %d events: %v", seen, count, err)
		}
		if seen += uint64(len(b.Events)); seen >= count && b.Live {
			return b.Position
		}
	}
}
