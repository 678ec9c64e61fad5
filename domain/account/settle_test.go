package account

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

func settle(payment string, claims ...Claim) command {
	return func(s *scene) {
		s.out, s.err = s.account.SettlePayment(Settle{PaymentID: payment, Claims: claims})
	}
}

func claimed(id string, minor int64) Claim { return Claim{ID: id, Money: *euros(minor)} }

func voided(id string, minor int64) Claim { return Claim{ID: id, Money: *euros(minor), Void: true} }

func refundReversed(id, payment string, credits int64, money *eventschemas.Money) eventschemas.Event {
	return eventschemas.RefundReversed{RefundID: id, PaymentID: payment, Credits: credits, Money: money}
}

func TestSettle_RefundsInParts_TakeTheirShareRoundedUp(t *testing.T) {
	given(t, opened, paidMoney("p1", 1000, euros(4900))).
		when(settle("p1", claimed("re_1", 49))).then(refunded("re_1", "p1", 10, euros(49))).balance(990, 0).
		when(settle("p1", claimed("re_1", 49))).isRepeated().
		when(settle("p1", claimed("re_1", 49), claimed("re_2", 1))).then(refunded("re_2", "p1", 1, euros(1))).
		when(settle("p1", claimed("re_1", 49), claimed("re_2", 1), claimed("re_3", 4850))).then(refunded("re_3", "p1", 989, euros(4850))).balance(0, 0)
}

func TestSettle_Dispute_TakesWhatRefundsLeft_AndReturnsItWhenWon(t *testing.T) {
	given(t, opened, paidMoney("p1", 1000, euros(4900))).
		when(settle("p1", claimed("re_1", 490))).then(refunded("re_1", "p1", 100, euros(490))).
		when(settle("p1", claimed("re_1", 490), claimed("dp_1", 4900))).then(refunded("dp_1", "p1", 900, euros(4410))).balance(0, 0).
		when(settle("p1", claimed("re_1", 490), claimed("dp_1", 4900))).isRepeated().
		when(settle("p1", claimed("re_1", 490), voided("dp_1", 4900))).then(refundReversed("dp_1", "p1", 900, euros(4410))).balance(900, 0).
		when(settle("p1", claimed("re_1", 490), voided("dp_1", 4900))).isRepeated()
}

func TestSettle_ClaimThatFoundTooLittle_TakesTheRestLater(t *testing.T) {
	given(t, opened, paidMoney("p1", 1000, euros(4900))).
		when(settle("p1", claimed("dp_1", 4900))).then(refunded("dp_1", "p1", 1000, euros(4900))).
		when(settle("p1", claimed("re_1", 490), claimed("dp_1", 4900))).isRepeated().
		when(settle("p1", claimed("re_1", 490), voided("dp_1", 4900))).
		then(refundReversed("dp_1", "p1", 1000, euros(4900)), refunded("re_1", "p1", 100, euros(490)))
	given(t, opened, paidMoney("p1", 1000, euros(4900))).
		when(settle("p1", claimed("re_1", 490), claimed("dp_1", 4900))).
		then(refunded("re_1", "p1", 100, euros(490)), refunded("dp_1", "p1", 900, euros(4410))).
		when(settle("p1", voided("re_1", 490), claimed("dp_1", 4900))).
		then(refundReversed("re_1", "p1", 100, euros(490)), refunded("dp_1.2", "p1", 100, euros(490))).balance(0, 0)
}

// Releases before data format 2 recorded refunds without money, which count with the share of their credits.
func TestSettle_ClaimRefundedWithoutMoney_ReturnsNoneAgain(t *testing.T) {
	old := []eventschemas.Event{opened, paidMoney("p1", 1000, euros(4900)), refunded("re_1", "p1", 100, nil)}
	given(t, old...).when(settle("p1", claimed("re_1", 490))).isRepeated().
		when(settle("p1", claimed("re_1", 490), claimed("dp_1", 4900))).then(refunded("dp_1", "p1", 900, euros(4410))).balance(0, 0)
}

