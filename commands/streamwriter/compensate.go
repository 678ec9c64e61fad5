package streamwriter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
)

// submit passes a compensation to the actor, regardless of MaxQueue. It returns false if the actor has ended.
func (a *Actor[S]) submit(t *queued[S]) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.retired {
		return false, nil
	}
	if len(a.submitted) >= MaxSubmitted {
		a.all.metrics.rejected.WithLabelValues("handed_in_full").Inc()
		return true, fmt.Errorf("%s has %d compensations waiting: %w", a.stream, len(a.submitted), ErrBusy)
	}
	a.submitted = append(a.submitted, t)
	a.uses++
	delay.Signal(a.wake)
	return true, nil
}

// compensate makes the actor append a compensation; nil is none.
func (a *Actor[S]) compensate(c *Compensation[S]) {
	if c != nil {
		a.retryLater(c.queued())
	}
}

// queued returns the compensation as a command without a caller.
func (c *Compensation[S]) queued() *queued[S] {
	return &queued[S]{
		ctx:          context.Background(), // belongs to no request; the actor limits its attempts
		request:      c.Request,
		command:      c.Command,
		pendingSince: time.Now(),
	}
}

// retryLater adds a compensation to the pending ones.
func (a *Actor[S]) retryLater(t *queued[S]) {
	if len(a.pending) >= maxPending {
		a.leaveToOperator(a.pending[0], errors.New("too many compensations are pending"))
		a.pending = append(a.pending[:0], a.pending[1:]...)
	}
	a.pending = append(a.pending, t)
}

// finishCompensation handles the outcome of a compensation: done, rejected because nothing is left to
// compensate, left to an operator, or retried.
func (a *Actor[S]) finishCompensation(t *queued[S], err error) {
	if err == nil {
		a.pendingPause, a.nextPending = 0, time.Time{}
		a.all.metrics.compensated.Inc()
		return
	}
	if t.attempts++; errors.Is(err, eventlog.ErrCorrupt) || a.all.kind.NeedsOperator(err) {
		a.leaveToOperator(t, err)
		return
	}
	if !Temporary(err) {
		a.all.cfg.Logger.Info("nothing to compensate", "stream", a.stream, "request_id", t.request.ID, "reason", err)
		return
	}
	now := time.Now()
	if now.Sub(t.pendingSince) >= CompensateWithin || a.all.ctx.Err() != nil {
		a.leaveToOperator(t, err)
		return
	}
	if !now.Before(a.nextPending) { // otherwise another member of the group has set the pause
		a.pendingPause = min(max(2*a.pendingPause, firstPause), MaxCompensationPause)
		a.nextPending = now.Add(delay.Jittered(a.pendingPause))
	}
	a.retryLater(t)
}

// leaveToOperator leaves a compensation to an operator, who finds the events, if there are any, by their request id.
func (a *Actor[S]) leaveToOperator(t *queued[S], err error) {
	a.all.metrics.notCompensated.Inc()
	a.all.cfg.Logger.Error("could not compensate a command whose caller got no answer",
		"stream", a.stream, "request_id", t.request.ID, "attempts", t.attempts, "error", err)
}
