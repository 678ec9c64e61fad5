package commands

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"letterhead/commands/streamwriter"
	"letterhead/domain/plan"
	"letterhead/internal/testmust"
)

// Durations of the calls of a remoteLog, without the commit.
const travelTime, perEventTime = 150 * time.Microsecond, 10 * time.Microsecond

// race is the result of closed-loop callers on nodes that share one account, in virtual time.
type race struct {
	owned bool // only one node uses the store, and leaves no turns to others

	charges    int
	least      int // of one node
	worst      time.Duration
	appends    int
	lost, busy int
	reads      int
}

// run lets callers, spread over nodes, charge one account for the given virtual time. Each calls again shortly after
// its answer.
func (r *race) run(t *testing.T, nodes, callers int, commit, think, lasts time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemoteStore(commit)
		logs := make([]*remoteLog, nodes)
		writers := make([]*AccountWriter, nodes)
		for i := range writers {
			logs[i] = &remoteLog{store: store, travel: travelTime, perEvent: perEventTime}
			var err error
			if writers[i], err = NewAccountWriter(AccountWriterConfig{Config: streamwriter.Config{Shared: !r.owned}}, logs[i], nil); err != nil {
				t.Fatal(err)
			}
		}
		w := &world{TB: t}
		id := uuid.NewString()
		ctx := context.Background()
		testmust.Succeed(t, testmust.Err(writers[0].OpenAccount(ctx, OpenAccount{Request: w.request(), AccountID: id, Holder: "holder", Plan: plan.Free})))
		w.grant(writers[0], id, 1<<40)
		end := time.Now().Add(lasts)
		served := make([]int, callers)
		worst := make([]time.Duration, callers)
		var busy atomic.Int64
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for time.Now().Before(end) {
					asked := time.Now()
					if _, err := writers[i%nodes].ChargeLookup(ctx, w.lookup(id)); err != nil {
						busy.Add(1)
						return
					}
					worst[i] = max(worst[i], time.Since(asked))
					served[i]++
					time.Sleep(think)
				}
			})
		}
		wg.Wait()
		of := make([]int, nodes)
		for i, n := range served {
			r.charges += n
			of[i%nodes] += n
			r.worst = max(r.worst, worst[i])
		}
		r.busy, r.least = int(busy.Load()), r.charges
		for _, n := range of {
			r.least = min(r.least, n)
		}
		for i, d := range writers {
			w.drain(d)
			r.appends, r.reads, r.lost = r.appends+logs[i].appends, r.reads+logs[i].reads, r.lost+logs[i].lost
		}
	})
}

// Three nodes whose callers all use one account alternate. No caller waits long, and together the nodes charge at least
// half as often as a single node, unless its callers are so few and fast that all fit into one append. Time is virtual,
// so the test measures how often an append fails.
// Rule 3.
func TestNodes_OneAccount_Alternate(t *testing.T) {
	const lasts = time.Second
	for _, c := range []struct {
		commit, think time.Duration
		callers       int
		ratio         float64
	}{
		{time.Millisecond, 0, 64, 0.33},
		{time.Millisecond, 300 * time.Microsecond, 64, 0.5},
		{time.Millisecond, 0, 192, 0.5},
		{time.Millisecond, 300 * time.Microsecond, 192, 0.5},
	} {
		t.Run(fmt.Sprintf("commit=%s/think=%s/callers=%d", c.commit, c.think, c.callers), func(t *testing.T) {
			var one, three race
			one.run(t, 1, c.callers, c.commit, c.think, lasts)
			three.run(t, 3, c.callers, c.commit, c.think, lasts)
			ratio := float64(three.charges) / float64(one.charges)
			t.Logf("one node %.0f charges/s, worst wait %s; three nodes %.0f charges/s (%.2f), worst wait %s, %.1f appends (%.1f lost) and %.1f reads per 100 charges, least node %.0f%% of a third",
				float64(one.charges)/lasts.Seconds(), one.worst, float64(three.charges)/lasts.Seconds(), ratio, three.worst,
				three.per100(three.appends), three.per100(three.lost), three.per100(three.reads), float64(3*three.least)/float64(three.charges)*100)
			if one.busy+three.busy > 0 {
				t.Errorf("%d charges were rejected as busy", one.busy+three.busy)
			}
			if one.reads > 8*int(lasts/streamwriter.AloneFor) || one.lost > 0 {
				t.Errorf("a single node read %d times and lost %d appends", one.reads, one.lost)
			}
			if ratio < c.ratio {
				t.Errorf("three nodes made %.2f times as many charges as one, want %.2f", ratio, c.ratio)
			}
			if three.worst > streamwriter.DefaultResolveWithin/2 {
				t.Errorf("a caller waited %s", three.worst)
			}
			if 9*three.least < three.charges {
				t.Errorf("one node made %d of %d charges", three.least, three.charges)
			}
		})
	}
}

// No node starves on a store with slow appends or on a busy machine: after an append, a writer leaves the others as
// much time as an append takes. A single node charges at least as often as three.
// Rule 3.
func TestNodes_SlowStore_NoNodeStarves(t *testing.T) {
	const lasts, callers = 20 * time.Second, 12
	for _, commit := range []time.Duration{20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond} {
		t.Run(commit.String(), func(t *testing.T) {
			var one, three race
			one.run(t, 1, callers, commit, 10*time.Millisecond, lasts)
			three.run(t, 3, callers, commit, 10*time.Millisecond, lasts)
			t.Logf("one node %d charges; three %d, least node %d, worst wait %s, %d appends lost", one.charges, three.charges, three.least, three.worst, three.lost)
			if one.busy+three.busy > 0 {
				t.Errorf("%d charges were rejected as busy", one.busy+three.busy)
			}
			if 9*three.least < 2*three.charges {
				t.Errorf("one node made %d of %d charges", three.least, three.charges)
			}
			if one.charges < three.charges {
				t.Errorf("a single node made %d charges, three nodes %d", one.charges, three.charges)
			}
		})
	}
}