// Releases before data format 2 recorded refunds without money, and did not limit their money, nor its currency. What counted
// when it was refunded counts when it is reversed.
func TestSettle_ReversalOfRefundOfEarlierRelease_ReversesWhatCounted(t *testing.T) {
	for _, recorded := range []*eventschemas.Money{nil, euros(5000), euros(math.MaxInt64)} {
		given(t, opened, paidMoney("p1", 10, euros(1000)), refunded("f1", "p1", 10, recorded)).
			when(settle("p1", voided("f1", 1000))).then(refundReversed("f1", "p1", 10, euros(1000))).
			when(refundMoney("f2", "p1", 5, euros(1001))).rejected(ErrRefundTooLarge).
			when(settle("p1", voided("f1", 1000), claimed("f2", 5000))).then(refunded("f2", "p1", 10, euros(1000)))
		given(t, opened, paidMoney("p1", 10, euros(1000)), refunded("f1", "p1", 10, recorded)).
			when(settle("p1", voided("f1", 1000), claimed("f2", 5000))).
			then(refundReversed("f1", "p1", 10, euros(1000)), refunded("f2", "p1", 10, euros(1000)))
	}
	given(t, opened, paidMoney("p1", 10, euros(1000)), refunded("f0", "p1", 5, euros(800)), refunded("f1", "p1", 5, euros(700))).
		when(settle("p1", voided("f1", 700))).then(refundReversed("f1", "p1", 5, euros(200))).
		when(refundMoney("f2", "p1", 5, euros(201))).rejected(ErrRefundTooLarge)
	dollars := &eventschemas.Money{Minor: 700, Currency: "USD"}
	given(t, opened, paidMoney("p1", 10, euros(1000)), refunded("f0", "p1", 5, euros(1000)), refunded("f1", "p1", 5, dollars)).
		when(settle("p1", voided("f1", 700))).then(refundReversed("f1", "p1", 5, euros(0))).
		when(refundMoney("f2", "p1", 5, euros(1))).rejected(ErrRefundTooLarge)
	given(t, opened, paid("p1", 10), refunded("f1", "p1", 10, dollars)).
		when(settle("p1", Claim{ID: "f1", Money: eventschemas.Money{Currency: "EUR"}, Void: true})).then(refundReversed("f1", "p1", 10, nil))
}

func TestSettle_BadInput_IsRejected(t *testing.T) {
	s := given(t, opened, paidMoney("p1", 1000, euros(4900)), paid("gift", 5), paidMoney("p2", 10, euros(100)), refunded("re_9", "p2", 1, euros(10)))
	s.when(settle("none", claimed("re_1", 1))).rejected(ErrUnknownPayment)
	s.when(settle("", claimed("re_1", 1))).rejected(ErrInvalid)
	s.when(settle("p1", claimed("", 1))).rejected(ErrInvalid)
	s.when(settle("p1", Claim{ID: "re_1", Money: eventschemas.Money{Minor: 1, Currency: "USD"}})).rejected(ErrInvalid)
	s.when(settle("p1", claimed("re_1", -1))).rejected(ErrInvalid)
	s.when(settle("gift", claimed("re_1", 1))).rejected(ErrInvalid)
	s.when(settle("p1", claimed("re_9", 10))).rejected(ErrPaymentMismatch)
	s.when(settle("p1", make([]Claim, MaxClaims+1)...)).rejected(ErrInvalid)
	given(t).when(settle("p1")).rejected(ErrNotFound)

	many, events := []Claim(nil), []eventschemas.Event{opened, paidMoney("p1", MaxClaims, euros(MaxClaims*100))}
	for i := range MaxClaims / 2 {
		c := claimed(fmt.Sprint("large", i), 101)
		many, events = append(many, c), append(events, refunded(c.ID, "p1", 2, &c.Money))
	}
	s = given(t, events...).when(settle("p1", many...)).isRepeated()
	for i := range MaxClaims / 2 {
		many = append(many, claimed(fmt.Sprint("small", i), 99)) // each needs a credit of a large one
	}
	s.when(settle("p1", many...)).rejected(ErrInvalid)
}

