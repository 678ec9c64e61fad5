package generate

import (
	"time"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
)

// maxBatch is the largest number of domains in a batch.
const maxBatch = 10

// use is what the owner of an account does next: what it takes to use the service, or a look-up.
func (g *generator) use(c *customer) {
	switch {
	case len(c.keys) == 0:
		g.issueKey(c)
	case subscriptions[c.Plan()] > 0 && !g.at.Before(c.renews):
		g.renew(c)
	case c.Unheld() < plan.LookupCredits:
		g.topUp(c)
	case g.chance(0.12) && len(g.pending) < maxPending:
		g.crawl(c)
	case g.chance(0.02):
		g.lookUp(c, 2+g.random.IntN(maxBatch-1))
	default:
		g.lookUp(c, 1)
	}
}

// caller returns a request of an API key.
func (g *generator) caller(c *customer) commands.Request {
	id := g.uuid()
	return commands.Request{ID: id, Actor: "account:" + c.ID(), CorrelationID: id}
}

// charge returns the command to charge a look-up.
func (g *generator) charge(c *customer, request commands.Request, found look) account.Charge {
	return account.Charge{
		RequestID: request.ID, Credits: plan.LookupCredits, BrandID: found.brandID, Domain: found.domain,
		RecordRevision: found.revision, KeyID: c.keys[len(c.keys)-1],
	}
}

// crawl looks up a brand that is not known yet: the credit is held until the crawl ends.
func (g *generator) crawl(c *customer) {
	request, found := g.caller(c), g.brands[g.looked.Uint64()]
	work := g.between(time.Second, 9*time.Second)
	in := account.Hold{
		HoldID: eventschemas.EventID(c.stream, request.ID, eventschemas.CreditsHeld{}.EventType(),
			found.domain).String(),
		Credits: plan.LookupCredits, Deadline: g.at.Add(work + account.HoldGrace), RequestID: request.ID,
		Domain: found.domain,
	}
	out, err := c.Hold(in, 0, g.at)
	if !g.record(c, request, out, err) {
		return
	}
	charge := g.charge(c, request, found)
	charge.HoldID = in.HoldID
	// No hold is overdue at the next decision, as in the account writer, which releases overdue holds first.
	expire := func() {
		g.record(c, commands.Request{ID: request.ID, Actor: "system:desk"}, c.ReleaseOverdue(g.at), nil)
	}
	switch n := g.random.IntN(100); {
	case n < 75:
		g.later(work, func() {
			if out, _, err := c.Charge(charge, 0, g.at); !g.record(c, request, out, err) {
				g.release(c, request, in.HoldID)
			}
		})
	case n < 95:
		g.later(work, func() { g.release(c, request, in.HoldID) })
	default:
		g.later(work+account.HoldGrace+time.Microsecond, expire)
	}
}

func (g *generator) release(c *customer, request commands.Request, holdID string) {
	out, err := c.Release(holdID, g.at)
	g.record(c, request, out, err)
}

// lookUp looks up as many brands in one request.
func (g *generator) lookUp(c *customer, n int) {
	request, first := g.caller(c), g.looked.Uint64()
	var keyHash, requestHash string
	if g.chance(0.25) && c.KeysRemembered()+n <= account.MaxIdempotencyKeys {
		keyHash, requestHash = g.hex(16), g.hex(32)
	}
	for i := range n {
		in := g.charge(c, request, g.brands[(first+uint64(i))%brandCount])
		if keyHash != "" {
			// the halves are of the key and the item
			in.IdempotencyKeyHash, in.RequestHash = keyHash+g.hex(16), requestHash
		}
		out, fact, err := c.Charge(in, 0, g.at)
		if !g.record(c, request, out, err) {
			return
		}
		g.afterCharge(c, request, in, fact)
	}
}

// afterCharge schedules what may happen to a charge: a repeat of its request, or a reversal.
func (g *generator) afterCharge(c *customer, request commands.Request, in account.Charge, fact account.ChargeFact) {
	reverse := func(by commands.Request, reason string) {
		out, err := c.Reverse(account.Reverse{ChargeID: fact.ChargeID, Credits: fact.Credits, ChargedAt: fact.At,
			RequestID: request.ID, Reason: reason}, g.at)
		g.record(c, by, out, err)
	}
	switch n := g.random.IntN(1000); {
	case n < 5:
		g.later(g.between(time.Second, 10*time.Second), func() {
			reverse(commands.Request{ID: request.ID, Actor: "system:desk"}, account.ReasonClientGone)
		})
	case n < 6:
		g.later(g.between(time.Minute, account.ReversalWindow),
			func() { reverse(g.operator(), account.ReasonOperator) })
	case n < 36 && in.IdempotencyKeyHash != "":
		g.later(g.between(time.Second, time.Minute), func() {
			again, repeat := g.caller(c), in
			repeat.RequestID = again.ID
			out, _, err := c.Charge(repeat, 0, g.at)
			g.record(c, again, out, err)
		})
	}
}
