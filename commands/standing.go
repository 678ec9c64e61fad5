package commands

import (
	"context"
	"time"

	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/domain/usage"
	"letterhead/internal/eventlog"
)

// Standing is the current state of an account.
type Standing struct {
	Plan      plan.ID
	Status    string // account.Active …
	Balance   int64
	Remaining int64 // the balance, never below zero
	// Available is the amount that the next requests can spend: the balance minus holds and
	// reservations, never below zero, or the balance itself if that is negative.
	Available int64
	Month     string // the current one, YYYY-MM, UTC
	Lookups   int64  // charges minus reversals of that month
	OpenHolds int
}

// Standing returns the state of an account after every answer that was sent: by this node, and with
// Shared set by every node. Errors: those of Desk.
func (d *Desk) Standing(ctx context.Context, accountID string) (Standing, error) {
	if err := ctx.Err(); err != nil {
		return Standing{}, err
	}
	now := d.accounts.cfg.Now()
	if !d.shared {
		var out Standing
		ready := false
		err := d.accounts.with(accountID, func(a *actor[*ledger]) {
			ready = a.state.shown.ready && a.state.shown.status != ""
			out = a.state.standing(now)
		})
		if err != nil || ready {
			return out, err
		}
	}
	j := &standingJob{now: now}
	if err := d.accounts.do(ctx, accountID, &task[*ledger]{job: j, loose: !d.shared}); err != nil {
		return Standing{}, err
	}
	return j.out, nil
}

// standing returns the published state. The lock is held.
func (l *ledger) standing(now time.Time) Standing {
	s := &l.shown
	out := Standing{
		Plan: s.plan, Status: string(s.status), Balance: s.balance, Remaining: max(s.balance, 0),
		Available: s.balance, OpenHolds: s.openHolds, Month: usage.MonthOf(now).String(),
	}
	if s.balance >= 0 {
		out.Available = max(s.balance-s.held-l.reserved, 0)
	}
	if usage.MonthOf(s.month) == usage.MonthOf(now) {
		out.Lookups = s.lookups
	}
	return out
}

type standingJob struct {
	now time.Time
	out Standing
}

func (j *standingJob) decide(l *ledger, _ time.Time) (verdict, error) {
	if l.Status() == "" {
		return verdict{}, account.ErrNotFound
	}
	return verdict{}, nil
}

func (j *standingJob) applied(*ledger) {}

func (j *standingJob) undone(*ledger) {}

// finished reads the state once all of the round is durable.
func (j *standingJob) finished(a *actor[*ledger], err error, _ eventlog.Position) {
	if err == nil {
		j.out = a.state.standing(j.now)
	}
}

func (j *standingJob) orphaned() *task[*ledger] { return nil }
