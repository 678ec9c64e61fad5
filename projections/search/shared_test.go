package search_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/internal/searchindex"
	"letterhead/internal/searchindex/elastic"
	"letterhead/internal/testmust"
	"letterhead/internal/testservices"
	"letterhead/projections/search"
)

// leads always leads; follows never does.
func leads(ctx context.Context, _ string, do func(context.Context) error) error { return do(ctx) }

func follows(ctx context.Context, _ string, _ func(context.Context) error) error {
	<-ctx.Done()
	return nil
}

type leadership = func(context.Context, string, func(context.Context) error) error

// nodes are the processes of a cluster.
type nodes struct {
	t        *testing.T
	table    *table
	open     func() searchindex.Index
	accepted string // the last restore of the log
}

// node starts a process.
func (n nodes) node(lead leadership) (p *search.Projection, stop func()) {
	n.t.Helper()
	p, err := search.New(n.t.Context(), search.Config{Lead: lead, Log: n.table, Accepted: n.accepted, Poll: 5 * time.Millisecond}, n.table, n.open())
	if err != nil {
		n.t.Fatal(err)
	}
	return p, run(n.t, p)
}

// onShared runs a test on an index in memory, and on a real cluster if one is configured.
func onShared(t *testing.T, test func(t *testing.T, n nodes)) {
	t.Run("memory", func(t *testing.T) {
		m := &memory{}
		test(t, nodes{t: t, table: &table{}, open: func() searchindex.Index { return m.open() }})
	})
	t.Run("elasticsearch", func(t *testing.T) {
		server, alias := testservices.Elasticsearch(t), fmt.Sprintf("test-%016x", rand.Uint64())
		cfg := elastic.Config{URL: server + "?replicas=0&alias=" + alias}
		t.Cleanup(func() { wipe(t, server, alias) })
		test(t, nodes{t: t, table: &table{}, open: func() searchindex.Index {
			x := testmust.Get(elastic.Open(context.Background(), cfg))(t)
			t.Cleanup(func() { x.Close() })
			return x
		}})
	})
}

func waits(t *testing.T, p *search.Projection, at eventlog.Position) {
	t.Helper()
	if err := p.WaitFor(minuteContext(t), at); err != nil {
		t.Fatalf("wait for %d: %v", at, err)
	}
}

func first(t *testing.T, p *search.Projection, q string) string {
	t.Helper()
	hits := testmust.Get(p.Search(t.Context(), q, 1))(t)
	if len(hits) == 0 {
		return ""
	}
	return hits[0].Name
}

func TestFollower_LeaderFeeds_ReportsPosition(t *testing.T) {
	onShared(t, func(t *testing.T, n nodes) {
		leader, stop := n.node(leads)
		defer stop()
		follower, stop := n.node(follows)
		defer stop()
		at := n.table.change("acme.com", "Acme")
		waits(t, follower, at)
		if got := first(t, follower, "acme"); got != "Acme" {
			t.Errorf("the follower found %q, want Acme", got)
		}
		// No brand changes: the index's checkpoint is unchanged.
		waits(t, follower, n.table.pass(100))
		at = n.table.change("acme.com", "Other")
		waits(t, follower, at)
		if got := first(t, follower, "other"); got != "Other" {
			t.Errorf("the follower found %q, want Other", got)
		}
		at = n.table.pass(3)
		if got, err := follower.Current(t.Context()); err != nil || got != at {
			t.Errorf("Current = %d, %v, want %d", got, err, at)
		}
		waits(t, leader, at)
		if !leader.Feeding() || follower.Feeding() {
			t.Errorf("leader feeds: %t, follower feeds: %t; want only the leader", leader.Feeding(), follower.Feeding())
		}
		for _, p := range []*search.Projection{leader, follower} {
			if v, err := p.Verify(minuteContext(t)); err != nil || !v.OK() || v.Rows != 1 {
				t.Errorf("Verify = %+v, %v, want one equal row", v, err)
			}
		}
	})
}

