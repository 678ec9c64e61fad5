package commands

import "letterhead/domain/account"

// HandBack asks to reverse a charge whose answer never reached its caller.
type HandBack struct {
	Request   Request // of the charge
	AccountID string
	Receipt   Receipt // from ChargeLookup
}

// HandBack reverses a charge on the desk's own account, as it does for a caller who leaves ChargeLookup. It
// returns once the account's actor has taken it up, also when the account's queue is full; the reversal
// follows, tried again for about a minute when the log is unavailable. What cannot be reversed by then is
// logged and counted, and left to an operator (ReverseCharge).
//
// A repeat charged nothing, and a charge that a repeat has kept, on any node, stands: both hand nothing back,
// and neither does what is older than account.HandBackWindow. It needs no context: it neither reads nor waits.
//
// Errors: ErrInvalidRequest, account.ErrNotFound, ErrBusy (too much is to be handed back on the account, or
// the desk has shut down).
func (d *Desk) HandBack(in HandBack) error {
	if err := in.Request.Validate(); err != nil {
		return err
	}
	if in.Receipt.Repeated {
		return nil
	}
	t := reversal(account.Reverse{
		ChargeID: in.Receipt.ChargeID, Credits: in.Receipt.Credits, ChargedAt: in.Receipt.At,
		RequestID: in.Request.ID, Reason: account.ReasonClientGone,
	})
	t.request = in.Request
	err := d.accounts.handIn(in.AccountID, t)
	if err != nil {
		d.metrics.notHandedBack.Inc()
	}
	return err
}
