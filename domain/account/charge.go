package account

import (
	"cmp"
	"time"

	"letterhead/eventschemas"
)

// Reasons for a reversal.
const (
	ReasonClientGone = "client_gone"
	ReasonOperator   = "operator"
)

// Charge is the command to spend credits for one answer.
type Charge struct {
	RequestID      string
	Credits        int64
	BrandID        string
	Domain         string
	RecordRevision uint64
	HoldID         string // captures the remainder of this hold first
	Item           string // distinguishes charges of one request or captures of one hold; the domain when empty

	// IdempotencyKeyHash is 64 hex digits; it and RequestHash are both set or both empty. The first
	// half is the key group, which all items of one key share.
	IdempotencyKeyHash string
	RequestHash        string // hex SHA-256
	Older              *Older // charges of the key; needed before ForgotKeysUntil

	KeyID string // the API key of the request, if one was used
}

// ChargeFact is a charge that is on the stream, or will be.
type ChargeFact struct {
	ChargeID       string    `json:"charge"`
	Credits        int64     `json:"credits"`
	BrandID        string    `json:"brand"`
	Domain         string    `json:"domain"`
	RecordRevision uint64    `json:"record_revision"`
	Revision       uint64    `json:"revision"` // of the CreditsCharged event
	At             time.Time `json:"at"`
}

// ChargeID returns the id of the charge for an item of a request. The same request does not charge
// twice for it within HoldMemory, as long as the charge is among the latest MaxRecentCharges.
func (a *Account) ChargeID(in Charge) string {
	item := cmp.Or(in.Item, in.Domain)
	return eventschemas.EventID(a.stream, in.RequestID, eventschemas.CreditsCharged{}.EventType(), item).String()
}

// Charge spends credits while other requests have reserved credits in memory.
//
// With a hold it captures the remainder of the hold first. The rest is an ordinary charge, so capturing an ended hold
// is an ordinary charge, too. A capture of an open hold is accepted while the account is suspended. A repeat returns
// the existing fact. It is the same charge (request and item) while the charge is remembered (HoldMemory,
// MaxRecentCharges) or its hold is known, or the same idempotency key and item with the same request hash within 24 h.
// A repeat marks a charge that is younger than HoldMemory as kept, by an event, so that no node reverses a charge that
// was answered again. A key whose charge was reversed charges again; it accepts any request once all its charges are
// reversed.
//
// Errors: ErrInvalid (also for an item past MaxKeyItems), ErrNotFound, ErrClosed, ErrSuspended, ErrUnknownHold,
// ErrIdempotencyMismatch, ErrKeysForgotten, ErrChargeReversed (a repeat of a reversed charge), ErrInsufficientCredits.
func (a *Account) Charge(in Charge, reserved int64, now time.Time) (Outcome, ChargeFact, error) {
	now = a.later(now)
	if err := firstError(in.validate(), a.notClosed()); err != nil {
		return Outcome{}, ChargeFact{}, err
	}
	if in.IdempotencyKeyHash != "" {
		first, found, err := a.chargedFor(in, now)
		if err != nil {
			return Outcome{}, ChargeFact{}, err
		}
		if found {
			return a.answerAgain(in.RequestID, now, first), first, nil
		}
	}
	chargeID := a.ChargeID(in)
	if first, ok := a.recentCharge(chargeID, now); ok {
		return a.repeatCharge(in.RequestID, now, first.ChargeFact)
	}
	covered, uncounted := int64(0), in.Credits // of the key's limit
	if in.HoldID != "" {
		h, _, ok := a.knownHold(in.HoldID, now)
		if !ok {
			return Outcome{}, ChargeFact{}, ErrUnknownHold
		}
		if first, ok := h.captured(chargeID); ok {
			return a.repeatCharge(in.RequestID, now, ChargeFact{
				ChargeID: first.ChargeID, Credits: first.Credits, BrandID: in.BrandID, Domain: in.Domain,
				RecordRevision: in.RecordRevision, Revision: first.Revision, At: first.At,
			})
		}
		covered = min(in.Credits, h.Left)
		if h.KeyID == in.KeyID {
			uncounted -= covered
		}
	}
	err := firstError(a.affordsCharge(in.Credits, covered, reserved),
		a.keyAffords(in.KeyID, uncounted, reserved, 0, now))
	if err != nil {
		return Outcome{}, ChargeFact{}, err
	}
	ev := in.event(chargeID)
	return decided(ev), ChargeFact{
		ChargeID: chargeID, Credits: in.Credits, BrandID: in.BrandID, Domain: in.Domain,
		RecordRevision: in.RecordRevision, Revision: a.core.revisions, At: now,
	}, nil
}

