// Package searchindextest provides the contract suite for search indices, with a list of what people
// type and which brands they mean.
package searchindextest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"letterhead/internal/searchindex"
)

// Opener opens the index with a name. After Close the same name opens the same index again; another
// name opens a different one. Everything it creates must be removed when the test ends.
type Opener func(t *testing.T, name string) searchindex.Index

// Run runs the suite.
func Run(t *testing.T, open Opener) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, Opener)
	}{
		{"AnEmptyIndexFindsNothing", emptyIndex},
		{"DocumentsAndCheckpointOutliveTheProcess", outlive},
		{"AnOlderVersionChangesNothing", olderVersion},
		{"ATombstoneHidesAndStays", tombstone},
		{"OneBatchKeepsTheNewest", oneBatch},
		{"TheCheckpointNeverGoesBack", checkpointForward},
		{"ABadDocumentFailsTheBatch", badDocument},
		{"ScanGoesThroughAllInOrder", scan},
		{"ARebuildIsSeenOnlyWhenPublished", rebuild},
		{"ADiscardedRebuildLeavesNothing", discarded},
		{"OneRebuildAtATime", oneRebuild},
		{"AFrozenIndexTakesNoWrites", frozen},
		{"AnEndedContextOrAClosedIndexFailsCalls", rejections},
		{"AnIndexKnowsItsLog", knowsLog},
		{"AnIndexOfAnotherLogIsNeitherReadNorWritten", otherLog},
		{"ReadersNeverSeeAGapWhileRebuilding", readersDuringRebuild},
		{"LimitsAreKept", limits},
		{"ACrowdOfOneReadingLeavesTheOther", crowd},
		{"EitherKanaFindsTheOther", kana},
		{"Relevance", relevance},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open) })
	}
}

func doc(domain, name string, version uint64) searchindex.Document {
	return searchindex.Document{Domain: domain, Name: name, BrandID: "id of " + domain, Quality: 0.5, Version: version}
}

func apply(t *testing.T, x interface {
	Apply(context.Context, []searchindex.Document, uint64) error
}, checkpoint uint64, docs ...searchindex.Document) {
	t.Helper()
	if err := x.Apply(context.Background(), docs, checkpoint); err != nil {
		t.Fatalf("apply: %v", err)
	}
}

