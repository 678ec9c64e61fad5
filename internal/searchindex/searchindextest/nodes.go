package searchindextest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"letterhead/internal/searchindex"
)

// RunShared tests the contract of an index that several processes share: open is called twice for one
// name before the first is closed, and each Index represents a process.
func RunShared(t *testing.T, open Opener) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, Opener)
	}{
		{"AllSeeWhatOneWrote", shared},
		{"TwoOpenAtOnceAndHoldOneIndex", openAtOnce},
		{"AReplacedWriterLearnsOfIt", replaced},
		{"AnotherProcessIsFrozenToo", frozenForAll},
		{"TheNewestRebuildCounts", newestRebuild},
		{"ALateWriterOfAnOldGenerationChangesNothing", lateWriter},
		{"NothingIsLostWhenAnotherProcessRebuilds", feedWhileRebuilt},
		{"AnotherLogReplacesItUnderneath", swappedUnderneath},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open) })
	}
}

// two opens an index in two processes.
func two(t *testing.T, open Opener) (searchindex.Index, searchindex.Index) {
	a, b := open(t, "shared"), open(t, "shared")
	t.Cleanup(func() { closeIndex(t, a); closeIndex(t, b) })
	return a, b
}

func shared(t *testing.T, open Opener) {
	a, b := two(t, open)
	apply(t, a, 5, doc("acme.com", "Acme", 5))
	finds(t, b, "acme", "acme.com")
	standsAt(t, b, 5)
	apply(t, b, 3, doc("acme.com", "Stale", 4), doc("other.com", "Other", 2))
	finds(t, a, "stale")
	finds(t, a, "other", "other.com")
	standsAt(t, a, 5)
	apply(t, b, 7, searchindex.Document{Domain: "acme.com", Version: 7, Gone: true})
	apply(t, a, 6, doc("acme.com", "Late", 6))
	finds(t, a, "late")
	finds(t, a, "acme")
	standsAt(t, a, 7)
}

func openAtOnce(t *testing.T, open Opener) {
	const processes = 4
	first := open(t, "once") // an Opener must not be called concurrently with a new name
	closeIndex(t, first)
	all := make([]searchindex.Index, processes)
	var group sync.WaitGroup
	for i := range all {
		group.Go(func() { all[i] = open(t, "once") })
	}
	group.Wait()
	for i, x := range all {
		apply(t, x, uint64(i+1), doc(fmt.Sprintf("site%d.com", i), fmt.Sprintf("Site%d", i), uint64(i+1)))
	}
	for _, x := range all {
		defer closeIndex(t, x)
		if docs, err := x.Scan(context.Background(), "", 10); err != nil || len(docs) != processes {
			t.Errorf("scanned %v, %v, want %d documents", docs, err, processes)
		}
	}
}

func replaced(t *testing.T, open Opener) {
	ctx := context.Background()
	a, b := two(t, open)
	apply(t, b, 5, doc("acme.com", "Acme", 5))
	g, err := a.Rebuild(ctx)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, g, 3, doc("new.com", "New", 3))
	if err := g.Publish(ctx); err != nil {
		t.Fatal(err)
	}
	finds(t, b, "new", "new.com")
	standsAt(t, b, 3)
	for _, docs := range [][]searchindex.Document{{doc("lost.com", "Lost", 6)}, nil} {
		if err := b.Apply(ctx, docs, 6); len(docs) > 0 && !errors.Is(err, searchindex.ErrReplaced) || len(docs) == 0 && err != nil {
			t.Errorf("apply of %d documents after the index was replaced: %v", len(docs), err)
		}
		if len(docs) > 0 {
			finds(t, b, "lost")
			standsAt(t, b, 3)
		}
	}
	standsAt(t, a, 6)
}

