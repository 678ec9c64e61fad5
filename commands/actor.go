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

// Limits of an actor's work.
const (
	// maxGroup bounds the commands that are decided together.
	maxGroup = 512
	// maxTaskEvents is the most events that one command leads to: a release of account.MaxReleases holds, or a
	// recall of account.MaxKeyItems charges, with an event or two beside them.
	maxTaskEvents = 160
	// maxGroupEvents is when a group takes no further command, so that the last one still fits an append.
	maxGroupEvents = eventlog.MaxAppendEvents - maxTaskEvents
	// maxGroupBytes is the same in bytes. The rest, some 140 KB, holds the events of any one command.
	maxGroupBytes = 640_000
	// tailPage is how many events one read of a stream fetches.
	tailPage = 2048
	// maxOwed bounds what one actor still has to hand back; past it the oldest is given up and logged.
	maxOwed = 4096
	// maxHandedIn bounds what others have given the actor to hand back and it has not taken up yet. It is
	// beside MaxQueue: a full queue is when clients give up.
	maxHandedIn = 4096
	// owedWithin is how long handing something back is tried before it is left to an operator.
	owedWithin = time.Minute
	// maxOwedPause bounds the pause before the next attempt.
	maxOwedPause = time.Second
	// doubtPause is how often a stream is read again to see whether an append in doubt landed.
	doubtPause = time.Second
	// doubtWithin is how long an append in doubt is waited for once the stream can be read: well past the
	// deadlines of the calls that sent it. doubtUnread is the same for a stream that cannot be read, also at
	// the shutdown, where Drain's deadline comes before it.
	doubtWithin = time.Minute
	doubtUnread = 10 * time.Minute
	// distrustFor is how long the verdict on a stream that cannot be folded stands, so that not every request
	// folds it anew.
	distrustFor = 5 * time.Second
	// maxDoubts bounds the appends in doubt; the stream cannot be appended to while there is more than one
	// at a revision, so there are seldom two.
	maxDoubts = 64
)

// streamState is the folded state of one stream and what its desk publishes of it. The first part belongs to
// the actor's goroutine; what publish writes is guarded by the actor's lock.
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
	Reset() // to before the first event

	// Prelude is what a group appends before its first command, Finale what it appends after its last.
	Prelude(now time.Time) []authored
	Finale() []authored

	// Publish shows the state to those who do not queue; durable says that nothing of it is tentative. It is
	// called with the lock held.
	Publish(durable bool)
	// Withdraw shows that nothing is known any more, with the lock held.
	Withdraw()
	// Idle says, with the lock held, that nothing would be lost if the actor ended.
	Idle() bool
}

// chained is a state whose stream carries the hash chain.
type chained interface {
	Head() eventschemas.Hash
	Link(head eventschemas.Hash)
}

// authored is an event and who asked for it.
type authored struct {
	event   eventschemas.Event
	request Request
}

// verdict is what a command leads to.
type verdict struct {
	events []eventschemas.Event
	// joined says that the command's effect is part of an event that the group appends anyway.
	joined bool
}

// job is one command at an actor. decide, applied, undone and finished are called with the actor's lock held.
type job[S streamState] interface {
	// decide returns what the command leads to, or its refusal. It changes nothing that undone does not take
	// back, and is called again when the group has to be decided again.
	decide(s S, now time.Time) (verdict, error)
	// applied is called after the decided events, if any, were applied to the state.
	applied(s S)
	// undone takes back what decide and applied did, because the group was rolled back.
	undone(s S)
	// finished is called once with the final outcome, before the caller hears of it.
	finished(a *actor[S], err error, position eventlog.Position)
	// orphaned is called when the command succeeded but its caller has gone, or was told that nobody knows; and when
	// nobody will ever know, to tell an operator what would have to be handed back. It returns what hands its effect
	// back, nil when there is nothing to hand back. The lock is not held.
	orphaned() *task[S]
}

// callerState says what became of a task's caller. Whoever moves it away from waiting decides.
type callerState struct{ atomic.Int32 }

const (
	callerWaits int32 = iota
	callerAnswered
	callerLeft
)

// move returns false when somebody else was first.
func (s *callerState) move(to int32) bool { return s.CompareAndSwap(callerWaits, to) }

// task is a job in a queue.
type task[S streamState] struct {
	ctx     context.Context
	request Request
	job     job[S]
	loose   bool // success without an event needs no look at the stream's tail
	patient bool // waits for as long as the stream takes to load

	caller chan error // nil for what the actor owes
	state  callerState
	// owedSince and attempts are those of an owed task.
	owedSince time.Time
	attempts  int
}

