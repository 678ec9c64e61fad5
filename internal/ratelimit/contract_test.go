package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"letterhead/internal/ratelimit"
	"letterhead/internal/sqlstore"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/internal/testmust"
)

// The tests of this file are the contract of every implementation of Counters.

// clock is a clock that a test sets.
type clock struct {
	at    atomic.Int64
	moved func(time.Time) // sets the database's clock
}

func newClock(t time.Time) *clock {
	c := &clock{}
	c.set(t)
	return c
}

func (c *clock) set(t time.Time) {
	c.at.Store(t.UnixNano())
	if c.moved != nil {
		c.moved(t)
	}
}
func (c *clock) add(d time.Duration) { c.set(c.now().Add(d)) }
func (c *clock) now() time.Time      { return time.Unix(0, c.at.Load()) }

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

var acme = ratelimit.Key{Scope: "requests", ID: "acme"}

// each runs a test with every implementation of Counters. The clock starts at noon.
func each(t *testing.T, test func(t *testing.T, m ratelimit.Counters, c *clock)) {
	t.Run("memory", func(t *testing.T) {
		c := newClock(noon)
		test(t, newMemory(t, ratelimit.Config{Now: c.now}), c)
	})
	t.Run("shared", func(t *testing.T) {
		_, store, c := newDatabase(t)
		test(t, newShared(t, store, c), c)
	})
}

// newDatabase returns a database with the test's clock, and the configuration with which other nodes open it.
func newDatabase(t testing.TB) (sqlstore.Config, *sqlstore.Store, *clock) {
	t.Helper()
	cfg := sqlstoretest.WithClock(t, sqlstoretest.Postgres(t))
	store := sqlstoretest.Open(t, cfg)
	c := &clock{moved: func(at time.Time) { sqlstoretest.SetClock(t, store, at) }}
	c.set(noon)
	return cfg, store, c
}

// newShared uses the clock of the database, or real time if it is nil.
func newShared(t testing.TB, store *sqlstore.Store, c *clock) *ratelimit.Shared {
	t.Helper()
	var cfg ratelimit.SharedConfig
	if c != nil {
		cfg.Now = c.now
	}
	m := testmust.Get(ratelimit.NewShared(t.Context(), cfg, store))(t)
	t.Cleanup(m.Close)
	return m
}

func take(t testing.TB, m ratelimit.Counters, key ratelimit.Key, units, limit int64) ratelimit.Decision {
	t.Helper()
	d := testmust.Get(m.Take(t.Context(), key, units, limit))(t)
	return d
}

// Rule 10.
func TestTake_SixtyFirstRequestOfAMinute_Rejected(t *testing.T) {
	each(t, func(t *testing.T, m ratelimit.Counters, c *clock) {
		c.set(noon.Add(20 * time.Second))
		for i := int64(1); i <= 60; i++ {
			d := take(t, m, acme, 1, 60)
			if !d.Allowed || d.Remaining != 60-i || d.Limit != 60 {
				t.Fatalf("request %d: %+v", i, d)
			}
		}
		d := take(t, m, acme, 1, 60)
		if d.Allowed || d.Remaining != 0 {
			t.Fatalf("request 61: %+v", d)
		}
		if want := noon.Add(time.Minute); !d.Reset.Equal(want) {
			t.Fatalf("window ends at %s, want the whole minute %s", d.Reset, want)
		}
		if got := d.RetryAfter(c.now()); got != 40*time.Second {
			t.Fatalf("retry after %s, want 40s", got)
		}
	})
}

func TestWindow_EndsOnTheWholeMinute(t *testing.T) {
	each(t, func(t *testing.T, m ratelimit.Counters, c *clock) {
		c.set(noon.Add(59*time.Second + 999*time.Millisecond))
		take(t, m, acme, 1, 1)
		if d := take(t, m, acme, 1, 1); d.Allowed {
			t.Fatal("a second unit was allowed in one window with a limit of one")
		}
		c.add(time.Millisecond)
		if d := take(t, m, acme, 1, 1); !d.Allowed || !d.Reset.Equal(noon.Add(2*time.Minute)) {
			t.Fatalf("the next window: %+v", d)
		}
	})
}

func TestTake_HigherLimit_CountsImmediately(t *testing.T) {
	each(t, func(t *testing.T, m ratelimit.Counters, _ *clock) {
		take(t, m, acme, 1, 1)
		if d := take(t, m, acme, 1, 1); d.Allowed {
			t.Fatal("two units were allowed with a limit of one")
		}
		if d := take(t, m, acme, 1, 3); !d.Allowed || d.Remaining != 1 {
			t.Fatalf("after the upgrade: %+v", d)
		}
		if d := take(t, m, acme, 1, 1); d.Allowed || d.Remaining != 0 {
			t.Fatalf("after the downgrade: %+v", d)
		}
	})
}

func TestTake_SeveralUnits_AllOrNone(t *testing.T) {
	each(t, func(t *testing.T, m ratelimit.Counters, _ *clock) {
		take(t, m, acme, 7, 10)
		if d := take(t, m, acme, 4, 10); d.Allowed || d.Remaining != 3 {
			t.Fatalf("four of three: %+v", d)
		}
		if d := take(t, m, acme, 3, 10); !d.Allowed || d.Remaining != 0 {
			t.Fatalf("three of three: %+v", d)
		}
	})
}