// TestSettle_AnyOrder_EndsInSameAccount settles after each of some changes of claims, in two random orders in which the
// changes of one claim keep theirs.
// Rule 1.
func TestSettle_AnyOrder_EndsInSameAccount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		granted, money := rapid.Int64Range(100, 5000).Draw(t, "granted"), rapid.Int64Range(100, 5000).Draw(t, "paid")
		var changes [][]Claim // by claim
		for i := range rapid.IntRange(1, 4).Draw(t, "claims") {
			c := claimed(fmt.Sprint("c", i), rapid.Int64Range(1, money).Draw(t, "minor"))
			changes = append(changes, []Claim{c})
			if rapid.Bool().Draw(t, "void") {
				c.Void = true
				changes[i] = append(changes[i], c)
			}
		}
		run := func(name string) *Account {
			a := New(testID)
			apply := func(out Outcome, err error) {
				testmust.Succeed(t, err)
				for _, ev := range out.Events {
					a.Apply(ev, start)
				}
			}
			apply(a.Open(Open{Holder: "h", Plan: plan.Free}))
			apply(a.Grant(Grant{Kind: KindTopup, Credits: granted, PaymentID: "p1", Money: euros(money)}))
			left, current := make([]int, len(changes)), map[int]Claim{}
			for {
				var next []int
				for i := range changes {
					if left[i] < len(changes[i]) {
						next = append(next, i)
					}
				}
				if len(next) == 0 {
					return a
				}
				i := rapid.SampledFrom(next).Draw(t, name)
				current[i] = changes[i][left[i]]
				left[i]++
				var all []Claim
				for j := range changes {
					if c, ok := current[j]; ok {
						all = append(all, c)
					}
				}
				for range 2 { // the second changes nothing
					apply(a.SettlePayment(Settle{PaymentID: "p1", Claims: all}))
				}
				if p := a.payments["p1"]; p.refunded < 0 || p.refunded > p.granted || p.returned < 0 || p.returned > p.paid.Minor || a.Balance() != p.granted-p.refunded {
					t.Fatalf("balance %d, payment %+v", a.Balance(), p)
				}
			}
		}
		one, other := run("one order"), run("another order")
		var taken int64
		for _, c := range changes {
			if last := c[len(c)-1]; !last.Void {
				taken += (granted*last.Money.Minor + money - 1) / money
			}
		}
		if want := granted - min(taken, granted); one.Balance() != want || other.Balance() != want {
			t.Fatalf("the balances are %d and %d, want %d", one.Balance(), other.Balance(), want)
		}
	})
}

// TestSettle_NoCreditLeft_RoundingGivesOneBack refunds a payment of 3 credits in parts, each of which takes at least one
// credit.
func TestSettle_NoCreditLeft_RoundingGivesOneBack(t *testing.T) {
	first, second, third := claimed("re_1", 67), claimed("re_2", 20), claimed("re_3", 13)
	given(t, opened, paidMoney("p1", 3, euros(100))).
		when(settle("p1", first)).then(refunded("re_1", "p1", 3, euros(67))).
		when(settle("p1", first, second)).
		then(refundReversed("re_1", "p1", 3, euros(67)), refunded("re_1.2", "p1", 2, euros(67)), refunded("re_2", "p1", 1, euros(20))).balance(0, 0).
		when(settle("p1", first, second)).isRepeated().
		when(settle("p1", first, second, third)).
		then(refundReversed("re_1.2", "p1", 2, euros(67)), refunded("re_1.3", "p1", 1, euros(67)), refunded("re_3", "p1", 1, euros(13))).balance(0, 0).
		when(settle("p1", first, second, voided("re_3", 13))).
		then(refundReversed("re_3", "p1", 1, euros(13)), refunded("re_1.4", "p1", 1, euros(0)))
}

// TestSettle_NoCreditForMoreMoney_IsOneRefundAgain returns money to a claim that has all the credits it can take.
func TestSettle_NoCreditForMoreMoney_IsOneRefundAgain(t *testing.T) {
	given(t, opened, paidMoney("p1", 2, euros(100))).
		when(settle("p1", claimed("a", 90))).then(refunded("a", "p1", 2, euros(90))).
		when(settle("p1", claimed("a", 90), claimed("b", 90))).
		then(refundReversed("a", "p1", 2, euros(90)), refunded("a.2", "p1", 1, euros(90)), refunded("b", "p1", 1, euros(10))).
		when(settle("p1", voided("a", 90), claimed("b", 90), claimed("c", 10))).
		then(refundReversed("a.2", "p1", 1, euros(90)), refundReversed("b", "p1", 1, euros(10)), refunded("b.2", "p1", 1, euros(90)), refunded("c", "p1", 1, euros(10)))
}

