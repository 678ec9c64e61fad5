package fanout_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/eventlogtest"
	"letterhead/internal/eventlog/fanout"
	"letterhead/internal/testmust"
)

func TestPast_Contract(t *testing.T) {
	eventlogtest.Run(t, func(t *testing.T) eventlog.Log { return fanout.NewPast(folder(t)) })
}

// counting counts the pages that are read from a log.
type counting struct {
	eventlog.Log
	reads atomic.Int64
}

func (c *counting) ReadAll(ctx context.Context, after eventlog.Position, filter eventlog.Filter,
	limit int) (eventlog.Page, error) {
	c.reads.Add(1)
	return c.Log.ReadAll(ctx, after, filter, limit)
}

// past returns a log of some pages, which are no longer in the memory of the log.
func past(t *testing.T, events int) (*fanout.Past, *counting) {
	t.Helper()
	log := folder(t)
	t.Cleanup(func() { testmust.Succeed(t, log.Close()) })
	grow(t, log, "account-a", 0, events, 10)
	counted := &counting{Log: log}
	return fanout.NewPast(counted), counted
}

const pageOfPast = 1024

// TestPast_RolesBehindTheEnd_ShareReadsAndDecodings lets roles with and without filters read in turns.
// Rule 6.
func TestPast_RolesBehindTheEnd_ShareReadsAndDecodings(t *testing.T) {
	const pages = 6
	log, counted := past(t, pages*pageOfPast)
	decodings := 0
	decode := func(string, int, []byte) (string, error) { decodings++; return "decoded", nil }
	nothing := eventlog.Filter{EventTypes: []string{"Nothing"}}
	late := follow(t, log, pageOfPast+100, eventlog.Filter{}) // begins within a page
	roles := []*role{late, follow(t, log, 0, eventlog.Filter{}), follow(t, log, 0, nothing),
		follow(t, log, 0, eventlog.Filter{StreamPrefixes: []string{"account-"}})}
	ended := 0
	for seen := map[*role]bool{}; ended < len(roles); {
		for _, r := range roles[1:] {
			batch := testmust.Get(r.sub.Next(t.Context()))(t)
			for i := range batch.Events {
				testmust.Get(eventlog.Decode(&batch.Events[i], decode))(t)
			}
			if r.seen = append(r.seen, make([]string, len(batch.Events))...); batch.Live && !seen[r] {
				seen[r], ended = true, ended+1
			}
		}
		if ended == len(roles)-1 && !seen[late] { // it follows the others through the kept pages
			for !late.live {
				testmust.Succeed(t, late.step(t.Context()))
			}
			seen[late], ended = true, ended+1
		}
	}
	for i, want := range []int{pages*pageOfPast - pageOfPast - 100, pages * pageOfPast, 0, pages * pageOfPast} {
		if n := len(roles[i].seen); n != want {
			t.Errorf("role %d has seen %d events, want %d", i, n, want)
		}
	}
	// The late role alone reads the pages that were dropped after the others had waited for it, and each reads the end.
	if n := counted.reads.Load(); n > int64(2*pages+len(roles)) {
		t.Errorf("the log was read %d times for %d pages and %d roles", n, pages, len(roles))
	}
	if decodings != pages*pageOfPast {
		t.Errorf("%d events were decoded, want each of %d once", decodings, pages*pageOfPast)
	}
}

// TestPast_RoleStops_OthersReachTheEnd stops a role within the kept pages.
// Rule 6.
func TestPast_RoleStops_OthersReachTheEnd(t *testing.T) {
	const pages = 8
	log, counted := past(t, pages*pageOfPast)
	slow, quick := follow(t, log, 0, eventlog.Filter{}), follow(t, log, 0, eventlog.Filter{})
	testmust.Succeed(t, slow.step(t.Context()))
	for !quick.live {
		testmust.Succeed(t, quick.step(t.Context()))
	}
	for !slow.live {
		testmust.Succeed(t, slow.step(t.Context()))
	}
	for _, r := range []*role{slow, quick} {
		if !r.has(pages * pageOfPast) {
			t.Errorf("a role has seen %d events, want %d", len(r.seen), pages*pageOfPast)
		}
	}
	if n := counted.reads.Load(); n < pages {
		t.Errorf("the log was read %d times for %d pages", n, pages)
	}
}

// growing is a log that grows with every page that is read.
type growing struct {
	eventlog.Log
	t *testing.T
	n int
}

func (g *growing) ReadAll(ctx context.Context, after eventlog.Position, filter eventlog.Filter,
	limit int) (eventlog.Page, error) {
	grow(g.t, g.Log, "account-a", g.n, 1, 10)
	g.n++
	return g.Log.ReadAll(ctx, after, filter, limit)
}

func TestPast_LogGrows_RoleReachesTheEnd(t *testing.T) {
	log := &growing{Log: folder(t), t: t}
	t.Cleanup(func() { testmust.Succeed(t, log.Close()) })
	testmust.Get(log.ReadAll(t.Context(), 0, eventlog.Filter{}, 1))(t)
	r := follow(t, fanout.NewPast(log), 0, eventlog.Filter{})
	for range 10 {
		if testmust.Succeed(t, r.step(t.Context())); r.live {
			return
		}
	}
	t.Errorf("not live after %d events, which came one at a time", len(r.seen))
}

// TestPast_LargeEvents_ArePartlyKept has pages that together are larger than what may be kept.
// Rule 6.
func TestPast_LargeEvents_ArePartlyKept(t *testing.T) {
	log := folder(t)
	t.Cleanup(func() { testmust.Succeed(t, log.Close()) })
	const events = 800
	grow(t, log, "account-a", 0, events, 60_000)
	counted := &counting{Log: log}
	p := fanout.NewPast(counted)
	slow, quick := follow(t, p, 0, eventlog.Filter{}), follow(t, p, 0, eventlog.Filter{})
	for !quick.live {
		testmust.Succeed(t, quick.step(t.Context()))
	}
	before := counted.reads.Load()
	for !slow.live {
		testmust.Succeed(t, slow.step(t.Context()))
	}
	if counted.reads.Load() == before {
		t.Error("all pages were kept")
	}
	if !slow.has(events) {
		t.Errorf("a role has seen %d events, want %d", len(slow.seen), events)
	}
}

// hooked calls a function before each page is read.
type hooked struct {
	eventlog.Log
	before func()
}

func (h *hooked) ReadAll(ctx context.Context, after eventlog.Position, filter eventlog.Filter,
	limit int) (eventlog.Page, error) {
	h.before()
	return h.Log.ReadAll(ctx, after, filter, limit)
}

// Rule 6.
func TestPast_LastRoleClosesDuringRead_NothingIsKept(t *testing.T) {
	log := folder(t)
	t.Cleanup(func() { testmust.Succeed(t, log.Close()) })
	grow(t, log, "account-a", 0, 10, 10)
	hook := &hooked{Log: log}
	p := fanout.NewPast(hook)
	sub := testmust.Get(p.Subscribe(t.Context(), 0, eventlog.Filter{}))(t)
	hook.before = func() { testmust.Succeed(t, sub.Close()) }
	if _, err := sub.Next(t.Context()); !errors.Is(err, eventlog.ErrClosed) {
		t.Errorf("Next of a closed subscription: %v", err)
	}
	reads := 0
	hook.before = func() { reads++ }
	if testmust.Succeed(t, follow(t, p, 0, eventlog.Filter{}).step(t.Context())); reads != 1 {
		t.Errorf("the next role read %d pages, want 1", reads)
	}
}
