package search_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/internal/searchindex"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/projections"
	"letterhead/projections/brands"
	"letterhead/projections/search"
)

// of returns the nodes of another log on the same index.
func (n nodes) of(log *table) nodes {
	n.table = log
	return n
}

// live returns the name of the live generation, its checkpoint and whether it names a log.
func (n nodes) live() (generation string, at uint64, named bool) {
	n.t.Helper()
	at, of, err := n.open().Checkpoint(n.t.Context())
	testmust.Succeed(n.t, err)
	return of.Generation, at, of.Log != ""
}

// refuses checks that a node of another log does not start, and that the error names both logs.
func (n nodes) refuses(fed string) {
	n.t.Helper()
	own := "has no events"
	if first, found, _ := n.table.First(n.t.Context()); found {
		own = first.ID.String()
	}
	for _, lead := range []leadership{leads, follows} {
		_, err := search.New(n.t.Context(), search.Config{Lead: lead, Log: n.table}, n.table, n.open())
		if !errors.Is(err, searchindex.ErrOtherLog) || !strings.Contains(err.Error(), fed) ||
			!strings.Contains(err.Error(), own) || !strings.Contains(err.Error(), "LETTERHEAD_SEARCH") {
			n.t.Errorf("start on the index of another log: %v, want an error that names %s, %s and the setting", err, fed, own)
		}
	}
}

func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	if _, ok := testwait.Until(time.Minute, so); !ok {
		t.Fatalf("waited for %s", what)
	}
}

func unsearchable(t *testing.T, p *search.Projection) {
	t.Helper()
	if hits, err := p.Search(t.Context(), "acme", 5); !errors.Is(err, searchindex.ErrUnavailable) {
		t.Errorf("searched the index of another log: %v, %v, want ErrUnavailable", hits, err)
	}
}

func TestTwoInstallations_OneIndex_SecondIsRefused(t *testing.T) {
	onShared(t, func(t *testing.T, n nodes) {
		leader, stop := n.node(leads)
		defer stop()
		at := n.table.change("acme.com", "Acme")
		waits(t, leader, at)
		generation, checkpoint, _ := n.live()
		empty, other := &table{}, &table{}
		for range 500 { // so that positions prove nothing
			other.change("other.com", "Other")
		}
		fed, _, _ := n.table.First(t.Context())
		// A new folder begins with an event whose ID is the same in each.
		likewise := &table{id: fed.ID, began: time.Unix(1, 0)}
		likewise.change("likewise.com", "Likewise")
		n.of(likewise).refuses(fed.ID.String())
		n.of(empty).refuses(fed.ID.String())
		n.of(other).refuses(fed.ID.String())
		if g, at, named := n.live(); g != generation || at != checkpoint || !named {
			t.Errorf("the index is %s at %d, named %t; want %s at %d, unchanged", g, at, named, generation, checkpoint)
		}
		if v, err := leader.Verify(minuteContext(t)); err != nil || !v.OK() || v.Rows != 1 {
			t.Errorf("Verify = %+v, %v, want the row of the first installation only", v, err)
		}
	})
}

// swap publishes a generation of another log, as a process does that does not see the first one's.
func (n nodes) swap(name string) {
	n.t.Helper()
	x := n.open()
	x.Use(searchindex.Origin{Log: name})
	g := testmust.Get(x.Rebuild(n.t.Context()))(n.t)
	testmust.Succeed(n.t, errors.Join(
		g.Apply(n.t.Context(), []searchindex.Document{{Domain: "acme.com", Name: "Acme of another", Version: 3}}, 3),
		g.Publish(n.t.Context())))
}

