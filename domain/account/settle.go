package account

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"letterhead/eventschemas"
)

// Limits of the claims of one payment, so that their events fit into one append.
const (
	MaxClaims       = 128
	MaxSettleEvents = 160
)

// Claim is money that a payment processor took back from a payment: a refund or a dispute.
type Claim struct {
	ID    string // becomes the refund id
	Money eventschemas.Money
	Void  bool // the refund failed, or the dispute was won
}

// Settle is the command to make the refunds of a payment match its claims.
type Settle struct {
	PaymentID string
	Claims    []Claim
	// Subject is the id of the claim to settle; others that cannot be settled are left out. If it is empty, all must be
	// settled.
	Subject string
}

// SettlePayment refunds the claims of a payment, and reverses the refunds of claims that are void. The claims may be
// repeated and given in any order: what was refunded before under the id of a claim counts.
//
// A claim takes its share of the payment's credits, rounded up. All refunds of a payment together take no more than it
// granted, and return no more than was paid; so a claim that finds too little left takes the rest when another one
// becomes void, under an id with a number, such as dp_1.2.
//
// A refund takes at least one credit. If none is left for a claim that has money to return, the claim with the most
// credits gives one back, or else the largest other refund: its refunds are reversed, and it is refunded again with a
// credit less.
// So all claims are returned, but not more than was paid, unless the payment has more refunds than
// credits. Claims that a release before data format 2 refunded without money, or in another currency, stay as they are.
//
// Errors: ErrInvalid, ErrNotFound, ErrUnknownPayment, ErrPaymentMismatch, ErrRefundTooLarge (no credit is left for the
// claim), ErrCreditLimit.
func (a *Account) SettlePayment(in Settle) (Outcome, error) {
	if err := firstError(text("payment id", in.PaymentID, true), a.exists()); err != nil {
		return Outcome{}, err
	}
	if len(in.Claims) > MaxClaims {
		return Outcome{}, &InvalidError{Field: "claims", Reason: fmt.Sprintf("are more than %d", MaxClaims)}
	}
	p, ok := a.payments[in.PaymentID]
	if !ok {
		return Outcome{}, ErrUnknownPayment
	}
	s := settlement{account: a, paymentID: in.PaymentID, payment: p, claims: in.Claims, balance: a.core.balance}
	claims := slices.Clone(in.Claims)
	// The void ones are first, so that their credits are left for the others.
	for _, step := range []func(Claim) error{s.check, s.void, s.add, s.take} {
		var err error
		claims = slices.DeleteFunc(claims, func(c Claim) bool {
			failed := step(c)
			if failed != nil && (in.Subject == "" || in.Subject == c.ID) && err == nil {
				err = failed
			}
			return failed != nil
		})
		if err != nil {
			return Outcome{}, err
		}
	}
	out, err := s.refund()
	if c := s.part(in.Subject); err == nil && c != nil && !c.fixed {
		for _, claim := range in.Claims {
			if claim.ID == in.Subject && claim.Money.Minor > 0 {
				out.Short = max(claim.Money.Minor-c.minor, 0)
				out.TookNothing = c.credits == 0 && c.minor == 0
			}
		}
	}
	return out, err
}

// refundMoney returns money of a payment that has no credits left, with a credit of the largest refund.
func (a *Account) refundMoney(p payment, in Refund) (Outcome, error) {
	if in.AtMost {
		in = p.limited(in)
	}
	if _, err := p.moneyBack(in); err != nil {
		return Outcome{}, err
	}
	has := part{claimID: in.RefundID, minor: in.Money.Minor}
	s := settlement{account: a, paymentID: in.PaymentID, payment: p, parts: []*part{&has}}
	if err := s.giveTo(&has); err != nil {
		return Outcome{}, err
	}
	return s.refund()
}

// settlement is a payment while its claims are settled.
type settlement struct {
	account   *Account
	paymentID string
	payment   payment
	claims    []Claim
	balance   int64
	parts     []*part // of claims that are not void, and of other refunds if claims need their credits
	events    []eventschemas.Event
}

