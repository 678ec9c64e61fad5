package commands

import (
	"context"
	"errors"
	"fmt"
	"time"

	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/runs"
)

// ChargeLookup is the command to spend the price of a look-up for a brand that was found with a logo.
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
	// BrandID, Domain and RecordRevision are then as in the first answer.
	Repeated       bool
	BrandID        string
	Domain         string
	RecordRevision uint64
}

// ChargeLookup spends the price of a look-up, durably before it returns. With a hold it captures it; a hold that
// has ended makes it an ordinary charge. The same idempotency key with the same request returns the
// first receipt of the item for 24 h. So does the same request id for the same item for
// account.HoldMemory, while the charge is among the account's latest account.MaxRecentCharges; a hold
// passed with such a repeat stays open and is the caller's to release.
//
// If ctx ends before the charge was sent, it is skipped; if ctx ends later, the writer reverses the
// charge unless a repeat on any node has kept it in the meantime. Either way ctx.Err() is returned.
//
// Errors: *account.InsufficientCreditsError, account.ErrSuspended, account.ErrClosed, account.ErrUnknownHold,
// account.ErrIdempotencyMismatch, account.ErrChargeReversed, account.ErrInvalid, ErrReservationSpent,
// ErrInvalidRequest, ErrKeysUnknown, with AccountWriterConfig.Shared ErrOlderRecord, and the errors of AccountWriter.
func (d *AccountWriter) ChargeLookup(ctx context.Context, in ChargeLookup) (Receipt, error) {
	if err := in.Request.Validate(); err != nil {
		in.Reservation.Drop()
		return Receipt{}, err
	}
	started := time.Now()
	c := &chargeCommand{fromStream: in.FromStream, charges: d.charges, in: account.Charge{
		RequestID: in.Request.ID, Credits: d.price, BrandID: in.BrandID, Domain: in.Domain,
		RecordRevision: in.RecordRevision, HoldID: in.HoldID, Item: in.Item, KeyID: in.KeyID,
	}}
	c.in.IdempotencyKeyHash, c.in.RequestHash = in.Once.hashes()
	var err error
	if c.in.Older, err = d.olderKeys(ctx, in.AccountID, c.in.IdempotencyKeyHash); err != nil {
		in.Reservation.Drop()
		return Receipt{}, err
	}
	d.charges.Begin(in.Request.ID)
	if err := d.spend(ctx, in.AccountID, in.Request, c, &c.spending, in.Reservation); err != nil {
		if !c.queued { // otherwise it ends with its command, or with the reversal
			d.charges.Ended(in.Request.ID)
		}
		return Receipt{}, keysUnknown(err)
	}
	d.charges.Charged(in.Request.ID, c.receipt.Position)
	d.accounts.Observe(time.Since(started))
	return c.receipt, nil
}

type chargeCommand struct {
	spending
	in         account.Charge
	fromStream bool
	charges    *runs.Charges
	fact       account.ChargeFact
	repeated   bool
	receipt    Receipt
}

func (c *chargeCommand) Decide(s *accountState, now time.Time) (streamwriter.Decision, error) {
	out, fact, err := s.Charge(c.in, c.others(s), now)
	if err != nil {
		return streamwriter.Decision{}, err
	}
	if !out.Repeated && !c.fromStream && s.answers.newer(c.in.Domain, c.in.RecordRevision, now) {
		return streamwriter.Decision{}, fmt.Errorf("%s at revision %d: %w", c.in.Domain,
			c.in.RecordRevision, ErrOlderRecord)
	}
	c.fact, c.repeated = fact, out.Repeated
	return streamwriter.Decision{Events: out.Events}, nil
}

func (c *chargeCommand) Applied(s *accountState) {
	if !c.repeated {
		c.take(s)
	}
	c.receipt = receiptOf(s, c.fact, c.repeated)
}

func receiptOf(s *accountState, c account.ChargeFact, repeated bool) Receipt {
	return Receipt{
		ChargeID: c.ChargeID, Credits: c.Credits, Balance: s.Balance(), Remaining: s.Remaining(), Revision: c.Revision,
		At: c.At, Repeated: repeated, BrandID: c.BrandID, Domain: c.Domain, RecordRevision: c.RecordRevision,
	}
}

func (c *chargeCommand) Undone(s *accountState) { c.giveBack(s) }

func (c *chargeCommand) Finished(a *accountActor, err error, position eventlog.Position) {
	c.end(a.State())
	c.receipt.Position = position
	if err != nil && !errors.Is(err, ErrUnknownOutcome) {
		c.charges.Ended(c.in.RequestID)
	}
}

// Compensation reverses the charge because its caller never got the outcome.
func (c *chargeCommand) Compensation() *compensation {
	if c.repeated {
		c.charges.Ended(c.in.RequestID)
		return nil
	}
	request := Request{ID: c.in.RequestID, Actor: actorAccountWriter}
	return reversal(c.charges, request, account.Reverse{
		ChargeID: c.fact.ChargeID, Credits: c.fact.Credits, ChargedAt: c.fact.At,
		RequestID: c.in.RequestID, KeyID: c.in.KeyID, Reason: account.ReasonClientGone,
	})
}