// TestSettle_NoCreditLeft_RefundByHandGivesOneBack has no claim with two credits.
func TestSettle_NoCreditLeft_RefundByHandGivesOneBack(t *testing.T) {
	a, b, c := claimed("a", 10), claimed("b", 10), claimed("c", 10)
	given(t, opened, paidMoney("p1", 10, euros(100)), refunded("hand", "p1", 5, euros(0)), refunded("x.2", "p1", 4, euros(0)), paidMoney("p2", 9, euros(1)), refunded("large", "p2", 9, euros(1))).
		when(settle("p1", a)).then(refunded("a", "p1", 1, euros(10))).
		when(settle("p1", a, b, c)).
		then(refundReversed("hand", "p1", 5, euros(0)), refunded("hand.2", "p1", 3, euros(0)), refunded("b", "p1", 1, euros(10)), refunded("c", "p1", 1, euros(10))).
		when(settle("p1", a, b, c)).isRepeated().
		when(settle("p1", a, b, c, claimed("d", 10))).
		then(refundReversed("x.2", "p1", 4, euros(0)), refunded("x.2.2", "p1", 3, euros(0)), refunded("d", "p1", 1, euros(10)))
	// A void claim gives nothing more than its own credits.
	given(t, opened, paidMoney("p1", 3, euros(100)), refunded("hand", "p1", 1, euros(0)), refunded("a", "p1", 2, euros(10))).
		when(settle("p1", voided("a", 10), claimed("b", 90), c)).
		then(refundReversed("a", "p1", 2, euros(10)), refunded("b", "p1", 1, euros(90)), refunded("c", "p1", 1, euros(10)))
}

func TestClaimOf_IdWithNumber(t *testing.T) {
	for _, claim := range []string{"re_1", "dp.2", ".", "x.y"} {
		for n := 1; n < 12; n++ {
			if got, ok := ClaimOf(claimRefund(claim, n)); !ok || got != claim {
				t.Errorf("refund %d of %q is that of %q, %t", n, claim, got, ok)
			}
		}
	}
	for _, id := range []string{"", ".", "2", "re_1", "re_1.", "re_1.1", "re_1.02", "re_1.+2", "re_1.x", "re_1.-2"} {
		if got, ok := ClaimOf(id); ok {
			t.Errorf("%q is a refund of the claim %q, want none", id, got)
		}
	}
}

func TestSettle_MoreClaimsThanCredits_RejectsTheLast(t *testing.T) {
	a, b, c := claimed("a", 10), claimed("b", 10), claimed("c", 10)
	s := given(t, opened, paidMoney("p1", 2, euros(100))).
		when(settle("p1", a, b)).then(refunded("a", "p1", 1, euros(10)), refunded("b", "p1", 1, euros(10)))
	s.when(settle("p1", a, b, c)).rejected(ErrRefundTooLarge)
	s.when(settleOne("p1", "c", a, b, c)).rejected(ErrRefundTooLarge)
	s.when(settleOne("p1", "a", a, b, c)).isRepeated()
	s.when(settle("p1", voided("a", 10), b, c)).then(refundReversed("a", "p1", 1, euros(10)), refunded("c", "p1", 1, euros(10)))
}

func settleOne(payment, subject string, claims ...Claim) command {
	return func(s *scene) {
		s.out, s.err = s.account.SettlePayment(Settle{PaymentID: payment, Claims: claims, Subject: subject})
	}
}