func TestIndex_SwappedUnderneath_IsNeitherReadNorWritten(t *testing.T) {
	onShared(t, func(t *testing.T, n nodes) {
		leader, stop := n.node(leads)
		defer stop()
		follower, stop := n.node(follows)
		defer stop()
		at := n.table.change("acme.com", "Acme")
		waits(t, leader, at)
		waits(t, follower, at)
		n.swap("another")
		generation, checkpoint, _ := n.live()
		unsearchable(t, leader)
		unsearchable(t, follower)
		n.table.change("lost.com", "Lost")
		eventually(t, "the leader to refuse the index", func() bool { return errors.Is(leader.Err(), searchindex.ErrOtherLog) })
		eventually(t, "the follower to refuse the index", func() bool { return errors.Is(follower.Err(), searchindex.ErrOtherLog) })
		for _, p := range []*search.Projection{leader, follower} {
			if err := p.Check(t.Context()); !errors.Is(err, searchindex.ErrOtherLog) {
				t.Errorf("Check = %v, want ErrOtherLog", err)
			}
			if err := p.Rebuild(t.Context()); !errors.Is(err, searchindex.ErrOtherLog) {
				t.Errorf("Rebuild = %v, want ErrOtherLog", err)
			}
			if _, err := p.Verify(t.Context()); err == nil {
				t.Error("Verify read the index of another log")
			}
		}
		if g, at, _ := n.live(); g != generation || at != checkpoint {
			t.Errorf("the index is %s at %d, want %s at %d, unchanged", g, at, generation, checkpoint)
		}
		testmust.Succeed(t, search.Empty(t.Context(), n.open())) // as an operator who deletes it
		at = n.table.change("more.com", "More")
		eventually(t, "the leader to fill the index again", func() bool { return leader.Err() == nil && first(t, leader, "lost") == "Lost" })
		waits(t, leader, at)
		waits(t, follower, at)
		if v, err := follower.Verify(minuteContext(t)); err != nil || !v.OK() || v.Rows != 3 {
			t.Errorf("Verify = %+v, %v, want three equal rows", v, err)
		}
	})
}

// A restored log has the same events at other positions, and may be older than the index.
// Rule 8.
func TestRestoredLog_SurvivingIndex_IsFilledAgain(t *testing.T) {
	onShared(t, func(t *testing.T, n nodes) {
		old, stop := n.node(leads)
		for range 40 {
			n.table.change("acme.com", "Acme")
		}
		waits(t, old, n.table.change("later.com", "After the backup"))
		stop()
		before, _, _ := n.live()
		restored := n.of(&table{id: n.table.id})
		restored.accepted = "restore 1"
		for range 20 {
			restored.table.change("acme.com", "Acme")
		}
		follower, stop := restored.node(follows)
		defer stop()
		unsearchable(t, follower)
		leader, stop := restored.node(leads)
		defer stop()
		at := restored.table.change("new.com", "New")
		for _, p := range []*search.Projection{leader, follower} {
			waits(t, p, at)
			for q, want := range map[string]string{"acme": "Acme", "new": "New", "after the backup": ""} {
				if got := first(t, p, q); got != want {
					t.Errorf("search %q found %q, want %q", q, got, want)
				}
			}
			if v, err := p.Verify(minuteContext(t)); err != nil || !v.OK() || v.Rows != 2 {
				t.Errorf("Verify = %+v, %v, want two equal rows", v, err)
			}
			testmust.Succeed(t, p.Check(t.Context()))
		}
		if g, _, named := n.live(); g == before || !named {
			t.Errorf("the index is %s as before, or names no log", g)
		}
	})
}

// Two copies of an installation must not replace each other's index in turn.
func TestCopyOfLog_ReplacesIndex_FirstIsRefused(t *testing.T) {
	onShared(t, func(t *testing.T, n nodes) {
		leader, stop := n.node(leads)
		defer stop()
		waits(t, leader, n.table.change("acme.com", "Acme"))
		other := n.of(&table{id: n.table.id})
		other.accepted = "restore 1"
		at := other.table.change("acme.com", "Copy")
		copied, stop := other.node(leads)
		defer stop()
		waits(t, copied, at)
		generation, _, _ := n.live()
		n.table.change("acme.com", "Changed")
		eventually(t, "the first to be refused", func() bool { return leader.Err() != nil })
		unsearchable(t, leader)
		if got := first(t, copied, "acme"); got != "Copy" {
			t.Errorf("the copy found %q, want Copy", got)
		}
		if g, _, _ := n.live(); g != generation {
			t.Errorf("the index is %s, want %s, unchanged", g, generation)
		}
	})
}

func TestIndex_OfReleaseBefore_IsRebuiltOnce(t *testing.T) {
	onShared(t, func(t *testing.T, n nodes) {
		at := n.table.change("acme.com", "Acme")
		testmust.Succeed(t, n.open().Apply(t.Context(), []searchindex.Document{
			{Domain: "acme.com", Name: "Acme", BrandID: "id", Version: 1}, {Domain: "mixed.com", Name: "Of another", Version: 1},
		}, 1))
		unnamed, _, named := n.live()
		if named {
			t.Fatal("the index names a log")
		}
		follower, stop := n.node(follows)
		defer stop()
		if got := first(t, follower, "acme"); got != "Acme" {
			t.Errorf("before the rebuild the follower found %q, want Acme", got)
		}
		var rebuilt string
		for i := range 2 {
			leader, stop := n.node(leads)
			waits(t, leader, at)
			eventually(t, "the index to name its log", func() bool { _, _, named := n.live(); return named })
			waits(t, follower, at)
			if v, err := leader.Verify(minuteContext(t)); err != nil || !v.OK() || v.Rows != 1 {
				t.Errorf("Verify = %+v, %v, want one equal row", v, err)
			}
			at = n.table.change("acme.com", "Changed")
			waits(t, leader, at)
			stop()
			generation, _, _ := n.live()
			if i == 0 && generation == unnamed || i > 0 && generation != rebuilt {
				t.Errorf("start %d: the index is %s, was %s and %s; want one rebuild", i, generation, unnamed, rebuilt)
			}
			rebuilt = generation
		}
	})
}