func closeIndex(t *testing.T, x searchindex.Index) {
	t.Helper()
	if err := x.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// found searches and returns the domains of the hits.
func found(t *testing.T, x searchindex.Index, text string) []string {
	t.Helper()
	hits, err := x.Search(context.Background(), text, 10)
	if err != nil {
		t.Fatalf("search %q: %v", text, err)
	}
	domains := []string{}
	for _, h := range hits {
		domains = append(domains, h.Domain)
	}
	return domains
}

func finds(t *testing.T, x searchindex.Index, text string, want ...string) {
	t.Helper()
	if got := found(t, x, text); !slices.Equal(got, want) {
		t.Errorf("search %q found %v, want %v", text, got, want)
	}
}

func standsAt(t *testing.T, x searchindex.Index, want uint64) {
	t.Helper()
	if got, _, err := x.Checkpoint(context.Background()); err != nil || got != want {
		t.Errorf("checkpoint %d, %v, want %d", got, err, want)
	}
}

func emptyIndex(t *testing.T, open Opener) {
	x := open(t, "empty")
	defer closeIndex(t, x)
	standsAt(t, x, 0)
	for _, text := range []string{"acme", "acme.com", "", " ", "!!!", "\x00", "\xff\xfe"} {
		finds(t, x, text)
	}
}

// kana are two scripts for the same syllables: a visitor types either, in full or half width.
func kana(t *testing.T, open Opener) {
	x := open(t, "kana")
	defer closeIndex(t, x)
	apply(t, x, 5, doc("minamoto.example", "ミナモト製作所", 5), doc("tsubame.example", "つばめ運輸", 5),
		doc("gako.example", "ｶﾞﾗｽ工房", 5))
	for _, text := range []string{"みなもと製作所", "ﾐﾅﾓﾄ製作所", "ミナモト", "みなもと", "みなも", "みなもと製作所 株式会社"} {
		finds(t, x, text, "minamoto.example")
	}
	for _, text := range []string{"ツバメ運輸", "ﾂﾊﾞﾒ", "つばめ", "ツバ"} {
		finds(t, x, text, "tsubame.example")
	}
	finds(t, x, "がらす工房", "gako.example")
	finds(t, x, "みなもり製作所", "minamoto.example") // one wrong letter
	finds(t, x, "すずめ")
}

func outlive(t *testing.T, open Opener) {
	x := open(t, "outlive")
	want := doc("acme.com", "Acme", 7)
	want.Claimed = true
	apply(t, x, 9, want)
	closeIndex(t, x)

	x = open(t, "outlive")
	defer closeIndex(t, x)
	standsAt(t, x, 9)
	hits, err := x.Search(context.Background(), "acme", 10)
	if err != nil || len(hits) != 1 || hits[0].Document != want || hits[0].Match != searchindex.Exact {
		t.Errorf("found %+v, %v, want %+v", hits, err, want)
	}
}

func olderVersion(t *testing.T, open Opener) {
	x := open(t, "older")
	defer closeIndex(t, x)
	apply(t, x, 5, doc("acme.com", "Acme", 5))
	apply(t, x, 5, doc("acme.com", "Stale", 4))
	finds(t, x, "acme", "acme.com")
	finds(t, x, "stale")
	apply(t, x, 5, doc("acme.com", "Same", 5))
	finds(t, x, "same")
	apply(t, x, 6, doc("acme.com", "Newer", 6))
	finds(t, x, "newer", "acme.com")
}

func tombstone(t *testing.T, open Opener) {
	x := open(t, "tombstone")
	gone := searchindex.Document{Domain: "acme.com", Version: 6, Gone: true}
	apply(t, x, 5, doc("acme.com", "Acme", 5))
	apply(t, x, 6, gone)
	for _, text := range []string{"acme", "acme.com", "acm", "acmee"} {
		finds(t, x, text)
	}
	closeIndex(t, x)

	x = open(t, "tombstone")
	defer closeIndex(t, x)
	apply(t, x, 6, doc("acme.com", "Acme", 5))
	finds(t, x, "acme")
	if docs, err := x.Scan(context.Background(), "", 10); err != nil || len(docs) != 1 || docs[0] != gone {
		t.Errorf("scanned %+v, %v, want %+v", docs, err, gone)
	}
	apply(t, x, 7, doc("acme.com", "Acme", 7))
	finds(t, x, "acme", "acme.com")
}

func oneBatch(t *testing.T, open Opener) {
	x := open(t, "batch")
	defer closeIndex(t, x)
	apply(t, x, 3, doc("acme.com", "First", 1), doc("acme.com", "Third", 3), doc("acme.com", "Second", 2))
	finds(t, x, "third", "acme.com")
	finds(t, x, "second")
	if docs, err := x.Scan(context.Background(), "", 10); err != nil || len(docs) != 1 {
		t.Errorf("scanned %+v, %v, want one document", docs, err)
	}
}

func checkpointForward(t *testing.T, open Opener) {
	x := open(t, "checkpoint")
	defer closeIndex(t, x)
	apply(t, x, 8)
	standsAt(t, x, 8)
	apply(t, x, 3, doc("acme.com", "Acme", 2))
	standsAt(t, x, 8)
	finds(t, x, "acme", "acme.com")
}

func badDocument(t *testing.T, open Opener) {
	x := open(t, "bad")
	defer closeIndex(t, x)
	for _, bad := range []searchindex.Document{doc("", "No domain", 2), doc("acme.com", "No version", 0)} {
		err := x.Apply(context.Background(), []searchindex.Document{doc("good.com", "Good", 1), bad}, 9)
		if !errors.Is(err, searchindex.ErrInvalid) {
			t.Errorf("apply %+v: %v, want ErrInvalid", bad, err)
		}
	}
	finds(t, x, "good")
	standsAt(t, x, 0)
}

func scan(t *testing.T, open Opener) {
	x := open(t, "scan")
	defer closeIndex(t, x)
	var docs []searchindex.Document
	for i := range 25 {
		docs = append(docs, doc(fmt.Sprintf("site%02d.com", i), fmt.Sprintf("Site %02d", i), uint64(i+1)))
	}
	docs[12] = searchindex.Document{Domain: docs[12].Domain, Version: 13, Gone: true}
	shuffled := slices.Clone(docs)
	slices.Reverse(shuffled)
	apply(t, x, 25, shuffled...)

	var got []searchindex.Document
	for after := ""; ; {
		page, err := x.Scan(context.Background(), after, 10)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		got = append(got, page...)
		after = page[len(page)-1].Domain
	}
	if !slices.Equal(got, docs) {
		t.Errorf("scanned %v, want %v", got, docs)
	}
}

func rebuild(t *testing.T, open Opener) {
	ctx := context.Background()
	x := open(t, "rebuild")
	apply(t, x, 5, doc("old.com", "Old", 5))
	g, err := x.Rebuild(ctx)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, g, 7, doc("new.com", "New", 1)) // versions restart: the new generation has nothing from the previous one
	finds(t, x, "old", "old.com")
	finds(t, x, "new")
	standsAt(t, x, 5)
	if err := g.Publish(ctx); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		finds(t, x, "old")
		finds(t, x, "new", "new.com")
		standsAt(t, x, 7)
		closeIndex(t, x)
		x = open(t, "rebuild")
	}
	defer closeIndex(t, x)
	if err := g.Discard(); err != nil {
		t.Errorf("discard after publish: %v", err)
	}
	finds(t, x, "new", "new.com")
}

