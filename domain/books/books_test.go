package books

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"letterhead/domain/account"
	"letterhead/eventschemas"
)

var start = time.Date(2026, 11, 3, 9, 30, 0, 0, time.UTC)

func euros(minor int64) *eventschemas.Money {
	return &eventschemas.Money{Minor: minor, Currency: "EUR"}
}

func paid(id string, credits int64, money *eventschemas.Money) eventschemas.Event {
	return eventschemas.CreditsGranted{GrantID: id, Kind: "topup", Credits: credits, PaymentID: id, Money: money}
}

func free(credits int64) eventschemas.Event {
	return eventschemas.CreditsGranted{GrantID: "free", Kind: "free", Credits: credits}
}

func charged(id string, credits int64) eventschemas.Event {
	return eventschemas.CreditsCharged{ChargeID: id, Credits: credits}
}

func reversed(id string, credits int64) eventschemas.Event {
	return eventschemas.ChargeReversed{ChargeID: id, Credits: credits}
}

func refunded(payment string, credits int64, money *eventschemas.Money) eventschemas.Event {
	return eventschemas.PaymentRefunded{RefundID: "f", PaymentID: payment, Credits: credits, Money: money}
}

func broken(credits int64) eventschemas.Event {
	return eventschemas.BreakageRecognized{Credits: credits, Policy: "terms"}
}

