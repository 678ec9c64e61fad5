package esdb_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb"
	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/race"
	"letterhead/internal/testmust"
)

// stormGroup is one append of a storm, identified by its events' ids.
func stormGroup(writer, number, size int) []eventlog.Proposed {
	out := make([]eventlog.Proposed, size)
	for i := range out {
		out[i] = eventlog.Proposed{
			ID: uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "%d/%d/%d", writer, number, i)), Type: "Stormed",
			OccurredAt: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), Data: fmt.Appendf(nil, `{"w":%d,"n":%d,"i":%d,"of":%d}`, writer, number, i, size),
		}
	}
	return out
}

// Writers on two nodes append groups to a few streams, together and against each other, while answers and requests are
// lost, duplicated and delayed, connections reset, and the server restarts. Each behaves like an account writer: it
// repeats an ambiguous append unchanged, and after a conflict reads the tail and continues. In the end the log holds
// each acknowledged group once and complete, no group twice or partly, and followers have seen exactly that.
// Rule 2.
func TestStorm(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3, 4, 5, rand.Uint64()} {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			chaos := esdbtest.Chaos{
				Seed: seed, LoseReply: 0.04, LoseRequest: 0.03, Duplicate: 0.1, NotLeader: 0.03, Hang: 0.005,
				Delay: 2 * time.Millisecond, Delayed: 0.1, ResetEvery: 150 * time.Millisecond, DropEvery: 100 * time.Millisecond,
				DownEvery: 400 * time.Millisecond, DownFor: 30 * time.Millisecond,
			}
			if race.Enabled {
				// The client follows a hint to the leader by closing the connection of all other calls, and
				// an append that is being sent at that moment reads its trailers without synchronization.
				chaos.NotLeader = 0
			}
			storm(t, esdbtest.StartWith(t, esdbtest.Config{Noise: seed%2 == 0, Dir: stormDir(t, seed), Chaos: chaos}), seed)
		})
	}
}

// stormDir makes every third server durable.
func stormDir(t *testing.T, seed uint64) string {
	if seed%3 != 0 {
		return ""
	}
	return t.TempDir()
}

const (
	stormWriters = 6
	stormStreams = 3
	stormGroups  = 12 // of each writer
)

func stormStream(i int) string { return fmt.Sprintf("storm-%d", i) }

func storm(t *testing.T, server *esdbtest.Server, seed uint64) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var nodes []*esdb.Log
	for range 2 {
		nodes = append(nodes, open(t, server, esdb.Config{CallTimeout: shortCall}))
	}
	sub := testmust.Get(nodes[1].Subscribe(ctx, 0, eventlog.Filter{StreamPrefixes: []string{"storm-"}}))(t)
	acknowledged := make([][]eventlog.Appended, stormWriters)
	failed := make([]error, stormWriters)
	var writers sync.WaitGroup
	for w := range stormWriters {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(w)))
			for n := range stormGroups {
				appended, err := stormAppend(ctx, nodes[w%2], stormStream(w%stormStreams), stormGroup(w, n, 1+random.IntN(5)))
				if err != nil {
					failed[w] = fmt.Errorf("writer %d, group %d: %w", w, n, err)
					return
				}
				acknowledged[w] = append(acknowledged[w], appended)
			}
		})
	}
	writers.Wait()
	testmust.Succeed(t, errors.Join(failed...))
	checkStorm(ctx, t, nodes[0], acknowledged)
	checkFollowed(ctx, t, nodes[0], sub)
}

// retried repeats a read until the server answers.
func retried[T any](ctx context.Context, read func() (T, error)) (T, error) {
	for {
		v, err := read()
		if err == nil || ctx.Err() != nil || !errors.Is(err, eventlog.ErrUnavailable) {
			return v, err
		}
	}
}

// stormAppend appends a group to a stream.
func stormAppend(ctx context.Context, l *esdb.Log, stream string, group []eventlog.Proposed) (eventlog.Appended, error) {
	for {
		last, err := retried(ctx, func() ([]eventlog.Recorded, error) {
			return l.ReadStream(ctx, stream, eventlog.End, eventlog.Backward, 1)
		})
		if err != nil {
			return eventlog.Appended{}, err
		}
		next := uint64(0)
		if len(last) > 0 {
			next = last[0].Revision + 1
		}
		for {
			appended, err := l.Append(ctx, stream, eventlog.After(next), group)
			switch {
			case err == nil:
				return appended, nil
			case ctx.Err() != nil:
				return appended, err
			case errors.Is(err, eventlog.ErrAmbiguous), errors.Is(err, eventlog.ErrUnavailable):
				continue // the same again
			case !errors.Is(err, eventlog.ErrWrongRevision):
				return appended, err
			}
			break
		}
	}
}

// checkStorm reads the streams: complete groups, each once, each at its acknowledged revision.
func checkStorm(ctx context.Context, t *testing.T, l *esdb.Log, acknowledged [][]eventlog.Appended) {
	at := map[uuid.UUID]eventlog.Recorded{}
	total := 0
	for i := range stormStreams {
		events, err := retried(ctx, func() ([]eventlog.Recorded, error) {
			return l.ReadStream(ctx, stormStream(i), 0, eventlog.Forward, eventlog.MaxPage)
		})
		testmust.Succeed(t, err)
		for n, e := range events {
			if e.Revision != uint64(n) {
				t.Fatalf("%s: revision = %d, want %d", e.Stream, e.Revision, n)
			}
			if other, twice := at[e.ID]; twice {
				t.Fatalf("%s exists twice, in %s at %d and %s at %d", e.Data, other.Stream, other.Revision, e.Stream, e.Revision)
			}
			at[e.ID] = e
		}
		total += len(events)
	}
	want := 0
	for w, groups := range acknowledged {
		for n, appended := range groups {
			size := int(appended.LastRevision-appended.FirstRevision) + 1
			want += size
			for i, e := range stormGroup(w, n, size) {
				got, there := at[e.ID]
				if !there || got.Stream != stormStream(w%stormStreams) || got.Revision != appended.FirstRevision+uint64(i) {
					t.Fatalf("event %d of group %d of writer %d was acknowledged at %d, but is at %+v", i, n, w, appended.FirstRevision+uint64(i), got)
				}
			}
		}
	}
	if total != want {
		t.Fatalf("the streams hold %d events, but %d were acknowledged", total, want)
	}
}

// checkFollowed compares the events of a subscription with those of a read.
func checkFollowed(ctx context.Context, t *testing.T, l *esdb.Log, sub eventlog.Subscription) {
	head := testmust.Get(retried(ctx, func() (eventlog.Position, error) { return l.Head(ctx) }))(t)
	var followed []eventlog.Recorded
	for position := eventlog.Position(0); position < head; {
		b := testmust.Get(sub.Next(ctx))(t)
		followed, position = append(followed, b.Events...), b.Position
	}
	page := testmust.Get(retried(ctx, func() (eventlog.Page, error) { return l.ReadAll(ctx, 0, eventlog.Filter{}, eventlog.MaxPage) }))(t)
	if len(followed) != len(page.Events) {
		t.Fatalf("%d events were followed, but there are %d", len(followed), len(page.Events))
	}
	for i, e := range page.Events {
		if followed[i].ID != e.ID {
			t.Fatalf("event %d that was followed is %s, want %s", i, followed[i].Data, e.Data)
		}
	}
}
