package commands

import (
	"context"
	"time"

	"letterhead/domain/account"
	"letterhead/internal/eventlog"
)

// ReleaseHold is the command to release the rest of a hold.
type ReleaseHold struct {
	Request   Request
	AccountID string
	HoldID    string
}

// ReleaseHold releases the rest of a hold. A hold that has ended is a repeat. Errors:
// account.ErrUnknownHold, account.ErrInvalid, ErrInvalidRequest, and those of Desk.
func (d *Desk) ReleaseHold(ctx context.Context, in ReleaseHold) error {
	_, err := d.decideAccount(ctx, in.Request, in.AccountID, func(a *ledger, now time.Time) (account.Outcome, error) {
		return a.Release(in.HoldID, now)
	})
	return err
}

// HandBackHold releases a hold as a task of the desk, for a caller who cannot wait for ReleaseHold, as
// HandBack reverses a charge. Errors: as HandBack.
func (d *Desk) HandBackHold(in ReleaseHold) error {
	if err := in.Request.Validate(); err != nil {
		return err
	}
	t := owedTask(in.Request.ID, func(l *ledger, now time.Time) (account.Outcome, error) { return l.Release(in.HoldID, now) })
	t.request = in.Request
	err := d.accounts.handIn(in.AccountID, t)
	if err != nil {
		d.metrics.notHandedBack.Inc()
	}
	return err
}

// ReleaseOverdue releases the holds of an account whose deadline has passed, at most
// account.MaxReleases of them, and returns how many. Every command on the account does so as well;
// this is for unused accounts. Errors: those of Desk.
func (d *Desk) ReleaseOverdue(ctx context.Context, accountID string) (int, error) {
	j := &overdueJob{}
	err := d.accounts.do(ctx, accountID, &task[*ledger]{request: Request{Actor: actorDesk}, job: j})
	return j.released(err), err
}

// overdueJob counts the holds that the prelude of its round releases.
type overdueJob struct{ n int }

func (j *overdueJob) released(err error) int {
	if err != nil {
		return 0
	}
	return j.n
}

func (j *overdueJob) decide(l *ledger, _ time.Time) (verdict, error) {
	if l.Status() == "" {
		return verdict{}, account.ErrNotFound
	}
	j.n = l.expired
	return verdict{joined: l.expired > 0}, nil
}

func (j *overdueJob) applied(*ledger) {}

func (j *overdueJob) undone(*ledger) {}

func (j *overdueJob) finished(*actor[*ledger], error, eventlog.Position) {}

func (j *overdueJob) orphaned() *task[*ledger] { return nil }