func TestApply(t *testing.T) {
	type step struct {
		event   eventschemas.Event
		uses    []Use
		deficit int64
	}
	for name, steps := range map[string][]step{
		"charges use lots in order, and a used lot has recognized all its money": {
			{free(1), nil, 0},
			{paid("p1", 3, euros(1000)), nil, 0},
			{paid("p2", 2, euros(100)), nil, 0},
			{charged("c1", 2), []Use{{0, 1, 0, 0, 0}, {1, 1, 333, 0, 0}}, 0},
			{charged("c2", 1), []Use{{1, 1, 333, 0, 0}}, 0},
			{charged("c3", 2), []Use{{1, 1, 334, 0, 0}, {2, 1, 50, 0, 0}}, 0},
		},
		"a reversal returns credits to their lots, which are used next": {
			{paid("p1", 2, euros(100)), nil, 0},
			{paid("p2", 2, euros(300)), nil, 0},
			{charged("c1", 1), []Use{{0, 1, 50, 0, 0}}, 0},
			{charged("c2", 2), []Use{{0, 1, 50, 0, 0}, {1, 1, 150, 0, 0}}, 0},
			{reversed("c1", 1), []Use{{0, -1, -50, 0, 0}}, 0},
			{charged("c3", 1), []Use{{0, 1, 50, 0, 0}}, 0},
		},
		"a reversed refund returns credits and money to its lot, and the charges stay where they are covered": {
			{paid("p1", 2, euros(100)), nil, 0},
			{paid("p2", 1, euros(300)), nil, 0},
			{charged("c1", 2), []Use{{0, 2, 100, 0, 0}}, 0},
			{refunded("p1", 2, euros(100)), []Use{{0, -2, -100, 0, 0}, {1, 1, 300, 0, 0}}, 1},
			{eventschemas.RefundReversed{RefundID: "f", PaymentID: "p1", Credits: 2, Money: euros(100)}, []Use{{0, 1, 50, 0, 0}}, -1},
			{charged("c2", 1), []Use{{0, 1, 50, 0, 0}}, 0},
		},
		"a reversed refund in another currency returns no money": {
			{paid("p1", 4, euros(400)), nil, 0},
			{refunded("p1", 2, euros(300)), nil, 0},
			{refunded("p1", 1, &eventschemas.Money{Minor: 200, Currency: "USD"}), nil, 0},
			{eventschemas.RefundReversed{RefundID: "f", PaymentID: "p1", Credits: 1, Money: &eventschemas.Money{Minor: 200, Currency: "USD"}}, nil, 0},
			{charged("c1", 2), []Use{{0, 2, 100, 0, 0}}, 0},
		},
		"a refund takes unspent credits first": {
			{paid("p1", 4, euros(400)), nil, 0},
			{charged("c1", 1), []Use{{0, 1, 100, 0, 0}}, 0},
			{refunded("p1", 3, nil), nil, 0},
		},
		"the charges of refunded credits are covered by the next lots": {
			{paid("p1", 4, euros(400)), nil, 0},
			{paid("p2", 9, euros(1800)), nil, 0},
			{charged("c1", 4), []Use{{0, 4, 400, 0, 0}}, 0},
			{charged("c2", 1), []Use{{1, 1, 200, 0, 0}}, 0},
			{refunded("p1", 4, nil), []Use{{0, -4, -400, 0, 0}, {1, 4, 800, 0, 0}}, 0},
			{reversed("c1", 4), []Use{{1, -4, -800, 0, 0}}, 0},
		},
		"a deficit is covered by the next grant": {
			{paid("p1", 4, euros(400)), nil, 0},
			{charged("c1", 3), []Use{{0, 3, 300, 0, 0}}, 0},
			{refunded("p1", 4, euros(400)), []Use{{0, -3, -300, 0, 0}}, 3},
			{paid("p2", 2, euros(100)), []Use{{1, 2, 100, 0, 0}}, -2},
			{paid("p3", 2, euros(50)), []Use{{2, 1, 25, 0, 0}}, -1},
			{charged("c2", 1), []Use{{2, 1, 25, 0, 0}}, 0},
		},
		"breakage recognizes the rest of all lots, and a refund takes it back": {
			{free(2), nil, 0},
			{paid("p1", 3, euros(1000)), nil, 0},
			{paid("p2", 2, euros(100)), nil, 0},
			{charged("c1", 3), []Use{{0, 2, 0, 0, 0}, {1, 1, 333, 0, 0}}, 0},
			{broken(4), []Use{{1, 0, 0, 2, 667}, {2, 0, 0, 2, 100}}, 0},
			{refunded("p1", 3, nil), []Use{{1, -1, -333, -2, -667}}, 3},
			{reversed("c1", 3), []Use{{0, -2, 0, 2, 0}}, -3}, // the free credits cover the breakage that p1 covered
		},
		"a deficit is covered by a reversal": {
			{paid("p1", 2, euros(200)), nil, 0},
			{free(1), nil, 0},
			{charged("c1", 2), []Use{{0, 2, 200, 0, 0}}, 0},
			{charged("c2", 1), []Use{{1, 1, 0, 0, 0}}, 0},
			{refunded("p1", 2, nil), []Use{{0, -2, -200, 0, 0}}, 2},
			{reversed("c2", 1), nil, -1}, // the free credit covers a credit of c1
		},
		"a refund of unspent credits without their money recognizes revenue": {
			{paid("p1", 4, euros(400)), nil, 0},
			{charged("c1", 1), []Use{{0, 1, 100, 0, 0}}, 0},
			{refunded("p1", 1, euros(0)), []Use{{0, 0, 33, 0, 0}}, 0},
			{refunded("p1", 1, euros(250)), []Use{{0, 0, -58, 0, 0}}, 0},
		},
		"refunds of releases before data format 2 return their share, no more than was paid, and no other currency": {
			{paid("p1", 4, euros(400)), nil, 0},
			{paid("p2", 4, euros(400)), nil, 0},
			{paid("p3", 4, euros(400)), nil, 0},
			{paid("p4", 4, nil), nil, 0},
			{refunded("p1", 1, nil), nil, 0},
			{refunded("p2", 1, euros(900)), nil, 0},
			{refunded("p3", 1, &eventschemas.Money{Minor: 900, Currency: "USD"}), nil, 0},
			{refunded("p4", 1, euros(900)), nil, 0},
			{refunded("p9", 1, euros(900)), nil, 0},
			{charged("c1", 12), []Use{{0, 3, 300, 0, 0}, {1, 3, 0, 0, 0}, {2, 3, 400, 0, 0}, {3, 3, 0, 0, 0}}, 0},
		},
		"the largest amounts": {
			{paid("p1", account.MaxCredits, euros(account.MaxMoney)), nil, 0},
			{charged("c1", account.MaxCredits-1), []Use{{0, account.MaxCredits - 1, account.MaxMoney - 1, 0, 0}}, 0},
			{charged("c2", 1), []Use{{0, 1, 1, 0, 0}}, 0},
			{refunded("p1", account.MaxCredits, nil), []Use{{0, -account.MaxCredits, -account.MaxMoney, 0, 0}}, account.MaxCredits},
		},
		"money that a refund of all credits leaves is recognized": {
			{paid("p1", 4, euros(400)), nil, 0},
			{refunded("p1", 4, euros(300)), []Use{{0, 0, 100, 0, 0}}, 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := New()
			for i, s := range steps {
				got := a.Apply(s.event, uint64(i), start.Add(time.Duration(i)*time.Second))
				if !slices.Equal(got.Uses, s.uses) || got.Deficit != s.deficit {
					t.Fatalf("event %d (%+v): uses %+v, deficit %+d, want %+v, %+d", i, s.event, got.Uses, got.Deficit, s.uses, s.deficit)
				}
			}
		})
	}
}

