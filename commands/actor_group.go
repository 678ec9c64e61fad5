package commands

import (
	"context"
	"errors"
	"fmt"
	"time"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// round is one attempt to decide a group: the state holds its events tentatively.
type round[S streamState] struct {
	at       time.Time
	first    uint64 // revision of the first event
	proposed []eventlog.Proposed
	bytes    int
	members  []member[S] // the members examined, in order
	// unproven is set if an outcome appends nothing, so that only an append of another member, or a
	// read of the tail, proves that it was decided on the current stream.
	unproven bool
}

// member is one task in a round.
type member[S streamState] struct {
	task *task[S]
	err  error
	// changes reports whether its effect is part of what the round appends.
	changes bool
}

func (r *round[S]) full() bool {
	return len(r.proposed) >= maxGroupEvents || r.bytes >= maxGroupBytes
}

// process decides a group, appends the accepted events and answers the callers. It returns the tasks
// that did not fit.
func (a *actor[S]) process(group []*task[S]) (rest []*task[S]) {
	var settle patience
	group, fresh, err := a.prepare(group)
	if err != nil && a.loading != nil {
		return a.keepPatient(group, err)
	}
	if err != nil {
		a.fail(group, err)
		return nil
	}
	for lost := 0; len(group) > 0; {
		r, broken, err := a.decide(group)
		if err != nil {
			// One task that cannot be written must not fail the others.
			a.undo(r)
			a.fail(group[broken:broken+1], err)
			group = append(group[:broken], group[broken+1:]...)
			continue
		}
		if len(r.proposed) == 0 && (!r.unproven || fresh) {
			a.conclude(r, eventlog.Appended{})
			return group[len(r.members):]
		}
		var done eventlog.Appended
		if len(r.proposed) > 0 {
			done, err = a.append(r)
		}
		switch {
		case len(r.proposed) == 0: // unproven
			a.undo(r)
			err = a.refresh()
		case err == nil:
			a.conclude(r, done)
			return group[len(r.members):]
		case errors.Is(err, eventlog.ErrWrongRevision):
			a.undo(r)
			a.reg.metrics.conflicts.Inc()
			lost++
			group, err = a.afterLoss(&settle, lost, group)
		case errors.Is(err, ErrUnknownOutcome):
			a.inDoubt(r, err)
			return group[len(r.members):]
		default:
			a.undo(r)
			a.fail(group[:len(r.members)], err)
			return group[len(r.members):]
		}
		if err != nil {
			a.fail(group, err)
			return nil
		}
		fresh = true
	}
	return nil
}

// decide decides the tasks one by one against the running state until the group is full. On an error,
// broken is the index of the task whose events cannot be written.
func (a *actor[S]) decide(group []*task[S]) (r *round[S], broken int, err error) {
	r = &round[S]{at: a.clock(), first: a.state.Revisions(), members: make([]member[S], 0, len(group))}
	a.state.Begin()
	if err := a.include(r, a.state.Prelude(r.at)); err != nil {
		return r, 0, err
	}
	for i, t := range group {
		if r.full() {
			break
		}
		m := member[S]{task: t, err: t.ctx.Err()} // the caller may have left
		if m.err != nil {
			r.members = append(r.members, m)
			continue
		}
		var v verdict
		v, m.err = a.decideOne(t, r.at)
		m.changes = v.joined || len(v.events) > 0
		r.unproven = r.unproven || !m.changes && !provenBy(m.err, t.loose)
		r.members = append(r.members, m)
		if err := a.write(r, v.events, t.request); err != nil {
			return r, i, err
		}
	}
	return r, 0, a.include(r, a.state.Finale())
}

// provenBy reports whether an outcome without events is valid without reading the stream's tail.
func provenBy(err error, loose bool) bool {
	if err == nil {
		return loose
	}
	// Independent of the stream: a malformed request stays malformed, and an older record stays older.
	return errors.Is(err, account.ErrInvalid) || errors.Is(err, ErrOlderRecord)
}

// decideOne decides and applies in one step, so that no reservation in between can take credits that
// were just spent.
func (a *actor[S]) decideOne(t *task[S], now time.Time) (verdict, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	v, err := t.job.decide(a.state, now)
	if err != nil {
		return verdict{}, err
	}
	for _, ev := range v.events {
		a.state.Apply(ev, now)
	}
	t.job.applied(a.state)
	a.state.Publish(false)
	return v, nil
}

// include applies and writes events that no task caused.
func (a *actor[S]) include(r *round[S], events []authored) error {
	if len(events) == 0 {
		return nil
	}
	a.mu.Lock()
	for _, e := range events {
		a.state.Apply(e.event, r.at)
	}
	a.state.Publish(false)
	a.mu.Unlock()
	for _, e := range events {
		if err := a.write(r, []eventschemas.Event{e.event}, e.request); err != nil {
			return err
		}
	}
	return nil
}

// write adds applied events to what the round appends.
func (a *actor[S]) write(r *round[S], events []eventschemas.Event, request Request) error {
	for _, ev := range events {
		p, err := proposal(a.reg.cfg.Events, a.stream, authored{event: ev, request: request}, eventlog.Proposed{OccurredAt: r.at})
		if err != nil {
			return err
		}
		if a.chain != nil {
			head := chainLink(a.stream, r.first+uint64(len(r.proposed)), &p).Next(a.chain.Head())
			a.chain.Link(head)
			p.Metadata.Hash = hexOf(head)
		}
		r.proposed = append(r.proposed, p)
		r.bytes += len(p.Data) + metadataBytes(&p)
	}
	return nil
}

// metadataBytes is an upper estimate of the size of an event without its data.
func metadataBytes(p *eventlog.Proposed) int {
	m := &p.Metadata
	return 256 + len(p.Type) + len(m.RequestID) + len(m.Actor) + len(m.CorrelationID) + len(m.CausationID) + len(m.Hash)
}

// clock returns the time of a round: whole microseconds, never before the last event of the stream.
func (a *actor[S]) clock() time.Time {
	now := a.reg.cfg.Now().UTC().Truncate(time.Microsecond)
	if last := a.state.LastAt(); now.Before(last) {
		return last
	}
	return now
}

// append writes the round's events. While the outcome is unknown it repeats the identical append.
// Errors: eventlog.ErrWrongRevision (no event landed), ErrUnknownOutcome, else the log's.
func (a *actor[S]) append(r *round[S]) (eventlog.Appended, error) {
	known := newPatience(a.reg.cfg.KnowWithin)
	expected := eventlog.After(r.first)
	ambiguous := false
	started := time.Now()
	for {
		called := time.Now()
		ctx, cancel := context.WithTimeout(a.reg.ctx, a.reg.cfg.AppendWithin)
		done, err := a.reg.log.Append(ctx, a.stream, expected, r.proposed)
		cancel()
		switch {
		case err == nil:
			now := time.Now()
			a.turns.won(now, now.Sub(called))
			a.reg.metrics.appended(len(r.members), len(r.proposed), now.Sub(started))
			return done, nil
		case errors.Is(err, eventlog.ErrWrongRevision):
			return eventlog.Appended{}, err
		case errors.Is(err, eventlog.ErrAmbiguous):
			ambiguous = true
		case !ambiguous:
			return eventlog.Appended{}, storeError(err)
		}
		// Any other error of a repeat concerns only the repeat.
		a.reg.metrics.retries.Inc()
		if errors.Is(err, eventlog.ErrClosed) || !known.wait(a.reg.ctx) {
			return eventlog.Appended{}, fmt.Errorf("append %d events to %s at %s: %w: %w", len(r.proposed), a.stream, expected, ErrUnknownOutcome, err)
		}
	}
}

// storeError keeps the actor's own deadlines from looking like the caller's.
func storeError(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w: %w", eventlog.ErrUnavailable, errors.New(err.Error()))
	}
	return err
}

