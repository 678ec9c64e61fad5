package commands

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
)

// Limits of an actor.
const (
	// maxGroup limits the commands that are decided together.
	maxGroup = 512
	// maxTaskEvents limits the events of one command: a release of account.MaxReleases holds, or a
	// recall of account.MaxKeyItems charges, plus an event or two.
	maxTaskEvents = 160
	// maxGroupEvents is the size at which a group accepts no further command, so that the last command
	// still fits into one append.
	maxGroupEvents = eventlog.MaxAppendEvents - maxTaskEvents
	// maxGroupBytes is the same limit in bytes. The remaining 140 KB or so fit the events of any one
	// command.
	maxGroupBytes = 640_000
	// tailPage is the number of events that one read of a stream fetches.
	tailPage = 2048
	// maxOwed limits the pending compensations of one actor; beyond it the oldest is given up and
	// logged.
	maxOwed = 4096
	// maxHandedIn limits the compensations that others have submitted and the actor has not yet
	// accepted. It is separate from MaxQueue: clients give up when the queue is full.
	maxHandedIn = 4096
	// owedWithin limits the retries of a compensation before it is left to an operator.
	owedWithin = time.Minute
	// maxOwedPause limits the pause before the next attempt.
	maxOwedPause = time.Second
	// doubtPause is the interval between reads that check whether an ambiguous append landed.
	doubtPause = time.Second
	// doubtWithin is how long an ambiguous append stays unresolved once the stream can be read: well
	// beyond the deadlines of the calls that sent it. doubtUnread is the same for a stream that cannot
	// be read, also at shutdown, where Drain's deadline comes first.
	doubtWithin = time.Minute
	doubtUnread = 10 * time.Minute
	// distrustFor is how long the error of a stream that cannot be folded is cached, so that not every
	// request folds it again.
	distrustFor = 5 * time.Second
	// maxDoubts limits the ambiguous appends. The stream accepts only one append per revision, so
	// there are seldom two.
	maxDoubts = 64
)

// streamState is the folded state of one stream and the part of it that is published. The state
// belongs to the actor's goroutine; the fields that Publish writes are guarded by the actor's lock.
type streamState interface {
	Apply(ev eventschemas.Event, at time.Time)
	Revisions() uint64 // events applied
	LastAt() time.Time
	Begin()
	Commit()
	Rollback()
	Remembered() int // entries a snapshot writes
	MarshalBinary() ([]byte, error)
	UnmarshalBinary(data []byte) error
	Reset() // back to the state before the first event

	// Prelude returns the events that a group appends before its first command, Finale those after its
	// last.
	Prelude(now time.Time) []authored
	Finale() []authored

	// Publish makes the state visible to readers that do not queue; durable reports whether none of it is
	// tentative. It is called with the lock held.
	Publish(durable bool)
	// Withdraw marks the published state as unknown. It is called with the lock held.
	Withdraw()
	// Idle reports whether the actor can end without losing anything. It is called with the lock held.
	Idle() bool
}

// chained is a state whose stream carries the hash chain.
type chained interface {
	Head() eventschemas.Hash
	Link(head eventschemas.Hash)
}

// authored is an event and the request that caused it.
type authored struct {
	event   eventschemas.Event
	request Request
}

// verdict is the result of deciding a command.
type verdict struct {
	events []eventschemas.Event
	// joined reports whether the command's effect is part of an event that the group appends anyway.
	joined bool
}

// job is one command at an actor. decide, applied, undone and finished are called with the actor's lock held.
type job[S streamState] interface {
	// decide returns the result of the command, or its refusal. Every change that it makes is reverted
	// by undone, and it is called again when the group has to be decided again.
	decide(s S, now time.Time) (verdict, error)
	// applied is called after the decided events, if any, were applied to the state.
	applied(s S)
	// undone reverts the effects of decide and applied because the group was rolled back.
	undone(s S)
	// finished is called once with the final outcome, before the caller gets it.
	finished(a *actor[S], err error, position eventlog.Position)
	// orphaned is called when the command succeeded but its caller has left or was answered with an
	// unknown outcome, and when the outcome will never be known, to log what an operator would have to
	// compensate. It returns the task that compensates the effect, or nil if there is nothing to
	// compensate. The lock is not held.
	orphaned() *task[S]
}

