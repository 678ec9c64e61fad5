package ratelimit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"letterhead/internal/ratelimit"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
)

// crash has the effect of a crash of the database server or a failover to its standby: UNLOGGED tables become empty.
func crash(t rapid.TB, store *sqlstore.Store) {
	t.Helper()
	var n int64
	testmust.Succeed(t, store.One(context.Background(), `WITH a AS (DELETE FROM ratelimit_counters), b AS (DELETE FROM ratelimit_epoch) SELECT 1`, nil, &n))
}

func TestDatabaseCrash_RequestsOfSameMinute_StayWithinLimit(t *testing.T) {
	cfg, store, c := newDatabase(t)
	a, b := openNode(t, cfg, c), openNode(t, cfg, c)
	const limit = 60
	for range 20 {
		take(t, a, acme, 1, limit)
	}
	b.Close() // this node crashed as well
	crash(t, store)
	served := int64(20)
	for i := 0; ; i++ {
		m := []*ratelimit.Shared{a, openNode(t, cfg, c)}[i%2] // including a node that starts after the crash
		d := take(t, m, acme, 1, limit)
		if !d.Allowed {
			break
		}
		served++
	}
	// At most an eighth of the remaining units may be lost.
	if served > limit || served < limit-(limit-20)/8 {
		t.Errorf("%d units were allowed in the minute of the crash, want %d to %d", served, limit-(limit-20)/8, limit)
	}
	quiet := ratelimit.Key{Scope: "requests", ID: "quiet"}
	if d := take(t, a, quiet, 1, limit); !d.Allowed || d.Remaining != limit-4-1 {
		t.Errorf("a counter without a recorded ceiling: %+v, want %d remaining", d, limit-4-1)
	}
	c.add(2 * time.Minute)
	for _, key := range []ratelimit.Key{acme, quiet} {
		if d := take(t, a, key, 1, limit); !d.Allowed || d.Remaining != limit-1 {
			t.Errorf("two minutes after the crash: %+v, want %d remaining", d, limit-1)
		}
	}
}

func TestDatabaseCrash_NearLimit_CountsEveryUnit(t *testing.T) {
	cfg, store, c := newDatabase(t)
	m := openNode(t, cfg, c)
	const limit = 10
	for range 9 {
		take(t, m, acme, 1, limit)
		crash(t, store)
		take(t, m, ratelimit.Key{Scope: "requests", ID: "other"}, 1, 1) // detects the crash
	}
	allowed := 0
	for range 3 {
		if take(t, m, acme, 1, limit).Allowed {
			allowed++
		}
	}
	// The first crash added three units to the count. The other crashes changed nothing.
	if allowed != 0 {
		t.Errorf("%d more units were allowed after nine with limit %d, want 0", allowed, limit)
	}
}

// The clock of the standby that takes over is behind, so its first minute is the one before that of the crash.
func TestDatabaseCrash_StandbyClockBehind_CountsMinuteOnce(t *testing.T) {
	cfg, store, c := newDatabase(t)
	m := openNode(t, cfg, c)
	const limit = 5
	c.add(time.Minute)
	for range 3 { // too few to record a ceiling
		take(t, m, acme, 1, limit)
	}
	crash(t, store)
	c.add(-10 * time.Second)
	take(t, m, ratelimit.Key{Scope: "requests", ID: "other"}, 1, limit) // detects the crash
	c.add(10 * time.Second)
	allowed := 3
	for range limit {
		if take(t, m, acme, 1, limit).Allowed {
			allowed++
		}
	}
	if allowed > limit {
		t.Errorf("%d units allowed in one minute, want at most %d", allowed, limit)
	}
}

