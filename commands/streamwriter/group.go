package streamwriter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"letterhead/internal/eventlog"
)

// round is one attempt to decide a group: the state holds its events tentatively.
type round[S State] struct {
	at       time.Time
	first    uint64 // revision of the first event
	proposed []eventlog.Proposed
	bytes    int
	members  []member[S] // the members examined, in order
	// unproven is set if an outcome appends nothing, so that only an append of another member, or a
	// read of the tail, proves that it was decided on the current stream.
	unproven bool
}

// member is one command in a round.
type member[S State] struct {
	queued *queued[S]
	err    error
	// changes reports whether its effect is part of what the round appends.
	changes bool
}

func (r *round[S]) full() bool {
	return len(r.proposed) >= maxGroupEvents || r.bytes >= MaxGroupBytes
}

// process decides a group, appends the accepted events and answers the callers. It returns the commands
// that did not fit.
func (a *Actor[S]) process(group []*queued[S]) (rest []*queued[S]) {
	var budget retryBudget
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
			// One command that cannot be written must not fail the others.
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
			a.all.metrics.conflicts.Inc()
			lost++
			group, err = a.afterLoss(&budget, lost, group)
		case errors.Is(err, ErrUnknownOutcome):
			a.leaveAmbiguous(r, err)
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

// decide decides the commands one by one against the running state until the group is full. On an error,
// broken is the index of the command whose events cannot be written.
func (a *Actor[S]) decide(group []*queued[S]) (r *round[S], broken int, err error) {
	r = &a.round
	*r = round[S]{at: a.clock(), first: a.state.Revisions(), members: r.members[:0]}
	a.state.Begin()
	if err := a.include(r, a.state.BeforeGroup(r.at)); err != nil {
		return r, 0, err
	}
	for i, t := range group {
		if r.full() {
			break
		}
		m := member[S]{queued: t, err: t.ctx.Err()} // the caller may have left
		if m.err != nil {
			r.members = append(r.members, m)
			continue
		}
		var d Decision
		d, m.err = a.decideOne(t, r.at)
		m.changes = d.Joined || len(d.Events) > 0
		r.unproven = r.unproven || !m.changes && !a.final(d, m.err)
		r.members = append(r.members, m)
		if err := a.write(r, d.Events, t.request); err != nil {
			return r, i, err
		}
	}
	return r, 0, a.include(r, a.state.AfterGroup())
}

// final reports whether an outcome without events is valid without reading the stream's tail.
func (a *Actor[S]) final(d Decision, rejection error) bool {
	if rejection == nil {
		return d.Final
	}
	return a.all.kind.Final(rejection)
}

// decideOne decides and applies in one step, so that a function passed to Actors.With never sees a
// decision without its effect.
func (a *Actor[S]) decideOne(t *queued[S], now time.Time) (Decision, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	d, err := t.command.Decide(a.state, now)
	if err != nil {
		return Decision{}, err
	}
	for _, ev := range d.Events {
		a.state.Apply(ev, now)
	}
	t.command.Applied(a.state)
	a.state.Publish(false)
	return d, nil
}

// include applies and writes events that no command caused.
func (a *Actor[S]) include(r *round[S], events []Event) error {
	if len(events) == 0 {
		return nil
	}
	a.mu.Lock()
	for _, e := range events {
		a.state.Apply(e.Event, r.at)
	}
	a.state.Publish(false)
	a.mu.Unlock()
	for _, e := range events {
		if err := a.write(r, []eventlog.Body{e.Event}, e.Request); err != nil {
			return err
		}
	}
	return nil
}

// write adds applied events to what the round appends.
func (a *Actor[S]) write(r *round[S], events []eventlog.Body, request Request) error {
	for _, ev := range events {
		p, err := a.all.kind.Propose(a.all.cfg.Encoder, a.stream, ev, request, r.at)
		if err != nil {
			return err
		}
		r.proposed = append(r.proposed, p)
		written := &r.proposed[len(r.proposed)-1]
		if a.chain != nil {
			revision := r.first + uint64(len(r.proposed)) - 1
			a.chain.Link(a.all.kind.Chain.Link(a.chain.Head(), a.stream, revision, written))
		}
		r.bytes += len(written.Data) + metadataBytes(written)
	}
	return nil
}

// metadataBytes is an upper estimate of the size of an event without its data.
func metadataBytes(p *eventlog.Proposed) int {
	m := &p.Metadata
	return 256 + len(p.Type) + len(m.RequestID) + len(m.Actor) + len(m.CorrelationID) + len(m.CausationID) + len(m.Hash)
}

// clock returns the time of a round: whole microseconds, never before the last event of the stream.
func (a *Actor[S]) clock() time.Time {
	now := a.all.cfg.Now().UTC().Truncate(time.Microsecond)
	if last := a.state.LastAt(); now.Before(last) {
		return last
	}
	return now
}

// append writes the round's events. While the outcome is unknown it repeats the identical append.
// Errors: eventlog.ErrWrongRevision (no event was stored), ErrUnknownOutcome, else the log's.
func (a *Actor[S]) append(r *round[S]) (eventlog.Appended, error) {
	known := newRetryBudget(a.all.cfg.KnowWithin)
	expected := eventlog.After(r.first)
	ambiguous := false
	started := time.Now()
	for {
		called := time.Now()
		done, err := a.all.log.Append(a.all.callContext(called), a.stream, expected, r.proposed)
		switch {
		case err == nil:
			now := time.Now()
			a.fairness.won(now, now.Sub(called))
			a.all.metrics.appended(len(r.members), len(r.proposed), now.Sub(started))
			return done, nil
		case errors.Is(err, eventlog.ErrWrongRevision):
			return eventlog.Appended{}, err
		case errors.Is(err, eventlog.ErrAmbiguous):
			ambiguous = true
		case !ambiguous:
			return eventlog.Appended{}, storeError(err)
		}
		// Any other error of a repeat concerns only the repeat.
		a.all.metrics.retries.Inc()
		if errors.Is(err, eventlog.ErrClosed) || !known.wait(a.all.ctx) {
			return eventlog.Appended{}, fmt.Errorf("append %d events to %s at %s: %w: %w", len(r.proposed), a.stream,
				expected, ErrUnknownOutcome, err)
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
func (a *Actor[S]) undo(r *round[S]) {
	a.state.Rollback()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, v := range slices.Backward(r.members) {
		if v.err == nil {
			v.queued.command.Undone(a.state)
		}
	}
	a.state.Publish(true)
}

// conclude makes the round's outcome final and answers the callers.
func (a *Actor[S]) conclude(r *round[S], done eventlog.Appended) {
	a.state.Commit()
	if len(r.proposed) > 0 {
		a.position = done.Position
		a.ambiguous = a.ambiguous[:0] // their revision is taken now
	}
	a.mu.Lock()
	a.state.Publish(true)
	for _, m := range r.members {
		m.queued.command.Finished(a, m.err, a.position)
	}
	a.mu.Unlock()
	for _, m := range r.members {
		a.answer(m.queued, m.err, m.err == nil)
	}
}