// callerState is the state of a task's caller. The first move away from callerWaits wins.
type callerState struct{ atomic.Int32 }

const (
	callerWaits int32 = iota
	callerAnswered
	callerLeft
)

// move returns false if another move came first.
func (s *callerState) move(to int32) bool { return s.CompareAndSwap(callerWaits, to) }

// task is a job in a queue.
type task[S streamState] struct {
	ctx     context.Context
	request Request
	job     job[S]
	loose   bool // success without an event needs no read of the stream's tail
	patient bool // waits however long the stream takes to load

	caller chan error // nil for compensations
	state  callerState
	// owedSince and attempts are used by compensations.
	owedSince time.Time
	attempts  int
}

// actor serves one stream: within this registry only it folds the stream and appends to it. Fields
// under mu are shared; the others belong to its goroutine.
type actor[S streamState] struct {
	reg    *registry[S]
	key    string
	stream string
	wake   chan struct{}

	mu      sync.Mutex
	queue   []*task[S]
	awaited int        // push wakes the actor once this many are queued
	handed  []*task[S] // compensations that the actor has not yet accepted
	working bool       // must not be evicted: it decides, or has compensations or ambiguous appends
	retired bool
	uses    uint64 // grows with every use, to detect idle actors
	state   S

	chain        chained // the state, if its stream carries the chain
	loaded       bool
	stale        bool // the tail must be read before the next decision
	position     eventlog.Position
	snapshot     uint64   // revisions at the last snapshot
	loading      *loading // of a stream that is loaded in the background; otherwise nil
	owed         []*task[S]
	owedWait     time.Duration // the last pause before retrying owed
	nextOwed     time.Time     // when owed is retried; zero for immediately
	corrupt      error         // why the stream cannot be folded; cached until
	corruptUntil time.Time
	doubts       []doubt[S]
	blind        bool       // the last check for an ambiguous append could not read the stream
	group        []*task[S] // reused by take
	turns        turns
	idleUses     uint64 // uses when the idle timer was set
}

// doubt is an ambiguous append: it may have landed.
type doubt[S streamState] struct {
	revision uint64
	first    uuid.UUID
	since    time.Time
	tasks    []*task[S]
}

func newActor[S streamState](reg *registry[S], key, stream string, state S) *actor[S] {
	a := &actor[S]{reg: reg, key: key, stream: stream, state: state, wake: make(chan struct{}, 1)}
	a.chain, _ = any(state).(chained)
	return a
}

// push queues a task. It returns false if the actor has ended and a new one is needed.
func (a *actor[S]) push(t *task[S]) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.retired {
		return false, nil
	}
	if len(a.queue) >= a.reg.cfg.MaxQueue {
		a.reg.metrics.refused.WithLabelValues("queue_full").Inc()
		return true, fmt.Errorf("%s has %d commands waiting: %w", a.stream, len(a.queue), ErrBusy)
	}
	a.queue = append(a.queue, t)
	a.uses++
	if len(a.queue) < a.awaited {
		return true, nil
	}
	select {
	case a.wake <- struct{}{}:
	default:
	}
	return true, nil
}

// handIn submits a compensation to the actor, regardless of MaxQueue. It returns false if the actor
// has ended.
func (a *actor[S]) handIn(t *task[S]) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.retired {
		return false, nil
	}
	if len(a.handed) >= maxHandedIn {
		a.reg.metrics.refused.WithLabelValues("handed_in_full").Inc()
		return true, fmt.Errorf("%s has %d commands to hand back: %w", a.stream, len(a.handed), ErrBusy)
	}
	t.owedSince = time.Now()
	a.handed = append(a.handed, t)
	a.uses++
	select {
	case a.wake <- struct{}{}:
	default:
	}
	return true, nil
}

// run is the actor's loop. It ends when the actor retires.
func (a *actor[S]) run() {
	timer := time.NewTimer(a.reg.cfg.IdleAfter)
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
		a.saveSnapshot(false)
		a.gather(answered, timer)
	}
}