// TestSettle_ReturnsAllMoney settles random claims one after the other, of payments with few credits, and ends some of them.
func TestSettle_ReturnsAllMoney(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		granted, paid := rapid.Int64Range(1, 12).Draw(t, "granted"), rapid.Int64Range(1, 300).Draw(t, "paid")
		a := New(testID)
		apply := func(out Outcome, err error) {
			for _, ev := range out.Events {
				a.Apply(ev, start)
			}
			testmust.Succeed(t, err)
		}
		apply(a.Open(Open{Holder: "h", Plan: plan.Free}))
		apply(a.Grant(Grant{Kind: KindTopup, Credits: granted, PaymentID: "p1", Money: euros(paid)}))
		var claims []Claim
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			subject := rapid.IntRange(0, len(claims)).Draw(t, "subject")
			if subject == len(claims) {
				claims = append(claims, claimed(fmt.Sprint("c", subject), rapid.Int64Range(1, paid).Draw(t, "minor")))
			} else {
				claims[subject].Void = true
			}
			money, shares, live := int64(0), int64(0), int64(0)
			for _, c := range claims {
				if !c.Void {
					money, shares, live = money+c.Money.Minor, shares+(granted*c.Money.Minor+paid-1)/paid, live+1
				}
			}
			settle := Settle{PaymentID: "p1", Claims: rapid.Permutation(claims).Draw(t, "order"), Subject: claims[subject].ID}
			before := a.payments["p1"]
			out, err := a.SettlePayment(settle)
			if err != nil && (!errors.Is(err, ErrRefundTooLarge) || live <= granted || before.refunded < granted) {
				t.Fatalf("%d claims on %d credits: %v", live, granted, err)
			}
			apply(out, nil)
			p := a.payments["p1"]
			if live <= granted && (p.returned != min(money, paid) || p.refunded != min(shares, granted)) {
				t.Fatalf("%d of %d minor units and %d of %d credits are returned; claims: %+v", p.returned, min(money, paid), p.refunded, min(shares, granted), claims)
			}
			if p.refunded > granted || p.returned > paid || a.Balance() != granted-p.refunded {
				t.Fatalf("balance %d, payment %+v", a.Balance(), p)
			}
			// The claims have together what the payment has, and no claim has more than its money.
			var credits, minor int64
			for _, c := range claims {
				var of int64
				for _, r := range a.refundsOf(c.ID) {
					if !r.reversed {
						credits, minor, of = credits+r.credits, minor+r.money.Minor, of+r.money.Minor
					}
				}
				if of > c.Money.Minor || c.Void && of > 0 {
					t.Fatalf("%d minor units of %+v are returned", of, c)
				}
			}
			if credits != p.refunded || minor != p.returned {
				t.Fatalf("the refunds have %d credits and %d minor units, the payment %+v", credits, minor, p)
			}
			if again, err := a.SettlePayment(settle); len(again.Events) > 0 || err == nil && !again.Repeated {
				t.Fatalf("the same claims again: %+v, %v", again, err)
			}
		}
	})
}

