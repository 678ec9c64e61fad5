//go:build services

package cluster

import (
	"net/http"
	"strconv"
	"sync"
	"testing"
)

// Sizes of the load on one account.
const (
	stormClients = 64
	stormCredits = 1000
)

func TestCredits_SixtyFourClientsOverThreeNodes_SpendExactlyTheBalance(t *testing.T) {
	c := whole(t)
	c.spendExactly(t, c.apis)
}

// spendExactly lets many clients of one account spend all its credits. Each client takes the nodes in turn until an
// answer reports that no credits are left.
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
	// A 402 counts credits that are reserved for others. Spend what those did not need.
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
		t.Errorf("%d look-ups were answered with a brand, for %d credits", got, stormCredits)
	}
	if got := seen.status(http.StatusPaymentRequired); got < stormClients {
		t.Errorf("%d of %d clients received an answer that no credits are left", got, stormClients)
	}
	c.agree(t, who, seen)
	for _, n := range over {
		if s := n.standing(t, who); s != (standing{}) {
			t.Errorf("on %s the account is %+v, want no credits and no holds", n.name, s)
		}
		n.want(t, http.StatusPaymentRequired, lookup(hit), who.secret)
	}
}

func TestGrant_OnOneNode_IsSpendableOnNodeThatJustRefused(t *testing.T) {
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
		granting, refusing := c.apis[round%apiNodes], c.apis[(round+1)%apiNodes]
		for _, n := range c.apis {
			a := n.want(t, http.StatusPaymentRequired, lookup(hit), who.secret)
			seen.lookup(a, nil)
		}
		granting.grant(t, who, 1)
		seen.lookup(refusing.want(t, http.StatusOK, lookup(hit), who.secret), nil)
	}
	seen.check(t, 0)
	c.agree(t, who, seen)
}

// Each node's next answer counts what all other nodes have charged.
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
			t.Errorf("after look-up %d %s says that %s credits remain, and %s that %d do", round+1, paying.name, a.header.Get("X-Credits-Remaining"), reading.name, me.Credits.Balance)
		}
	}
	c.agree(t, who, seen)
}

// A kill -9 during look-ups neither loses nor repeats an answered charge. Only requests in progress on the dead node
// may be charged without an answer.
func TestNode_KilledUnderLoad_LosesNoAnsweredCharge(t *testing.T) {
	const perNode = 16 // clients
	c := whole(t)
	who := c.apis[0].open(t, "custom", 2000)
	doomed := c.extra(t, "doomed-"+random(), "api")
	over := append([]*node{doomed}, c.apis...)
	seen := newTally()
	enough := make(chan struct{})
	var once sync.Once
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		atOnce(perNode*len(over), func(client int) {
			n := over[client%len(over)]
			for range 10 {
				a, err := n.get(lookup(hit), who.secret)
				seen.lookup(a, err)
				if err != nil {
					return
				}
				if n == doomed && seen.status(http.StatusOK) > perNode {
					once.Do(func() { close(enough) })
				}
			}
		})
	}()
	select {
	case <-enough:
	case <-ended:
		t.Fatalf("the load was over before the node could be killed: %s", seen)
	}
	doomed.kill()
	<-ended
	t.Logf("%s", seen)
	c.forget(doomed)
	seen.check(t, perNode)
	c.agree(t, who, seen)
}
