package streamwriter

import (
	"fmt"
	"math/rand/v2"
	"time"

	"letterhead/internal/delay"
)

// Limits of alternating with other nodes.
const (
	// firstTurn is the assumed duration of an append before the first was measured; shortestTurn and longestTurn limit
	// measured values. On a slow store or a busy machine an append takes hundreds of milliseconds: a shorter turn is
	// useless, and the nodes that lost keep losing until ResolveWithin has passed.
	firstTurn    = time.Millisecond
	shortestTurn = 50 * time.Microsecond
	longestTurn  = 500 * time.Millisecond
	// rivalryFor is how long a detected rival is taken into account.
	rivalryFor = time.Second
	// maxMoved limits the count of reads that found other nodes' events, and so how many turns are left to a rival that
	// has gone. From lookFirst on, the stream is read before an append, which is cheaper than losing.
	maxMoved, lookFirst = 8, 2
	// AloneFor is how long an actor on a shared store appends in a row before it leaves a turn to
	// possible unknown rivals: a rival that never succeeds leaves no trace. With one append's time in
	// 200 ms that costs a busy account half a percent.
	AloneFor = 100 * time.Millisecond
	// aloneTurns, multiplied by the duration of a turn, replaces AloneFor on a slow store, up to
	// aloneAtMost: less than ResolveWithin, after which a node that never succeeded gives up. The pause
	// is three turns, or one if that is more than maxAlonePause.
	aloneTurns    = 20
	aloneAtMost   = time.Second
	maxAlonePause = 60 * time.Millisecond
	// An append that takes less than gatherFrom is not worth a pause for returning callers: the next
	// append takes them just as soon. The pause ends when some callers came and then none for a
	// quarter of an append's duration, and at the latest after a whole one, or gatherAtMost. After a
	// useless pause it is skipped for twice as many appends each time, up to maxFruitless.
	gatherFrom   = 4 * time.Millisecond
	gatherAtMost = 25 * time.Millisecond
	maxFruitless = 64
	// quickLosses is how often a group that lost is retried without a pause.
	quickLosses = 3
)

// fairness is an actor's knowledge about its rivals for the stream: actors of other nodes.
//
// The store processes the appends to a stream one after the other, and an actor that lost has to read before it can
// retry. Without further rules the winner, which need not read, would be the first to append again and would win every
// time if its callers are quick; the other nodes' callers would wait until they get ErrBusy. Therefore an actor that
// has appended and has rivals leaves the next turn to them: it pauses for the duration of one append, while its callers
// send new commands, and the losers retry immediately. The nodes alternate, and each append contains all commands that
// a node's callers have sent in the meantime.
//
// It belongs to the actor's goroutine.
type fairness struct {
	took      time.Duration // duration of an append call, a moving average
	looked    time.Duration // duration of a read of the tail that found events, likewise
	last      time.Time     // of the last successful append
	since     time.Time     // since when no other node could have appended
	rivalAt   time.Time     // when a rival was last seen
	moved     int           // 0 to maxMoved: how often, recently, others were found to have appended
	skip      int           // groups still to process without gathering
	fruitless int           // the last such number
}

// turn is the time that an actor that lost needs to read and append.
func (f *fairness) turn() time.Duration {
	if f.took == 0 {
		return firstTurn
	}
	return min(max(f.took+f.looked, shortestTurn), longestTurn)
}

// average is a moving average. It adapts quickly: up when the store becomes slow, because a node that
// loses has only ResolveWithin, and down after a single call that hung.
func average(before, now time.Duration) time.Duration {
	now = min(now, longestTurn)
	if before == 0 {
		return now
	}
	return (before + now) / 2
}

// won records a successful append.
func (f *fairness) won(now time.Time, took time.Duration) {
	f.took = average(f.took, took)
	f.last = now
}