func TestFeeder_Stops_AnotherNodeTakesOver(t *testing.T) {
	onShared(t, func(t *testing.T, n nodes) {
		turn := make(chan struct{})
		_, stopFirst := n.node(leads)
		second, stop := n.node(func(ctx context.Context, name string, do func(context.Context) error) error {
			select {
			case <-turn:
				return do(ctx)
			case <-ctx.Done():
				return nil
			}
		})
		defer stop()
		waits(t, second, n.table.change("acme.com", "Acme"))
		stopFirst()
		at := n.table.change("other.com", "Other")
		soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := second.WaitFor(soon, at); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("WaitFor without a feeder: %v, want %v", err, context.DeadlineExceeded)
		}
		close(turn)
		waits(t, second, at)
		if got := first(t, second, "other"); got != "Other" {
			t.Errorf("the second feeder found %q, want Other", got)
		}
	})
}

// Rule 8.
func TestTwoFeeders_LoseNothing(t *testing.T) {
	onShared(t, func(t *testing.T, n nodes) {
		a, stop := n.node(leads)
		defer stop()
		b, stop := n.node(leads)
		defer stop()
		var at eventlog.Position
		for i := range 60 {
			at = n.table.change(fmt.Sprintf("site%d.com", i%17), fmt.Sprintf("Site %d", i))
		}
		for _, p := range []*search.Projection{a, b} {
			waits(t, p, at)
			if v, err := p.Verify(minuteContext(t)); err != nil || !v.OK() || v.Rows != 17 {
				t.Errorf("Verify = %+v, %v, want 17 equal rows", v, err)
			}
		}
	})
}

// Brands change continuously. After WaitFor a change is searchable, even while one generation replaces another.
// Rule 8.
func TestRebuild_OnAnyNode_WhileLeaderFeeds(t *testing.T) {
	onShared(t, func(t *testing.T, n nodes) {
		leader, stop := n.node(leads)
		defer stop()
		rebuilder, stop := n.node(follows)
		defer stop()
		waits(t, leader, n.table.change("first.com", "First")) // the leader has filled the new index
		for i := range 1500 {                                  // more than one batch
			n.table.change(fmt.Sprintf("old%d.com", i), "Old")
		}
		done := make(chan struct{})
		var changing sync.WaitGroup
		changing.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				domain := fmt.Sprintf("new%d.com", i)
				for _, p := range []*search.Projection{leader, rebuilder} {
					at := n.table.change(domain, fmt.Sprintf("New %d", i))
					waits(t, p, at)
					if got, want := first(t, p, domain), fmt.Sprintf("New %d", i); got != want {
						t.Errorf("waited for position %d and found %q, want %q", at, got, want)
					}
				}
			}
		})
		for _, p := range []*search.Projection{rebuilder, leader, rebuilder} {
			if err := p.Rebuild(minuteContext(t)); err != nil {
				t.Error(err)
			}
			if v, err := p.Verify(minuteContext(t)); err != nil || !v.OK() || v.Rows < 1500 {
				t.Errorf("Verify = %+v, %v, %v, want at least 1,500 equal rows", v, v.Difference, err)
			}
		}
		close(done)
		changing.Wait()
		waits(t, leader, n.table.change("last.com", "Last"))
		if got := first(t, rebuilder, "last.com"); got != "Last" {
			t.Errorf("the leader no longer feeds after the rebuilds: %q", got)
		}
	})
}

func TestVerify_SharedIndex_ReportsDifferences(t *testing.T) {
	onShared(t, func(t *testing.T, n nodes) {
		leader, stop := n.node(leads)
		waits(t, leader, n.table.change("acme.com", "Old"))
		stop()
		at := n.table.change("acme.com", "Acme")
		follower, stop := n.node(follows)
		defer stop()
		// No process leads, so Verify feeds missing changes.
		if v, err := follower.Verify(minuteContext(t)); err != nil || !v.OK() || v.Position != at {
			t.Fatalf("Verify = %+v, %v", v, err)
		}
		x := n.open()
		for _, d := range []searchindex.Document{
			{Domain: "extra.com", Name: "Extra", Version: 1},
			{Domain: "future.com", Name: "Future", Version: 1 << 40},
		} {
			err := x.Apply(t.Context(), []searchindex.Document{d}, 0)
			if errors.Is(err, searchindex.ErrReplaced) {
				err = x.Apply(t.Context(), []searchindex.Document{d}, 0)
			}
			testmust.Succeed(t, err)
			if v, err := follower.Verify(minuteContext(t)); err != nil || v.OK() || v.Difference.Key != d.Domain {
				t.Errorf("%s: verified %+v, %v", d.Domain, v, err)
			}
			testmust.Succeed(t, follower.Rebuild(minuteContext(t)))
			if v, err := follower.Verify(minuteContext(t)); err != nil || !v.OK() {
				t.Errorf("rebuilt without %s: verified %+v, %v, want no difference", d.Domain, v, err)
			}
		}
	})
}