// gather lets callers that were just answered, and are about to call again, share the next append.
// Otherwise they arrive during that append and wait for it as well as for their own: on a store with
// slow appends a busy account would have two alternating groups of callers. It ends when all callers
// are back, when no more arrive, or when the pause costs the waiting callers more than it saves the
// others.
func (a *actor[S]) gather(answered int, timer *time.Timer) {
	pause, most := a.turns.gathering(answered)
	if pause == 0 {
		runtime.Gosched() // an append is faster than a pause
		return
	}
	select {
	case <-a.wake: // sent for a task that is already queued
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
		case <-a.reg.stopping:
			woken = true
		case <-timer.C:
		}
		queued := a.await(0)
		waited := time.Since(began)
		if woken || queued == before && queued > first || queued >= maxGroup || waited >= most {
			a.turns.gathered(first, queued, waited)
			return
		}
		before = queued
	}
}

// await makes push wake the actor only once that many more tasks are queued; with 0 nothing changes,
// and with less than 0 each push wakes it. It returns the number of queued tasks.
func (a *actor[S]) await(more int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case more < 0:
		a.awaited = 0
	case more > 0:
		a.awaited = min(len(a.queue)+more, maxGroup, a.reg.cfg.MaxQueue)
	}
	return len(a.queue)
}

// take returns the tasks to decide next: pending compensations whose pause is over, then the queue.
func (a *actor[S]) take() []*task[S] {
	group := a.group[:0]
	a.mu.Lock()
	defer a.mu.Unlock()
	a.working = true
	for _, t := range a.handed {
		a.owe(t)
	}
	clear(a.handed)
	a.handed = a.handed[:0]
	if len(a.owed) > 0 && a.loading == nil && !time.Now().Before(a.nextOwed) {
		n := min(len(a.owed), maxGroup)
		group = append(group, a.owed[:n]...)
		a.owed = append(a.owed[:0], a.owed[n:]...)
	}
	a.group = a.joinLocked(group)
	return a.group
}

// join adds the tasks to a group that were queued in the meantime.
func (a *actor[S]) join(group []*task[S]) []*task[S] {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.joinLocked(group)
}

func (a *actor[S]) joinLocked(group []*task[S]) []*task[S] {
	n := min(len(a.queue), maxGroup-len(group))
	group = append(group, a.queue[:n]...)
	left := copy(a.queue, a.queue[n:])
	clear(a.queue[left:])
	a.queue = a.queue[:left]
	return group
}

// putBack returns tasks that did not fit into the group to the head of the queue.
func (a *actor[S]) putBack(rest []*task[S]) {
	if len(rest) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queue = append(append(make([]*task[S], 0, len(rest)+len(a.queue)), rest...), a.queue...)
}

// rest waits for work. It returns false if the actor has ended.
func (a *actor[S]) rest(timer *time.Timer) bool {
	a.mu.Lock()
	a.working = len(a.owed) > 0 || len(a.doubts) > 0
	retired, waiting := a.retired, len(a.queue) > 0 || len(a.handed) > 0
	a.idleUses = a.uses
	a.mu.Unlock()
	if retired || waiting {
		return !retired
	}
	pause := a.reg.cfg.IdleAfter
	switch {
	case len(a.owed) > 0:
		pause = max(time.Until(a.nextOwed), 0)
	case len(a.doubts) > 0:
		pause = doubtPause
	}
	timer.Reset(pause)
	stopping := a.reg.stopping
	if len(a.owed) > 0 && a.reg.ctx.Err() == nil {
		stopping = nil // finish pending compensations first
	}
	select {
	case <-a.wake:
		return true
	case <-stopping:
		return a.lastLook() || !a.retire(true)
	case <-timer.C:
		return a.tick()
	}
}

// tick runs when nothing was queued during the pause: it starts the work that is due, or retires the
// actor.
func (a *actor[S]) tick() bool {
	switch {
	case len(a.owed) > 0:
		return true
	case len(a.doubts) > 0:
		if err := a.lookForDoubts(); err != nil {
			a.abandonDoubts(doubtUnread, err)
		}
		return true
	default:
		return !a.retire(false)
	}
}