// An append waits for an unavailable store and then meets a conflict, because another node was first. It is decided
// again: the time limit of conflicts does not include the outage.
func TestConflict_AfterOutage_IsDecidedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d, other := w.writer(AccountWriterConfig{}), w.writer(AccountWriterConfig{})
		id := w.openedWith(d, 5)
		back := time.Now().Add(streamwriter.DefaultKnowWithin - time.Second)
		lost := false
		w.log.set(func(f *faults) {
			f.before = func(a sentAppend) error {
				switch {
				case a.events[0].Metadata.RequestID != "mine":
				case time.Now().Before(back):
					return ambiguous()
				case !lost:
					lost = true
					w.charge(other, id)
				}
				return nil
			}
		})
		in := w.lookup(id)
		in.Request.ID = "mine"
		if receipt, err := d.ChargeLookup(t.Context(), in); err != nil || receipt.Balance != 3 || !lost {
			t.Errorf("receipt %+v, %v", receipt, err)
		}
	})
}

func (r *race) per100(n int) float64 { return float64(n) / float64(r.charges) * 100 }

// On a store with slow appends, callers who were answered together return together: each append contains nearly all
// callers of a busy account, not alternating halves.
// Rule 3.
func TestBusyAccount_SlowAppends_CarryNearlyAllCallers(t *testing.T) {
	const callers, lasts = 64, 5 * time.Second
	for _, back := range []time.Duration{300 * time.Microsecond, 3 * time.Millisecond} {
		var r race
		r.run(t, 1, callers, 8*time.Millisecond, back, lasts)
		each := float64(r.charges) / float64(r.appends)
		t.Logf("back after %s: %d charges of %d appends, %.1f each", back, r.charges, r.appends, each)
		if each < 0.9*callers {
			t.Errorf("back after %s: an append carries %.1f of %d callers", back, each, callers)
		}
	}
}

// The writer does not wait for callers who do not return soon. No caller waits longer than the current append, a pause
// and one append, and together they are served nearly as often as without pauses.
// Rule 3.
func TestBusyAccount_CallersStayAway_AreNotAwaited(t *testing.T) {
	const callers, think, lasts, commit = 64, 50 * time.Millisecond, 5 * time.Second, 8 * time.Millisecond
	const took = commit + 2*travelTime + callers*perEventTime
	r := race{owned: true}
	r.run(t, 1, callers, commit, think, lasts)
	t.Logf("%d charges, %d appends, worst wait %s", r.charges, r.appends, r.worst)
	if most := 3*took + took/4; r.worst > most {
		t.Errorf("a caller waited %s, want %s at most", r.worst, most)
	}
	// Without pauses a caller waits for half of the current append and for the next.
	if least := int(callers * lasts / (think + took*3/2) * 97 / 100); r.charges < least {
		t.Errorf("%d charges, want %d", r.charges, least)
	}
}

// arriveIndependently makes callers arrive independently of the answers, at a rate per second. Each charges one
// account once. It returns their mean wait.
func arriveIndependently(t *testing.T, rate float64, commit, lasts time.Duration) (mean time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		store := &remoteLog{store: newRemoteStore(commit), travel: travelTime, perEvent: perEventTime}
		writer := testmust.Get(NewAccountWriter(AccountWriterConfig{}, store, nil))(t)
		w := &world{TB: t}
		id := uuid.NewString()
		testmust.Succeed(t, testmust.Err(writer.OpenAccount(t.Context(), OpenAccount{Request: w.request(), AccountID: id, Holder: "holder", Plan: plan.Free})))
		w.grant(writer, id, 1<<40)
		random := rand.New(rand.NewPCG(1, uint64(rate)))
		var waited, callers atomic.Int64
		var wg sync.WaitGroup
		for end := time.Now().Add(lasts); time.Now().Before(end); {
			time.Sleep(time.Duration(random.ExpFloat64() / rate * float64(time.Second)))
			wg.Go(func() {
				asked := time.Now()
				if _, err := writer.ChargeLookup(t.Context(), w.lookup(id)); err != nil {
					t.Error(err)
				}
				waited.Add(int64(time.Since(asked)))
				callers.Add(1)
			})
		}
		wg.Wait()
		mean = time.Duration(waited.Load() / callers.Load())
		t.Logf("%.0f callers/s, appends of %s: %d charges in %d appends, mean wait %s", rate, commit, callers.Load(), store.appends, mean)
		w.drain(writer)
	})
	return mean
}

// If the number of callers does not depend on the time of the answers, a pause gains nothing. Then their mean wait is
// nearly the same as without pauses: the rest of the current append and all of the next.
func TestBusyAccount_CallersComeAnyway_AreNotAwaited(t *testing.T) {
	for _, commit := range []time.Duration{8 * time.Millisecond, 25 * time.Millisecond} {
		for _, rate := range []float64{300, 1000, 3000} {
			mean := arriveIndependently(t, rate, commit, 5*time.Second)
			took := time.Duration(float64(commit+2*travelTime) / (1 - rate*perEventTime.Seconds())) // with all callers who arrive during the append
			if most := took * 3 / 2 * 105 / 100; mean > most {
				t.Errorf("%.0f callers/s, appends of %s: the mean wait is %s, want %s at most", rate, commit, mean, most)
			}
		}
	}
}
