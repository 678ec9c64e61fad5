package commands

import (
	"context"
	"time"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// HoldGrace is how long a hold can still be captured after the deadline of its work before it is
// released.
const HoldGrace = 60 * time.Second

// maxWork limits the duration of the work that a hold is placed for.
const maxWork = time.Hour

// HoldCredits is the command to reserve one credit for work whose outcome is not known yet.
type HoldCredits struct {
	Request     Request
	AccountID   string
	Reservation *Reservation // optional; consumed whatever the outcome
	Domain      string
	Work        time.Duration // how long the work may take
}

// Hold is a durably reserved credit.
type Hold struct {
	ID       string
	Deadline time.Time // HoldGrace after the deadline of the work
}

// HoldCredits reserves one credit by an event. The hold ends by ChargeLookup, by ReleaseHold, or as
// overdue. The same request for the same domain is a repeat and returns the same hold.
//
// Errors: as ChargeLookup, and account.ErrTooManyHolds.
func (d *Desk) HoldCredits(ctx context.Context, in HoldCredits) (Hold, error) {
	err := in.Request.Validate()
	if err == nil && (in.Work < 0 || in.Work > maxWork) {
		err = &account.InvalidError{Field: "work", Reason: "must be from 0 to an hour"}
	}
	if err != nil {
		in.Reservation.Drop()
		return Hold{}, err
	}
	stream := account.Stream(in.AccountID)
	j := &holdJob{work: in.Work, in: account.Hold{
		HoldID:  eventschemas.EventID(stream, in.Request.ID, eventschemas.CreditsHeld{}.EventType(), in.Domain).String(),
		Credits: lookupCredits, RequestID: in.Request.ID, Domain: in.Domain,
	}}
	if err := d.spend(ctx, in.AccountID, &task[*ledger]{request: in.Request, job: j}, &j.spending, in.Reservation); err != nil {
		return Hold{}, err
	}
	return Hold{ID: j.in.HoldID, Deadline: j.in.Deadline}, nil
}

type holdJob struct {
	spending
	work     time.Duration
	in       account.Hold
	repeated bool
}

func (j *holdJob) decide(l *ledger, now time.Time) (verdict, error) {
	j.in.Deadline = now.Add(j.work + HoldGrace)
	out, err := l.Hold(j.in, j.others(l), now)
	j.repeated = out.Repeated
	return verdict{events: out.Events}, err
}

func (j *holdJob) applied(l *ledger) {
	if !j.repeated {
		j.take(l)
		return
	}
	if deadline, ok := l.HoldDeadline(j.in.HoldID); ok {
		j.in.Deadline = deadline
	}
}

func (j *holdJob) undone(l *ledger) { j.giveBack(l) }

func (j *holdJob) finished(a *actor[*ledger], _ error, _ eventlog.Position) { j.end(a.state) }

// orphaned releases the hold, since its caller will not capture it.
func (j *holdJob) orphaned() *task[*ledger] {
	if j.repeated {
		return nil
	}
	id := j.in.HoldID
	return owedTask(j.in.RequestID, func(l *ledger, now time.Time) (account.Outcome, error) { return l.Release(id, now) })
}
