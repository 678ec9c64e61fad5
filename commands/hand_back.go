package commands

import (
	"time"

	"letterhead/domain/account"
)

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
// A repeat charged nothing, and a charge from which this desk answered a repeat stands: both hand nothing
// back. It needs no context: it neither reads nor waits.
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

// maxServed bounds the charges that are known to have answered a repeat. It is memory of this desk alone:
// a repeat that another node answers does not keep this one from handing its charge back.
const maxServed = 4096

// served knows for account.HoldMemory from which charges a repeat was answered. It belongs to the actor's
// goroutine. The zero value is ready.
type served struct {
	charges map[string]struct{}
	order   []servedCharge
}

type servedCharge struct {
	chargeID string
	at       time.Time
}

func (s *served) has(chargeID string) bool {
	_, ok := s.charges[chargeID]
	return ok
}

func (s *served) note(chargeID string, now time.Time) {
	for len(s.order) > 0 && (len(s.order) >= maxServed || now.Sub(s.order[0].at) >= account.HoldMemory) {
		delete(s.charges, s.order[0].chargeID)
		s.order = s.order[1:]
	}
	if s.has(chargeID) {
		return
	}
	if s.charges == nil {
		s.charges = map[string]struct{}{}
	}
	s.charges[chargeID] = struct{}{}
	s.order = append(s.order, servedCharge{chargeID: chargeID, at: now})
}
