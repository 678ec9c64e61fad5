package commands

import (
	"fmt"
	"math/rand/v2"
	"time"

	"letterhead/internal/delay"
)

// Limits of taking turns.
const (
	// firstTurn is what an append is taken to last before the first was measured; shortestTurn and longestTurn
	// bound what was measured. A store that is slow, or machine that is busy, takes hundreds of milliseconds for an
	// append: a turn shorter than that is none, and the nodes that lost go on losing until SettleWithin has passed.
	firstTurn    = time.Millisecond
	shortestTurn = 50 * time.Microsecond
	longestTurn  = 500 * time.Millisecond
	// rivalryFor is how long a rival that was seen is reckoned with.
	rivalryFor = time.Second
	// maxMoved bounds what is counted of a stream that moved on, and so how many turns are left to a rival
	// that comes no more. From lookFirst on the stream is read before an append, which is cheaper than to lose.
	maxMoved, lookFirst = 8, 2
	// aloneFor is how long a desk appends in a row, on a store that is shared, without leaving a turn to
	// somebody of whom it does not know: who never gets in leaves no trace. At one append's time in 200 ms
	// that costs a busy account half a percent.
	aloneFor = 100 * time.Millisecond
	// aloneTurns, times the time of a turn, replaces aloneFor on a slow store, up to aloneAtMost: less than
	// SettleWithin, after which a node that never got in gives up. What is left is three turns, or one if that is
	// more than maxAlonePause.
	aloneTurns    = 20
	aloneAtMost   = time.Second
	maxAlonePause = 60 * time.Millisecond
	// An append that takes less than gatherFrom is not worth a pause for callers who come again: they are carried by
	// the next one as soon. The pause ends when some came and then nobody for a quarter of an append's time,
	// and after all of it, or gatherAtMost. When it was of no use it is left out for twice as many appends each time, up to maxFruitless.
	gatherFrom   = 4 * time.Millisecond
	gatherAtMost = 25 * time.Millisecond
	maxFruitless = 64
	// quickLosses is how often a group that lost is tried again without a pause.
	quickLosses = 3
)

// turns is what an actor knows of its rivals for the stream: desks of other nodes.
//
// The store takes the appends to a stream one after the other, and whoever lost has to read before it can
// try again. So, left to themselves, the one that won, which need not read, is the first to come again and
// wins again, for ever if its callers are quick; the others' callers wait until they get ErrBusy. Therefore
// whoever has appended and has rivals leaves the next turn to them: it pauses for the time of one append,
// while its callers ask again, and those who lost try again at once. The turn goes round, and each append
// carries all that a desk's callers have asked for meanwhile.
//
// It belongs to the actor's goroutine.
type turns struct {
	took      time.Duration // of one call that appended, a moving average
	looked    time.Duration // of a look at the tail that found something, likewise
	last      time.Time     // of the last append that landed
	since     time.Time     // since when nobody else could have come in
	rivalAt   time.Time     // when a rival was last seen
	moved     int           // 0 to maxMoved: how often, of late, others were found to have appended
	skip      int           // how many groups are not gathered
	fruitless int           // how many were not, the last time
}

// turn is how long a desk takes that lost to look and to append.
func (t *turns) turn() time.Duration {
	if t.took == 0 {
		return firstTurn
	}
	return min(max(t.took+t.looked, shortestTurn), longestTurn)
}

// average is a moving average. It follows quickly, up when the store becomes slow, because a node that loses has
// SettleWithin only, and down after a single call that hung.
func average(before, now time.Duration) time.Duration {
	now = min(now, longestTurn)
	if before == 0 {
		return now
	}
	return (before + now) / 2
}

// won notes an append that landed.
func (t *turns) won(now time.Time, took time.Duration) {
	t.took = average(t.took, took)
	t.last = now
}

// seen notes what a look at the stream's tail found.
func (t *turns) seen(now time.Time, foreign bool, took time.Duration) {
	if !foreign {
		t.moved = max(t.moved-1, 0)
		return
	}
	t.looked = average(t.looked, took)
	t.moved = min(t.moved+1, maxMoved)
	t.rivalAt, t.since = now, now
}

// leave says how long the next append waits for others to come in; mostly not at all.
func (t *turns) leave(now time.Time, shared bool) time.Duration {
	turn := t.turn()
	idle := now.Sub(t.last)
	if idle >= 2*turn {
		t.since = now // whoever wanted could come in
		return 0
	}
	rivals := t.moved > 0 && now.Sub(t.rivalAt) < rivalryFor
	switch {
	case rivals && t.last.After(t.rivalAt):
		return max(turn+rand.N(turn/4)-idle, 0)
	case !rivals && shared && now.Sub(t.since) >= max(aloneFor, min(aloneTurns*turn, aloneAtMost)):
		t.since = now
		return max(turn, min(3*turn, maxAlonePause))
	}
	return 0
}

// gathering returns how long to wait for the next one of the callers that were answered, and at most for all of them; 0
// for not at all.
func (t *turns) gathering(answered int) (pause, most time.Duration) {
	most = min(t.took, gatherAtMost)
	switch {
	case answered < 2, most < gatherFrom, time.Since(t.rivalAt) < rivalryFor: // leave pauses for a rival
		return 0, 0
	case t.skip > 0:
		t.skip--
		return 0, 0
	}
	return most / 4, most
}

// gathered notes how many were queued before and after a pause. Those before came while the append was under way: so many
// come in that time anyway, and as many more in the pause without it. A pause is of use only if callers came at more than
// twice that rate: each of the others is saved an append's time, and each who was there has waited.
func (t *turns) gathered(before, after int, waited time.Duration) {
	if after > before && time.Duration(after-before)*t.took >= 2*time.Duration(before)*waited {
		t.fruitless /= 2
		return
	}
	t.fruitless = min(max(2*t.fruitless, 1), maxFruitless)
	t.skip = t.fruitless
}

// stale says that the stream has probably moved on.
func (t *turns) stale() bool { return t.moved >= lookFirst }

// prepare makes the state fit to be decided on, after rivals had their turn. It adds to the group what is
// queued meanwhile, and says whether the tail was read after all of the group was taken.
func (a *actor[S]) prepare(group []*task[S]) (_ []*task[S], fresh bool, err error) {
	if pause := a.turns.leave(time.Now(), a.reg.cfg.Shared); pause > 0 {
		a.reg.metrics.yields.Inc()
		_ = delay.For(a.reg.ctx, pause) // what follows sees that it ended
		group = a.join(group)
	}
	if !a.loaded || a.stale || a.turns.stale() {
		return group, true, a.refresh()
	}
	return group, false, nil
}

// afterLoss reads what the winner appended, and adds to the group what is queued meanwhile. Errors: ErrBusy
// when the patience is at its end, and those of reading.
func (a *actor[S]) afterLoss(settle *patience, lost int, group []*task[S]) ([]*task[S], error) {
	if lost == 1 { // the append before may have waited for a store that was away
		*settle = newPatience(a.reg.cfg.SettleWithin)
	}
	pause := time.Duration(0)
	if lost > quickLosses {
		pause = rand.N(min(time.Duration(lost), maxLossPause) * a.turns.turn() / 2)
	}
	if !settle.left(pause) || pause > 0 && delay.For(a.reg.ctx, pause) != nil {
		a.stale = true
		return group, fmt.Errorf("conflicts on %s could not be settled within %s: %w", a.stream, a.reg.cfg.SettleWithin, ErrBusy)
	}
	group = a.join(group)
	return group, a.refresh()
}

// maxLossPause bounds the pause after many losses, in halves of an append's time.
const maxLossPause = 8
