package streamwriter

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
)

// Limits of an actor.
const (
	// MaxGroup limits the commands that are decided together.
	MaxGroup = 512
	// MaxCommandEvents is the most events that one command may append.
	MaxCommandEvents = 160
	// maxGroupEvents is the size at which a group accepts no further command, so that the last command
	// still fits into one append.
	maxGroupEvents = eventlog.MaxAppendEvents - MaxCommandEvents
	// MaxGroupBytes is the same limit in bytes. The remaining 140 KB or so fit the events of any one command.
	MaxGroupBytes = 640_000
	// TailPage is the number of events that one read of a stream fetches.
	TailPage = 2048
	// maxPending limits the pending compensations of one actor; beyond it the oldest is abandoned and logged.
	maxPending = 4096
	// MaxSubmitted limits the compensations that others have submitted and the actor has not yet
	// accepted. It is separate from MaxQueue: clients give up when the queue is full.
	MaxSubmitted = 4096
	// CompensateWithin limits the retries of a compensation before it is left to an operator.
	CompensateWithin = time.Minute
	// MaxCompensationPause limits the pause before the next attempt.
	MaxCompensationPause = time.Second
	// CheckAmbiguousEvery is the interval between reads that check whether an ambiguous append was stored.
	CheckAmbiguousEvery = time.Second
	// AmbiguousFor is how long an ambiguous append stays unresolved once the stream can be read: well
	// beyond the deadlines of the calls that sent it. AmbiguousUnreadFor is the same for a stream that
	// cannot be read, also at shutdown, where Drain's deadline comes first.
	AmbiguousFor       = time.Minute
	AmbiguousUnreadFor = 10 * time.Minute
	// DistrustFor is how long the error of a stream that cannot be folded is cached, so that not every
	// request folds it again.
	DistrustFor = 5 * time.Second
	// maxAmbiguous limits the ambiguous appends. The stream accepts only one append per revision, so there are seldom
	// two.
	maxAmbiguous = 64
)

// callerState is the state of a command's caller. The first move away from callerWaits wins.
type callerState struct{ atomic.Int32 }

const (
	callerWaits int32 = iota
	callerAnswered
	callerLeft
)

// move returns false if another move came first.
func (s *callerState) move(to int32) bool { return s.CompareAndSwap(callerWaits, to) }

// queued is a command in a queue.
type queued[S State] struct {
	ctx     context.Context
	request Request
	command Command[S]
	patient bool // waits however long the stream takes to load

	caller chan error // nil for compensations
	state  callerState
	// pendingSince and attempts are used by compensations.
	pendingSince time.Time
	attempts     int
}

// Actor serves one stream: of its Actors only it folds the stream and appends to it. Fields under mu
// are shared; the others belong to its goroutine.
type Actor[S State] struct {
	all    *Actors[S]
	key    string
	stream string
	wake   chan struct{}

	mu        sync.Mutex
	queue     []*queued[S]
	awaited   int          // push wakes the actor once this many are queued
	submitted []*queued[S] // compensations that the actor has not yet accepted
	working   bool         // must not be evicted: it decides, or has compensations or ambiguous appends
	retired   bool
	uses      uint64 // grows with every use, to detect idle actors
	state     S

	chain        Chained // the state, if its stream carries the chain
	loaded       bool
	stale        bool // the tail must be read before the next decision
	position     eventlog.Position
	snapshot     uint64   // revisions at the last snapshot
	loading      *loading // of a stream that is loaded in the background; otherwise nil
	pending      []*queued[S]
	pendingPause time.Duration // the last pause before retrying pending
	nextPending  time.Time     // when pending is retried; zero for immediately
	corrupt      error         // why the stream cannot be folded; cached until
	corruptUntil time.Time
	ambiguous    []ambiguousAppend[S]
	unreadable   bool         // the last check for an ambiguous append could not read the stream
	group        []*queued[S] // reused by take
	round        round[S]     // reused by decide
	fairness     fairness
	idleUses     uint64 // uses when the idle timer was set
}

// ambiguousAppend is an append of unknown outcome: it may have been stored.
type ambiguousAppend[S State] struct {
	revision uint64
	first    uuid.UUID
	since    time.Time
	commands []*queued[S]
}

