//go:build services

package cluster

import (
	"net/http"
	"strconv"
	"testing"
)

// Sizes of the load on one account.
const (
	stormClients = 64
	stormCredits = 1000
)

// Rule 1.
func TestCredits_SixtyFourClientsOverThreeNodes_SpendExactlyTheBalance(t *testing.T) {
	c := whole(t)
	c.spendExactly(t, c.apis)
}

// spendExactly lets many clients of one account spend all its credits. Each client uses the nodes in turn until it gets
// a 402.
func (c *cluster) spendExactly(t *testing.T, over []*node) {
	t.Helper()
	who := over[0].open(t, "custom", stormCredits)
	seen := newTally()
	atOnce(stormClients, func(client int) {
		for i := client; ; i++ {
			a, err := over[i%len(over)].get(lookup(hit), who.secret)
			seen.lookup(a, err)
			switch {
			case err != nil, a.status == http.StatusPaymentRequired:
				return
			case a.status == http.StatusServiceUnavailable: // retry
			case a.status != http.StatusOK:
				seen.mistake("%s", a)
				return
			}
		}
	})
	// A request got a 402 if credits were reserved for others. Spend what those did not need.
	for i := 0; ; i++ {
		a, err := over[i%len(over)].get(lookup(hit), who.secret)
		seen.lookup(a, err)
		if err != nil || a.status != http.StatusOK {
			break
		}
	}
	t.Logf("%s", seen)
	seen.check(t, 0)
	if got := seen.status(http.StatusOK); got != stormCredits {
		t.Errorf("%d look-ups were answered with a brand, want %d", got, stormCredits)
	}
	if got := seen.status(http.StatusPaymentRequired); got < stormClients {
		t.Errorf("%d answers with status 402, want at least one for each of %d clients", got, stormClients)
	}
	c.agree(t, who, seen)
	for _, n := range over {
		if s := n.standing(t, who); s != (standing{}) {
			t.Errorf("standing on %s = %+v, want no credits and no holds", n.name, s)
		}
		n.want(t, http.StatusPaymentRequired, lookup(hit), who.secret)
	}
}

// Rule 1.
func TestGrant_OnOneNode_IsSpendableOnNodeThatJustRejected(t *testing.T) {
	c := whole(t)
	who := c.apis[0].open(t, "growth", 0)
	seen := newTally()
	for {
		a, err := c.apis[0].get(lookup(hit), who.secret)
		seen.lookup(a, err)
		if err != nil || a.status != http.StatusOK {
			break
		}
	}
	for round := range 2 * apiNodes {
		granting, rejecting := c.apis[round%apiNodes], c.apis[(round+1)%apiNodes]
		for _, n := range c.apis {
			a := n.want(t, http.StatusPaymentRequired, lookup(hit), who.secret)
			seen.lookup(a, nil)
		}
		granting.grant(t, who, 1)
		seen.lookup(rejecting.want(t, http.StatusOK, lookup(hit), who.secret), nil)
	}
	seen.check(t, 0)
	c.agree(t, who, seen)
}

// The next answer of each node must include the charges of all other nodes.
// Rule 7.
func TestBalance_ReadOnAnyNode_CountsEveryNodesCharges(t *testing.T) {
	c := whole(t)
	who := c.apis[0].open(t, "custom", 0)
	seen := newTally()
	for round := range 4 * apiNodes {
		paying, reading := c.apis[round%apiNodes], c.apis[(round/apiNodes+round+1)%apiNodes]
		a := paying.want(t, http.StatusOK, lookup(hit), who.secret)
		seen.lookup(a, nil)
		var me struct{ Credits struct{ Balance int } }
		decode(t, string(reading.want(t, http.StatusOK, "/v1/me", who.secret).body), &me)
		if left := 50 - (round + 1); me.Credits.Balance != left || a.header.Get("X-Credits-Remaining") != strconv.Itoa(left) {
			t.Errorf("after look-up %d, %s reports %s credits and %s reports %d, want %d", round+1, paying.name, a.header.Get("X-Credits-Remaining"), reading.name, me.Credits.Balance, left)
		}
	}
	c.agree(t, who, seen)
}