// lastLook settles ambiguous appends before the actor ends: it tries to read the stream until Drain's
// deadline, and leaves the appends that are then still ambiguous to an operator. It returns true if
// there are compensations to append.
func (a *actor[S]) lastLook() bool {
	for since, pause := time.Now(), firstPause; len(a.doubts) > 0; pause = min(2*pause, doubtPause) {
		err := a.lookForDoubts()
		switch {
		case err == nil:
			a.dropDoubts(0)
		case !temporary(err), errors.Is(err, eventlog.ErrClosed), time.Since(since) >= doubtUnread, delay.For(a.reg.ctx, delay.Jittered(pause)) != nil:
			a.abandonDoubts(0, err)
		}
	}
	if a.reg.ctx.Err() == nil {
		return len(a.owed) > 0
	}
	for _, t := range a.owed { // no time for another attempt
		a.giveUp(t, a.reg.ctx.Err())
	}
	a.owed = nil
	return false
}

// retire ends the actor if nothing is left to do; at shutdown everything in memory is dropped.
func (a *actor[S]) retire(shutdown bool) bool {
	a.reg.mu.Lock()
	defer a.reg.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.retired {
		return true
	}
	if len(a.queue) > 0 || len(a.handed) > 0 || !shutdown && (a.uses != a.idleUses || !a.state.Idle()) {
		return false
	}
	a.retired = true
	delete(a.reg.live, a.key)
	return true
}

// fail answers tasks that cannot be decided. Their tentative effects have been undone.
func (a *actor[S]) fail(tasks []*task[S], err error) {
	a.mu.Lock()
	for _, t := range tasks {
		t.job.finished(a, err, 0)
	}
	a.mu.Unlock()
	for _, t := range tasks {
		a.answer(t, err, false)
	}
}

// answer sends a caller the final outcome; durable reports whether the task's effect is on the stream or
// in memory, so that it must be compensated if the caller has left.
func (a *actor[S]) answer(t *task[S], err error, durable bool) {
	if t.caller == nil {
		a.settle(t, err)
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
		a.owe(t.job.orphaned())
	}
}

// owe records a compensation that the actor has to append.
func (a *actor[S]) owe(t *task[S]) {
	if t == nil {
		return
	}
	if len(a.owed) >= maxOwed {
		a.giveUp(a.owed[0], errors.New("too much is owed"))
		a.owed = append(a.owed[:0], a.owed[1:]...)
	}
	if t.owedSince.IsZero() {
		t.owedSince = time.Now()
	}
	a.owed = append(a.owed, t)
}

// settle handles the outcome of a compensation: done, refused (kept, or released already), left to an
// operator, or retried.
func (a *actor[S]) settle(t *task[S], err error) {
	if err == nil {
		a.owedWait, a.nextOwed = 0, time.Time{}
		a.reg.metrics.handedBack.Inc()
		return
	}
	if t.attempts++; errors.Is(err, eventlog.ErrCorrupt) || errors.Is(err, account.ErrTooLate) {
		a.giveUp(t, err)
		return
	}
	if !temporary(err) {
		a.reg.cfg.Logger.Info("nothing to hand back", "stream", a.stream, "request_id", t.request.ID, "reason", err)
		return
	}
	now := time.Now()
	if now.Sub(t.owedSince) >= owedWithin || a.reg.ctx.Err() != nil {
		a.giveUp(t, err)
		return
	}
	if !now.Before(a.nextOwed) { // otherwise another member of the group has set the pause
		a.owedWait = min(max(2*a.owedWait, firstPause), maxOwedPause)
		a.nextOwed = now.Add(delay.Jittered(a.owedWait))
	}
	a.owe(t)
}

// giveUp leaves a compensation to an operator, who finds the charge, if it exists, by its request id.
func (a *actor[S]) giveUp(t *task[S], err error) {
	a.reg.metrics.notHandedBack.Inc()
	a.reg.cfg.Logger.Error("could not hand back what its caller never heard of",
		"stream", a.stream, "request_id", t.request.ID, "attempts", t.attempts, "error", err)
}

// temporary reports whether a retry may succeed.
func temporary(err error) bool {
	return errors.Is(err, ErrBusy) || errors.Is(err, eventlog.ErrUnavailable) || errors.Is(err, eventlog.ErrAmbiguous) ||
		errors.Is(err, eventlog.ErrClosed)
}
