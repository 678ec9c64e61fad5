package keys

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
)

// world simulates the rows, the fence and the leases in memory. Each decision increments the version of its key.
type world struct {
	mu          sync.Mutex
	versions    map[hash]int // the latest decided ones, which tables that are being built contain
	rows        map[hash]int // of the live tables
	generation  int64        // of the live tables
	quarantined bool         // the live tables are not folded
	began       bool         // the fence exists
	now         outlook
	random      *rand.Rand
	slow        int // one in this many messages is slow
}

func newWorld(seed uint64) *world {
	w := &world{versions: make(map[hash]int), rows: make(map[hash]int), generation: 1, random: rand.New(rand.NewPCG(seed, 0))}
	w.slow = 2 + w.random.IntN(20)
	w.begin(true)
	return w
}

func (w *world) begin(settled bool) {
	if !w.began {
		w.began = true
		w.now = outlook{epoch: w.now.epoch + 1, settled: settled, leases: make(map[string]applied)}
	}
}

// crash empties the UNLOGGED tables.
func (w *world) crash() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.began = false
	w.now.leases = make(map[string]applied)
}

// decide simulates the projector's transaction.
func (w *world) decide(sum hash) (version int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.versions[sum]++
	if !w.quarantined {
		w.raise()
		w.rows[sum] = w.versions[sum]
	}
	return w.versions[sum]
}

func (w *world) raise() {
	if w.began {
		w.now.fence++
	}
	w.begin(false)
}

// quarantine stops folding into the live tables.
func (w *world) quarantine() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.quarantined = true
}

// swap makes new tables live. Their generation may be a number that was used before, if the table of generations was
// lost.
func (w *world) swap() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.quarantined = false
	w.generation = 1 + w.random.Int64N(3)
	maps.Copy(w.rows, w.versions)
	w.raise()
}

func (w *world) forget(last map[string]int64) {
	for holder, number := range last {
		if number == 0 || w.now.leases[holder].number == number {
			delete(w.now.leases, holder)
		}
	}
}

// folded reports whether the live tables contain a version.
func (w *world) folded(sum hash, version int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rows[sum] >= version
}

func (w *world) read(sum hash) (Key, mark) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := Key{ID: strconv.Itoa(w.rows[sum])}
	if !w.began {
		return k, mark{}
	}
	return k, w.mark()
}

func (w *world) mark() mark { return mark{w.now.epoch, w.now.fence, w.generation} }

