package brands

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/projections/brandwatch"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
)

// follower is a node that does not fold, and whose cache contains acme.com.
type follower struct {
	t      *testing.T
	e      *projectionstest.Env // of the folding node
	n      *projectionstest.Env
	m      *Model
	runner *engine.Runner
}

func newFollower(t *testing.T) *follower {
	e := projectionstest.OpenPostgres(t)
	r, _ := e.Start(engine.Config{}, newModel(t, e, Config{}))
	e.Events("brand-acme.com", at, imported("acme.com", "Old"))
	e.CatchUp(r)
	n := e.Node()
	f := &follower{t: t, e: e, n: n, m: newModel(t, n, Config{})}
	f.runner, _ = n.Start(engine.Config{FollowOnly: true}, f.m)
	n.CatchUp(f.runner)
	f.answers("Old")
	return f
}

func (f *follower) answers(want string) {
	f.t.Helper()
	if got := nameOf(f.t, f.m, "acme.com"); got != want {
		f.t.Errorf("the node answers %s, want %s", got, want)
	}
}

// reads returns the number of queries for rows and for changes so far.
func (f *follower) reads() [2]float64 {
	f.t.Helper()
	var counts [2]float64
	for i, c := range []prometheus.Counter{f.m.metrics.rows, f.m.metrics.changes} {
		var m dto.Metric
		testmust.Succeed(f.t, c.Write(&m))
		counts[i] = m.GetCounter().GetValue()
	}
	return counts
}

func (f *follower) head() eventlog.Position {
	f.t.Helper()
	head := testmust.Get(f.e.Log.Head(f.t.Context()))(f.t)
	return head
}

func (f *follower) folded(upTo eventlog.Position) {
	f.t.Helper()
	testmust.Succeed(f.t, f.runner.WaitFor(f.n.Context(), Name, upTo))
}

// The node's own reader has seen all folded events, so a record that did not change is not read again, neither by
// domain nor by id.
func TestGet_UnchangedRecord_ReadsNothing(t *testing.T) {
	f := newFollower(t)
	testmust.Succeed(t, testmust.Err(f.m.ByID(t.Context(), brand.ID("acme.com"))))
	before := f.reads()
	for range 5 {
		head := f.head()
		f.m.Event("other.com", head+1) // like the reader, which may see an event before it is folded
		f.m.Followed(head, head+1)
		f.folded(f.e.Events("brand-other.com", at, imported("other.com", "Other")))
		f.answers("Old")
		if entry, err := f.m.ByID(t.Context(), brand.ID("acme.com")); err != nil || entry.Domain != "acme.com" {
			t.Fatal(entry, err)
		}
	}
	if after := f.reads(); after != before {
		t.Errorf("rows and changes were read %v times, want %v", after, before)
	}
}

// After the reader has seen an event and before it is folded, the row is read and not cached.
// Rule 7.
func TestGet_ChangeNotFoldedYet_RowIsNotCached(t *testing.T) {
	f := newFollower(t)
	head := f.head()
	f.m.Event("acme.com", head+1)
	f.m.Followed(head, head+1)
	before := f.reads()
	for range 3 {
		f.answers("Old")
	}
	if after := f.reads(); after[0] != before[0]+3 {
		t.Errorf("three look-ups read %v rows", after[0]-before[0])
	}
	f.folded(f.e.Events("brand-acme.com", at, overridden("New")))
	before = f.reads()
	for range 3 {
		f.answers("New")
	}
	if after := f.reads(); after[0] > before[0]+1 || after[1] != before[1] {
		t.Errorf("after the fold three look-ups read %v rows", after[0]-before[0])
	}
	f.m.Event("acme.com", head+1) // a reader that is behind sees an event that the row includes
	before = f.reads()
	if f.answers("New"); f.reads() != before {
		t.Error("an event that the row already contains evicted it from the cache")
	}
}

// If the reader is behind or misses a part of the log, the changes are read from the tables.
// Rule 7.
func TestInvalidate_ReaderIsBehind_ReadsChangesFromDatabase(t *testing.T) {
	f := newFollower(t)
	for i, name := range []string{"One", "Two", "Three"} {
		head := f.head()
		switch i {
		case 1: // the reader ends before the event
			f.m.Followed(head-1, head)
		case 2: // the reader begins after the event
			f.m.Followed(head+1, head+2)
		}
		before := f.reads()
		f.folded(f.e.Events("brand-acme.com", at, overridden(name)))
		f.answers(name)
		if after := f.reads(); after[1] == before[1] {
			t.Errorf("%s: the changes were not read", name)
		}
	}
}

// A node that follows the log but cannot read the table of generations for long reads the row.
// Rule 7.
func TestGet_NodeCannotPoll_ReadsRow(t *testing.T) {
	f := newFollower(t)
	f.m.now = func() time.Time { return time.Now().Add(maxUnseen) }
	before := f.reads()
	for range 3 {
		f.answers("Old")
	}
	if after := f.reads(); after[0] != before[0]+3 {
		t.Errorf("three look-ups read %v rows", after[0]-before[0])
	}
}

// The tail of the brand streams keeps the cache current for all kinds of events: after WaitFor the node answers the
// last folded state, and no withdrawn brand.
// Rule 7.
func TestTail_KeepsCacheCurrent(t *testing.T) {
	f := newFollower(t)
	tail := testmust.Get(brandwatch.New(t.Context(), brandwatch.Config{Follower: f.m}, f.n.Log))(t)
	ctx, stop := context.WithCancel(f.n.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() {
		if err := tail.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{"One", "Two", "Three", "Four", "Five", "Six"} {
		last := f.e.Events("brand-acme.com", at, overridden(name))
		f.e.Events("brand-other.com", at, imported("other.com", "Other"))
		f.folded(last)
		f.answers(name)
		f.answers(name)
	}
	f.folded(f.e.Events("brand-acme.com", at, eventschemas.BrandWithdrawn{Reason: "r"}))
	if _, err := f.m.Get(t.Context(), "acme.com"); err == nil {
		t.Error("Get returns a withdrawn brand")
	}
	if _, err := f.m.ByID(t.Context(), brand.ID("acme.com")); err == nil {
		t.Error("ByID returns a withdrawn brand")
	}
}