// part is what a claim takes of a payment.
type part struct {
	claimID        string
	credits, minor int64
	// it has a refund of an old release without its money, so its money is not known and cannot change
	fixed bool
}

func (s *settlement) check(c Claim) error {
	if err := firstError(text("refund id", c.ID, true), money(&c.Money)); err != nil {
		return err
	}
	switch currency := s.payment.paid.Currency; {
	case currency == "" && c.Money.Minor > 0:
		return &InvalidError{Field: "money", Reason: "cannot be returned: the payment was recorded without money"}
	case currency != "" && c.Money.Currency != currency:
		return &InvalidError{Field: "currency", Reason: "must be that of the payment, " + currency}
	}
	known := s.account.refundsOf(c.ID)
	if len(known) == 0 {
		if err := newID("refund id", c.ID); err != nil {
			return err
		}
	}
	for _, r := range known {
		if r.paymentID != s.paymentID {
			return &PaymentMismatchError{ID: c.ID, Recorded: "payment " + r.paymentID, Asked: "payment " + s.paymentID}
		}
	}
	return nil
}

// refundsOf returns the refunds that a claim made, in order.
func (a *Account) refundsOf(claimID string) (all []refund) {
	for {
		r, ok := a.refunds[claimRefund(claimID, len(all))]
		if !ok {
			return all
		}
		all = append(all, r)
	}
}

// claimRefund returns the id of a claim's refund after n others.
func claimRefund(claimID string, n int) string {
	if n == 0 {
		return claimID
	}
	return fmt.Sprintf("%s.%d", claimID, n+1)
}

// ClaimOf returns the id of the claim whose refund has an id with a number, and reports false for other ids.
func ClaimOf(refundID string) (claimID string, ok bool) {
	dot := max(strings.LastIndexByte(refundID, '.'), 0)
	n, err := strconv.Atoi(refundID[min(dot+1, len(refundID)):])
	return refundID[:dot], err == nil && n > 1 && claimRefund(refundID[:dot], n-1) == refundID
}

// void reverses the refunds of a void claim.
func (s *settlement) void(c Claim) error {
	if !c.Void {
		return nil
	}
	for n, r := range s.account.refundsOf(c.ID) {
		if r.reversed {
			continue
		}
		if r.credits > MaxCredits-s.balance {
			return ErrCreditLimit
		}
		s.balance += r.credits
		s.payment.refunded -= r.credits
		s.payment.returned -= r.returned
		s.events = append(s.events, s.reversal(c.ID, n, r))
	}
	return nil
}

// add adds what a claim has taken before.
func (s *settlement) add(c Claim) error {
	if c.Void || s.part(c.ID) != nil {
		return nil
	}
	has := s.account.taken(c.ID, s.payment.paid)
	s.parts = append(s.parts, &has)
	return nil
}

// part returns the part of a claim, or nil.
func (s *settlement) part(claimID string) *part {
	i := slices.IndexFunc(s.parts, func(p *part) bool { return p.claimID == claimID })
	if i < 0 {
		return nil
	}
	return s.parts[i]
}

// taken returns what the refunds of a claim have taken of a payment.
func (a *Account) taken(claimID string, paid eventschemas.Money) part {
	all := part{claimID: claimID}
	for _, r := range a.refundsOf(claimID) {
		if !r.reversed {
			all.credits += r.credits
			all.minor += r.returned
			all.fixed = all.fixed || r.money.Currency != paid.Currency || r.money.Minor > paid.Minor
		}
	}
	return all
}

// take adds to a part what its claim has not taken yet.
func (s *settlement) take(c Claim) error {
	if c.Void || c.Money.Minor == 0 {
		return nil
	}
	p, has := &s.payment, s.part(c.ID)
	if has.fixed {
		return nil
	}
	credits := max(min(shareUp(p.granted, c.Money.Minor, p.paid.Minor)-has.credits, p.granted-p.refunded), 0)
	minor := max(min(c.Money.Minor-has.minor, p.paid.Minor-p.returned), 0)
	if credits > MaxCredits+s.balance {
		return ErrCreditLimit
	}
	if minor > 0 && has.credits+credits == 0 {
		if err := s.giveTo(has); err != nil {
			return err
		}
	}
	has.credits += credits
	has.minor += minor
	s.balance -= credits
	p.refunded += credits
	p.returned += minor
	return nil
}