func newActor[S State](all *Actors[S], key, stream string, state S) *Actor[S] {
	a := &Actor[S]{all: all, key: key, stream: stream, state: state, wake: make(chan struct{}, 1)}
	a.chain, _ = any(state).(Chained)
	return a
}

// Key returns the key under which the actor was found.
func (a *Actor[S]) Key() string { return a.key }

// State returns the state, of which only what Publish writes may be read or changed. The lock must be
// held: in the calls of Command and in the function passed to Actors.With.
func (a *Actor[S]) State() S { return a.state }

// Queued returns the number of waiting commands. The lock must be held.
func (a *Actor[S]) Queued() int { return len(a.queue) }

// Update calls f with the state while holding the lock.
func (a *Actor[S]) Update(f func(s S)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f(a.state)
}

// push queues a command. It returns false if the actor has ended and a new one is needed.
func (a *Actor[S]) push(t *queued[S]) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.retired {
		return false, nil
	}
	if len(a.queue) >= a.all.cfg.MaxQueue {
		a.all.metrics.rejected.WithLabelValues("queue_full").Inc()
		return true, fmt.Errorf("%s has %d commands waiting: %w", a.stream, len(a.queue), ErrBusy)
	}
	a.queue = append(a.queue, t)
	a.uses++
	if len(a.queue) < a.awaited {
		return true, nil
	}
	delay.Signal(a.wake)
	return true, nil
}

// run is the actor's loop. It ends when the actor retires.
func (a *Actor[S]) run() {
	timer := time.NewTimer(a.all.cfg.IdleAfter)
	defer timer.Stop()
	for {
		group := a.take()
		if a.loading != nil {
			a.loadOn(group)
			continue
		}
		if len(group) == 0 {
			if !a.rest(timer) {
				a.saveSnapshot(true)
				return
			}
			continue
		}
		rest := a.process(group)
		answered := len(group) - len(rest)
		a.putBack(rest)
		clear(group)
		clear(a.round.members)
		a.saveSnapshot(false)
		a.gather(answered, timer)
	}
}

// gather lets callers that were just answered, and are about to call again, share the next append. Otherwise they
// arrive during that append and wait for it as well as for their own: on a store with slow appends a busy account would
// have two alternating groups of callers. It ends when all callers are back, when no more arrive, or when the pause
// costs the waiting callers more than it saves the others.
func (a *Actor[S]) gather(answered int, timer *time.Timer) {
	pause, most := a.fairness.gathering(answered)
	if pause == 0 {
		runtime.Gosched() // an append is faster than a pause
		return
	}
	select {
	case <-a.wake: // sent for a command that is already queued
	default:
	}
	began := time.Now()
	first := a.await(answered)
	defer a.await(-1)
	for before := first; ; {
		timer.Reset(pause)
		woken := false
		select {
		case <-a.wake:
			woken = true
		case <-a.all.stopping:
			woken = true
		case <-timer.C:
		}
		queued := a.await(0)
		waited := time.Since(began)
		if woken || queued == before && queued > first || queued >= MaxGroup || waited >= most {
			a.fairness.gathered(first, queued, waited)
			return
		}
		before = queued
	}
}

// await makes push wake the actor only once that many more commands are queued; with 0 nothing changes,
// and with less than 0 each push wakes it. It returns the number of queued commands.
func (a *Actor[S]) await(more int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case more < 0:
		a.awaited = 0
	case more > 0:
		a.awaited = min(len(a.queue)+more, MaxGroup, a.all.cfg.MaxQueue)
	}
	return len(a.queue)
}

// take returns the commands to decide next: pending compensations whose pause is over, then the queue.
func (a *Actor[S]) take() []*queued[S] {
	group := a.group[:0]
	a.mu.Lock()
	defer a.mu.Unlock()
	a.working = true
	for _, t := range a.submitted {
		a.retryLater(t)
	}
	clear(a.submitted)
	a.submitted = a.submitted[:0]
	if len(a.pending) > 0 && a.loading == nil && !time.Now().Before(a.nextPending) {
		n := min(len(a.pending), MaxGroup)
		group = append(group, a.pending[:n]...)
		a.pending = append(a.pending[:0], a.pending[n:]...)
	}
	a.group = a.joinLocked(group)
	return a.group
}