func TestGive_ReturnedUnits_CountInTheirWindowOnly(t *testing.T) {
	each(t, func(t *testing.T, m ratelimit.Counters, c *clock) {
		d := take(t, m, acme, 1, 1)
		testmust.Succeed(t, m.Give(t.Context(), acme, 1, d))
		d = take(t, m, acme, 1, 1)
		if !d.Allowed {
			t.Fatal("the returned unit is missing")
		}
		c.add(time.Minute)
		take(t, m, acme, 1, 1)
		testmust.Succeed(t, m.Give(t.Context(), acme, 1, d))
		if again := take(t, m, acme, 1, 1); again.Allowed {
			t.Fatal("a unit of the previous window was returned to this one")
		}
		rejected := take(t, m, acme, 1, 1)
		testmust.Succeed(t, m.Give(t.Context(), acme, 1, rejected))
		if again := take(t, m, acme, 1, 1); again.Allowed {
			t.Fatal("Give returned units of a rejected Take")
		}
	})
}

// Rule 10.
func TestTake_ClockStepsBack_OpensNoSecondWindow(t *testing.T) {
	each(t, func(t *testing.T, m ratelimit.Counters, c *clock) {
		take(t, m, acme, 1, 1)
		c.add(-30 * time.Second)
		if d := take(t, m, acme, 1, 1); d.Allowed {
			t.Fatal("stepping back into the previous minute allowed another unit")
		}
		c.add(40 * time.Second)
		if d := take(t, m, acme, 1, 1); d.Allowed {
			t.Fatal("stepping forward again allowed another unit in the same minute")
		}
	})
}

func TestTake_ClockWasYearsAhead_CountsAfterCorrection(t *testing.T) {
	each(t, func(t *testing.T, m ratelimit.Counters, c *clock) {
		c.set(noon.AddDate(10, 0, 0))
		take(t, m, acme, 1, 1)
		c.set(noon)
		if d := take(t, m, acme, 1, 1); !d.Allowed || !d.Reset.Equal(noon.Add(time.Minute)) {
			t.Fatalf("after the clock was corrected: %+v", d)
		}
	})
}

func TestTake_InvalidCall_TakesNothing(t *testing.T) {
	each(t, func(t *testing.T, m ratelimit.Counters, _ *clock) {
		for _, c := range []struct{ units, limit int64 }{{0, 1}, {-1, 1}, {1, -1}} {
			if _, err := m.Take(t.Context(), acme, c.units, c.limit); !errors.Is(err, ratelimit.ErrInvalid) {
				t.Errorf("take(%d, %d): %v, want ErrInvalid", c.units, c.limit, err)
			}
		}
		if err := m.Give(t.Context(), acme, 0, ratelimit.Decision{}); !errors.Is(err, ratelimit.ErrInvalid) {
			t.Errorf("give of nothing: %v, want ErrInvalid", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := m.Take(ended, acme, 1, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("take with a canceled context: %v, want Canceled", err)
		}
		if d := take(t, m, acme, 1, 1); !d.Allowed {
			t.Error("an invalid call took the only unit")
		}
	})
}

// Rule 10.
func TestTake_ConcurrentCallers_GetExactlyTheLimit(t *testing.T) {
	each(t, func(t *testing.T, m ratelimit.Counters, _ *clock) {
		const callers, each, limit = 16, 500, 777
		var allowed atomic.Int64
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range each {
					if d, err := m.Take(t.Context(), acme, 1, limit); err == nil && d.Allowed {
						allowed.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if n := allowed.Load(); n != limit {
			t.Fatalf("%d units were allowed, want exactly %d", n, limit)
		}
	})
}

// TestTake_AnySequence_AgreesWithTheModel runs random sequences of takes, returns and clock changes against
// a model that keeps every window separately.
// Rule 10.
func TestTake_AnySequence_AgreesWithTheModel(t *testing.T) {
	each(t, func(t *testing.T, m ratelimit.Counters, c *clock) {
		round := 0
		rapid.Check(t, func(t *rapid.T) {
			type cell struct {
				key    ratelimit.Key
				window int64
			}
			round++
			c.add(10 * time.Minute)
			used := map[cell]int64{}
			given := map[cell][]ratelimit.Decision{}
			key := rapid.Custom(func(t *rapid.T) ratelimit.Key {
				return ratelimit.Key{
					Scope: rapid.SampledFrom([]string{"requests", "crawls"}).Draw(t, "scope"),
					ID:    fmt.Sprint(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "id"), round),
				}
			})
			t.Repeat(map[string]func(*rapid.T){
				"take": func(t *rapid.T) {
					k, units, limit := key.Draw(t, "key"), rapid.Int64Range(1, 4).Draw(t, "units"), rapid.Int64Range(0, 6).Draw(t, "limit")
					at := cell{k, c.now().Unix() / 60}
					d := testmust.Get(m.Take(context.Background(), k, units, limit))(t)
					want := used[at]+units <= limit
					if want {
						used[at] += units
						if units == 1 {
							given[at] = append(given[at], d)
						}
					}
					if d.Allowed != want || d.Remaining != max(0, limit-used[at]) || d.Reset.Unix() != (at.window+1)*60 {
						t.Fatalf("take %d below %d with %d used: %+v", units, limit, used[at], d)
					}
				},
				"give": func(t *rapid.T) {
					at := cell{key.Draw(t, "key"), c.now().Unix() / 60}
					if len(given[at]) == 0 {
						return
					}
					testmust.Succeed(t, m.Give(context.Background(), at.key, 1, given[at][0]))
					given[at] = given[at][1:]
					used[at]--
				},
				"time passes": func(t *rapid.T) {
					c.add(time.Duration(rapid.Int64Range(0, int64(90*time.Second)).Draw(t, "by")))
				},
			})
		})
	})
}