// undo rolls the round back.
func (a *actor[S]) undo(r *round[S]) {
	a.state.Rollback()
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := len(r.members) - 1; i >= 0; i-- {
		if r.members[i].err == nil {
			r.members[i].task.job.undone(a.state)
		}
	}
	a.state.Publish(true)
}

// conclude makes the round's outcome final and answers the callers.
func (a *actor[S]) conclude(r *round[S], done eventlog.Appended) {
	a.state.Commit()
	if len(r.proposed) > 0 {
		a.position = done.Position
		a.doubts = a.doubts[:0] // their revision is taken now
	}
	a.mu.Lock()
	a.state.Publish(true)
	for _, m := range r.members {
		m.task.job.finished(a, m.err, a.position)
	}
	a.mu.Unlock()
	for _, m := range r.members {
		a.answer(m.task, m.err, m.err == nil)
	}
}

// inDoubt stops repeating an append that may have landed or may still land. A later read of its
// revision settles it.
func (a *actor[S]) inDoubt(r *round[S], err error) {
	a.undo(r)
	a.mu.Lock()
	a.state.Withdraw()
	a.mu.Unlock()
	a.stale = true
	d := doubt[S]{revision: r.first, first: r.proposed[0].ID, since: time.Now()}
	for _, m := range r.members {
		if m.changes {
			d.tasks = append(d.tasks, m.task)
			a.fail([]*task[S]{m.task}, err)
			continue
		}
		if m.err == nil || !errors.Is(m.err, context.Canceled) && !errors.Is(m.err, context.DeadlineExceeded) {
			m.err = fmt.Errorf("%s: %w", a.stream, ErrBusy) // nothing proves its outcome
		}
		a.fail([]*task[S]{m.task}, m.err)
	}
	if len(a.doubts) == 0 {
		a.blind = false
	}
	if len(a.doubts) < maxDoubts {
		a.doubts = append(a.doubts, d)
		return
	}
	a.abandon(d, fmt.Errorf("too many appends are in doubt: %w", err))
}