// join adds the commands to a group that were queued in the meantime.
func (a *Actor[S]) join(group []*queued[S]) []*queued[S] {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.joinLocked(group)
}

func (a *Actor[S]) joinLocked(group []*queued[S]) []*queued[S] {
	n := min(len(a.queue), MaxGroup-len(group))
	group = append(group, a.queue[:n]...)
	left := copy(a.queue, a.queue[n:])
	clear(a.queue[left:])
	a.queue = a.queue[:left]
	return group
}

// putBack returns commands that did not fit into the group to the head of the queue.
func (a *Actor[S]) putBack(rest []*queued[S]) {
	if len(rest) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queue = append(append(make([]*queued[S], 0, len(rest)+len(a.queue)), rest...), a.queue...)
}

// rest waits for work. It returns false if the actor has ended.
func (a *Actor[S]) rest(timer *time.Timer) bool {
	a.mu.Lock()
	a.working = len(a.pending) > 0 || len(a.ambiguous) > 0
	retired, waiting := a.retired, len(a.queue) > 0 || len(a.submitted) > 0
	a.idleUses = a.uses
	a.mu.Unlock()
	if retired || waiting {
		return !retired
	}
	pause := a.all.cfg.IdleAfter
	switch {
	case len(a.pending) > 0:
		pause = max(time.Until(a.nextPending), 0)
	case len(a.ambiguous) > 0:
		pause = CheckAmbiguousEvery
	}
	timer.Reset(pause)
	stopping := a.all.stopping
	if len(a.pending) > 0 && a.all.ctx.Err() == nil {
		stopping = nil // finish pending compensations first
	}
	select {
	case <-a.wake:
		return true
	case <-stopping:
		return a.resolveBeforeEnd() || !a.retire(true)
	case <-timer.C:
		return a.tick()
	}
}

// tick runs when nothing was queued during the pause: it starts the work that is due, or retires the actor.
func (a *Actor[S]) tick() bool {
	switch {
	case len(a.pending) > 0:
		return true
	case len(a.ambiguous) > 0:
		if err := a.checkAmbiguous(); err != nil {
			a.abandonAmbiguous(AmbiguousUnreadFor, err)
		}
		return true
	default:
		return !a.retire(false)
	}
}

// retire ends the actor if nothing is left to do; at shutdown everything in memory is dropped.
func (a *Actor[S]) retire(shutdown bool) bool {
	a.all.mu.Lock()
	defer a.all.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.retired {
		return true
	}
	if len(a.queue) > 0 || len(a.submitted) > 0 || !shutdown && (a.uses != a.idleUses || !a.state.Idle()) {
		return false
	}
	a.retired = true
	delete(a.all.live, a.key)
	return true
}

// fail answers commands that cannot be decided. Their tentative effects have been undone.
func (a *Actor[S]) fail(commands []*queued[S], err error) {
	a.mu.Lock()
	for _, t := range commands {
		t.command.Finished(a, err, 0)
	}
	a.mu.Unlock()
	for _, t := range commands {
		a.answer(t, err, false)
	}
}

// answer sends a caller the final outcome; durable reports whether the command's effect is on the stream or
// in memory, so that it must be compensated if the caller has left.
func (a *Actor[S]) answer(t *queued[S], err error, durable bool) {
	if t.caller == nil {
		a.finishCompensation(t, err)
		return
	}
	gone := false
	if durable && t.ctx.Err() != nil {
		gone, err = true, t.ctx.Err()
	}
	if t.state.move(callerAnswered) {
		t.caller <- err
	} else {
		gone = durable
	}
	if gone {
		a.compensate(t.command.Compensation())
	}
}

// Temporary reports whether a retry may succeed.
func Temporary(err error) bool {
	return errors.Is(err, ErrBusy) || errors.Is(err, eventlog.ErrUnavailable) ||
		errors.Is(err, eventlog.ErrAmbiguous) ||
		errors.Is(err, eventlog.ErrClosed)
}
