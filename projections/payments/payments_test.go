package payments_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
	"letterhead/projections/engine"
	"letterhead/projections/payments"
	"letterhead/projections/projectionstest"
)

var at = time.Date(2026, 11, 21, 9, 0, 0, 123_456_000, time.UTC)

func open(t *testing.T, e *projectionstest.Env) (*payments.Model, *engine.Runner) {
	t.Helper()
	m := payments.New(e.Store)
	r, _ := e.Start(engine.Config{}, m)
	return m, r
}

func euros(minor int64) *eventschemas.Money {
	return &eventschemas.Money{Minor: minor, Currency: "EUR"}
}

func paid(id string, credits int64, money *eventschemas.Money) eventschemas.Event {
	return eventschemas.CreditsGranted{GrantID: id, Kind: "topup", Credits: credits, PaymentID: id, Money: money}
}

func refunded(id, payment string, credits int64, money *eventschemas.Money) eventschemas.Event {
	return eventschemas.PaymentRefunded{RefundID: id, PaymentID: payment, Credits: credits, Money: money}
}

func TestGet_PaymentRefundedInParts(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m, r := open(t, e)
		e.CatchUp(r)
		if _, err := m.Get(t.Context(), "a", "p1"); !errors.Is(err, payments.ErrNotFound) {
			t.Errorf("error for an unknown payment = %v, want ErrNotFound", err)
		}
		want := payments.Payment{AccountID: "a", ID: "p1", Kind: "topup", Credits: 1000, Money: 4900, Currency: "EUR", Tax: 782, PaidAt: at, State: payments.Paid}
		for i, s := range []struct {
			event  eventschemas.Event
			change func(at time.Time)
		}{
			{eventschemas.CreditsGranted{GrantID: "p1", Kind: "topup", Credits: 1000, PaymentID: "p1", Money: euros(4900), Tax: 782}, func(time.Time) {}},
			{eventschemas.CreditsGranted{GrantID: "g", Kind: "adjustment", Credits: 5}, func(time.Time) {}},
			{refunded("f2", "p1", 100, euros(490)), func(at time.Time) {
				want.RefundedCredits, want.RefundedMoney, want.State = 100, 490, payments.PartlyRefunded
				want.Refunds = append(want.Refunds, payments.Refund{ID: "f2", Credits: 100, Money: 490, Currency: "EUR", At: at})
			}},
			{refunded("f1", "p1", 900, nil), func(at time.Time) { // of a release that did not add money
				want.RefundedCredits, want.RefundedMoney, want.State = 1000, 4900, payments.Refunded
				want.Refunds = append(want.Refunds, payments.Refund{ID: "f1", Credits: 900, At: at})
			}},
			{paid("p2", 7, nil), func(time.Time) {}},
			{eventschemas.PaymentFeeRecorded{FeeID: "e2", PaymentID: "p1", Money: *euros(145)}, func(at time.Time) {
				want.Fees = append(want.Fees, payments.Fee{ID: "e2", Money: 145, Currency: "EUR", At: at})
			}},
			{eventschemas.PaymentFeeRecorded{FeeID: "e1", PaymentID: "p1", Money: eventschemas.Money{Minor: -45, Currency: "USD"}}, func(at time.Time) {
				want.Fees = append(want.Fees, payments.Fee{ID: "e1", Money: -45, Currency: "USD", At: at})
			}},
			{eventschemas.RefundReversed{RefundID: "f2", PaymentID: "p1", Credits: 100, Money: euros(490)}, func(at time.Time) {
				want.RefundedCredits, want.RefundedMoney, want.State = 900, 4410, payments.PartlyRefunded
				want.Refunds[0].ReversedAt = &at
			}},
		} {
			when := at.Add(time.Duration(i) * time.Second)
			e.Events("account-a", when, s.event)
			e.CatchUp(r)
			s.change(when)
			if got, err := m.Get(t.Context(), "", "p1"); err != nil || !reflect.DeepEqual(*got, want) {
				t.Fatalf("after %s: payment = %+v, %v, want %+v", s.event.EventType(), got, err, want)
			}
		}
		free := payments.Payment{AccountID: "a", ID: "p2", Kind: "topup", Credits: 7, PaidAt: at.Add(4 * time.Second), State: payments.Paid}
		if got, err := m.Get(t.Context(), "a", "p2"); err != nil || !reflect.DeepEqual(*got, free) {
			t.Errorf("payment without money = %+v, %v, want %+v", got, err, free)
		}
		if _, err := m.Get(t.Context(), "b", "p1"); !errors.Is(err, payments.ErrNotFound) {
			t.Errorf("error for a payment of another account = %v, want ErrNotFound", err)
		}
		e.Events("account-b", at, paid("p1", 1, nil))
		e.CatchUp(r)
		if _, err := m.Get(t.Context(), "", "p1"); !errors.Is(err, payments.ErrAmbiguous) {
			t.Errorf("error for an id that two accounts have = %v, want ErrAmbiguous", err)
		}
		if got, err := m.Get(t.Context(), "b", "p1"); err != nil || got.Credits != 1 {
			t.Errorf("payment of account b = %+v, %v, want 1 credit", got, err)
		}
	})
}