// credit is one charged credit of the model.
type credit struct {
	charge string // empty for breakage
	lot    int    // noLot if none covers it
}

// use changes the credits of the lot that covers a credit.
func (m *model) use(c *credit, n int64) {
	if l := &m.lots[c.lot]; c.charge == "" {
		l.Broken += n
	} else {
		l.Used += n
	}
}

// model does what the package says, one credit at a time.
type model struct {
	lots    []Lot
	credits []credit
}

func (m *model) next() int {
	return slices.IndexFunc(m.lots, func(l Lot) bool { return l.Unspent() > 0 })
}

func (m *model) cover() {
	for i := range m.credits {
		if c := &m.credits[i]; c.lot == noLot {
			if c.lot = m.next(); c.lot == noLot {
				return
			}
			m.use(c, 1)
		}
	}
}

func (m *model) deficit() (n int64) {
	for _, c := range m.credits {
		if c.lot == noLot {
			n++
		}
	}
	return n
}

func (m *model) apply(ev eventschemas.Event) {
	switch ev := ev.(type) {
	case eventschemas.CreditsGranted:
		l := Lot{PaymentID: ev.PaymentID, Granted: ev.Credits}
		if ev.Money != nil {
			l.Paid = *ev.Money
		}
		m.lots = append(m.lots, l)
	case eventschemas.CreditsCharged:
		for range ev.Credits {
			m.credits = append(m.credits, credit{ev.ChargeID, noLot})
		}
	case eventschemas.BreakageRecognized:
		for range ev.Credits {
			m.credits = append(m.credits, credit{"", noLot})
		}
	case eventschemas.ChargeReversed:
		m.credits = slices.DeleteFunc(m.credits, func(c credit) bool {
			if c.charge == ev.ChargeID && c.lot != noLot {
				m.use(&c, -1)
			}
			return c.charge == ev.ChargeID
		})
	case eventschemas.PaymentRefunded:
		i := slices.IndexFunc(m.lots, func(l Lot) bool { return l.PaymentID == ev.PaymentID })
		l := &m.lots[i]
		switch left := l.Paid.Minor - l.Returned; {
		case ev.Money == nil:
			l.Returned += left * ev.Credits / (l.Granted - l.Refunded)
		case ev.Money.Currency == l.Paid.Currency:
			l.Returned += min(ev.Money.Minor, left)
		}
		for range ev.Credits {
			if l.Unspent() == 0 {
				for j := len(m.credits) - 1; ; j-- {
					if m.credits[j].lot == i {
						m.use(&m.credits[j], -1)
						m.credits[j].lot = noLot
						break
					}
				}
			}
			l.Refunded++
		}
	case eventschemas.RefundReversed:
		i := slices.IndexFunc(m.lots, func(l Lot) bool { return l.PaymentID == ev.PaymentID })
		m.lots[i].Refunded -= ev.Credits
		m.lots[i].Returned -= ev.Money.Minor
	}
	m.cover()
}