func discarded(t *testing.T, open Opener) {
	x := open(t, "discard")
	apply(t, x, 5, doc("old.com", "Old", 5))
	g, err := x.Rebuild(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	apply(t, g, 9, doc("new.com", "New", 9))
	if err := g.Discard(); err != nil {
		t.Fatal(err)
	}
	if err := g.Apply(context.Background(), nil, 10); !errors.Is(err, searchindex.ErrClosed) {
		t.Errorf("apply after discard: %v, want ErrClosed", err)
	}
	closeIndex(t, x)
	x = open(t, "discard")
	defer closeIndex(t, x)
	finds(t, x, "new")
	finds(t, x, "old", "old.com")
	standsAt(t, x, 5)
}

func oneRebuild(t *testing.T, open Opener) {
	ctx := context.Background()
	x := open(t, "one")
	g, err := x.Rebuild(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Rebuild(ctx); !errors.Is(err, searchindex.ErrInvalid) {
		t.Errorf("second rebuild: %v, want ErrInvalid", err)
	}
	if err := g.Discard(); err != nil {
		t.Fatal(err)
	}
	g, err = x.Rebuild(ctx)
	if err != nil {
		t.Fatalf("rebuild after the first was discarded: %v", err)
	}
	closeIndex(t, x) // with a running rebuild
	if err := g.Publish(ctx); !errors.Is(err, searchindex.ErrClosed) {
		t.Errorf("publish after close: %v, want ErrClosed", err)
	}
}

func frozen(t *testing.T, open Opener) {
	ctx := context.Background()
	x := open(t, "frozen")
	defer closeIndex(t, x)
	apply(t, x, 5, doc("old.com", "Old", 5))
	g, err := x.Rebuild(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if at, err := g.Freeze(ctx); err != nil || at != 5 {
		t.Fatalf("frozen at %d, %v, want 5", at, err)
	}
	rejectsWrites(t, x)
	finds(t, x, "old", "old.com")
	if err := g.Discard(); err != nil {
		t.Fatal(err)
	}
	again(t, x, 6, doc("thawed.com", "Thawed", 6))
	finds(t, x, "thawed", "thawed.com")

	if g, err = x.Rebuild(ctx); err != nil {
		t.Fatal(err)
	}
	if at, err := g.Freeze(ctx); err != nil || at != 6 {
		t.Fatalf("frozen at %d, %v, want 6", at, err)
	}
	apply(t, g, 6, doc("new.com", "New", 6))
	if err := g.Publish(ctx); err != nil {
		t.Fatal(err)
	}
	again(t, x, 7, doc("later.com", "Later", 7))
	finds(t, x, "new", "new.com")
	finds(t, x, "later", "later.com")
	finds(t, x, "thawed")
}

// rejectsWrites checks that writes to a frozen index are rejected.
func rejectsWrites(t *testing.T, x searchindex.Index) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := x.Apply(ctx, []searchindex.Document{doc("never.com", "Never", 9)}, 9); !errors.Is(err, searchindex.ErrUnavailable) {
		t.Errorf("apply to a frozen index: %v, want ErrUnavailable", err)
	}
	finds(t, x, "never")
}

// again applies like a writer of a shared index: once more after ErrReplaced.
func again(t *testing.T, x searchindex.Index, checkpoint uint64, docs ...searchindex.Document) {
	t.Helper()
	err := x.Apply(context.Background(), docs, checkpoint)
	if errors.Is(err, searchindex.ErrReplaced) {
		err = x.Apply(context.Background(), docs, checkpoint)
	}
	if err != nil {
		t.Errorf("apply: %v", err)
	}
}

// fill rebuilds an index.
func fill(t *testing.T, x searchindex.Index, checkpoint uint64, docs ...searchindex.Document) {
	t.Helper()
	g, err := x.Rebuild(context.Background())
	if err != nil {
		t.Fatalf("rebuild: %v", err)
	}
	apply(t, g, checkpoint, docs...)
	if err := g.Publish(context.Background()); err != nil {
		t.Fatalf("publish: %v", err)
	}
}

func rejectsOtherLog(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, searchindex.ErrOtherLog) || !errors.Is(err, searchindex.ErrUnavailable) {
		t.Errorf("an index of another log: %v, want ErrOtherLog and ErrUnavailable", err)
	}
}

// neitherReadsNorWrites checks that a process rejects the index of another log.
func neitherReadsNorWrites(t *testing.T, x searchindex.Index) {
	t.Helper()
	_, err := x.Search(context.Background(), "acme", 5)
	rejectsOtherLog(t, err)
	_, err = x.Scan(context.Background(), "", 5)
	rejectsOtherLog(t, err)
	for _, docs := range [][]searchindex.Document{nil, {doc("lost.com", "Lost", 99)}} {
		rejectsOtherLog(t, x.Apply(context.Background(), docs, 99))
	}
}

// comesFrom compares the origin of the live generation, except its generated name.
func comesFrom(t *testing.T, x searchindex.Index, log, last string) {
	t.Helper()
	_, of, err := x.Checkpoint(context.Background())
	if err != nil || of.Log != log || of.Last != last || of.Generation == "" {
		t.Errorf("the index is of %+v, %v, want log %q, last event %q and a generation", of, err, log, last)
	}
}

func knowsLog(t *testing.T, open Opener) {
	x := open(t, "knows")
	comesFrom(t, x, "", "")
	apply(t, x, 1, doc("unnamed.com", "Unnamed", 1))
	x.Use(searchindex.Origin{Log: "log"})
	finds(t, x, "unnamed", "unnamed.com") // fed by the release before
	rejectsOtherLog(t, x.Apply(context.Background(), nil, 2))
	fill(t, x, 3, doc("acme.com", "Acme", 1))
	comesFrom(t, x, "log", "")
	x.Use(searchindex.Origin{Log: "log", Last: "event 4"})
	apply(t, x, 4, doc("more.com", "More", 4))
	comesFrom(t, x, "log", "event 4")
	x.Use(searchindex.Origin{Log: "log", Last: "event 2"})
	apply(t, x, 2, doc("less.com", "Less", 2)) // a late writer: the event belongs to its checkpoint
	comesFrom(t, x, "log", "event 4")
	closeIndex(t, x)
	x = open(t, "knows")
	comesFrom(t, x, "log", "event 4")
	x.Use(searchindex.Origin{Log: "log", Last: "event 5"})
	fill(t, x, 5, doc("acme.com", "Acme", 1))
	comesFrom(t, x, "log", "event 5")
	closeIndex(t, x)
}

func otherLog(t *testing.T, open Opener) {
	x := open(t, "other")
	x.Use(searchindex.Origin{Log: "log a"})
	fill(t, x, 5, doc("acme.com", "Acme", 5))
	closeIndex(t, x)

	x = open(t, "other")
	x.Use(searchindex.Origin{Log: "log b"})
	neitherReadsNorWrites(t, x)
	comesFrom(t, x, "log a", "")
	closeIndex(t, x)

	x = open(t, "other")
	defer closeIndex(t, x)
	x.Use(searchindex.Origin{Log: "log a"})
	finds(t, x, "acme", "acme.com")
	finds(t, x, "lost")
	standsAt(t, x, 5)
}

func rejections(t *testing.T, open Opener) {
	x := open(t, "rejections")
	calls := map[string]func(context.Context) error{
		"Apply":      func(ctx context.Context) error { return x.Apply(ctx, nil, 1) },
		"Checkpoint": func(ctx context.Context) error { _, _, err := x.Checkpoint(ctx); return err },
		"Search":     func(ctx context.Context) error { _, err := x.Search(ctx, "acme", 1); return err },
		"Scan":       func(ctx context.Context) error { _, err := x.Scan(ctx, "", 1); return err },
		"Rebuild":    func(ctx context.Context) error { _, err := x.Rebuild(ctx); return err },
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for name, call := range calls {
		if err := call(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with an ended context: %v, want Canceled", name, err)
		}
	}
	closeIndex(t, x)
	for name, call := range calls {
		if err := call(context.Background()); !errors.Is(err, searchindex.ErrClosed) {
			t.Errorf("%s after close: %v, want ErrClosed", name, err)
		}
	}
	closeIndex(t, x) // closing twice is allowed
}

// readersDuringRebuild searches continuously while generations are replaced.
func readersDuringRebuild(t *testing.T, open Opener) {
	const readers, rounds = 4, 5
	ctx := context.Background()
	x := open(t, "readers")
	defer closeIndex(t, x)
	apply(t, x, 1, doc("acme.com", "Acme", 1))

	done := make(chan struct{})
	var group sync.WaitGroup
	for range readers {
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				hits, err := x.Search(ctx, "acme", 5)
				if err != nil || len(hits) != 1 {
					t.Errorf("while rebuilding: found %v, %v", hits, err)
					return
				}
			}
		})
	}
	for i := range rounds {
		g, err := x.Rebuild(ctx)
		if err != nil {
			t.Fatal(err)
		}
		apply(t, g, uint64(i+2), doc("acme.com", "Acme", uint64(i+2)))
		if err := g.Publish(ctx); err != nil {
			t.Fatal(err)
		}
		apply(t, x, uint64(i+2), doc("other.com", "Other", uint64(i+2)))
	}
	close(done)
	group.Wait()
}