// lookForDoubts reads the stream, which settles ambiguous appends. It logs once that the stream is
// unreadable, and once that it is readable again.
func (a *actor[S]) lookForDoubts() error {
	err := a.refresh()
	switch blind := err != nil; {
	case blind == a.blind:
	case blind:
		a.reg.cfg.Logger.Warn("stream with an append in doubt cannot be read", "stream", a.stream, "appends", len(a.doubts), "error", err)
	default:
		a.reg.cfg.Logger.Info("stream with an append in doubt can be read again", "stream", a.stream)
	}
	a.blind = err != nil
	return err
}

// settleDoubts examines an event that was read: if it is the first of an ambiguous append, all of that
// append landed although its callers were answered with an unknown outcome.
func (a *actor[S]) settleDoubts(rec *eventlog.Recorded) {
	kept := a.doubts[:0]
	for _, d := range a.doubts {
		if d.revision != rec.Revision {
			kept = append(kept, d)
			continue
		}
		if d.first != rec.ID {
			continue // another append has its revision: it never landed
		}
		for _, t := range d.tasks {
			if t.caller != nil {
				a.owe(t.job.orphaned())
			}
		}
	}
	clear(a.doubts[len(kept):])
	a.doubts = kept
}

// dropDoubts treats appends as lost that have been ambiguous for this long: the stream was read and
// has no event at their revision.
func (a *actor[S]) dropDoubts(after time.Duration) {
	for _, d := range a.takeDoubts(after) {
		requests := make([]string, len(d.tasks))
		for i, t := range d.tasks {
			requests[i] = t.request.ID
		}
		a.reg.cfg.Logger.Warn("an append in doubt is taken as lost", "stream", a.stream, "revision", d.revision, "request_ids", requests)
	}
}

// abandonDoubts leaves appends to an operator that have been ambiguous for this long because the
// stream cannot be read.
func (a *actor[S]) abandonDoubts(after time.Duration, err error) {
	for _, d := range a.takeDoubts(after) {
		a.abandon(d, err)
	}
}

// abandon logs each command of an ambiguous append that would need compensation if the append landed.
func (a *actor[S]) abandon(d doubt[S], err error) {
	for _, t := range d.tasks {
		if t.caller == nil {
			continue // a compensation; answer has handled it
		}
		if back := t.job.orphaned(); back != nil {
			a.giveUp(back, fmt.Errorf("whether the append at revision %d landed is not known: %w", d.revision, err))
		}
	}
}

// takeDoubts removes and returns the appends that have been ambiguous for this long.
func (a *actor[S]) takeDoubts(after time.Duration) (taken []doubt[S]) {
	kept := a.doubts[:0]
	for _, d := range a.doubts {
		if time.Since(d.since) < after {
			kept = append(kept, d)
		} else {
			taken = append(taken, d)
		}
	}
	clear(a.doubts[len(kept):])
	a.doubts = kept
	return taken
}
