package commands

import (
	"context"
	"fmt"
	"time"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

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
			Reason: in.Reason, Note: in.Note,
		}, now)
	})
}

// chargeAt reads a charge's event, which has the amount to reverse.
func (d *AccountWriter) chargeAt(ctx context.Context, accountID, chargeID string,
	revision uint64) (eventschemas.CreditsCharged, time.Time, error) {
	stream := account.Stream(accountID)
	found, err := d.log.ReadStream(ctx, stream, revision, eventlog.Forward, 1)
	if err != nil {
		return eventschemas.CreditsCharged{}, time.Time{}, fmt.Errorf("read revision %d of %s: %w",
			revision, stream, err)
	}
	if len(found) == 1 && found[0].Revision == revision {
		ev, err := eventschemas.Decode(found[0].Type, found[0].SchemaVersion, found[0].Data)
		if err != nil {
			return eventschemas.CreditsCharged{}, time.Time{}, fmt.Errorf("revision %d of %s: %w",
				revision, stream, err)
		}
		if charge, ok := ev.(eventschemas.CreditsCharged); ok && charge.ChargeID == chargeID {
			return charge, found[0].OccurredAt, nil
		}
	}
	return eventschemas.CreditsCharged{}, time.Time{}, fmt.Errorf("charge %s at revision %d of %s: %w", chargeID,
		revision, stream, ErrUnknownCharge)
}