func TestNew_SharedIndexUnavailable_Starts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, broken := &memory{}, errors.New("cluster is unavailable")
		m.away = broken
		n := nodes{t: t, table: &table{}, open: func() searchindex.Index { return m.open() }}
		leader, stop := n.node(leads)
		defer stop()
		follower, stop := n.node(follows)
		defer stop()
		at := n.table.change("acme.com", "Acme")
		soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		for _, p := range []*search.Projection{leader, follower} {
			if err := p.WaitFor(soon, at); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, broken) {
				t.Errorf("WaitFor with an unavailable cluster: %v", err)
			}
		}
		m.mu.Lock()
		m.away = nil
		m.mu.Unlock()
		waits(t, leader, at)
		waits(t, follower, at)
		if leader.Err() != nil || follower.Err() != nil {
			t.Errorf("afterwards: %v, %v, want no errors", leader.Err(), follower.Err())
		}
	})
}

func TestWaitFor_ManyWaiters_OnePolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiters = 50
		m := &memory{}
		n := nodes{t: t, table: &table{}, open: func() searchindex.Index { return m.open() }}
		p := testmust.Get(search.New(t.Context(), search.Config{Lead: follows, Poll: 100 * time.Millisecond}, n.table, n.open()))(t)
		n.table.change("acme.com", "Acme")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var group sync.WaitGroup
		for range waiters {
			group.Go(func() {
				if err := p.WaitFor(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("wait: %v, want %v", err, context.DeadlineExceeded)
				}
			})
		}
		group.Wait()
		if m.asked < 9 || m.asked > 10+waiters {
			t.Errorf("the index got %d requests in a second, want about ten in all, not ten for each waiter", m.asked)
		}
	})
}

// aheadBy runs a leader on an index that is past the end of the log known to the node, and returns the
// index's checkpoint after a minute. learn is called after some seconds.
func aheadBy(t *testing.T, learn func(*table, *memory)) uint64 {
	m := &memory{docs: map[string]searchindex.Document{"acme.com": {Domain: "acme.com", Name: "Acme", Version: 50}}, checkpoint: 50}
	synctest.Test(t, func(t *testing.T) {
		n := nodes{t: t, table: &table{}, open: func() searchindex.Index { return m.open() }}
		n.table.change("log.com", "Of the log")
		p := testmust.Get(search.New(t.Context(), search.Config{Lead: leads, Log: n.table}, n.table, n.open()))(t)
		stop := run(t, p)
		time.Sleep(3 * time.Second) // of the test's virtual clock
		learn(n.table, m)
		time.Sleep(time.Minute)
		stop()
	})
	return m.checkpoint
}

func TestSharedIndex_PastLog_IsKept(t *testing.T) {
	at := aheadBy(t, func(s *table, _ *memory) { s.pass(49) })
	if at != 50 {
		t.Errorf("index position is %d, want 50, unchanged", at)
	}
	at = aheadBy(t, func(s *table, m *memory) { // another node feeds the index, and this one sees the events later
		for range 20 {
			m.mu.Lock()
			m.checkpoint++
			m.mu.Unlock()
			time.Sleep(3 * time.Second)
		}
		s.pass(100)
	})
	if at < 70 {
		t.Errorf("index position is %d, want at least the other node's 70", at)
	}
	at = aheadBy(t, func(*table, *memory) {})
	if at != 50 {
		t.Errorf("the index of another log is at %d, want 50 as before", at)
	}
}

func wipe(t *testing.T, server, alias string) {
	t.Helper()
	for _, name := range elasticNames(t, server, alias) {
		call(t, "DELETE", server+"/"+name)
	}
	call(t, "DELETE", server+"/_index_template/"+alias+"_v1")
}