// actor serves one stream: it alone folds and appends it in this registry. Fields under mu are shared; the
// rest belongs to its goroutine.
type actor[S streamState] struct {
	reg    *registry[S]
	key    string
	stream string
	wake   chan struct{}

	mu      sync.Mutex
	queue   []*task[S]
	awaited int        // push wakes the actor when so many are queued
	handed  []*task[S] // to be owed
	working bool       // not to be evicted: it decides, owes or doubts
	retired bool
	uses    uint64 // grows with every use, to tell idle actors
	state   S

	chain        chained // the state, when its stream carries the chain
	loaded       bool
	stale        bool // the tail must be read before the next decision
	position     eventlog.Position
	snapshot     uint64   // revisions at the last snapshot
	loading      *loading // of a stream that is loaded in the background; nil for none
	owed         []*task[S]
	owedWait     time.Duration // the last pause before owed was tried again
	nextOwed     time.Time     // when owed is tried again; zero for at once
	corrupt      error         // why the stream cannot be folded; stands until
	corruptUntil time.Time
	doubts       []doubt[S]
	blind        bool       // the last look for an append in doubt could not read the stream
	group        []*task[S] // memory of take
	turns        turns
	idleUses     uint64 // uses when the idle timer was set
}

// doubt is an append that may have landed.
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

// push puts a task into the queue. It returns false when the actor has ended and a new one is needed.
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

// handIn gives the actor something to hand back, past MaxQueue. It returns false when the actor has ended.
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

// run is the actor's life. It ends when the actor retires.
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

// gather lets those who were just answered, and are about to ask again, share the next append. Without it they come
// while that is under way and wait for it as well as for their own: on a store whose appends take long a busy account
// would have two groups of callers, in turns. It ends when all are back, when they come no more, or when the pause
// costs those who are back more than it saves those who come.
func (a *actor[S]) gather(answered int, timer *time.Timer) {
	pause, most := a.turns.gathering(answered)
	if pause == 0 {
		runtime.Gosched() // an append that takes less than a pause
		return
	}
	select {
	case <-a.wake: // of somebody who is in the queue
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

// await makes push wake the actor only when so many more than now are queued; 0 leaves it as it is, and less than that
// makes each push wake it. It returns how many are queued.
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

// take returns what is decided next: what is owed, when its pause is over, then what is queued.
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

// join adds what was queued since to a group.
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

// putBack returns tasks that did not fit the group to the head of the queue.
func (a *actor[S]) putBack(rest []*task[S]) {
	if len(rest) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queue = append(append(make([]*task[S], 0, len(rest)+len(a.queue)), rest...), a.queue...)
}

// rest waits for work. It returns false when the actor has ended.
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
		stopping = nil // first hand back what is owed
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

// tick does what is due when nothing was queued for a while.
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

// lastLook settles appends in doubt before the end: it tries to read the stream until Drain's deadline, and
// what is in doubt then is left to an operator. It returns true when something is to be handed back.
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
	for _, t := range a.owed { // there is no time left for another attempt
		a.giveUp(t, a.reg.ctx.Err())
	}
	a.owed = nil
	return false
}

// retire ends the actor when nothing is left to do; at shutdown whatever is in memory goes with it.
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

// fail answers tasks that cannot be decided. Their tentative effects are undone already.
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

// answer tells a caller the final outcome; durable says that the task's effect is on the stream or in
// memory, so that it must be handed back when the caller has gone.
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

// owe puts down what the actor has to append on its own account.
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

// settle looks at the outcome of what was owed: done, refused (kept, or released already), left to an operator,
// or to be tried again.
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
	if !now.Before(a.nextOwed) { // else another member of the group has set the pause
		a.owedWait = min(max(2*a.owedWait, firstPause), maxOwedPause)
		a.nextOwed = now.Add(delay.Jittered(a.owedWait))
	}
	a.owe(t)
}

// giveUp leaves it to an operator, who finds the charge by its request id, if it is there.
func (a *actor[S]) giveUp(t *task[S], err error) {
	a.reg.metrics.notHandedBack.Inc()
	a.reg.cfg.Logger.Error("could not hand back what its caller never heard of",
		"stream", a.stream, "request_id", t.request.ID, "attempts", t.attempts, "error", err)
}

// temporary says that trying again may succeed.
func temporary(err error) bool {
	return errors.Is(err, ErrBusy) || errors.Is(err, eventlog.ErrUnavailable) || errors.Is(err, eventlog.ErrAmbiguous) ||
		errors.Is(err, eventlog.ErrClosed)
}
