package account

import (
	"errors"
	"math"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

func TestGrant_SamePayment_GrantsOnce(t *testing.T) {
	s := given(t, opened).
		when(grant("p1", 100)).then(paid("p1", 100)).
		when(grant("p1", 100)).isRepeated().
		when(grant("p1", 99)).rejected(ErrPaymentMismatch)
	var e *PaymentMismatchError
	if !errors.As(s.err, &e) || *e != (PaymentMismatchError{ID: "p1", Recorded: "100 credits", Asked: "99 credits"}) {
		t.Fatalf("error = %+v", s.err)
	}
	s.after(10*365*24*time.Hour).when(grant("p1", 100)).isRepeated().balance(100, 0)
}

func TestGrant_WithoutPayment_SameID_IsRepeat(t *testing.T) {
	adjust := func(id string, credits int64) command {
		return func(s *scene) {
			s.out, s.err = s.account.Grant(Grant{GrantID: id, Kind: KindAdjustment, Credits: credits, Reason: "sorry"})
		}
	}
	given(t, opened).
		when(adjust("a1", 5)).then(eventschemas.CreditsGranted{GrantID: "a1", Kind: KindAdjustment, Credits: 5, Reason: "sorry"}).
		when(adjust("a1", 5)).isRepeated().
		when(adjust("a1", 6)).rejected(ErrPaymentMismatch).
		when(adjust("a2", 5), adjust("", 5)).rejected(ErrInvalid)
}

func TestRefundPayment_MayGoBelowZero(t *testing.T) {
	given(t, opened, paid("p1", 2), charged("r1", "", ""), charged("r2", "", "")).
		when(refundOf("f1", "p1", 0)).then(eventschemas.PaymentRefunded{RefundID: "f1", PaymentID: "p1", Credits: 2}).
		balance(-2, 0).
		when(refundOf("f1", "p1", 0)).isRepeated().
		when(refundOf("f2", "p1", 0)).isRepeated().
		when(refundOf("f2", "p1", 1)).rejected(ErrRefundTooLarge).
		when(charge("r3")).rejected(ErrInsufficientCredits)
}

func TestPartialRefunds(t *testing.T) {
	given(t, opened, paid("p1", 10)).
		when(refundOf("f1", "p1", 4)).then(eventschemas.PaymentRefunded{RefundID: "f1", PaymentID: "p1", Credits: 4}).
		when(refundOf("f1", "p1", 4)).isRepeated().
		when(refundOf("f1", "p1", 3)).rejected(ErrPaymentMismatch).
		when(refundOf("f1", "p2", 4)).rejected(ErrPaymentMismatch).
		when(refundOf("f2", "p1", 7)).rejected(ErrRefundTooLarge).
		when(refundOf("f2", "p1", 0)).then(eventschemas.PaymentRefunded{RefundID: "f2", PaymentID: "p1", Credits: 6}).
		when(refundOf("f3", "p9", 0)).rejected(ErrUnknownPayment).
		balance(0, 0)
}

func TestRefundPayment_WithoutMoney_ReturnsShareAndLastRefundTheRest(t *testing.T) {
	given(t, opened, paidMoney("p1", 3, euros(1000))).
		when(refundOf("f1", "p1", 1)).then(refunded("f1", "p1", 1, euros(333))).
		when(refundOf("f2", "p1", 1)).then(refunded("f2", "p1", 1, euros(333))).
		when(refundOf("f2", "p1", 1)).isRepeated().
		when(refundMoney("f2", "p1", 0, euros(333))).isRepeated().
		when(refundOf("f3", "p1", 0)).then(refunded("f3", "p1", 1, euros(334))).
		when(refundOf("f4", "p1", 0)).isRepeated()
	given(t, opened, paidMoney("p1", MaxCredits, euros(MaxMoney))).
		when(refundOf("f1", "p1", MaxCredits-1)).then(refunded("f1", "p1", MaxCredits-1, euros(MaxMoney-1))).
		when(refundOf("f2", "p1", 0)).then(refunded("f2", "p1", 1, euros(1)))
	given(t, opened, paidMoney("p1", 3, euros(0))).
		when(refundOf("f1", "p1", 2)).then(refunded("f1", "p1", 2, euros(0)))
}

func TestRefundPayment_WithMoney_LimitedByPaymentAndItsCurrency(t *testing.T) {
	given(t, opened, paidMoney("p1", 10, euros(1000)), paid("p2", 5)).
		when(refundMoney("f1", "p1", 2, euros(1001))).rejected(ErrRefundTooLarge).
		when(refundMoney("f1", "p1", 2, &eventschemas.Money{Minor: 1, Currency: "USD"})).rejected(ErrInvalid).
		when(refundMoney("f1", "p2", 2, euros(1))).rejected(ErrInvalid).
		when(refundMoney("f1", "p1", 2, euros(900))).then(refunded("f1", "p1", 2, euros(900))).
		when(refundMoney("f1", "p1", 2, euros(901))).rejected(ErrPaymentMismatch).
		when(refundMoney("f1", "p1", 2, &eventschemas.Money{Minor: 900, Currency: "USD"})).rejected(ErrPaymentMismatch).
		when(refundMoney("f2", "p1", 2, euros(101))).rejected(ErrRefundTooLarge).
		when(refundOf("f2", "p1", 4)).then(refunded("f2", "p1", 4, euros(50))).
		when(refundMoney("f3", "p1", 0, euros(0))).then(refunded("f3", "p1", 4, euros(0))).
		when(refundOf("f4", "p2", 0)).then(refunded("f4", "p2", 5, nil))
}

// Releases before data format 2 did not limit the money of refunds, and recorded some without money.
func TestRefundPayment_AfterRefundsOfEarlierReleases(t *testing.T) {
	given(t, opened, paidMoney("p1", 10, euros(1000)), refunded("f1", "p1", 2, euros(5000))).
		when(refundMoney("f2", "p1", 2, euros(1))).rejected(ErrRefundTooLarge).
		when(refundOf("f2", "p1", 0)).then(refunded("f2", "p1", 8, euros(0)))
	given(t, opened, paidMoney("p1", 1000, euros(4900)), refunded("f1", "p1", 900, nil)).
		when(refundMoney("f2", "p1", 100, euros(491))).rejected(ErrRefundTooLarge).
		when(refundOf("f2", "p1", 0)).then(refunded("f2", "p1", 100, euros(490)))
	given(t, opened, paidMoney("p1", 10, euros(1000)), refunded("f1", "p1", 5, &eventschemas.Money{Minor: 700, Currency: "USD"})).
		when(refundOf("f2", "p1", 0)).then(refunded("f2", "p1", 5, euros(1000)))
	given(t, opened, paid("p1", 10), refunded("f1", "p1", 5, euros(700))).
		when(refundOf("f2", "p1", 0)).then(refunded("f2", "p1", 5, nil))
}

// A payment grants once. If a stream has a second grant of it, as no decision makes, their money must not be summed up: earlier
// releases did not limit it.
func TestRefundPayment_PaymentGrantedTwice_ReturnsMoneyOfOneGrant(t *testing.T) {
	grant := eventschemas.CreditsGranted{GrantID: "p1", Kind: KindTopup, Credits: 5, PaymentID: "p1", Money: euros(math.MaxInt64)}
	given(t, opened, grant, grant).
		when(refundOf("f1", "p1", 0)).then(refunded("f1", "p1", 10, euros(math.MaxInt64)))
}

// A refund takes at least one credit, so the largest refund gives one back.
func TestRefundPayment_MoneyButNoCreditsLeft_TakesCreditOfLargestRefund(t *testing.T) {
	before := []eventschemas.Event{opened, paidMoney("p1", 10, euros(1000)), refunded("f0", "p1", 1, euros(0)), refunded("f1", "p1", 9, euros(900)), paidMoney("p2", 3, euros(5)), refunded("f9", "p2", 3, euros(0))}
	after := []eventschemas.Event{refundReversed("f1", "p1", 9, euros(900)), refunded("f1.2", "p1", 8, euros(900)), refunded("f2", "p1", 1, euros(60))}
	s := given(t, before...).
		when(refundOf("f2", "p1", 0)).rejected(ErrRefundTooLarge).
		when(refundMoney("f2", "p1", 0, euros(0))).rejected(ErrRefundTooLarge).
		when(refundMoney("f2", "p1", 1, euros(60))).rejected(ErrRefundTooLarge).
		when(refundMoney("f2", "p1", 0, euros(101))).rejected(ErrRefundTooLarge).
		when(refundMoney("f2", "p1", 0, &eventschemas.Money{Minor: 60, Currency: "USD"})).rejected(ErrInvalid)
	s.when(refundMoney("f2", "p1", 0, euros(60))).then(after...).balance(0, 0).
		when(refundMoney("f2", "p1", 0, euros(60))).isRepeated().
		when(refundMoney("f1", "p1", 9, euros(900))).isRepeated().
		when(refundMoney("f2", "p1", 0, euros(61))).rejected(ErrPaymentMismatch).
		when(refundMoney("f3", "p1", 0, euros(41))).rejected(ErrRefundTooLarge).
		when(refundMoney("f3", "p1", 0, euros(40))).
		then(refundReversed("f1.2", "p1", 8, euros(900)), refunded("f1.3", "p1", 7, euros(900)), refunded("f3", "p1", 1, euros(40))).
		when(refundMoney("f4", "p1", 0, euros(1))).rejected(ErrRefundTooLarge)
	given(t, before...).when(refundBy(Refund{RefundID: "f2", PaymentID: "p1", Money: euros(60), ByMoney: true})).then(after...)
	// The id of another part of the largest refund is taken.
	given(t, before...).when(refundMoney("f1.2", "p1", 0, euros(60))).rejected(ErrRefundTooLarge)
	// No refund can give a credit back.
	given(t, opened, paidMoney("p1", 2, euros(100)), refunded("f0", "p1", 1, euros(0)), refunded("f1", "p1", 1, euros(0))).
		when(refundMoney("f2", "p1", 0, euros(60))).rejected(ErrRefundTooLarge)
	given(t, opened, paid("p1", 2), refunded("f0", "p1", 2, nil)).
		when(refundMoney("f2", "p1", 0, euros(60))).rejected(ErrInvalid)
}

func TestRefundPayment_AtMost_MoneyButNoCreditsLeft_TakesCreditOfLargestRefund(t *testing.T) {
	atMost := func(id string, credits int64, money *eventschemas.Money) command {
		return refundBy(Refund{RefundID: id, PaymentID: "p1", Credits: credits, Money: money, AtMost: true})
	}
	given(t, opened, paidMoney("p1", 10, euros(1000)), refunded("f1", "p1", 10, euros(900))).
		when(atMost("d1", 10, euros(0))).isRepeated().
		when(atMost("d1", 10, nil)).isRepeated().
		when(atMost("d1", 10, euros(500))).
		then(refundReversed("f1", "p1", 10, euros(900)), refunded("f1.2", "p1", 9, euros(900)), refunded("d1", "p1", 1, euros(100))).
		when(atMost("d1", 10, euros(500))).isRepeated().
		when(atMost("d2", 10, euros(500))).isRepeated()
}

// A dispute limits its credits and money to what other refunds have left, and stays the same when one of those fails.
func TestRefundPayment_AtMost_RepeatAfterAnotherRefundFailed_IsTheSame(t *testing.T) {
	dispute := func(credits int64, money *eventschemas.Money) command {
		return func(s *scene) {
			s.out, s.err = s.account.RefundPayment(Refund{RefundID: "d1", PaymentID: "p1", Credits: credits, Money: money, AtMost: true})
		}
	}
	returned := eventschemas.RefundReversed{RefundID: "f1", PaymentID: "p1", Credits: 9, Money: euros(900)}
	given(t, opened, paidMoney("p1", 10, euros(1000)), refunded("f1", "p1", 9, euros(900))).
		when(dispute(10, euros(1000))).then(refunded("d1", "p1", 1, euros(100))).
		when(dispute(10, euros(1000))).isRepeated().
		and(returned).
		restored().
		when(dispute(10, euros(1000))).isRepeated().
		when(dispute(1, euros(99))).rejected(ErrPaymentMismatch).
		when(dispute(10, &eventschemas.Money{Minor: 1000, Currency: "USD"})).rejected(ErrPaymentMismatch)
	// It took less money than was left: more is another refund.
	given(t, opened, paidMoney("p1", 10, euros(1000)), refunded("f1", "p1", 9, euros(900))).
		when(dispute(10, euros(50))).then(refunded("d1", "p1", 1, euros(50))).
		when(dispute(10, euros(51))).rejected(ErrPaymentMismatch)
}

func TestRefundPayment_ByMoney_TakesItsShareOfCredits(t *testing.T) {
	byMoney := func(id, payment string, money *eventschemas.Money) command {
		return refundBy(Refund{RefundID: id, PaymentID: payment, Money: money, ByMoney: true})
	}
	given(t, opened, paidMoney("p1", 10, euros(1000)), paid("p2", 5)).
		when(byMoney("f1", "p1", euros(99))).rejected(ErrInvalid). // less than a credit
		when(byMoney("f1", "p1", nil)).rejected(ErrInvalid).
		when(byMoney("f1", "p1", &eventschemas.Money{Minor: 500, Currency: "USD"})).rejected(ErrInvalid).
		when(byMoney("f1", "p2", euros(100))).rejected(ErrRefundTooLarge). // paid without money
		when(byMoney("f1", "p1", euros(1001))).rejected(ErrRefundTooLarge).
		when(byMoney("f1", "p1", euros(250))).then(refunded("f1", "p1", 2, euros(250))).
		when(byMoney("f1", "p1", euros(250))).isRepeated().
		when(byMoney("f1", "p1", euros(251))).rejected(ErrPaymentMismatch).
		when(byMoney("f2", "p1", euros(750))).then(refunded("f2", "p1", 8, euros(750))).
		when(byMoney("f3", "p1", euros(1))).rejected(ErrRefundTooLarge)
}

// Refunds of all money, in any parts, take all credits and return all money.
func TestRefundPayment_ByMoneyInParts_EndsWithNothingLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		granted, paid := rapid.Int64Range(1, 1000).Draw(t, "credits"), rapid.Int64Range(1, MaxMoney).Draw(t, "money")
		a := New("account-1")
		apply := func(out Outcome, err error) error {
			for _, ev := range out.Events {
				a.Apply(ev, time.Unix(0, 0))
			}
			return err
		}
		testmust.Succeed(t, apply(a.Open(Open{Holder: "holder-1", Plan: plan.Free})))
		testmust.Succeed(t, apply(a.Grant(Grant{Kind: KindTopup, Credits: granted, PaymentID: "p1", Money: euros(paid)})))
		left := paid
		for i := 0; left > 0; i++ {
			part := left
			if i < 20 {
				part = rapid.Int64Range(1, left).Draw(t, "part")
			}
			before := a.Balance()
			err := apply(a.RefundPayment(Refund{RefundID: strconv.Itoa(i), PaymentID: "p1", Money: euros(part), ByMoney: true})) // a small part may be less than a credit
			if err != nil && !errors.Is(err, ErrInvalid) {
				t.Fatal(err)
			}
			if taken := before - a.Balance(); (err == nil) != (taken > 0) {
				t.Fatalf("%d of %d: %d credits taken, %v", part, left, taken, err)
			}
			if err == nil {
				left -= part
			}
		}
		if a.Balance() != 0 {
			t.Fatalf("%d credits are left of %d, and no money", a.Balance(), granted)
		}
	})
}

