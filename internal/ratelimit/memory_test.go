package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/internal/ratelimit"
	"letterhead/internal/testmust"
)

func newMemory(t testing.TB, cfg ratelimit.Config) *ratelimit.Memory {
	t.Helper()
	return ratelimit.NewMemory(cfg)
}

func TestMemory_Windows_FollowTheProcessClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, ratelimit.Config{})
		d := take(t, m, acme, 1, 1)
		time.Sleep(d.RetryAfter(time.Now()))
		if again := take(t, m, acme, 1, 1); !again.Allowed {
			t.Fatalf("after RetryAfter: %+v", again)
		}
	})
}

func TestRetryAfter_RoundsUpToWholeSeconds(t *testing.T) {
	d := ratelimit.Decision{Reset: noon}
	for _, c := range []struct{ before, want time.Duration }{
		{40 * time.Second, 40 * time.Second},
		{39*time.Second + time.Millisecond, 40 * time.Second},
		{time.Second + 1, 2 * time.Second},
		{time.Second, time.Second},
		{time.Millisecond, time.Second},
		{0, time.Second},
		{-time.Hour, time.Second},
	} {
		if got := d.RetryAfter(noon.Add(-c.before)); got != c.want {
			t.Errorf("%s before the end: retry after %s, want %s", c.before, got, c.want)
		}
	}
}

func TestMemory_OldWindows_AreDropped(t *testing.T) {
	c := newClock(noon)
	m := newMemory(t, ratelimit.Config{Now: c.now})
	const keys = 20000
	touch := func() {
		for i := range keys {
			take(t, m, ratelimit.Key{Scope: "requests", ID: fmt.Sprint(c.now().Minute(), "-", i)}, 1, 1)
		}
	}
	for range 3 {
		touch()
		c.add(time.Minute)
	}
	if n := m.Keys(); n != keys {
		t.Fatalf("%d keys are kept after three minutes of %d different keys each", n, keys)
	}
}

func TestMemory_TooManyKeys_RejectsNewOnes(t *testing.T) {
	m := newMemory(t, ratelimit.Config{Now: newClock(noon).now, MaxKeys: 64})
	take(t, m, acme, 1, 1000)
	var rejected int
	for i := range 1000 {
		_, err := m.Take(t.Context(), ratelimit.Key{Scope: "requests", ID: fmt.Sprint(i)}, 1, 1)
		if errors.Is(err, ratelimit.ErrUnavailable) {
			rejected++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if n := m.Keys(); n > 64 || rejected < 1000-64 {
		t.Fatalf("%d keys kept, %d rejected, with a bound of 64", n, rejected)
	}
	if d := take(t, m, acme, 1, 1000); !d.Allowed {
		t.Fatal("an existing key was rejected")
	}
}

// A client with many IP addresses must not affect the counters of accounts.
func TestMemory_FloodOfOneScope_KeepsOtherScopes(t *testing.T) {
	c := newClock(noon)
	m := newMemory(t, ratelimit.Config{Now: c.now, MaxKeys: 64})
	flood := func() (rejected int) {
		for i := range 1000 {
			if _, err := m.Take(t.Context(), ratelimit.Key{Scope: "addresses", ID: fmt.Sprint(i)}, 1, 1); errors.Is(err, ratelimit.ErrUnavailable) {
				rejected++
			}
		}
		return rejected
	}
	if n := flood(); n < 1000-64 {
		t.Fatalf("%d of 1000 addresses rejected, with a bound of 64", n)
	}
	// One key per scope and shard always fits.
	if d := take(t, m, acme, 1, 1); !d.Allowed {
		t.Fatal("after a flood of addresses, a request of an account was rejected")
	}
	given := ratelimit.Key{Scope: "addresses", ID: "given back"}
	for range 1000 { // a dropped key makes room for exactly one other
		if d, err := m.Take(t.Context(), given, 1, 1); err == nil {
			testmust.Succeed(t, m.Give(t.Context(), given, 1, d))
			testmust.Succeed(t, m.Give(t.Context(), given, 1, d))
		}
	}
	if n := flood(); m.Keys() > 65 || n == 0 {
		t.Fatalf("%d keys, %d rejected", m.Keys(), n)
	}
	c.add(time.Minute)
	if n := flood(); n < 1000-64 || m.Keys() > 65 {
		t.Fatalf("in the next minute %d keys were rejected and %d are kept", n, m.Keys())
	}
}

func BenchmarkTake(b *testing.B) {
	m := newMemory(b, ratelimit.Config{})
	keys := make([]ratelimit.Key, 1000)
	for i := range keys {
		keys[i] = ratelimit.Key{Scope: "requests", ID: fmt.Sprint("account-", i)}
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		i := 0
		for pb.Next() {
			testmust.Succeed(b, testmust.Err(m.Take(context.Background(), keys[i%len(keys)], 1, 1<<40)))
			i++
		}
	})
}