// Nodes take and return units, the clock moves forward and back, and the database server crashes at any time. No minute
// allows more than the limit of the call, and a unit is rejected only if the crashes of that minute explain it.
// Rule 10.
func TestDatabaseCrash_AnySequence_NeverExceedsLimit(t *testing.T) {
	cfg, store, c := newDatabase(t)
	shared := []*ratelimit.Shared{openNode(t, cfg, c), openNode(t, cfg, c), openNode(t, cfg, c)}
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		type cell struct {
			key    ratelimit.Key
			window int64
		}
		round++
		c.set(noon.Add(time.Duration(round) * time.Hour))
		if _, err := shared[0].Take(context.Background(), ratelimit.Key{}, 1, 1); err != nil { // detects a crash of the previous round
			t.Fatal(err)
		}
		c.add(10 * time.Minute)
		var crashes []bool          // of this round; true if nodes may have had blocks
		used := map[cell]int64{}    // allowed units
		counted := map[cell]int64{} // maximum of the counter, without blocks; crashes add to it
		charged := map[cell]int{}   // number of crashes included in counted
		highest := map[cell]int64{} // highest limit of any call
		given := map[cell][]ratelimit.Decision{}
		key := rapid.Custom(func(t *rapid.T) ratelimit.Key {
			return ratelimit.Key{Scope: "requests", ID: fmt.Sprint(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "id"), round)}
		})
		const questions = 4 * 7 // units and limits used below; a node may have a block for each
		giveBlocks := func() {
			for _, m := range shared {
				m.GiveBlocks(context.Background())
			}
		}
		window := c.now().Unix() / 60 // the latest minute that the clock has reached
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				k := key.Draw(t, "key")
				units, limit := rapid.Int64Range(1, 4).Draw(t, "units"), rapid.SampledFrom([]int64{0, 1, 3, 10, 60, 300, 1000}).Draw(t, "limit")
				many := rapid.IntRange(1, 20).Draw(t, "many")
				one := rapid.IntRange(0, len(shared)).Draw(t, "of one node") // the last value means any node
				for range many {
					node := one
					if one == len(shared) {
						node = rapid.IntRange(0, len(shared)-1).Draw(t, "node")
					}
					d, err := shared[node].Take(context.Background(), k, units, limit)
					testmust.Succeed(t, err)
					at := cell{k, d.Reset.Unix()/60 - 1}
					if at.window < c.now().Unix()/60 || at.window > window {
						t.Fatalf("Take in minute %d took a unit of minute %d", c.now().Unix()/60, at.window)
					}
					for ; charged[at] < len(crashes); charged[at]++ {
						counted[at] += max(4, max(highest[at]-counted[at], 0)/8)
						if crashes[charged[at]] {
							counted[at] += questions * int64(len(shared)) * ratelimit.Idle(highest[at])
						}
					}
					highest[at] = max(highest[at], limit)
					if d.Allowed {
						used[at] += units
						counted[at] += units
						given[at] = append(given[at], d)
					}
					if d.Allowed && used[at] > limit {
						t.Fatalf("%d units allowed with limit %d", used[at], limit)
					}
					if !d.Allowed && counted[at]+units <= limit {
						giveBlocks()
						if d, err = shared[node].Take(context.Background(), k, units, limit); err != nil {
							t.Fatal(err)
						}
						if d.Allowed {
							used[at] += units
							counted[at] += units
							given[at] = append(given[at], d)
						}
					}
					if !d.Allowed && counted[at]+units <= limit {
						t.Fatalf("rejected %d units with limit %d, although at most %d are counted", units, limit, counted[at])
					}
				}
			},
			"give": func(t *rapid.T) {
				at := cell{key.Draw(t, "key"), window}
				if len(given[at]) == 0 {
					return
				}
				testmust.Succeed(t, shared[0].Give(context.Background(), at.key, 1, given[at][0]))
				given[at] = given[at][1:]
				used[at]--
			},
			"blocks are returned": func(t *rapid.T) {
				shared[rapid.IntRange(0, len(shared)-1).Draw(t, "node")].GiveBlocks(context.Background())
			},
			"time passes": func(t *rapid.T) {
				c.add(time.Duration(rapid.Int64Range(-int64(20*time.Second), int64(50*time.Second)).Draw(t, "by")))
				window = max(window, c.now().Unix()/60)
			},
			"the server crashes": func(t *rapid.T) {
				blocks := rapid.Bool().Draw(t, "with blocks")
				if !blocks {
					giveBlocks()
				}
				crash(t, store)
				crashes = append(crashes, blocks)
			},
		})
	})
}

// Checks that crash does the same as a real crash: the tables with counts are UNLOGGED, and the one with ceilings is
// not.
func TestDatabaseCrash_OnlyCeilingsSurvive(t *testing.T) {
	_, store, c := newDatabase(t)
	newShared(t, store, c)
	for table, want := range map[string]string{"ratelimit_counters": "u", "ratelimit_epoch": "u", "ratelimit_ceilings": "p"} {
		var kind string
		if err := store.One(t.Context(), `SELECT relpersistence::text FROM pg_class WHERE oid = $1::text::regclass`, []any{table}, &kind); err != nil || kind != want {
			t.Errorf("relpersistence of %s = %q, %v, want %q", table, kind, err, want)
		}
	}
}