// The following holds after any events that the account decides, and after refunds that earlier releases recorded. The books
// are those of the model. The unspent credits minus the deficit are the balance. The account refunds what the lots have left.
// No lot returns more money than was paid, nor has it recognized more than its net money, with breakage, and one that is used
// up all of it. The movements add up to the lots.
// Rule 14.
func TestApply_RandomHistories_MatchModelAndConserveMoney(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		decider, ledger, m := account.New("a"), NewLedger(), &model{}
		sums, paidFees := map[string]Movement{}, map[string]int64{} // by currency
		now, n := start, 0
		var charges []eventschemas.CreditsCharged
		var payments []string
		times := map[string]time.Time{}
		apply := func(out account.Outcome, err error) {
			if err != nil {
				return
			}
			for _, ev := range out.Events {
				revision := decider.Revisions()
				decider.Apply(ev, now)
				ledger.Apply("a", ev, revision, now, func(_ *Holder, currency string, change Movement) {
					sum := sums[currency]
					sum.Add(change)
					sums[currency] = sum
				})
				m.apply(ev)
				switch ev := ev.(type) {
				case eventschemas.CreditsCharged:
					charges, times[ev.ChargeID] = append(charges, ev), now
				case eventschemas.PaymentFeeRecorded:
					paidFees[ev.Money.Currency] += ev.Money.Minor
				}
			}
			books, unspent, want := ledger.Holders()["a"], int64(0), map[string]Movement{}
			for i, l := range books.Lots() {
				if w := m.lots[i]; l.Used != w.Used || l.Broken != w.Broken || l.Refunded != w.Refunded || l.Returned != w.Returned {
					t.Fatalf("lot %d = %+v, want %+v", i, l, w)
				}
				if l.Recognized < 0 || l.Breakage < 0 || l.Recognized+l.Breakage > l.Net() || l.Unspent() < 0 || l.Unspent() == 0 && l.Deferred() != 0 {
					t.Fatalf("lot %d = %+v has %d unspent credits and %d of deferred money", i, l, l.Unspent(), l.Deferred())
				}
				if credits := l.Granted - l.Refunded; credits > 0 && l.Recognized != l.Net()*l.Used/credits {
					t.Fatalf("lot %d = %+v recognized %d, want %d of %d credits of %d", i, l, l.Recognized, l.Used, credits, l.Net())
				}
				if credits := l.Granted - l.Refunded; credits > 0 && l.Recognized+l.Breakage != l.Net()*(l.Used+l.Broken)/credits {
					t.Fatalf("lot %d = %+v recognized %d, want %d of %d credits of %d", i, l, l.Recognized+l.Breakage, l.Used+l.Broken, credits, l.Net())
				}
				taxBack := l.Tax
				if l.Returned < l.Paid.Minor {
					taxBack = l.Tax * l.Returned / l.Paid.Minor
				}
				if out, err := decider.RefundPayment(account.Refund{RefundID: "the rest", PaymentID: l.PaymentID}); l.Granted > l.Refunded && l.PaymentID != "" && err == nil {
					rest := out.Events[0].(eventschemas.PaymentRefunded)
					if left := l.Paid.Minor - l.Returned; left < 0 || rest.Credits != l.Granted-l.Refunded || rest.Money.Minor != left {
						t.Fatalf("lot %d = %+v, the account refunds the rest with %+v of %+v", i, l, rest, rest.Money)
					}
				}
				unspent += l.Unspent()
				sum := want[l.Paid.Currency]
				sum.Add(Movement{Received: l.Paid.Minor - l.Tax, Tax: l.Tax - taxBack, Refunded: l.Returned - taxBack, Recognized: l.Recognized,
					Breakage: l.Breakage, CreditsGranted: l.Granted, CreditsUsed: l.Used, CreditsBroken: l.Broken, CreditsRefunded: l.Refunded})
				want[l.Paid.Currency] = sum
			}
			for currency, fees := range paidFees {
				sum := want[currency]
				sum.Fees = fees
				want[currency] = sum
			}
			if !maps.Equal(sums, want) {
				t.Fatalf("the movements add up to %+v, want %+v", sums, want)
			}
			if books.Deficit() != m.deficit() || unspent-books.Deficit() != decider.Balance() {
				t.Fatalf("%d unspent credits and a deficit of %d, want a deficit of %d and a balance of %d",
					unspent, books.Deficit(), m.deficit(), decider.Balance())
			}
		}
		apply(decider.Open(account.Open{Holder: "h", Plan: "free", Free: 5}))
		charge := func(t *rapid.T) {
			n++
			in := account.Charge{RequestID: fmt.Sprint("r", n), BrandID: "b", Domain: "acme.com", Credits: rapid.Int64Range(1, 7).Draw(t, "credits")}
			out, _, err := decider.Charge(in, 0, now)
			apply(out, err)
		}
		refund := func(t *rapid.T) {
			n++
			in := account.Refund{RefundID: fmt.Sprint("f", n), PaymentID: rapid.SampledFrom(append(payments, "none")).Draw(t, "payment"), Credits: rapid.Int64Range(0, 5).Draw(t, "credits")}
			if rapid.Bool().Draw(t, "with money") {
				in.Money = euros(rapid.Int64Range(0, 500).Draw(t, "minor"))
			}
			apply(decider.RefundPayment(in))
		}
		oldRefund := func(t *rapid.T) { // its id is that of a claim, so that it may be reversed
			lots := ledger.Holders()["a"].Lots()
			l := rapid.SampledFrom(lots).Draw(t, "lot")
			ev := eventschemas.PaymentRefunded{RefundID: fmt.Sprint(l.PaymentID, "/", rapid.IntRange(0, 1).Draw(t, "claim")), PaymentID: l.PaymentID}
			if _, known := decider.RefundOf(ev.RefundID); known || l.PaymentID == "" || l.Granted == l.Refunded {
				return
			}
			ev.Credits = rapid.Int64Range(1, l.Granted-l.Refunded).Draw(t, "credits")
			if rapid.Bool().Draw(t, "with money") {
				ev.Money = &eventschemas.Money{Minor: rapid.Int64Range(0, 2000).Draw(t, "minor"), Currency: rapid.SampledFrom([]string{"EUR", "JPY"}).Draw(t, "currency")}
			}
			apply(account.Outcome{Events: []eventschemas.Event{ev}}, nil)
		}
		settle := func(t *rapid.T) { // claims of a processor, which may become void
			payment := rapid.SampledFrom(append(payments, "none")).Draw(t, "payment")
			in := account.Settle{PaymentID: payment}
			for i := range 2 {
				in.Claims = append(in.Claims, account.Claim{
					ID: fmt.Sprint(payment, "/", i), Money: *euros(rapid.Int64Range(0, 500).Draw(t, "minor")), Void: rapid.Bool().Draw(t, "void"),
				})
			}
			apply(decider.SettlePayment(in))
		}
		reverse := func(t *rapid.T) {
			if len(charges) == 0 {
				return
			}
			c := rapid.SampledFrom(charges).Draw(t, "charge")
			apply(decider.Reverse(account.Reverse{ChargeID: c.ChargeID, Credits: c.Credits, ChargedAt: times[c.ChargeID], RequestID: c.RequestID, Reason: account.ReasonOperator}, now))
		}
		t.Repeat(map[string]func(*rapid.T){
			"charge": charge, "charge, as often again": charge,
			"grant": func(t *rapid.T) {
				n++
				in := account.Grant{Kind: "topup", Credits: rapid.Int64Range(1, 9).Draw(t, "credits"), PaymentID: fmt.Sprint("p", n)}
				in.Money = &eventschemas.Money{Minor: rapid.Int64Range(0, 1000).Draw(t, "minor"), Currency: rapid.SampledFrom([]string{"EUR", "JPY"}).Draw(t, "currency")}
				in.Tax = rapid.Int64Range(0, in.Money.Minor).Draw(t, "tax")
				payments = append(payments, in.PaymentID)
				apply(decider.Grant(in))
			},
			"refund": refund, "refund, as often again": refund, "refund of an earlier release": oldRefund, "settle": settle, "settle, as often again": settle,
			"reverse": reverse, "reverse, as often again": reverse,
			"fee": func(t *rapid.T) {
				n++
				money := eventschemas.Money{Minor: rapid.Int64Range(-50, 200).Draw(t, "minor"), Currency: rapid.SampledFrom([]string{"EUR", "USD"}).Draw(t, "currency")}
				apply(decider.RecordFee(account.Fee{FeeID: fmt.Sprint("e", n), PaymentID: rapid.SampledFrom(append(payments, "none")).Draw(t, "payment"), Money: money}))
			},
			"close": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "close") == 0 {
					apply(decider.Close("bye"))
				}
			},
			"breakage": func(t *rapid.T) {
				apply(decider.RecognizeBreakage("terms"))
			},
			"pass time": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "hours")) * time.Hour)
			},
		})
	})
}