// Earlier releases did not limit the money of a refund, nor its currency.
func TestGet_RefundOfEarlierReleaseReversed_ReturnsNoMoreThanItCounted(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m, r := open(t, e)
		dollars := &eventschemas.Money{Minor: 7, Currency: "USD"}
		for i, s := range []struct {
			event eventschemas.Event
			want  int64
		}{
			{paid("p1", 10, euros(1000)), 0},
			{refunded("f1", "p1", 5, euros(math.MaxInt64)), 1000},
			{refunded("f2", "p1", 5, dollars), 1000},
			{eventschemas.RefundReversed{RefundID: "f2", PaymentID: "p1", Credits: 5, Money: dollars}, 1000},
			{eventschemas.RefundReversed{RefundID: "f1", PaymentID: "p1", Credits: 5, Money: euros(math.MaxInt64)}, 0},
		} {
			e.Events("account-a", at.Add(time.Duration(i)*time.Second), s.event)
			e.CatchUp(r)
			if got, err := m.Get(t.Context(), "a", "p1"); err != nil || got.RefundedMoney != s.want {
				t.Fatalf("after %d events: payment %+v, %v, want %d minor units returned", i+1, got, err, s.want)
			}
		}
	})
}

// A payment grants once. If a stream has a second grant of it, as no decision makes, their money is not summed up.
func TestGet_PaymentGrantedTwice_HasMoneyOfOneGrant(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m, r := open(t, e)
		e.Events("account-a", at, paid("p1", 10, euros(math.MaxInt64)), paid("p1", 10, euros(math.MaxInt64)))
		e.CatchUp(r)
		if got, err := m.Get(t.Context(), "a", "p1"); err != nil || got.Money != math.MaxInt64 {
			t.Errorf("payment %+v, %v, want %d minor units", got, err, math.MaxInt64)
		}
	})
}