// affordsCharge checks that the account can pay. The part covered by a hold is already paid for, but no charge may take
// the balance below zero, and a refund may have consumed it since the hold was placed.
func (a *Account) affordsCharge(credits, covered, reserved int64) error {
	if covered < credits {
		if err := a.maySpend(); err != nil {
			return err
		}
		if err := a.affords(credits-covered, reserved); err != nil {
			return err
		}
	}
	if credits > a.core.balance {
		return &InsufficientCreditsError{Balance: a.core.balance, Available: a.Spendable(reserved), Required: credits}
	}
	return nil
}

func (a *Account) repeatCharge(requestID string, now time.Time, first ChargeFact) (Outcome, ChargeFact, error) {
	if a.isReversed(first.ChargeID) {
		return Outcome{}, ChargeFact{}, ErrChargeReversed
	}
	return a.answerAgain(requestID, now, first), first, nil
}

func (h hold) captured(chargeID string) (capture, bool) {
	for _, c := range h.Captures {
		if c.ChargeID == chargeID {
			return c, true
		}
	}
	return capture{}, false
}

func (in Charge) validate() error {
	err := firstError(
		amount(in.Credits), text("request id", in.RequestID, true), text("brand id", in.BrandID, true),
		text("domain", in.Domain, true), text("hold id", in.HoldID, false), text("item", in.Item, false),
		text("key id", in.KeyID, false),
	)
	if err != nil || in.IdempotencyKeyHash == "" && in.RequestHash == "" {
		return err
	}
	return firstError(hexHash("idempotency key hash", in.IdempotencyKeyHash), hexHash("request hash", in.RequestHash))
}

func (in Charge) event(chargeID string) eventschemas.CreditsCharged {
	ev := eventschemas.CreditsCharged{
		ChargeID:           chargeID,
		Credits:            in.Credits,
		RequestID:          in.RequestID,
		BrandID:            in.BrandID,
		Domain:             in.Domain,
		RecordRevision:     in.RecordRevision,
		HoldID:             in.HoldID,
		IdempotencyKeyHash: in.IdempotencyKeyHash,
		RequestHash:        in.RequestHash,
		KeyID:              in.KeyID,
	}
	if in.HoldID != "" {
		ev.Item = in.Item // distinguishes captures of one hold; without a hold it is only part of the charge id
	}
	return ev
}

// Reverse is the command to reverse a charge. It repeats the data of the charge's event, which the
// account does not keep.
type Reverse struct {
	ChargeID  string
	Credits   int64
	ChargedAt time.Time
	RequestID string // of the charge
	KeyID     string // of the charge
	Reason    string // client_gone, operator
	Note      string // why an operator reverses it
}

// Reverse returns the credits of a whole charge, once, even if the account is suspended or closed.
// Reversing it again is a repeat. An operator may reverse within ReversalWindow. A charge whose client
// disconnected can be reversed within UndeliveredWindow unless another request was answered from it.
// Errors: ErrInvalid, ErrNotFound, ErrTooLate, ErrChargeKept, ErrCreditLimit.
func (a *Account) Reverse(in Reverse, now time.Time) (Outcome, error) {
	err := firstError(text("charge id", in.ChargeID, true), text("request id", in.RequestID, true),
		text("reason", in.Note, false),
		amount(in.Credits), a.exists())
	if err != nil {
		return Outcome{}, err
	}
	var window time.Duration
	switch in.Reason {
	case ReasonClientGone:
		window = UndeliveredWindow
	case ReasonOperator:
		window = ReversalWindow
	default:
		return Outcome{}, &InvalidError{Field: "reason", Reason: "must be client_gone or operator"}
	}
	// Check the age first: older reversals and kept marks may be forgotten.
	if a.later(now).Sub(in.ChargedAt) >= window {
		return Outcome{}, ErrTooLate
	}
	if a.isReversed(in.ChargeID) {
		return repeated(), nil
	}
	if in.Reason == ReasonClientGone && a.isKept(in.ChargeID, in.ChargedAt) {
		return Outcome{}, ErrChargeKept
	}
	if in.Credits > MaxCredits-a.core.balance {
		return Outcome{}, ErrCreditLimit
	}
	if err := kept("reason", in.Note); err != nil {
		return Outcome{}, err
	}
	ev := eventschemas.ChargeReversed{
		ChargeID: in.ChargeID, Credits: in.Credits, RequestID: in.RequestID, Reason: in.Reason, Note: in.Note,
	}
	if l, limited := a.core.limits.Of(in.KeyID, a.later(now)); limited && !in.ChargedAt.Before(l.Since) {
		ev.KeyID = in.KeyID // the charge counts against the key's limit
	}
	return decided(ev), nil
}
