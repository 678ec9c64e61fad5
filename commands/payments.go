package commands

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"letterhead/domain/account"
	"letterhead/domain/billing"
	"letterhead/domain/notices"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// OperatorGrants are the kinds of grants that operators make. Free credits come with an account.
var OperatorGrants = []string{account.KindTopup, account.KindSubscription, account.KindAdjustment}

// GrantCredits is the command to add credits.
type GrantCredits struct {
	Request   Request
	AccountID string
	GrantID   string // if empty, the payment id or the request id
	Kind      string // account.KindTopup …
	Credits   int64
	PaymentID string              // optional; one payment grants only once
	Money     *eventschemas.Money // if money was paid
	Tax       int64               // the part of the money that is tax, in minor units
	Reason    string
}

// GrantCredits adds credits. A payment that was already granted is a repeat. Errors:
// *account.PaymentMismatchError, account.ErrClosed, account.ErrCreditLimit, account.ErrInvalid,
// ErrInvalidRequest, and the errors of AccountWriter.
func (d *AccountWriter) GrantCredits(ctx context.Context, in GrantCredits) (Done, error) {
	if in.GrantID == "" && in.PaymentID == "" {
		in.GrantID = in.Request.ID
	}
	return d.decide(ctx, in.Request, in.AccountID, func(s *accountState, _ time.Time) (account.Outcome, error) {
		return s.Grant(account.Grant{
			GrantID: in.GrantID, Kind: in.Kind, Credits: in.Credits, PaymentID: in.PaymentID, Money: in.Money,
			Tax: in.Tax, Reason: in.Reason,
		})
	})
}

// CheckOperator returns a *FieldError unless an operator may make the grant. Operators must name the payment of a grant
// that is not an adjustment, so that repeating it grants once, and the reason of one without a payment.
func (in GrantCredits) CheckOperator() error {
	if err := checkReason(in.Reason); err != nil {
		return err
	}
	switch {
	case in.Credits <= 0:
		return &FieldError{"credits", "is a positive number"}
	case !slices.Contains(OperatorGrants, in.Kind):
		return &FieldError{"kind", fmt.Sprintf("is topup, subscription or adjustment, not %q", in.Kind)}
	case in.Kind != account.KindAdjustment && in.PaymentID == "":
		return &FieldError{"payment_id", "is needed for a " + in.Kind + ", so that repeating the request grants once"}
	}
	if in.PaymentID == "" && in.Money == nil {
		return CheckGiven(in.Reason)
	}
	return nil
}

// SettlePayment is the command to make the refunds of a payment match the claims of a payment processor.
type SettlePayment struct {
	Request   Request
	AccountID string
	PaymentID string
	Claims    []account.Claim
	Subject   string // as in account.Settle
}

// SettlePayment refunds what the claims take from a payment, even below a balance of zero, and returns what void claims
// took. The same claims again are a repeat. Errors: as account.SettlePayment, ErrInvalidRequest, and the errors of
// AccountWriter.
func (d *AccountWriter) SettlePayment(ctx context.Context, in SettlePayment) (Done, error) {
	var decided account.Outcome
	done, err := d.decide(ctx, in.Request, in.AccountID, func(s *accountState, _ time.Time) (account.Outcome, error) {
		out, err := s.SettlePayment(account.Settle{PaymentID: in.PaymentID, Claims: in.Claims, Subject: in.Subject})
		decided = out
		return out, err
	})
	if err == nil { // otherwise the decision may still run
		done.TookNothing, done.Short = decided.TookNothing, decided.Short
	}
	return done, err
}

// RefundPayment is the command to remove the credits of a refunded payment.
type RefundPayment struct {
	Request   Request
	AccountID string
	RefundID  string // the request id when empty
	PaymentID string
	Credits   int64               // 0 for all that remain of the payment
	Money     *eventschemas.Money // nil for the share of the credits in the remaining money
	ByMoney   bool                // remove the money's share of the remaining credits, in place of Credits
	AtMost    bool                // take what is left if it is less than Credits and Money
}

// Refunded is the result of RefundPayment.
type Refunded struct {
	Done
	Refund *eventschemas.PaymentRefunded // nil if nothing was left to refund
}

// RefundPayment removes credits, even below zero, but never more than the payment granted, and records the money that
// is returned, never more than was paid. The same refund, or a refund of the rest when nothing is left, is a repeat.
// Money that is left without credits is returned with a credit of the largest refund, which is recorded again with one
// less. Errors: account.ErrUnknownPayment, account.ErrRefundTooLarge, *account.PaymentMismatchError,
// account.ErrCreditLimit, account.ErrInvalid, ErrInvalidRequest, and the errors of AccountWriter.
func (d *AccountWriter) RefundPayment(ctx context.Context, in RefundPayment) (Refunded, error) {
	in.RefundID = cmp.Or(in.RefundID, in.Request.ID)
	var made *eventschemas.PaymentRefunded // by the last decision, if the append was tried again
	done, err := d.decide(ctx, in.Request, in.AccountID, func(s *accountState, _ time.Time) (account.Outcome, error) {
		out, err := s.RefundPayment(account.Refund{RefundID: in.RefundID, PaymentID: in.PaymentID, Credits: in.Credits,
			Money: in.Money, ByMoney: in.ByMoney, AtMost: in.AtMost})
		made = nil
		if recorded, ok := s.RefundOf(in.RefundID); ok {
			made = &recorded
		}
		for _, ev := range out.Events {
			if refund, ok := ev.(eventschemas.PaymentRefunded); ok {
				made = &refund
			}
		}
		return out, err
	})
	if err != nil {
		return Refunded{}, err
	}
	return Refunded{Done: done, Refund: made}, nil
}

