package commands

import (
	"context"
	"sync/atomic"
	"time"

	"letterhead/commands/streamwriter"
	"letterhead/internal/eventlog"
)

// Reservation is the price of a look-up, reserved in memory, so that the credits cannot be promised
// twice during the look-up. It lasts until it is used by ChargeLookup or HoldCredits, or dropped; a
// reservation that is never dropped keeps its credits until the process ends.
type Reservation struct {
	actor   *accountActor
	credits int64
	keyID   string
	limited bool // the key has a limit
	state   atomic.Int32
}

// States of a reservation.
const (
	reservationOpen int32 = iota
	reservationUsed
	reservationDropped
)

// Drop frees the credits. Dropping again, after use, or dropping nil does nothing.
func (r *Reservation) Drop() {
	if r == nil || !r.state.CompareAndSwap(reservationOpen, reservationDropped) {
		return
	}
	r.actor.Update(func(s *accountState) { s.reserve(r, -r.credits) })
}

// use takes the reservation for a command on the account; from then on the command frees it.
func (r *Reservation) use(accountID string) error {
	if r == nil {
		return nil
	}
	if r.actor.Key() != accountID || !r.state.CompareAndSwap(reservationOpen, reservationUsed) {
		return ErrReservationSpent
	}
	return nil
}

// Reserve reserves the price of a look-up in memory, also of the limit of the request's key. If the account clearly has
// the credits, and the key no limit, it uses neither the log nor the queue. A rejection is final: the stream's tail was
// read after the call, with one read for all waiting callers.
//
// Errors: *account.InsufficientCreditsError, account.ErrSuspended, account.ErrClosed, and the errors of AccountWriter.
func (d *AccountWriter) Reserve(ctx context.Context, accountID, keyID string) (*Reservation, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var out *Reservation
	err := d.accounts.With(accountID, func(a *accountActor) {
		s := a.State()
		if _, limited := s.shown.limits.Of(keyID, time.Time{}); !limited && s.canReserve(d.price) {
			s.reserved += d.price
			out = &Reservation{actor: a, credits: d.price, keyID: keyID}
		}
	})
	if err != nil || out != nil {
		return out, err
	}
	c := &reserveCommand{wanted: &Reservation{credits: d.price, keyID: keyID}}
	if err := d.accounts.Do(ctx, accountID, Request{}, c); err != nil {
		return nil, err
	}
	return c.reservation, nil
}

// Confirm checks that the account really has the reserved credits. If other nodes spend the same
// credits, the reserved ones may be gone: a charge or a hold detects that, and so must an answer that
// leads to neither but depends on credits. It reads the stream's tail if there are other nodes.
//
// Errors: as Reserve.
func (d *AccountWriter) Confirm(ctx context.Context, r *Reservation) error {
	if !d.shared || r == nil {
		return nil
	}
	return d.accounts.Do(ctx, r.actor.Key(), Request{}, &confirmCommand{credits: r.credits, keyID: r.keyID})
}

type confirmCommand struct {
	streamwriter.PlainCommand[*accountState]
	credits int64
	keyID   string
}

func (c *confirmCommand) Decide(s *accountState, now time.Time) (streamwriter.Decision, error) {
	return streamwriter.Decision{}, s.CanSpend(c.credits, s.reservedByOthers(c.credits), c.keyID, 0, now)
}

// reserveCommand reserves on the actor's own state, after it was loaded or read again if necessary.
type reserveCommand struct {
	wanted, reservation *Reservation // reservation is nil until it is made
}

func (c *reserveCommand) Decide(s *accountState, now time.Time) (streamwriter.Decision, error) {
	r := c.wanted
	_, r.limited = s.KeyLimits().Of(r.keyID, now)
	return streamwriter.Decision{Final: true}, s.CanSpend(r.credits, s.reserved, r.keyID, s.ofKeys[r.keyID], now)
}

func (c *reserveCommand) Applied(s *accountState) { s.reserve(c.wanted, c.wanted.credits) }

func (c *reserveCommand) Undone(s *accountState) { s.reserve(c.wanted, -c.wanted.credits) }

func (c *reserveCommand) Finished(a *accountActor, err error, _ eventlog.Position) {
	if err == nil {
		c.wanted.actor, c.reservation = a, c.wanted
	}
}

// Compensation frees the credits because its caller has left.
func (c *reserveCommand) Compensation() *compensation {
	c.reservation.Drop()
	return nil
}

// spending tracks the use of a reservation by a command. It is guarded by the actor's lock.
type spending struct {
	reservation *Reservation // nil for a command without one
	queued      bool         // the actor has the command; only the caller uses the field
	spent       bool         // the reserved credits became a charge or hold, tentatively or finally
}

// others returns the credits reserved by other commands.
func (p *spending) others(s *accountState) int64 {
	if p.reservation == nil {
		return s.reserved
	}
	return s.reservedByOthers(p.reservation.credits)
}

func (p *spending) take(s *accountState) {
	if p.reservation != nil {
		s.reserve(p.reservation, -p.reservation.credits)
		p.spent = true
	}
}

func (p *spending) giveBack(s *accountState) {
	if p.spent {
		s.reserve(p.reservation, p.reservation.credits)
		p.spent = false
	}
}

// end consumes the reservation: its credits were spent, or are free again.
func (p *spending) end(s *accountState) {
	if p.reservation != nil && !p.spent {
		s.reserve(p.reservation, -p.reservation.credits)
	}
	p.reservation = nil
}

// spend runs a command with a reservation, which is consumed whatever the outcome.
func (d *AccountWriter) spend(ctx context.Context, accountID string, request Request,
	c streamwriter.Command[*accountState], p *spending, r *Reservation) error {
	if err := r.use(accountID); err != nil {
		return err
	}
	p.reservation = r
	w, err := d.accounts.Enqueue(ctx, accountID, request, c)
	if err != nil {
		if r != nil { // the command never reached the actor, which would have ended it
			r.actor.Update(p.end)
		}
		return err
	}
	p.queued = true
	return w.Wait()
}