// reversal returns the compensation that reverses a charge. A reversal that is retried or left to an operator has not
// ended.
func reversal(charges *runs.Charges, request Request, in account.Reverse) *compensation {
	back := compensate(request, func(s *accountState, now time.Time) (account.Outcome, error) {
		return s.Reverse(in, now)
	})
	back.Command.(*plainCommand).ended = func(err error) {
		if !unfinished(err) {
			charges.Ended(request.ID)
		}
	}
	return back
}

// unfinished reports whether an attempt at a reversal is followed by another, by this process or by an operator.
func unfinished(err error) bool {
	return errors.Is(err, ErrUnknownOutcome) || errors.Is(err, eventlog.ErrCorrupt) ||
		errors.Is(err, account.ErrTooLate) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || streamwriter.Temporary(err)
}

// ReverseCharge is the command to reverse a charge.
type ReverseCharge struct {
	Request   Request
	AccountID string
	ChargeID  string
	Revision  uint64 // of the charge on the account's stream, from its Receipt or the ledger
	Reason    string // account.ReasonClientGone, account.ReasonOperator
	Note      string // why an operator reverses it
}

// ReverseCharge reverses a charge, once, within account.ReversalWindow. Reversing it again is a
// repeat. It is for operators; for a client that has left use ReverseUndelivered.
//
// Errors: ErrUnknownCharge, account.ErrTooLate, account.ErrInvalid, account.ErrCreditLimit,
// ErrInvalidRequest, and the errors of AccountWriter.
func (d *AccountWriter) ReverseCharge(ctx context.Context, in ReverseCharge) (Done, error) {
	if err := in.Request.Validate(); err != nil {
		return Done{}, err
	}
	if err := checkAccountID(in.AccountID); err != nil {
		return Done{}, err
	}
	charge, at, err := d.chargeAt(ctx, in.AccountID, in.ChargeID, in.Revision)
	if err != nil {
		return Done{}, err
	}
	return d.decide(ctx, in.Request, in.AccountID, func(s *accountState, now time.Time) (account.Outcome, error) {
		return s.Reverse(account.Reverse{
			ChargeID: charge.ChargeID, Credits: charge.Credits, ChargedAt: at, RequestID: charge.RequestID,
			KeyID: charge.KeyID, Reason: in.Reason, Note: in.Note,
		}, now)
	})
}

// chargeAt reads a charge's event, which has the amount to reverse.
func (d *AccountWriter) chargeAt(ctx context.Context, accountID, chargeID string,
	revision uint64) (charge eventschemas.CreditsCharged, at time.Time, err error) {
	stream := account.Stream(accountID)
	found, err := d.log.ReadStream(ctx, stream, revision, eventlog.Forward, 1)
	if err != nil {
		return charge, at, fmt.Errorf("read revision %d of %s: %w", revision, stream, err)
	}
	if len(found) == 1 && found[0].Revision == revision {
		ev, err := eventschemas.Decode(found[0].Type, found[0].SchemaVersion, found[0].Data)
		if err != nil {
			return charge, at, fmt.Errorf("revision %d of %s: %w", revision, stream, err)
		}
		if charge, ok := ev.(eventschemas.CreditsCharged); ok && charge.ChargeID == chargeID {
			return charge, found[0].OccurredAt, nil
		}
	}
	return charge, at, fmt.Errorf("charge %s at revision %d of %s: %w", chargeID, revision, stream, ErrUnknownCharge)
}

// UndeliveredCharge is a charge whose answer never reached its caller.
type UndeliveredCharge struct {
	Request   Request // of the charge
	AccountID string
	KeyID     string  // of the charge
	Receipt   Receipt // from ChargeLookup
}

// ReverseUndelivered reverses a charge as a compensation, as for a caller who leaves ChargeLookup. It
// returns once the account's actor has accepted it, even if the account's queue is full; the reversal
// follows and is retried for about a minute while the log is unavailable. A reversal that still fails is
// logged and counted, and left to an operator (ReverseCharge).
//
// Repeats, which charged nothing, and charges that a repeat on any node has kept are not reversed, and neither are
// charges older than account.UndeliveredWindow. It needs no context: it neither reads nor waits.
//
// Errors: ErrInvalidRequest, account.ErrNotFound, ErrBusy (the account has too many pending
// compensations, or the account writer has shut down).
func (d *AccountWriter) ReverseUndelivered(in UndeliveredCharge) error {
	if err := in.Request.Validate(); err != nil {
		return err
	}
	if in.Receipt.Repeated {
		return nil
	}
	d.charges.Begin(in.Request.ID) // ends with the reversal; one that is left to an operator stays open
	return d.accounts.Compensate(in.AccountID, *reversal(d.charges, in.Request, account.Reverse{
		ChargeID: in.Receipt.ChargeID, Credits: in.Receipt.Credits, ChargedAt: in.Receipt.At,
		RequestID: in.Request.ID, KeyID: in.KeyID, Reason: account.ReasonClientGone,
	}))
}
