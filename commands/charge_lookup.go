package commands

import (
	"context"
	"fmt"
	"time"

	"letterhead/domain/account"
	"letterhead/internal/eventlog"
)

// lookupCredits is the price of one answered lookup.
const lookupCredits = 1

// ChargeLookup is the command to spend one credit for a brand that was found with a logo.
type ChargeLookup struct {
	Request        Request
	AccountID      string
	Reservation    *Reservation // optional; consumed whatever the outcome
	BrandID        string
	Domain         string
	RecordRevision uint64 // of the brand stream, as answered
	// FromStream reports whether the record was read from the brand's stream, not from tables or a cache,
	// which may trail it.
	FromStream bool
	HoldID     string // optional: the hold to capture
	Item       string // optional: distinguishes several charges of one request; the domain when empty
	KeyID      string // optional: the API key of the request

	Once *Once // optional: charges once for an idempotency key
}

// Receipt is a durable charge.
type Receipt struct {
	ChargeID  string
	Credits   int64
	Balance   int64 // after the charge
	Remaining int64 // the balance, never below zero
	Revision  uint64
	At        time.Time // time of the charge
	Position  eventlog.Position

	// Repeated reports whether the charge was made before, for the same request or idempotency key;
	// BrandID, Domain and RecordRevision are then those of the first answer.
	Repeated       bool
	BrandID        string
	Domain         string
	RecordRevision uint64
}

// ChargeLookup spends one credit, durably before it returns. With a hold it captures it; a hold that
// has ended makes it an ordinary charge. The same idempotency key with the same request returns the
// first receipt of the item for 24 h. So does the same request id for the same item for
// account.HoldMemory, while the charge is among the account's latest account.MaxRecentCharges; a hold
// passed with such a repeat stays open and is the caller's to release.
//
// If ctx ends before the charge was sent, it is skipped; if ctx ends later, the desk reverses the
// charge unless a repeat on any node has kept it in the meantime. Either way ctx.Err() is returned.
//
// Errors: *account.InsufficientCreditsError, account.ErrSuspended, account.ErrClosed,
// account.ErrUnknownHold, account.ErrIdempotencyMismatch, account.ErrChargeReversed,
// account.ErrInvalid, ErrReservationSpent, ErrInvalidRequest, ErrKeysUnknown, with DeskConfig.Shared
// ErrOlderRecord, and those of Desk.
func (d *Desk) ChargeLookup(ctx context.Context, in ChargeLookup) (Receipt, error) {
	if err := in.Request.Validate(); err != nil {
		in.Reservation.Drop()
		return Receipt{}, err
	}
	started := time.Now()
	j := &chargeJob{fromStream: in.FromStream, in: account.Charge{
		RequestID: in.Request.ID, Credits: lookupCredits, BrandID: in.BrandID, Domain: in.Domain,
		RecordRevision: in.RecordRevision, HoldID: in.HoldID, Item: in.Item, KeyID: in.KeyID,
	}}
	j.in.IdempotencyKeyHash, j.in.RequestHash = in.Once.hashes()
	var err error
	if j.in.Older, err = d.olderKeys(ctx, in.AccountID, j.in.IdempotencyKeyHash); err != nil {
		in.Reservation.Drop()
		return Receipt{}, err
	}
	if err := d.spend(ctx, in.AccountID, &task[*ledger]{request: in.Request, job: j}, &j.spending, in.Reservation); err != nil {
		return Receipt{}, keysUnknown(err)
	}
	d.metrics.charge.Observe(time.Since(started).Seconds())
	return j.receipt, nil
}

type chargeJob struct {
	spending
	in         account.Charge
	fromStream bool
	fact       account.ChargeFact
	repeated   bool
	receipt    Receipt
}

func (j *chargeJob) decide(l *ledger, now time.Time) (verdict, error) {
	out, fact, err := l.Charge(j.in, j.others(l), now)
	if err != nil {
		return verdict{}, err
	}
	if !out.Repeated && !j.fromStream && l.answers.newer(j.in.Domain, j.in.RecordRevision, now) {
		return verdict{}, fmt.Errorf("%s at revision %d: %w", j.in.Domain, j.in.RecordRevision, ErrOlderRecord)
	}
	j.fact, j.repeated = fact, out.Repeated
	return verdict{events: out.Events}, nil
}

func (j *chargeJob) applied(l *ledger) {
	if !j.repeated {
		j.take(l)
	}
	j.receipt = receiptOf(l, j.fact, j.repeated)
}

func receiptOf(l *ledger, c account.ChargeFact, repeated bool) Receipt {
	return Receipt{
		ChargeID: c.ChargeID, Credits: c.Credits, Balance: l.Balance(), Remaining: l.Remaining(), Revision: c.Revision,
		At: c.At, Repeated: repeated, BrandID: c.BrandID, Domain: c.Domain, RecordRevision: c.RecordRevision,
	}
}

func (j *chargeJob) undone(l *ledger) { j.giveBack(l) }

func (j *chargeJob) finished(a *actor[*ledger], _ error, position eventlog.Position) {
	j.end(a.state)
	j.receipt.Position = position
}

// orphaned reverses the charge because its caller never got the outcome.
func (j *chargeJob) orphaned() *task[*ledger] {
	if j.repeated {
		return nil
	}
	return reversal(account.Reverse{
		ChargeID: j.fact.ChargeID, Credits: j.fact.Credits, ChargedAt: j.fact.At,
		RequestID: j.in.RequestID, Reason: account.ReasonClientGone,
	})
}

// reversal returns the task of an actor that reverses a charge.
func reversal(in account.Reverse) *task[*ledger] {
	return owedTask(in.RequestID, func(l *ledger, now time.Time) (account.Outcome, error) {
		return l.Reverse(in, now)
	})
}

// owedTask returns a compensation: a task without a caller, under the id of the request that it
// concerns.
func owedTask(requestID string, decide func(*ledger, time.Time) (account.Outcome, error)) *task[*ledger] {
	return &task[*ledger]{
		ctx:     context.Background(), // belongs to no request; the actor limits its attempts
		request: Request{ID: requestID, Actor: actorDesk},
		job:     &plainJob{now: decide},
	}
}
