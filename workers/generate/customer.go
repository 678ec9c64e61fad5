package generate

import (
	"time"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
)

// customer is an account and what its owner knows.
type customer struct {
	*account.Account
	stream string
	prices *prices
	keys   []string  // ids of the valid keys, oldest first
	renews time.Time // when the subscription is paid again
	topUps int
}

// prices are the prices in a currency.
type prices struct {
	currency string
	hundred  int64 // price of a hundred credits in minor units, with tax
	tax      int64 // rate in hundredths of a percent
	fee      int64 // of each payment, in minor units, besides its feeRate
}

// feeRate is the fee of the payment processor, in hundredths of a percent of the payment.
const feeRate = 290

var currencies = []prices{{"EUR", 490, 1900, 25}, {"USD", 550, 825, 30}, {"JPY", 800, 1000, 40}, {"KWD", 1650, 0, 100}}

// subscriptions are the credits that a plan includes each month.
var subscriptions = map[plan.ID]int64{plan.Starter: 50, plan.Growth: 250, plan.Custom: 1000}

// packs are the credits that can be bought at once, with their discounts in percent.
var packs = []struct{ credits, discount int64 }{{100, 0}, {250, 0}, {1000, 5}, {5000, 15}}

var plans = []plan.ID{plan.Free, plan.Starter, plan.Growth, plan.Custom}

// maxKeys is how many valid keys an account has at most.
const maxKeys = 4

// changes are the changes in the life of an account, and how often each happens to it, on average.
var changes = []struct {
	rate float64
	make func(*generator, *customer)
}{
	{0.7, (*generator).issueKey},
	{0.5, (*generator).revokeKey},
	{0.4, (*generator).adjust},
	{0.5, (*generator).changePlan},
	{0.3, (*generator).suspend},
	{0.1, (*generator).close},
}

func (g *generator) operator() commands.Request {
	return commands.Request{ID: g.uuid(), Actor: "operator:generate"}
}

func (g *generator) open() {
	id := g.uuid()
	c := &customer{Account: account.New(id), stream: account.Stream(id),
		prices: &currencies[len(g.customers)%len(currencies)]}
	out, err := c.Open(account.Open{Holder: g.uuid(), Plan: plans[g.random.IntN(len(plans))], Free: plan.FreeCredits})
	if g.record(c, g.operator(), out, err) {
		g.customers = append(g.customers, c)
		g.later(g.between(time.Second, time.Minute), func() { g.issueKey(c) })
	}
}

func (g *generator) issueKey(c *customer) {
	if len(c.keys) == maxKeys {
		return
	}
	now := g.now()
	in := account.IssueKey{KeyID: g.uuid(), Hash: g.hex(32), Last4: g.hex(8)[:4], Kind: "secret"}
	if len(c.keys) > 0 && g.chance(0.3) {
		in.Kind = "publishable"
		in.Terms = account.KeyTerms{Scopes: []string{account.ScopeLogos}, ExpiresAt: now.AddDate(1, 0, 0)}
	}
	out, err := c.IssueKey(in, now)
	if g.record(c, g.operator(), out, err) {
		c.keys = append(c.keys, in.KeyID)
	}
}

// revokeKey revokes the oldest key, if there is a newer one.
func (g *generator) revokeKey(c *customer) {
	if len(c.keys) < 2 {
		return
	}
	out, err := c.RevokeKey(c.keys[0])
	if g.record(c, g.operator(), out, err) {
		c.keys = c.keys[1:]
	}
}

func (g *generator) adjust(c *customer) {
	request := g.operator()
	out, err := c.Grant(account.Grant{GrantID: request.ID, Kind: account.KindAdjustment,
		Credits: 1 + g.random.Int64N(50), Reason: "goodwill"})
	g.record(c, request, out, err)
}

func (g *generator) changePlan(c *customer) {
	out, err := c.ChangePlan(plans[g.random.IntN(len(plans))])
	g.record(c, g.operator(), out, err)
}

// suspend suspends an account for days. The first account is neither suspended nor closed.
func (g *generator) suspend(c *customer) {
	if c == g.customers[0] {
		return
	}
	out, err := c.Suspend("payment overdue")
	if g.record(c, g.operator(), out, err) {
		g.later(g.between(time.Hour, 14*24*time.Hour), func() {
			out, err := c.Reinstate()
			g.record(c, g.operator(), out, err)
		})
	}
}

func (g *generator) close(c *customer) {
	if c == g.customers[0] {
		return
	}
	out, err := c.Close("asked by the owner")
	if g.record(c, g.operator(), out, err) {
		g.later(g.between(24*time.Hour, 60*24*time.Hour), func() {
			out, err := c.RecognizeBreakage("terms: credits of a closed account lapse")
			g.record(c, g.operator(), out, err)
		})
	}
}

// pay grants credits for money.
func (g *generator) pay(c *customer, kind string, credits, discount int64) bool {
	paid := credits * c.prices.hundred * (100 - discount) / (100 * 100)
	in := account.Grant{
		Kind: kind, Credits: credits, PaymentID: "pi_" + g.hex(8), Tax: paid * c.prices.tax / (100*100 + c.prices.tax),
		Money: &eventschemas.Money{Minor: paid, Currency: c.prices.currency},
	}
	out, err := c.Grant(in)
	if !g.record(c, g.operator(), out, err) {
		return false
	}
	g.fee(c, in.PaymentID,
		eventschemas.Money{Minor: c.prices.fee + paid*feeRate/(100*100), Currency: c.prices.currency})
	if g.chance(0.05) {
		g.later(g.between(time.Hour, 30*24*time.Hour), func() { g.refund(c, in) })
	}
	return true
}

// fee records what the payment processor takes.
func (g *generator) fee(c *customer, paymentID string, money eventschemas.Money) {
	out, err := c.RecordFee(account.Fee{FeeID: "txn_" + g.hex(8), PaymentID: paymentID, Money: money})
	g.record(c, g.operator(), out, err)
}

// refund refunds a payment, or a part of it; the rest may follow.
func (g *generator) refund(c *customer, paid account.Grant) {
	in := account.Refund{RefundID: "re_" + g.hex(8), PaymentID: paid.PaymentID}
	partial := g.chance(0.5)
	if partial {
		in.Credits = 1 + g.random.Int64N(paid.Credits/2)
	}
	out, err := c.RefundPayment(in)
	if g.record(c, g.operator(), out, err) && partial && g.chance(0.5) {
		g.later(g.between(time.Hour, 30*24*time.Hour), func() { g.refund(c, paid) })
	}
}

func (g *generator) renew(c *customer) {
	if g.pay(c, account.KindSubscription, subscriptions[c.Plan()], 0) {
		c.renews = g.at.AddDate(0, 1, 0)
	}
}

// topUp buys credits. Who often buys some, buys more at once.
func (g *generator) topUp(c *customer) {
	pack := packs[g.random.IntN(min(1+c.topUps/2, len(packs)))]
	if g.pay(c, account.KindTopup, pack.credits, pack.discount) {
		c.topUps++
	}
}