// The following holds for any refunds by hand, claims, and refunds that earlier releases recorded. All refunds of a payment
// that were not reversed return no more money and credits than it has, and the account knows how much. A reversal gives back
// what its refund took. A repeat changes nothing, nor does a snapshot.
func TestRefunds_RandomHistories_ConserveMoney(t *testing.T) {
	type taken struct {
		payment        string
		credits, minor int64
	}
	rapid.Check(t, func(t *rapid.T) {
		a, paid := New(testID), map[string]*eventschemas.Money{"p1": euros(rapid.Int64Range(0, 300).Draw(t, "paid")), "p2": nil}
		granted, standing := map[string]int64{}, map[string]taken{}
		left := func(payment string) (credits, minor int64) {
			credits = granted[payment]
			if m := paid[payment]; m != nil {
				minor = m.Minor
			}
			for _, r := range standing {
				if r.payment == payment {
					credits, minor = credits-r.credits, minor-r.minor
				}
			}
			return credits, minor
		}
		apply := func(ev eventschemas.Event, old bool) {
			a.Apply(ev, start)
			switch ev := ev.(type) {
			case eventschemas.PaymentRefunded:
				credits, minor := left(ev.PaymentID)
				r := taken{payment: ev.PaymentID, credits: ev.Credits}
				switch {
				case paid[ev.PaymentID] == nil:
				case ev.Money == nil:
					r.minor = minor * ev.Credits / credits
				case ev.Money.Currency == "EUR":
					r.minor = min(ev.Money.Minor, minor)
				}
				if !old && (ev.Money == nil) != (paid[ev.PaymentID] == nil) || !old && ev.Money != nil && (r.minor != ev.Money.Minor) {
					t.Fatalf("refund %+v of %+v, of which %d minor units are left", ev, ev.Money, minor)
				}
				if _, twice := standing[ev.RefundID]; twice {
					t.Fatalf("refund %s was recorded twice", ev.RefundID)
				}
				standing[ev.RefundID] = r
			case eventschemas.RefundReversed:
				want := eventschemas.RefundReversed{RefundID: ev.RefundID, PaymentID: standing[ev.RefundID].payment, Credits: standing[ev.RefundID].credits}
				if paid[ev.PaymentID] != nil {
					want.Money = euros(standing[ev.RefundID].minor)
				}
				if !reflect.DeepEqual(ev, want) {
					t.Fatalf("reversal %+v of %+v, want %+v of %+v", ev, ev.Money, want, want.Money)
				}
				delete(standing, ev.RefundID)
			}
		}
		run := func(decide func() (Outcome, error)) {
			before := a.Balance()
			out, err := decide()
			for _, ev := range out.Events {
				apply(ev, false)
			}
			if err != nil {
				if len(out.Events) > 0 {
					t.Fatalf("rejected with %+v: %v", out.Events, err)
				}
				return
			}
			if again, err := decide(); err != nil || !again.Repeated || len(again.Events) > 0 {
				t.Fatalf("the repeat: %+v, %v; first %+v from a balance of %d", again, err, out, before)
			}
		}
		run(func() (Outcome, error) { return a.Open(Open{Holder: "h", Plan: plan.Free}) })
		for id, money := range paid {
			granted[id] = rapid.Int64Range(1, 12).Draw(t, "granted "+id)
			run(func() (Outcome, error) {
				return a.Grant(Grant{Kind: KindTopup, Credits: granted[id], PaymentID: id, Money: money})
			})
		}
		id, payment := rapid.SampledFrom([]string{"a", "b", "c", "hand", "hand too"}), rapid.SampledFrom([]string{"p1", "p1", "p1", "p2"})
		money := func(t *rapid.T, currencies ...string) *eventschemas.Money {
			if rapid.IntRange(0, 3).Draw(t, "no money") == 0 {
				return nil
			}
			return &eventschemas.Money{Minor: rapid.Int64Range(0, 400).Draw(t, "minor"), Currency: rapid.SampledFrom(currencies).Draw(t, "currency")}
		}
		t.Repeat(map[string]func(*rapid.T){
			"refund": func(t *rapid.T) {
				in := Refund{
					PaymentID: payment.Draw(t, "payment"), Credits: rapid.Int64Range(0, 6).Draw(t, "credits"),
					Money: money(t, "EUR", "EUR", "USD"), AtMost: rapid.Bool().Draw(t, "at most"),
				}
				in.RefundID = in.PaymentID + id.Draw(t, "id")
				in.ByMoney = in.Money != nil && in.Credits == 0 && rapid.Bool().Draw(t, "by money")
				run(func() (Outcome, error) { return a.RefundPayment(in) })
			},
			"settle": func(t *rapid.T) {
				in := Settle{PaymentID: payment.Draw(t, "payment")}
				for _, claim := range []string{"a", "b", "c", "d"} {
					if m := money(t, "EUR"); m != nil {
						in.Claims = append(in.Claims, Claim{ID: in.PaymentID + claim, Money: *m, Void: rapid.Bool().Draw(t, "void")})
					}
				}
				if len(in.Claims) > 0 && rapid.Bool().Draw(t, "with subject") {
					in.Subject = rapid.SampledFrom(in.Claims).Draw(t, "subject").ID
				}
				run(func() (Outcome, error) { return a.SettlePayment(in) })
			},
			"refund of an earlier release": func(t *rapid.T) {
				ev := eventschemas.PaymentRefunded{PaymentID: payment.Draw(t, "payment"), Money: money(t, "EUR", "EUR", "USD")}
				ev.RefundID = ev.PaymentID + id.Draw(t, "id")
				credits, _ := left(ev.PaymentID)
				if _, known := a.RefundOf(ev.RefundID); known || credits == 0 {
					return
				}
				ev.Credits = rapid.Int64Range(1, credits).Draw(t, "credits")
				apply(ev, true)
			},
			"snapshot": func(t *rapid.T) {
				restored := New(testID)
				testmust.Succeed(t, restored.UnmarshalBinary(marshal(t, a)))
				a = restored
			},
			"": func(t *rapid.T) {
				balance := int64(0)
				for id, p := range a.payments {
					credits, minor := left(id)
					if balance += credits; credits < 0 || minor < 0 || p.granted-p.refunded != credits || p.paid.Minor-p.returned != minor {
						t.Fatalf("%d credits and %d minor units of %s are left, the account has %+v", credits, minor, id, p)
					}
				}
				if a.Balance() != balance {
					t.Fatalf("the balance is %d, want %d", a.Balance(), balance)
				}
			},
		})
	})
}