func frozenForAll(t *testing.T, open Opener) {
	ctx := context.Background()
	a, b := two(t, open)
	apply(t, b, 5, doc("old.com", "Old", 5))
	g, err := a.Rebuild(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if at, err := g.Freeze(ctx); err != nil || at != 5 {
		t.Fatalf("frozen at %d, %v, want 5", at, err)
	}
	rejectsWrites(t, b)
	if err := g.Discard(); err != nil {
		t.Fatal(err)
	}
	again(t, b, 6, doc("new.com", "New", 6))
	finds(t, a, "new", "new.com")
}

func newestRebuild(t *testing.T, open Opener) {
	ctx := context.Background()
	a, b := two(t, open)
	void, err := a.Rebuild(ctx)
	if err != nil {
		t.Fatal(err)
	}
	g, err := b.Rebuild(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := void.Apply(ctx, []searchindex.Document{doc("void.com", "Void", 1)}, 1); !errors.Is(err, searchindex.ErrReplaced) {
		t.Errorf("apply to a void rebuild: %v, want ErrReplaced", err)
	}
	if err := void.Publish(ctx); !errors.Is(err, searchindex.ErrReplaced) {
		t.Errorf("publish of a void rebuild: %v, want ErrReplaced", err)
	}
	if err := void.Discard(); err != nil {
		t.Error(err)
	}
	apply(t, g, 2, doc("new.com", "New", 2))
	if err := g.Publish(ctx); err != nil {
		t.Fatal(err)
	}
	finds(t, a, "new", "new.com")
}

// lateWriter lets a process write after it missed two rebuilds.
func lateWriter(t *testing.T, open Opener) {
	ctx := context.Background()
	a, b := two(t, open)
	apply(t, b, 9, doc("acme.com", "Acme", 9))
	for i := range uint64(2) {
		g, err := a.Rebuild(ctx)
		if err != nil {
			t.Fatal(err)
		}
		apply(t, g, 10+i, doc("acme.com", "Rebuilt", 9))
		if err := g.Publish(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Apply(ctx, nil, 99); !errors.Is(err, searchindex.ErrReplaced) {
		t.Errorf("the late checkpoint: %v, want ErrReplaced", err)
	}
	standsAt(t, a, 11)
	finds(t, a, "rebuilt", "acme.com")
}

// feedWhileRebuilt lets one process feed continuously while another rebuilds repeatedly. Everything
// before a checkpoint is searchable at that moment, and at the end nothing is missing.
func feedWhileRebuilt(t *testing.T, open Opener) {
	const rounds = 4
	ctx := context.Background()
	a, b := two(t, open)
	var head atomic.Uint64 // of a log in which every event is a different brand
	of := func(after, upTo uint64) []searchindex.Document {
		var docs []searchindex.Document
		for n := after + 1; n <= upTo && len(docs) < searchindex.MaxBatch; n++ {
			docs = append(docs, doc(fmt.Sprintf("site%06d.com", n), fmt.Sprintf("Site%06d", n), n))
		}
		return docs
	}
	stop := make(chan struct{})
	var feeder sync.WaitGroup
	feeder.Go(func() {
		for at := uint64(0); ; {
			select {
			case <-stop:
				return
			default:
			}
			now := head.Add(3)
			err := b.Apply(ctx, of(at, now), now)
			switch {
			case errors.Is(err, searchindex.ErrReplaced):
				if at, _, err = b.Checkpoint(ctx); err != nil {
					t.Error(err)
					return
				}
			case err != nil:
				t.Errorf("feed: %v", err)
				return
			default:
				at = now
				if docs, err := a.Scan(ctx, fmt.Sprintf("site%06d.com", now-1), 1); err != nil || len(docs) != 1 || docs[0].Version != now {
					t.Errorf("fed up to %d, but its last brand is not found: %v, %v", now, docs, err)
				}
			}
		}
	})
	for range rounds {
		if err := rebuildLevel(ctx, a, &head, of); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	feeder.Wait()
	checkpoint, _, err := a.Checkpoint(ctx)
	if err != nil {
		t.Fatal(err)
	}
	docs, err := a.Scan(ctx, "", searchindex.MaxScan)
	if err != nil || uint64(len(docs)) < checkpoint || !slices.Equal(docs[:checkpoint], of(0, checkpoint)) {
		t.Errorf("at checkpoint %d there are %d documents, %v", checkpoint, len(docs), err)
	}
}

func rebuildLevel(ctx context.Context, x searchindex.Index, head *atomic.Uint64, of func(after, upTo uint64) []searchindex.Document) error {
	g, err := x.Rebuild(ctx)
	if err != nil {
		return err
	}
	now := head.Load()
	if err := g.Apply(ctx, of(0, now), now); err != nil {
		return errors.Join(err, g.Discard())
	}
	stood, err := g.Freeze(ctx)
	if err == nil {
		err = g.Apply(ctx, of(now, stood), max(now, stood))
	}
	if err == nil {
		err = g.Publish(ctx)
	}
	return errors.Join(err, g.Discard())
}

// swappedUnderneath lets a process of another log, which does not know the first, replace the live generation.
func swappedUnderneath(t *testing.T, open Opener) {
	a, b := two(t, open)
	a.Use(searchindex.Origin{Log: "log a"})
	fill(t, a, 5, doc("acme.com", "Acme", 5))
	apply(t, a, 6, doc("more.com", "More", 6))
	finds(t, b, "acme", "acme.com")
	fill(t, b, 3, doc("unnamed.com", "Unnamed", 3)) // before Use
	finds(t, a, "unnamed", "unnamed.com")
	if err := a.Apply(t.Context(), []searchindex.Document{doc("lost.com", "Lost", 7)}, 7); !errors.Is(err, searchindex.ErrReplaced) {
		t.Errorf("apply after the index was replaced: %v, want ErrReplaced", err)
	}
	rejectsOtherLog(t, a.Apply(t.Context(), nil, 8))
	fill(t, a, 9, doc("acme.com", "Acme", 5))
	b.Use(searchindex.Origin{Log: "log b"})
	if err := b.Apply(t.Context(), nil, 10); !errors.Is(err, searchindex.ErrReplaced) {
		t.Errorf("apply after another log replaced the index: %v, want ErrReplaced", err)
	}
	neitherReadsNorWrites(t, b)
	fill(t, b, 3, doc("other.com", "Other", 3))
	if err := a.Apply(t.Context(), []searchindex.Document{doc("lost.com", "Lost", 10)}, 10); !errors.Is(err, searchindex.ErrReplaced) {
		t.Errorf("apply after another log replaced the index: %v, want ErrReplaced", err)
	}
	neitherReadsNorWrites(t, a)
	finds(t, b, "other", "other.com")
	finds(t, b, "lost")
	standsAt(t, b, 3)
}