// giveTo gives a part a credit of the largest one.
func (s *settlement) giveTo(has *part) error {
	from := s.largest()
	if from == nil {
		s.addOthers()
		from = s.largest()
	}
	if from == nil {
		return fmt.Errorf("%w: other refunds have taken all of its %d credits, and each needs one",
			ErrRefundTooLarge, s.payment.granted)
	}
	from.credits--
	has.credits++
	return nil
}

// addOthers puts the parts of the payment's refunds that are not of claims, such as operators' refunds, before the
// rest.
func (s *settlement) addOthers() {
	var others []*part
	ofClaim := func(id string) bool { return slices.ContainsFunc(s.claims, func(c Claim) bool { return c.ID == id }) }
	ofOther := func(r refund) bool { return r.paymentID != s.paymentID }
	for _, id := range slices.Sorted(maps.Keys(s.account.refunds)) {
		first, numbered := ClaimOf(id)
		_, ok := s.account.refunds[first]
		if numbered && ok || ofClaim(id) || s.part(id) != nil || slices.ContainsFunc(s.account.refundsOf(id), ofOther) {
			continue
		}
		has := s.account.taken(id, s.payment.paid)
		others = append(others, &has)
	}
	s.parts = append(others, s.parts...)
}

// largest returns the part with the most credits, or nil if none has two. It skips one whose next refund would have the
// id of another part.
func (s *settlement) largest() (found *part) {
	for _, p := range s.parts {
		next := s.part(claimRefund(p.claimID, len(s.account.refundsOf(p.claimID))))
		if p.fixed || p.credits < 2 || next != nil && next != p || found != nil &&
			cmp.Or(cmp.Compare(found.credits, p.credits), strings.Compare(p.claimID, found.claimID)) >= 0 {
			continue
		}
		found = p
	}
	return found
}

// refund makes the refunds of each claim its part. Those that cannot be completed by another one are reversed before.
func (s *settlement) refund() (Outcome, error) {
	var refunds []eventschemas.Event
	for _, p := range s.parts {
		made, has := s.account.refundsOf(p.claimID), s.account.taken(p.claimID, s.payment.paid)
		if has == *p {
			continue
		}
		if p.credits <= has.credits {
			for n, r := range made {
				if !r.reversed {
					s.events = append(s.events, s.reversal(p.claimID, n, r))
				}
			}
			has = part{}
		}
		refunds = append(refunds, eventschemas.PaymentRefunded{
			RefundID: claimRefund(p.claimID, len(made)), PaymentID: s.paymentID, Credits: p.credits - has.credits,
			Money: &eventschemas.Money{Minor: p.minor - has.minor, Currency: s.payment.paid.Currency},
		})
	}
	s.events = append(s.events, refunds...)
	if len(s.events) == 0 {
		return repeated(), nil
	}
	if len(s.events) > MaxSettleEvents {
		return Outcome{}, &InvalidError{Field: "claims",
			Reason: fmt.Sprintf("change more than %d refunds", MaxSettleEvents)}
	}
	return decided(s.events...), nil
}

// reversal returns the event that reverses a claim's refund after n others. Its money is what counted of the refund, so
// that folds need not remember it.
func (s *settlement) reversal(claimID string, n int, r refund) eventschemas.RefundReversed {
	ev := eventschemas.RefundReversed{RefundID: claimRefund(claimID, n), PaymentID: s.paymentID, Credits: r.credits}
	if currency := s.payment.paid.Currency; currency != "" {
		ev.Money = &eventschemas.Money{Minor: r.returned, Currency: currency}
	}
	return ev
}

// shareUp returns credits × part / whole, rounded up, and credits if part is not less than whole.
func shareUp(credits, part, whole int64) int64 {
	if part >= whole {
		return credits
	}
	return credits - Share(credits, whole-part, whole)
}