func TestCheck_IndexAheadOfLog_IsLoss(t *testing.T) {
	onShared(t, func(t *testing.T, n nodes) {
		leader, stop := n.node(leads)
		n.table.change("acme.com", "Acme")
		waits(t, leader, n.table.pass(10))
		stop() // which saves the checkpoint
		n.table.head = 5
		follower, stop := n.node(follows)
		defer stop()
		if err := follower.Check(t.Context()); !errors.Is(err, eventlog.ErrLoss) {
			t.Errorf("Check = %v, want a loss", err)
		}
	})
}

// The index of a folder belongs to the folder, whatever else was copied into it.
func TestFolder_IndexOfAnotherLog_IsBuiltAgain(t *testing.T) {
	other := newWorld(t)
	for _, name := range []string{"Acme", "Other", "Third"} {
		other.finds(other.say(name+".com", imported(name+".com", name, 0.5)), name, name+".com="+name)
	}
	other.close()
	w := newWorld(t)
	at := w.say("acme.com", imported("acme.com", "Ours", 0.5))
	w.close()
	w.path = other.path
	w.open()
	w.finds(at, "ours", "acme.com=Ours")
	w.finds(at, "third")
	w.verifies("")
	w.close()
	x := openIndex(t, w.path)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, before, err := x.Checkpoint(ctx)
	testmust.Succeed(t, errors.Join(err, x.Close()))
	w.open()
	w.finds(at, "ours", "acme.com=Ours")
	if _, of, err := w.index.Checkpoint(ctx); err != nil || of.Generation != before.Generation || of.Log == "" {
		t.Errorf("after another start the index is %+v, %v; want the generation %s with a log", of, err, before.Generation)
	}
}

// unready is a table whose brands are still being folded.
type unready struct {
	*table
	folded atomic.Bool
}

func (s *unready) Changed(ctx context.Context, after eventlog.Position, limit int) ([]brands.Doc, eventlog.Position, error) {
	if !s.folded.Load() {
		return nil, 0, projections.ErrNotReady
	}
	return s.table.Changed(ctx, after, limit)
}

// After a restore the brands are folded for minutes: no generation is created for each attempt.
func TestUnnamedIndex_BrandsAreBeingBuilt_IsRebuiltOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := &memory{}, &unready{table: &table{}}
		at := s.change("acme.com", "Acme")
		p := testmust.Get(search.New(t.Context(), search.Config{Lead: leads, Log: s}, s, m.open()))(t)
		defer run(t, p)()
		time.Sleep(time.Minute) // of the test's virtual clock
		if m.rebuilds != 0 {
			t.Errorf("%d rebuilds before the brands are folded, want none", m.rebuilds)
		}
		s.folded.Store(true)
		waits(t, p, at)
		if m.rebuilds != 1 {
			t.Errorf("%d rebuilds, want one", m.rebuilds)
		}
	})
}

// silent is a log that does not answer.
type silent struct{ *table }

func (silent) First(context.Context) (eventlog.Recorded, bool, error) {
	return eventlog.Recorded{}, false, eventlog.ErrUnavailable
}

func TestRebuild_LogUnavailable_ReplacesNothing(t *testing.T) {
	onShared(t, func(t *testing.T, n nodes) {
		n.swap("another")
		generation, _, _ := n.live()
		n.table.change("acme.com", "Acme")
		p := testmust.Get(search.New(t.Context(), search.Config{Lead: follows, Log: silent{n.table}}, n.table, n.open()))(t)
		if err := p.Rebuild(t.Context()); !errors.Is(err, eventlog.ErrUnavailable) {
			t.Errorf("Rebuild = %v, want ErrUnavailable", err)
		}
		if g, _, _ := n.live(); g != generation {
			t.Errorf("the index is %s, want %s, unchanged", g, generation)
		}
	})
}
