package streamwriter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
)

// leaveAmbiguous stops repeating an append that may have been stored, or may be stored later. A later read of
// its revision resolves it.
func (a *Actor[S]) leaveAmbiguous(r *round[S], err error) {
	a.undo(r)
	a.mu.Lock()
	a.state.Withdraw()
	a.mu.Unlock()
	a.stale = true
	d := ambiguousAppend[S]{revision: r.first, first: r.proposed[0].ID, since: time.Now()}
	for _, m := range r.members {
		if m.changes {
			d.commands = append(d.commands, m.queued)
			a.fail([]*queued[S]{m.queued}, err)
			continue
		}
		if m.err == nil || !errors.Is(m.err, context.Canceled) && !errors.Is(m.err, context.DeadlineExceeded) {
			m.err = fmt.Errorf("%s: %w", a.stream, ErrBusy) // nothing proves its outcome
		}
		a.fail([]*queued[S]{m.queued}, m.err)
	}
	if len(a.ambiguous) == 0 {
		a.unreadable = false
	}
	if len(a.ambiguous) < maxAmbiguous {
		a.ambiguous = append(a.ambiguous, d)
		return
	}
	a.abandon(d, fmt.Errorf("too many appends are ambiguous: %w", err))
}

// checkAmbiguous reads the stream, which resolves ambiguous appends. It logs once that the stream is
// unreadable, and once that it is readable again.
func (a *Actor[S]) checkAmbiguous() error {
	err := a.refresh()
	switch unreadable := err != nil; {
	case unreadable == a.unreadable:
	case unreadable:
		a.all.cfg.Logger.Warn("stream with an ambiguous append cannot be read", "stream", a.stream,
			"appends", len(a.ambiguous), "error", err)
	default:
		a.all.cfg.Logger.Info("stream with an ambiguous append can be read again", "stream", a.stream)
	}
	a.unreadable = err != nil
	return err
}

// resolveAmbiguous examines an event that was read: if it is the first of an ambiguous append, all of that
// append was stored although its callers were answered with an unknown outcome.
func (a *Actor[S]) resolveAmbiguous(rec *eventlog.Recorded) {
	kept := a.ambiguous[:0]
	for _, d := range a.ambiguous {
		if d.revision != rec.Revision {
			kept = append(kept, d)
			continue
		}
		if d.first != rec.ID {
			continue // another append has its revision: it was never stored
		}
		for _, t := range d.commands {
			if t.caller != nil {
				a.compensate(t.command.Compensation())
			}
		}
	}
	clear(a.ambiguous[len(kept):])
	a.ambiguous = kept
}

// dropAmbiguous treats appends as lost that have been ambiguous for this long: the stream was read and
// has no event at their revision.
func (a *Actor[S]) dropAmbiguous(after time.Duration) {
	for _, d := range a.takeAmbiguous(after) {
		requests := make([]string, len(d.commands))
		for i, t := range d.commands {
			requests[i] = t.request.ID
		}
		a.all.cfg.Logger.Warn("an ambiguous append is treated as lost", "stream", a.stream, "revision", d.revision,
			"request_ids", requests)
	}
}

// abandonAmbiguous leaves appends to an operator that have been ambiguous for this long because the
// stream cannot be read.
func (a *Actor[S]) abandonAmbiguous(after time.Duration, err error) {
	for _, d := range a.takeAmbiguous(after) {
		a.abandon(d, err)
	}
}

// abandon logs each command of an ambiguous append that would need compensation if the append was stored.
func (a *Actor[S]) abandon(d ambiguousAppend[S], err error) {
	for _, t := range d.commands {
		if t.caller == nil {
			continue // a compensation; answer has handled it
		}
		if back := t.command.Compensation(); back != nil {
			a.leaveToOperator(back.queued(),
				fmt.Errorf("it is unknown whether the append at revision %d was stored: %w", d.revision, err))
		}
	}
}

// takeAmbiguous removes and returns the appends that have been ambiguous for this long.
func (a *Actor[S]) takeAmbiguous(after time.Duration) (taken []ambiguousAppend[S]) {
	kept := a.ambiguous[:0]
	for _, d := range a.ambiguous {
		if time.Since(d.since) < after {
			kept = append(kept, d)
		} else {
			taken = append(taken, d)
		}
	}
	clear(a.ambiguous[len(kept):])
	a.ambiguous = kept
	return taken
}

// resolveBeforeEnd resolves ambiguous appends before the actor ends: it tries to read the stream until Drain's
// deadline, and leaves the appends that are then still ambiguous to an operator. It returns true if
// there are compensations to append.
func (a *Actor[S]) resolveBeforeEnd() bool {
	for since, pause := time.Now(), firstPause; len(a.ambiguous) > 0; pause = min(2*pause, CheckAmbiguousEvery) {
		err := a.checkAmbiguous()
		switch {
		case err == nil:
			a.dropAmbiguous(0)
		case !Temporary(err), errors.Is(err, eventlog.ErrClosed), time.Since(since) >= AmbiguousUnreadFor,
			delay.For(a.all.ctx, delay.Jittered(pause)) != nil:
			a.abandonAmbiguous(0, err)
		}
	}
	if a.all.ctx.Err() == nil {
		return len(a.pending) > 0
	}
	for _, t := range a.pending { // no time for another attempt
		a.leaveToOperator(t, a.all.ctx.Err())
	}
	a.pending = nil
	return false
}
