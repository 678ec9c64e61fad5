package commands

import (
	"context"
	"sync/atomic"
	"time"

	"letterhead/internal/eventlog"
)

// Reservation is one credit of an account that is set aside in memory, so that it cannot be promised twice
// while a lookup is worked out. It lasts until it is used by ChargeLookup or HoldCredits, or dropped; a
// reservation that is forgotten keeps its credit until the process ends.
type Reservation struct {
	actor *actor[*ledger]
	state atomic.Int32
}

// States of a reservation.
const (
	reservationOpen int32 = iota
	reservationUsed
	reservationDropped
)

// Drop hands the credit back. Dropping again, or after the reservation was used, does nothing; so does
// dropping nil.
func (r *Reservation) Drop() {
	if r == nil || !r.state.CompareAndSwap(reservationOpen, reservationDropped) {
		return
	}
	r.actor.mu.Lock()
	defer r.actor.mu.Unlock()
	r.actor.state.reserved--
}

// use takes the reservation for a command on the account; from here on the command hands it back.
func (r *Reservation) use(accountID string) error {
	if r == nil {
		return nil
	}
	if r.actor.key != accountID || !r.state.CompareAndSwap(reservationOpen, reservationUsed) {
		return ErrReservationSpent
	}
	return nil
}

// Reserve sets one credit aside in memory. When the account's credits are clearly there it touches neither
// the log nor the queue. A refusal is final: the stream's tail was read after the call, one read for all
// who wait.
//
// Errors: *account.InsufficientCreditsError, account.ErrSuspended, account.ErrClosed, and those of Desk.
func (d *Desk) Reserve(ctx context.Context, accountID string) (*Reservation, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var out *Reservation
	err := d.accounts.with(accountID, func(a *actor[*ledger]) {
		if a.state.canReserve() {
			a.state.reserved++
			out = &Reservation{actor: a}
		}
	})
	if err != nil || out != nil {
		return out, err
	}
	j := &reserveJob{}
	if err := d.accounts.do(ctx, accountID, &task[*ledger]{job: j, loose: true}); err != nil {
		return nil, err
	}
	return j.reservation, nil
}

// Confirm says whether the account really has the reserved credit. Where other nodes spend the same credits a
// reservation may have been made of one that is gone: a charge or a hold finds out, and so must an answer
// that leads to neither but depends on a credit. It reads the stream's tail, where there are other nodes.
//
// Errors: as Reserve.
func (d *Desk) Confirm(ctx context.Context, r *Reservation) error {
	if !d.shared || r == nil {
		return nil
	}
	return d.accounts.do(ctx, r.actor.key, &task[*ledger]{job: &confirmJob{}})
}

type confirmJob struct{}

func (*confirmJob) decide(l *ledger, _ time.Time) (verdict, error) {
	return verdict{}, l.CanSpend(lookupCredits, l.besideOne())
}

func (*confirmJob) applied(*ledger) {}

func (*confirmJob) undone(*ledger) {}

func (*confirmJob) finished(*actor[*ledger], error, eventlog.Position) {}

func (*confirmJob) orphaned() *task[*ledger] { return nil }

// reserveJob reserves on the actor's own state, after it was loaded or read again if need be.
type reserveJob struct{ reservation *Reservation }

func (j *reserveJob) decide(l *ledger, _ time.Time) (verdict, error) {
	return verdict{}, l.CanSpend(1, l.reserved)
}

func (j *reserveJob) applied(l *ledger) { l.reserved++ }

func (j *reserveJob) undone(l *ledger) { l.reserved-- }

func (j *reserveJob) finished(a *actor[*ledger], err error, _ eventlog.Position) {
	if err == nil {
		j.reservation = &Reservation{actor: a}
	}
}

// orphaned hands the credit back, for its caller has gone.
func (j *reserveJob) orphaned() *task[*ledger] {
	j.reservation.Drop()
	return nil
}

// spending is the use of a reservation by a command. It is guarded by the actor's lock.
type spending struct {
	reservation *Reservation // nil for a command without one
	spent       bool         // the reserved credit is a charge or hold of the round under way, or for good
}

// others is what is reserved beside this command.
func (s *spending) others(l *ledger) int64 {
	if s.reservation == nil {
		return l.reserved
	}
	return l.besideOne()
}

func (s *spending) take(l *ledger) {
	if s.reservation != nil {
		l.reserved--
		s.spent = true
	}
}

func (s *spending) giveBack(l *ledger) {
	if s.spent {
		l.reserved++
		s.spent = false
	}
}

// end uses the reservation up: its credit was spent, or is free again.
func (s *spending) end(l *ledger) {
	if s.reservation != nil && !s.spent {
		l.reserved--
	}
	s.reservation = nil
}

// spend runs a job that uses a reservation, which is used up whatever the outcome.
func (d *Desk) spend(ctx context.Context, accountID string, t *task[*ledger], s *spending, r *Reservation) error {
	if err := r.use(accountID); err != nil {
		return err
	}
	s.reservation = r
	if err := d.accounts.enqueue(ctx, accountID, t); err != nil {
		if r != nil { // the job never came to the actor, which would have ended it
			r.actor.mu.Lock()
			defer r.actor.mu.Unlock()
			s.end(r.actor.state)
		}
		return err
	}
	return t.wait()
}