func limits(t *testing.T, open Opener) {
	ctx := context.Background()
	x := open(t, "limits")
	defer closeIndex(t, x)
	var docs []searchindex.Document
	for i := range 150 {
		docs = append(docs, doc(fmt.Sprintf("acme%03d.com", i), fmt.Sprintf("Acme %03d", i), uint64(i+1)))
	}
	apply(t, x, 1, docs...)
	for _, limit := range []int{0, -1, searchindex.MaxLimit + 1} {
		if _, err := x.Search(ctx, "acme", limit); !errors.Is(err, searchindex.ErrInvalid) {
			t.Errorf("limit %d: %v, want ErrInvalid", limit, err)
		}
	}
	for _, limit := range []int{1, 20} {
		if hits, err := x.Search(ctx, "acme", limit); err != nil || len(hits) != limit {
			t.Errorf("limit %d: %d hits, %v", limit, len(hits), err)
		}
	}
	tooMany := make([]searchindex.Document, searchindex.MaxBatch+1)
	if err := x.Apply(ctx, tooMany, 2); !errors.Is(err, searchindex.ErrInvalid) {
		t.Errorf("a batch of %d: %v, want ErrInvalid", len(tooMany), err)
	}
}

// crowd: the words of a query before or after a legal form match more brands, and better ones, than
// there are candidates; the brand with the whole name is found anyway.
func crowd(t *testing.T, open Opener) {
	x := open(t, "crowd")
	defer closeIndex(t, x)
	docs := []searchindex.Document{doc("ptcruiser.com", "PT Cruiser", 1), doc("homecompany.com", "Home Company", 2)}
	for i := range searchindex.Candidates {
		for _, name := range []string{"Cruiser", "Home"} {
			better := doc(fmt.Sprintf("%s%03d.com", name, i), name, uint64(len(docs)+1))
			better.Quality = 0.9
			docs = append(docs, better)
		}
	}
	apply(t, x, 1, docs...)
	for query, want := range map[string]string{"pt cruiser": "ptcruiser.com", "pt crui": "ptcruiser.com", "home company": "homecompany.com"} {
		if got := found(t, x, query); len(got) == 0 || got[0] != want {
			t.Errorf("search %q found %v, want %s first", query, got, want)
		}
	}
}