func (w *world) draw(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

// linger simulates network latency: mostly short, sometimes longer than a lease.
func (w *world) linger() {
	d := 20
	if w.draw(w.slow) == 0 {
		d = 4000
	}
	time.Sleep(time.Duration(w.draw(d)) * time.Millisecond)
}

var errLost = fmt.Errorf("%w: the connection was lost", sqlstore.ErrUnavailable)

func nothing(context.Context) error { return nil }

var silent = slog.New(slog.DiscardHandler)

// link is a node's connection to the world.
type link struct{ *world }

// over runs do in the world. It sometimes returns errLost although do ran. If ctx ends first, do still runs later.
func (l link) over(ctx context.Context, do func()) error {
	done := make(chan struct{})
	go func() { // continues even if the caller has left
		defer close(done)
		l.linger()
		l.mu.Lock()
		do()
		l.mu.Unlock()
		l.linger()
	}()
	select {
	case <-done:
		if l.draw(10) == 0 {
			return errLost
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l link) renew(ctx context.Context, holder string, done mark, number int64) (mark, error) {
	answer := make(chan mark, 1)
	err := l.over(ctx, func() {
		l.begin(false)
		l.now.leases[holder] = applied{done.epoch, done.fence, number}
		answer <- l.mark()
	})
	if err != nil {
		return mark{}, err
	}
	return <-answer, nil
}

func (l link) look(ctx context.Context) (outlook, error) {
	answer := make(chan outlook, 1)
	err := l.over(ctx, func() {
		l.begin(false)
		o := l.now
		o.leases = make(map[string]applied, len(l.now.leases))
		for holder, a := range l.now.leases {
			o.leases[holder] = a
		}
		answer <- o
	})
	if err != nil {
		return outlook{}, err
	}
	return <-answer, nil
}

func (l link) settle(ctx context.Context, epoch int64) error {
	return l.over(ctx, func() { l.now.settled = l.now.settled || l.now.epoch == epoch })
}

func (l link) forget(ctx context.Context, last map[string]int64) error {
	return l.over(ctx, func() { l.world.forget(last) })
}

// A decision that was reported as effective applies to every request that begins afterwards, on every node. Renewals
// may be slow or lost, nodes may stop, start and hang, the database may crash, the read model may be quarantined, and
// new tables may become live.
// Rule 9.
func TestLeases_AnySequence_NoRequestUsesOldState(t *testing.T) {
	const nodes, keys = 3, 2
	var remembered, read atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		decisions := rapid.IntRange(1, 12).Draw(rt, "decisions")
		crashes := rapid.IntRange(0, 3).Draw(rt, "crashes")
		restarts := rapid.IntRange(0, 4).Draw(rt, "restarts")
		swaps := rapid.IntRange(0, 3).Draw(rt, "swaps")
		var wrong []string
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(seed)
			ctx, stop := context.WithCancel(t.Context())
			var mu sync.Mutex
			inForce := make(map[hash]int) // the version of each key that a command has reported as effective
			var working, serving sync.WaitGroup
			anywhere := func() time.Duration { return time.Duration(w.draw(20_000)) * time.Millisecond }
			for n := range nodes {
				serving.Go(func() {
					for run := 0; ctx.Err() == nil; run++ {
						m := newMemory(link{w}, fmt.Sprint(n, "-", run), time.Now)
						life, end := context.WithTimeout(ctx, time.Minute)
						if n < restarts {
							end()
							life, end = context.WithTimeout(ctx, 100*time.Millisecond+anywhere())
						}
						serving.Go(func() { m.hold(life) })
						for life.Err() == nil {
							time.Sleep(7 * time.Millisecond)
							sum := hash{byte(w.draw(keys))}
							mu.Lock()
							want := inForce[sum]
							mu.Unlock()
							k, ok := m.find(sum)
							if ok {
								remembered.Add(1)
							} else {
								var at mark
								w.linger()
								k, at = w.read(sum)
								w.linger()
								m.keep(sum, k, at)
								read.Add(1)
							}
							if got, _ := strconv.Atoi(k.ID); got < want {
								mu.Lock()
								wrong = append(wrong, fmt.Sprintf("node %d judged by version %d after %d was in force; from memory: %v", n, got, want, ok))
								mu.Unlock()
							}
						}
						end()
					}
				})
			}
			for range crashes {
				working.Go(func() {
					time.Sleep(anywhere())
					w.crash()
				})
			}
			for range swaps {
				working.Go(func() {
					time.Sleep(anywhere())
					w.quarantine()
					time.Sleep(anywhere() / 4)
					w.swap()
				})
			}
			for range decisions {
				working.Go(func() {
					time.Sleep(anywhere())
					sum := hash{byte(w.draw(keys))}
					version := w.decide(sum)
					var began time.Time
					folded := func(context.Context) error {
						for !w.folded(sum, version) {
							time.Sleep(time.Millisecond)
						}
						if began.IsZero() {
							began = time.Now()
						}
						return nil
					}
					if err := await(ctx, link{w}, silent, folded); err != nil {
						return // the command reports that the decision may not be effective
					}
					mu.Lock()
					defer mu.Unlock()
					inForce[sum] = max(inForce[sum], version)
					if took := time.Since(began); took > time.Minute {
						wrong = append(wrong, fmt.Sprintf("a command waited %s", took))
					}
				})
			}
			working.Wait()
			time.Sleep(2 * outlast)
			stop()
			serving.Wait()
			synctest.Wait()
			time.Sleep(time.Minute) // abandoned calls end
		})
		if len(wrong) > 0 {
			rt.Fatalf("%d wrong answers, the first: %s", len(wrong), wrong[0])
		}
	})
	if remembered.Load() < read.Load() { // otherwise the test does not exercise the memory
		t.Errorf("%d requests were answered from memory, %d from rows", remembered.Load(), read.Load())
	}
}

// A hung node delays one command by the length of a lease. A node that responds delays a command by one renewal.
// Rule 9.
func TestAwait_HungNode_WaitsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1)
		db := quick{w}
		hung, good := newMemory(db, "hung", time.Now), newMemory(db, "good", time.Now)
		hung.renew(t.Context())
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { good.hold(ctx) })
		waited := func() time.Duration {
			w.decide(hash{1})
			began := time.Now()
			testmust.Succeed(t, await(ctx, db, silent, nothing))
			return time.Since(began)
		}
		if d := waited(); d < leaseLength || d > outlast+awaitLast {
			t.Errorf("the first command after a node hung waited %s", d)
		}
		if d := waited(); d > renewEvery+awaitLast {
			t.Errorf("the second command waited %s", d)
		}
		if _, ok := hung.find(hash{1}); ok {
			t.Error("the hung node answers from memory when it resumes")
		}
		stop()
		running.Wait()
		if d := waited(); d > 0 {
			t.Errorf("a command without other nodes waited %s", d)
		}
	})
}