func TestGrant_RepeatedWithOtherMoney_IsMismatch(t *testing.T) {
	topup := func(money *eventschemas.Money) command {
		return func(s *scene) {
			s.out, s.err = s.account.Grant(Grant{Kind: KindTopup, Credits: 10, PaymentID: "p1", Money: money})
		}
	}
	given(t, opened).
		when(topup(euros(1000))).then(paidMoney("p1", 10, euros(1000))).
		when(topup(euros(1000))).isRepeated().
		when(topup(euros(999))).rejected(ErrPaymentMismatch).
		when(topup(nil)).rejected(ErrPaymentMismatch)
}

func TestGrant_Tax_IsPartOfMoney(t *testing.T) {
	taxed := func(money *eventschemas.Money, tax int64) command {
		return func(s *scene) {
			s.out, s.err = s.account.Grant(Grant{Kind: KindTopup, Credits: 10, PaymentID: "p1", Money: money, Tax: tax})
		}
	}
	given(t, opened).
		when(taxed(euros(100), 101)).rejected(ErrInvalid).
		when(taxed(euros(100), -1)).rejected(ErrInvalid).
		when(taxed(nil, 1)).rejected(ErrInvalid).
		when(taxed(euros(100), 16)).then(eventschemas.CreditsGranted{GrantID: "p1", Kind: KindTopup, Credits: 10, PaymentID: "p1", Money: euros(100), Tax: 16}).
		when(taxed(euros(100), 16)).isRepeated().
		when(taxed(euros(100), 0)).rejected(ErrPaymentMismatch).
		when(taxed(euros(MaxMoney+1), 16)).rejected(ErrInvalid)
}

func TestRecordFee_SameID_IsRecordedOnce(t *testing.T) {
	fee := func(id, payment string, minor int64) eventschemas.Event {
		return eventschemas.PaymentFeeRecorded{FeeID: id, PaymentID: payment, Money: *euros(minor)}
	}
	given(t, opened, paid("p1", 5), paid("p2", 5)).
		when(feeOf("e1", "p1", *euros(145))).then(fee("e1", "p1", 145)).balance(10, 0).
		when(feeOf("e1", "p1", *euros(145))).isRepeated().
		when(feeOf("e1", "p1", *euros(146))).rejected(ErrPaymentMismatch).
		when(feeOf("e1", "p1", eventschemas.Money{Minor: 145, Currency: "USD"})).rejected(ErrPaymentMismatch).
		when(feeOf("e1", "p2", *euros(145))).rejected(ErrPaymentMismatch).
		when(feeOf("e2", "p3", *euros(145))).rejected(ErrUnknownPayment).
		when(feeOf("e2", "p1", *euros(-145))).then(fee("e2", "p1", -145))
	given(t, opened, paid("p1", 5), closed).when(feeOf("e1", "p1", *euros(1))).then(fee("e1", "p1", 1))
}
