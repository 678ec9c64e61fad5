package commands

import "letterhead/domain/account"

// UndeliveredCharge is a charge whose answer never reached its caller.
type UndeliveredCharge struct {
	Request   Request // of the charge
	AccountID string
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
		RequestID: in.Request.ID, Reason: account.ReasonClientGone,
	}))
}