// quick is a link that loses nothing.
type quick struct{ *world }

func (q quick) renew(_ context.Context, holder string, done mark, number int64) (mark, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.now.leases[holder] = applied{done.epoch, done.fence, number}
	return q.mark(), nil
}

func (q quick) look(context.Context) (outlook, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.begin(false)
	o := q.now
	o.leases = make(map[string]applied)
	for holder, a := range q.now.leases {
		o.leases[holder] = a
	}
	return o, nil
}

func (q quick) settle(_ context.Context, epoch int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.now.settled = q.now.settled || q.now.epoch == epoch
	return nil
}

func (q quick) forget(_ context.Context, last map[string]int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.world.forget(last)
	return nil
}

// The server fails over after the command has seen that its event is folded, and the standby lacks the rows.
func TestAwait_FailOverBeforeLeases_WaitsForFoldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1)
		db, folds := quick{w}, 0
		folded := func(context.Context) error {
			if folds++; folds == 1 {
				w.crash()
			}
			return nil
		}
		if err := await(t.Context(), db, silent, folded); err != nil || folds != 2 {
			t.Errorf("await = %v after %d calls of folded, want nil after 2", err, folds)
		}
		if err := await(t.Context(), db, silent, folded); err != nil || folds != 3 {
			t.Errorf("without a fail-over: %v; waited %d times for the fold", err, folds-2)
		}
	})
}

// flaky is a link of which one query fails.
type flaky struct {
	quick
	fails, looks *int
}

func (a flaky) look(ctx context.Context) (outlook, error) {
	if *a.looks++; *a.looks == *a.fails {
		return outlook{}, errLost
	}
	return a.quick.look(ctx)
}

func TestAwait_DatabaseUnavailableOnce_WaitsAgain(t *testing.T) {
	for fails := 1; fails <= 3; fails++ {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(1)
			db := flaky{quick{w}, &fails, new(int)}
			newMemory(db.quick, "hung", time.Now).renew(t.Context())
			w.decide(hash{1})
			if err := await(t.Context(), db, silent, nothing); err != nil || *db.looks <= fails {
				t.Errorf("look %d fails: %v after %d looks", fails, err, *db.looks)
			}
		})
	}
}

func TestAwait_DatabaseStaysUnavailable_FailsAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := await(ctx, unavailable{}, silent, nothing); !errors.Is(err, sqlstore.ErrUnavailable) || ctx.Err() == nil {
			t.Errorf("%v (context: %v)", err, ctx.Err())
		}
	})
}

// unavailable is a link to a server that does not run.
type unavailable struct{ fences }

func (unavailable) look(context.Context) (outlook, error) { return outlook{}, errLost }

// failingCleanUp is a link that loses only the statements of cleanUp, which do not change the outcome of a command.
type failingCleanUp struct{ quick }

func (failingCleanUp) settle(context.Context, int64) error            { return errLost }
func (failingCleanUp) forget(context.Context, map[string]int64) error { return errLost }

func TestAwait_DeletingOldLeasesFails_ReturnsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1)
		db := failingCleanUp{quick{w}}
		newMemory(db, "killed", time.Now).renew(t.Context())
		w.now.settled = false
		w.decide(hash{1})
		began, lines := time.Now(), testwait.NewLines()
		if err := await(t.Context(), db, lines.Logger(), nothing); err != nil || time.Since(began) < outlast {
			t.Errorf("await = %v after %s, want nil after at least %s", err, time.Since(began), outlast)
		}
		lines.Wait(t, 1, errLost.Error())
	})
}

func TestMemory_IsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1)
		m := newMemory(quick{w}, "node", time.Now)
		m.keep(hash{1}, Key{}, mark{epoch: 1})
		if len(m.keys) > 0 {
			t.Error("a key is remembered without a lease")
		}
		m.renew(t.Context())
		for i := range maxRemembered + 100 {
			m.keep(hash{byte(i), byte(i >> 8), byte(i >> 16)}, Key{}, m.held.Load().at)
		}
		if len(m.keys) != maxRemembered {
			t.Errorf("%d keys are remembered, more than the limit", len(m.keys))
		}
	})
}