// The account refunds what the read model shows as left, after random refunds, claims, and refunds of earlier releases.
func TestGet_RandomHistory_AgreesWithAccount(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		const many = 40
		m, r := open(t, e)
		a, rng := account.New("a"), rand.New(rand.NewPCG(1, 2))
		apply := func(out account.Outcome, err error) {
			if err != nil || len(out.Events) == 0 {
				return
			}
			for _, ev := range out.Events {
				a.Apply(ev, at)
			}
			e.Events("account-a", at, out.Events...)
		}
		apply(a.Open(account.Open{Holder: "h", Plan: "free"}))
		for i := range many {
			apply(a.Grant(account.Grant{Kind: account.KindTopup, Credits: 1 + rng.Int64N(9), PaymentID: fmt.Sprint("p", i), Money: euros(rng.Int64N(500))}))
		}
		for i := range many * 10 {
			payment := fmt.Sprint("p", rng.IntN(many))
			claim := fmt.Sprint(payment, "/", rng.IntN(2))
			switch rng.IntN(3) {
			case 0:
				apply(a.RefundPayment(account.Refund{RefundID: fmt.Sprint("f", i), PaymentID: payment, Credits: 1 + rng.Int64N(2), Money: euros(rng.Int64N(100))}))
			case 1:
				apply(a.SettlePayment(account.Settle{PaymentID: payment, Claims: []account.Claim{{ID: claim, Money: *euros(rng.Int64N(300)), Void: rng.IntN(2) == 0}}}))
			default:
				old := eventschemas.PaymentRefunded{RefundID: claim, PaymentID: payment, Credits: 1, Money: []*eventschemas.Money{nil, euros(5000), {Minor: 7, Currency: "USD"}}[rng.IntN(3)]}
				_, known := a.RefundOf(claim)
				if rest, err := a.RefundPayment(account.Refund{RefundID: "rest", PaymentID: payment}); !known && err == nil && len(rest.Events) > 0 {
					apply(account.Outcome{Events: []eventschemas.Event{old}}, nil)
				}
			}
		}
		e.CatchUp(r)
		for i := range many {
			got := testmust.Get(m.Get(t.Context(), "a", fmt.Sprint("p", i)))(t)
			if got.RefundedMoney < 0 || got.RefundedMoney > got.Money || got.RefundedCredits < 0 || got.RefundedCredits > got.Credits {
				t.Errorf("payment %+v", got)
			}
			out, err := a.RefundPayment(account.Refund{RefundID: "rest", PaymentID: got.ID})
			if onlyMoney := got.State == payments.Refunded && got.RefundedMoney < got.Money; onlyMoney {
				if !errors.Is(err, account.ErrRefundTooLarge) {
					t.Errorf("refund of the rest of %+v, of which only money is left: %+v, %v", got, out, err)
				}
				continue
			}
			if err != nil || out.Repeated != (got.State == payments.Refunded) {
				t.Errorf("refund of the rest of %+v: %+v, %v", got, out, err)
			}
			for _, ev := range out.Events {
				rest := ev.(eventschemas.PaymentRefunded)
				if rest.Credits != got.Credits-got.RefundedCredits || rest.Money.Minor != got.Money-got.RefundedMoney {
					t.Errorf("payment %+v, but the account refunds the rest with %+v of %+v", got, rest, rest.Money)
				}
			}
		}
	})
}

func TestList_FiltersSortsAndContinues(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m, r := open(t, e)
		for i := range 12 { // credits 5, 4, 3, 2, 1, 5, …; money 0, 100, 200, …
			e.Events(fmt.Sprint("account-", i%3), at.Add(time.Duration(i)*time.Minute), paid(fmt.Sprintf("p%02d", i), int64(5-i%5), euros(int64(i)*100)))
		}
		e.Events("account-1", at.Add(time.Hour), refunded("f1", "p01", 4, euros(1)), refunded("f2", "p04", 1, euros(1)), refunded("f3", "p07", 1, nil))
		e.CatchUp(r)
		for _, c := range []struct {
			s    payments.Selection
			want []int
		}{
			{payments.Selection{}, []int{0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11}},
			{payments.Selection{Sort: "account", Descending: true}, []int{11, 8, 5, 2, 10, 7, 4, 1, 9, 6, 3, 0}},
			{payments.Selection{Sort: "paid", Descending: true, AccountID: "1"}, []int{10, 7, 4, 1}},
			{payments.Selection{Sort: "credits"}, []int{9, 4, 3, 8, 7, 2, 6, 1, 11, 0, 10, 5}},
			{payments.Selection{Sort: "credits", Descending: true, AccountID: "2"}, []int{5, 11, 2, 8}},
			{payments.Selection{Sort: "money", AccountID: "0"}, []int{0, 3, 6, 9}},
			{payments.Selection{State: payments.Refunded}, []int{1, 4}},
			{payments.Selection{State: payments.PartlyRefunded}, []int{7}},
			{payments.Selection{Kind: "subscription"}, nil},
		} {
			for _, limit := range []int{1, 5, payments.MaxPage} {
				var got []int
				for last := (*payments.Payment)(nil); ; {
					page := testmust.Get(m.List(t.Context(), c.s, last, limit))(t)
					for i := range page {
						var n int
						fmt.Sscanf(page[i].ID, "p%d", &n)
						got, last = append(got, n), &page[i]
					}
					if len(page) < limit {
						break
					}
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("%+v, %d a page: payments %v, want %v", c.s, limit, got, c.want)
				}
			}
		}
		if _, err := m.List(t.Context(), payments.Selection{Sort: "id; DROP"}, nil, 1); err == nil {
			t.Error("List sorted by an unknown column")
		}
	})
}