// seen records the result of a read of the stream's tail.
func (f *fairness) seen(now time.Time, foreign bool, took time.Duration) {
	if !foreign {
		f.moved = max(f.moved-1, 0)
		return
	}
	f.looked = average(f.looked, took)
	f.moved = min(f.moved+1, maxMoved)
	f.rivalAt, f.since = now, now
}

// leave returns how long the next append waits for other nodes; usually 0.
func (f *fairness) leave(now time.Time, shared bool) time.Duration {
	turn := f.turn()
	idle := now.Sub(f.last)
	if idle >= 2*turn {
		f.since = now // other nodes had time to append
		return 0
	}
	rivals := f.moved > 0 && now.Sub(f.rivalAt) < rivalryFor
	switch {
	case rivals && f.last.After(f.rivalAt):
		return max(turn+rand.N(turn/4)-idle, 0)
	case !rivals && shared && now.Sub(f.since) >= max(AloneFor, min(aloneTurns*turn, aloneAtMost)):
		f.since = now
		return max(turn, min(3*turn, maxAlonePause))
	}
	return 0
}

// gathering returns how long to wait for the next of the answered callers, and the limit for all of
// them; 0 for no wait.
func (f *fairness) gathering(answered int) (pause, most time.Duration) {
	most = min(f.took, gatherAtMost)
	switch {
	case answered < 2, most < gatherFrom, time.Since(f.rivalAt) < rivalryFor: // leave returns the pauses for rivals
		return 0, 0
	case f.skip > 0:
		f.skip--
		return 0, 0
	}
	return most / 4, most
}

// gathered records how many commands were queued before and after a pause. Those before came during the append;
// without the pause, commands keep coming at that rate. A pause is useful only if they came at more than twice that
// rate: each command above it saves an append's duration, and each one queued before has waited.
func (f *fairness) gathered(before, after int, waited time.Duration) {
	if after > before && time.Duration(after-before)*f.took >= 2*time.Duration(before)*waited {
		f.fruitless /= 2
		return
	}
	f.fruitless = min(max(2*f.fruitless, 1), maxFruitless)
	f.skip = f.fruitless
}

// stale reports whether the stream has probably moved on.
func (f *fairness) stale() bool { return f.moved >= lookFirst }

// prepare brings the state up to date for a decision, after rivals had their turn. It adds commands queued in the
// meantime to the group, and reports whether the tail was read after the whole group was taken.
func (a *Actor[S]) prepare(group []*queued[S]) (_ []*queued[S], fresh bool, err error) {
	if pause := a.fairness.leave(time.Now(), a.all.cfg.Shared); pause > 0 {
		a.all.metrics.yields.Inc()
		_ = delay.For(a.all.ctx, pause) // a canceled context is detected below
		group = a.join(group)
	}
	if !a.loaded || a.stale || a.fairness.stale() {
		return group, true, a.refresh()
	}
	return group, false, nil
}

// afterLoss reads the winner's events, and adds commands queued in the meantime to the group. Errors:
// ErrBusy when the retry budget is exhausted, and the errors of reading.
func (a *Actor[S]) afterLoss(budget *retryBudget, lost int, group []*queued[S]) ([]*queued[S], error) {
	if lost == 1 { // the previous append may have waited for an unavailable store
		*budget = newRetryBudget(a.all.cfg.ResolveWithin)
	}
	pause := time.Duration(0)
	if lost > quickLosses {
		pause = rand.N(min(time.Duration(lost), maxLossPause) * a.fairness.turn() / 2)
	}
	if !budget.left(pause) || pause > 0 && delay.For(a.all.ctx, pause) != nil {
		a.stale = true
		return group, fmt.Errorf("conflicts on %s could not be resolved within %s: %w",
			a.stream, a.all.cfg.ResolveWithin, ErrBusy)
	}
	group = a.join(group)
	return group, a.refresh()
}

// maxLossPause limits the pause after many losses, in halves of an append's duration.
const maxLossPause = 8
