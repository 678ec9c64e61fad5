package commands

import (
	"fmt"
	"math/rand/v2"
	"time"

	"letterhead/internal/delay"
)

// Limits of alternating with other nodes.
const (
	// firstTurn is the assumed duration of an append before the first was measured; shortestTurn and
	// longestTurn limit measured values. On a slow store or a busy machine an append takes hundreds of
	// milliseconds: a shorter turn is useless, and the nodes that lost keep losing until SettleWithin
	// has passed.
	firstTurn    = time.Millisecond
	shortestTurn = 50 * time.Microsecond
	longestTurn  = 500 * time.Millisecond
	// rivalryFor is how long a detected rival is taken into account.
	rivalryFor = time.Second
	// maxMoved limits the count of times that the stream was found to have moved, and so how many
	// turns are left to a rival that has gone. From lookFirst on the stream is read before an append,
	// which is cheaper than losing.
	maxMoved, lookFirst = 8, 2
	// aloneFor is how long a desk on a shared store appends in a row before it leaves a turn to
	// possible unknown rivals: a rival that never succeeds leaves no trace. With one append's time in
	// 200 ms that costs a busy account half a percent.
	aloneFor = 100 * time.Millisecond
	// aloneTurns, multiplied by the duration of a turn, replaces aloneFor on a slow store, up to
	// aloneAtMost: less than SettleWithin, after which a node that never succeeded gives up. The pause
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

// turns is an actor's knowledge about its rivals for the stream: desks of other nodes.
//
// The store processes the appends to a stream one after the other, and a desk that lost has to read
// before it can retry. Without further rules the winner, which need not read, would be the first to
// append again and would win every time if its callers are quick; the other desks' callers would wait
// until they get ErrBusy. Therefore a desk that has appended and has rivals leaves the next turn to
// them: it pauses for the duration of one append, while its callers send new commands, and the losers
// retry immediately. The desks alternate, and each append contains all commands that a desk's callers
// have sent in the meantime.
//
// It belongs to the actor's goroutine.
type turns struct {
	took      time.Duration // duration of an append call, a moving average
	looked    time.Duration // duration of a read of the tail that found events, likewise
	last      time.Time     // of the last append that landed
	since     time.Time     // since when no other desk could have appended
	rivalAt   time.Time     // when a rival was last seen
	moved     int           // 0 to maxMoved: how often, recently, others were found to have appended
	skip      int           // groups still to process without gathering
	fruitless int           // the last such number
}

// turn is the time that a desk that lost needs to read and append.
func (t *turns) turn() time.Duration {
	if t.took == 0 {
		return firstTurn
	}
	return min(max(t.took+t.looked, shortestTurn), longestTurn)
}

// average is a moving average. It adapts quickly: up when the store becomes slow, because a node that
// loses has only SettleWithin, and down after a single call that hung.
func average(before, now time.Duration) time.Duration {
	now = min(now, longestTurn)
	if before == 0 {
		return now
	}
	return (before + now) / 2
}

// won records an append that landed.
func (t *turns) won(now time.Time, took time.Duration) {
	t.took = average(t.took, took)
	t.last = now
}

// seen records the result of a read of the stream's tail.
func (t *turns) seen(now time.Time, foreign bool, took time.Duration) {
	if !foreign {
		t.moved = max(t.moved-1, 0)
		return
	}
	t.looked = average(t.looked, took)
	t.moved = min(t.moved+1, maxMoved)
	t.rivalAt, t.since = now, now
}

// leave returns how long the next append waits for other desks; usually 0.
func (t *turns) leave(now time.Time, shared bool) time.Duration {
	turn := t.turn()
	idle := now.Sub(t.last)
	if idle >= 2*turn {
		t.since = now // other desks had time to append
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

// gathering returns how long to wait for the next of the answered callers, and the limit for all of
// them; 0 for no wait.
func (t *turns) gathering(answered int) (pause, most time.Duration) {
	most = min(t.took, gatherAtMost)
	switch {
	case answered < 2, most < gatherFrom, time.Since(t.rivalAt) < rivalryFor: // leave returns the pauses for rivals
		return 0, 0
	case t.skip > 0:
		t.skip--
		return 0, 0
	}
	return most / 4, most
}

// gathered records how many tasks were queued before and after a pause. Those before came while the append was under way;
// without the pause, tasks keep coming at that rate. A pause is useful only if they came at more than twice that rate: each
// task above it saves an append's duration, and each one queued before has waited.
func (t *turns) gathered(before, after int, waited time.Duration) {
	if after > before && time.Duration(after-before)*t.took >= 2*time.Duration(before)*waited {
		t.fruitless /= 2
		return
	}
	t.fruitless = min(max(2*t.fruitless, 1), maxFruitless)
	t.skip = t.fruitless
}

// stale reports whether the stream has probably moved on.
func (t *turns) stale() bool { return t.moved >= lookFirst }

// prepare brings the state up to date for a decision, after rivals had their turn. It adds tasks
// queued in the meantime to the group, and reports whether the tail was read after the whole group was
// taken.
func (a *actor[S]) prepare(group []*task[S]) (_ []*task[S], fresh bool, err error) {
	if pause := a.turns.leave(time.Now(), a.reg.cfg.Shared); pause > 0 {
		a.reg.metrics.yields.Inc()
		_ = delay.For(a.reg.ctx, pause) // a canceled context is detected below
		group = a.join(group)
	}
	if !a.loaded || a.stale || a.turns.stale() {
		return group, true, a.refresh()
	}
	return group, false, nil
}

// afterLoss reads the winner's events, and adds tasks queued in the meantime to the group. Errors:
// ErrBusy when the retry budget is exhausted, and those of reading.
func (a *actor[S]) afterLoss(settle *patience, lost int, group []*task[S]) ([]*task[S], error) {
	if lost == 1 { // the previous append may have waited for an unavailable store
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

// maxLossPause limits the pause after many losses, in halves of an append's duration.
const maxLossPause = 8