// RecordFee is the command to record what the payment processor took from a payment.
type RecordFee struct {
	Request   Request
	AccountID string
	FeeID     string // the request id when empty
	PaymentID string
	Money     eventschemas.Money // below zero if the processor returned it
}

// RecordFee records a fee of the payment processor. The same fee is a repeat. Errors: account.ErrUnknownPayment,
// *account.PaymentMismatchError, account.ErrInvalid, ErrInvalidRequest, and the errors of AccountWriter.
func (d *AccountWriter) RecordFee(ctx context.Context, in RecordFee) (Done, error) {
	in.FeeID = cmp.Or(in.FeeID, in.Request.ID)
	return d.decide(ctx, in.Request, in.AccountID, func(s *accountState, _ time.Time) (account.Outcome, error) {
		return s.RecordFee(account.Fee{FeeID: in.FeeID, PaymentID: in.PaymentID, Money: in.Money})
	})
}

// RecordFailedPayment is the command to record that a payment of an account was attempted and failed.
type RecordFailedPayment struct {
	Request   Request
	AccountID string
	Failed    eventschemas.PaymentFailed
}

// RecordFailedPayment records that a payment failed, which raises a notice, once for each attempt. If the notice would
// be of no use, it records nothing and returns why: the account is closed, it was granted the payment, or a later
// attempt was recorded. Attempts that are not counted are told apart by their times.
//
// Errors: account.ErrNotFound, eventschemas.ErrNotYet, ErrInvalidRequest, ErrBusy, and the errors of AccountWriter and
// the log.
func (n *Notices) RecordFailedPayment(ctx context.Context, in RecordFailedPayment) (useless string, err error) {
	_, err = n.accounts.decide(ctx, in.Request,
		in.AccountID, func(s *accountState, _ time.Time) (account.Outcome, error) {
			switch {
			case s.Status() == "":
				return account.Outcome{}, account.ErrNotFound
			case s.Status() == account.Closed:
				useless = billing.AccountClosed
			case s.HasPayment(in.Failed.PaymentID):
				useless = billing.GrantedBefore
			}
			return account.Outcome{Repeated: true}, nil
		})
	if err != nil || useless != "" {
		return useless, err
	}
	_, err = n.decide(ctx, in.Request, in.AccountID, func() (func(eventschemas.Event), func() eventschemas.Event) {
		same, later := false, false
		fold := func(ev eventschemas.Event) {
			if known, ok := ev.(eventschemas.PaymentFailed); ok && known.PaymentID == in.Failed.PaymentID {
				order := notices.CompareAttempts(known, in.Failed)
				same, later = same || order == 0, later || order > 0
			}
		}
		return fold, func() eventschemas.Event {
			switch useless = ""; {
			case same:
				return nil
			case later:
				useless = billing.LaterAttempt
				return nil
			}
			return in.Failed
		}
	})
	return useless, err
}

// RecognizeBreakage is the command to remove the remaining credits of a closed account.
type RecognizeBreakage struct {
	Request   Request
	AccountID string
	Policy    string // why the credits will not be used
}

// RecognizedBreakage is the result of RecognizeBreakage.
type RecognizedBreakage struct {
	Done
	Credits int64 // removed by the request; 0 if none remained
}

// maxBreakageEvents limits the events in which a repeated request looks for what it did before. A closed account gets
// few.
const maxBreakageEvents = 256

// RecognizeBreakage removes all remaining credits of a closed account, whose money is revenue from then on. It is a
// repeat if no credits remain; the same request again, after ErrUnknownOutcome, returns the credits that it removed.
// Errors: account.ErrNotClosed, account.ErrOpenHolds, account.ErrInvalid, ErrInvalidRequest, and the errors of
// AccountWriter.
func (d *AccountWriter) RecognizeBreakage(ctx context.Context, in RecognizeBreakage) (RecognizedBreakage, error) {
	var credits int64 // of the last decision, if the append was tried again
	done, err := d.decide(ctx, in.Request, in.AccountID, func(s *accountState, _ time.Time) (account.Outcome, error) {
		out, err := s.RecognizeBreakage(in.Policy)
		credits = 0
		for _, ev := range out.Events {
			if breakage, ok := ev.(eventschemas.BreakageRecognized); ok {
				credits = breakage.Credits
			}
		}
		return out, err
	})
	if err != nil {
		return RecognizedBreakage{}, err
	}
	if done.Repeated {
		credits, err = d.breakageOf(ctx, in.Request, in.AccountID)
	}
	return RecognizedBreakage{Done: done, Credits: credits}, err
}

// breakageOf returns the credits that a request removed from an account; 0 if it removed none.
func (d *AccountWriter) breakageOf(ctx context.Context, request Request, accountID string) (int64, error) {
	stream := account.Stream(accountID)
	last, err := d.log.ReadStream(ctx, stream, eventlog.End, eventlog.Backward, maxBreakageEvents)
	if err != nil {
		return 0, err
	}
	for _, rec := range last {
		if rec.Metadata.RequestID != request.ID || rec.Type != (eventschemas.BreakageRecognized{}).EventType() {
			continue
		}
		ev, err := eventschemas.Decode(rec.Type, rec.SchemaVersion, rec.Data)
		if err != nil {
			return 0, fmt.Errorf("revision %d of %s: %w", rec.Revision, stream, err)
		}
		if breakage, ok := ev.(eventschemas.BreakageRecognized); ok {
			return breakage.Credits, nil
		}
	}
	return 0, nil
}
