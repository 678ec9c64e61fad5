package commands

import (
	"context"
	"sync/atomic"
	"time"

	"letterhead/internal/eventlog"
)

// Reservation is one credit of an account that is reserved in memory, so that it cannot be promised
// twice during a lookup. It lasts until it is used by ChargeLookup or HoldCredits, or dropped; a
// reservation that is never dropped keeps its credit until the process ends.
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

// Drop frees the credit. Dropping again, after use, or dropping nil does nothing.
func (r *Reservation) Drop() {
	if r == nil || !r.state.CompareAndSwap(reservationOpen, reservationDropped) {
		return
	}
	r.actor.mu.Lock()
	defer r.actor.mu.Unlock()
	r.actor.state.reserved--
}

// use takes the reservation for a command on the account; from then on the command frees it.
func (r *Reservation) use(accountID string) error {
	if r == nil {
		return nil
	}
	if r.actor.key != accountID || !r.state.CompareAndSwap(reservationOpen, reservationUsed) {
		return ErrReservationSpent
	}
	return nil
}

// Reserve reserves one credit in memory. If the account clearly has the credits, it uses neither the
// log nor the queue. A refusal is final: the stream's tail was read after the call, with one read for
// all waiting callers.
//
// Errors: *account.InsufficientCreditsError, account.ErrSuspended, account.ErrClosed, and those of
// Desk.
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

// Confirm checks that the account really has the reserved credit. If other nodes spend the same
// credits, the reserved credit may be gone: a charge or a hold detects that, and so must an answer
// that leads to neither but depends on a credit. It reads the stream's tail if there are other nodes.
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

// reserveJob reserves on the actor's own state, after it was loaded or read again if necessary.
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

// orphaned frees the credit because its caller has left.
func (j *reserveJob) orphaned() *task[*ledger] {
	j.reservation.Drop()
	return nil
}

// spending tracks the use of a reservation by a command. It is guarded by the actor's lock.
type spending struct {
	reservation *Reservation // nil for a command without one
	spent       bool         // the reserved credit became a charge or hold, tentatively or finally
}

// others returns the credits reserved by other commands.
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

// end consumes the reservation: its credit was spent, or is free again.
func (s *spending) end(l *ledger) {
	if s.reservation != nil && !s.spent {
		l.reserved--
	}
	s.reservation = nil
}

// spend runs a job with a reservation, which is consumed whatever the outcome.
func (d *Desk) spend(ctx context.Context, accountID string, t *task[*ledger], s *spending, r *Reservation) error {
	if err := r.use(accountID); err != nil {
		return err
	}
	s.reservation = r
	if err := d.accounts.enqueue(ctx, accountID, t); err != nil {
		if r != nil { // the job never reached the actor, which would have ended it
			r.actor.mu.Lock()
			defer r.actor.mu.Unlock()
			s.end(r.actor.state)
		}
		return err
	}
	return t.wait()
}