// Reversed charges leave gaps between the ranges of charged credits, which are joined once no charge beside them can be
// reversed.
func TestApply_MonthsOfReversals_RangesStayFew(t *testing.T) {
	a, balance, most := New(), int64(1_000_000), 0
	a.Apply(paid("p1", balance, euros(balance)), 0, start)
	for i := range 20_000 { // every 5 minutes; one of two is reversed
		at, id := start.Add(time.Duration(i)*5*time.Minute), fmt.Sprint("c", i)
		a.Apply(charged(id, 2), 0, at)
		if balance -= 2; i%2 == 0 {
			a.Apply(reversed(id, 2), 0, at)
			balance += 2
		}
		most = max(most, len(a.spans))
	}
	const perWindow = int(ReversalMemory / (10 * time.Minute))
	if limit := 4*perWindow + minSpans; most > limit {
		t.Errorf("the account had %d ranges, want at most %d", most, limit)
	}
	if l := a.Lots()[0]; l.Unspent() != balance || l.Recognized != l.Used {
		t.Errorf("lot = %+v, want %d unspent credits, and a minor unit recognized for each of the others", l, balance)
	}
	if _, ok := a.charges["c0"]; ok || len(a.charges) > 2*perWindow {
		t.Errorf("%d charges are remembered, want only those that can be reversed", len(a.charges))
	}
}

// No decision reverses a charge that is not remembered, but the balance must stay right.
func TestApply_ReversalOfUnknownCharge_ReturnsLatestCredits(t *testing.T) {
	a := New()
	for i, ev := range []eventschemas.Event{free(10), charged("c1", 3), charged("c2", 3), charged("c3", 3), reversed("c2", 3), reversed("unknown", 5)} {
		a.Apply(ev, uint64(i), start)
	}
	if got := a.Lots()[0].Unspent(); got != 9 {
		t.Errorf("%d credits are unspent, want 9", got)
	}
}

func TestLedger_IdleAccounts_ForgetCharges(t *testing.T) {
	l := NewLedger()
	ignore := func(*Holder, string, Movement) {}
	l.Apply("idle", charged("c1", 1), 0, start, ignore)
	for i := range idleEvents + 2 {
		l.Apply("busy", charged(fmt.Sprint("c", i), 1), 0, start.Add(time.Duration(i)*ReversalMemory), ignore)
		if i == 9 && len(l.Holders()["idle"].charges) != 1 {
			t.Error("an account forgets its charge after few events of another account")
		}
	}
	if n := len(l.Holders()["idle"].charges); n != 0 {
		t.Errorf("an idle account remembers %d charges, want 0", n)
	}
}
