package ratelimit_test

import (
	"testing"
	"time"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/ratelimit"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
)

// counting opens a node, and returns a function that returns the number of its statements.
func counting(t *testing.T, store *sqlstore.Store, c *clock) (m *ratelimit.Shared, statements func() int) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	m, err := ratelimit.NewShared(t.Context(), ratelimit.SharedConfig{Now: c.now, Registerer: registry}, store)
	testmust.Succeed(t, err)
	t.Cleanup(m.Close)
	return m, func() (n int) {
		families, err := registry.Gather()
		testmust.Succeed(t, err)
		for _, f := range families {
			if f.GetName() == "letterhead_ratelimit_statements_total" {
				n = int(f.Metric[0].Counter.GetValue())
			}
		}
		return n
	}
}

func TestBlocks_BusyCounterFarFromLimit_NeedsFewStatements(t *testing.T) {
	cfg, store, c := newDatabase(t)
	m, statements := counting(t, store, c)
	const requests, limit = 50, 3000
	for i := int64(1); i <= requests; i++ {
		if d := take(t, m, acme, 1, limit); !d.Allowed || d.Remaining != limit-i || !d.Reset.Equal(noon.Add(time.Minute)) {
			t.Fatalf("request %d: %+v", i, d)
		}
	}
	if n := statements(); n > 9 {
		t.Errorf("%d requests took %d statements, want at most 9", requests, n)
	}
	m.GiveBlocks(t.Context())
	if d := take(t, openNode(t, cfg, c), acme, 1, limit); d.Remaining != limit-requests-1 {
		t.Errorf("after the block was returned: %+v, want %d remaining", d, limit-requests-1)
	}
}

// Rule 10.
func TestBlocks_SmallLimitOrFewUnitsLeft_AreNotUsed(t *testing.T) {
	_, store, c := newDatabase(t)
	m, statements := counting(t, store, c)
	for range 60 {
		take(t, m, acme, 1, 60)
	}
	if n := statements(); n != 60 {
		t.Errorf("60 requests with limit 60 took %d statements, want 60", n)
	}
	if n := m.Blocks(); n != 0 {
		t.Errorf("%d blocks in use with limit 60, want 0", n)
	}
	near := ratelimit.Key{Scope: "requests", ID: "near"}
	take(t, m, near, 2870, 3000)
	before := statements()
	for range 130 {
		take(t, m, near, 1, 3000)
	}
	if n := statements() - before; n < 126 { // a few units may still come from a block
		t.Errorf("the last 130 units took %d statements, want at least 126", n)
	}
}

// Rule 10.
func TestBlocks_WindowEnds_UnitsExpire(t *testing.T) {
	_, store, c := newDatabase(t)
	m, statements := counting(t, store, c)
	const limit = 3000
	c.add(58 * time.Second)
	for range 20 {
		take(t, m, acme, 1, limit)
	}
	for _, step := range []struct {
		by                time.Duration
		remaining, atMost int64
	}{
		{1850 * time.Millisecond, limit - 21, 0}, // from the block
		{60 * time.Millisecond, limit - 22, 1},   // too close to the end
		{90 * time.Millisecond, limit - 1, 1},    // the next window
	} {
		c.add(step.by)
		before := statements()
		d := take(t, m, acme, 1, limit)
		if n := int64(statements() - before); !d.Allowed || d.Remaining != step.remaining || n > step.atMost {
			t.Errorf("at %s: %+v with %d statements, want %d remaining with at most %d", c.now().UTC(), d, n, step.remaining, step.atMost)
		}
	}
}

// afterSuspension returns a clock reading after the machine was suspended for d: only the wall clock has advanced. The
// time package cannot produce such a Time.
func afterSuspension(t *testing.T, before time.Time, d time.Duration) time.Time {
	t.Helper()
	after := before.Add(d)
	monotonic := (*struct {
		wall uint64
		ext  int64
		loc  *time.Location
	})(unsafe.Pointer(&after))
	monotonic.ext -= int64(d)
	if after.Sub(before) != 0 || after.Round(0).Sub(before.Round(0)) != d {
		t.Fatalf("the layout of time.Time has changed: got %s after %s", after, before)
	}
	return after
}

func TestBlocks_MachineWasSuspended_UnitsExpire(t *testing.T) {
	_, store, c := newDatabase(t)
	now := time.Now()
	m, err := ratelimit.NewShared(t.Context(), ratelimit.SharedConfig{Now: func() time.Time { return now }}, store)
	testmust.Succeed(t, err)
	t.Cleanup(m.Close)
	const limit = 3000
	for range 20 {
		take(t, m, acme, 1, limit)
	}
	now = afterSuspension(t, now, time.Minute)
	c.add(time.Minute)
	if d := take(t, m, acme, 1, limit); !d.Reset.Equal(noon.Add(2*time.Minute)) || d.Remaining < limit-limit/20 {
		t.Errorf("after a suspension of one minute: %+v, want a unit of the next minute", d)
	}
}

// A node without requests returns its units, so that other nodes do not reject requests.
// Rule 10.
func TestBlocks_IdleNode_AreReturned(t *testing.T) {
	_, store, c := newDatabase(t)
	m, _ := counting(t, store, c)
	const limit = 3000
	for range 20 {
		take(t, m, acme, 1, limit)
	}
	var used int64
	if _, ok := testwait.Until(testwait.Timeout, func() bool {
		testmust.Succeed(t, store.One(t.Context(), `SELECT used FROM ratelimit_counters WHERE id = $1`, []any{acme.ID}, &used))
		return used == 20
	}); !ok {
		t.Errorf("%d units are used, want 20", used)
	}
}
