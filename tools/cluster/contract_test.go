//go:build services

package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
)

// batchOf are identifiers of starter brands. Two of them name the same domain.
var batchOf = []string{"github.com", "stripe.com", "https://figma.com/", "spotify.com", "gitlab.com", "info@github.com", "docker.com", "notion.so"}

// distinct is the number of different domains in batchOf.
const distinct = 7

// Batches and single look-ups of one account over three nodes spend exactly the account's credits.
// Rule 1.
func TestBatches_OverThreeNodes_SpendExactlyTheBalance(t *testing.T) {
	const credits = 200
	c := whole(t)
	who := c.apis[0].open(t, "custom", credits)
	body, err := json.Marshal(map[string]any{"identifiers": batchOf})
	if err != nil {
		t.Fatal(err)
	}
	seen := newTally()
	paid := make([]int, 24)
	atOnce(len(paid), func(client int) {
		for i := client; ; i++ {
			if client%4 == 3 { // single look-ups next to the batches
				a, err := c.apis[i%apiNodes].get(lookup(hit), who.secret)
				seen.count(a, err)
				switch {
				case err == nil && a.status == http.StatusOK:
					paid[client]++
				case err == nil && a.status == http.StatusServiceUnavailable:
				default:
					return
				}
				continue
			}
			a, err := c.apis[i%apiNodes].send(http.MethodPost, "/v1/brands/batch", who.secret, body, nil)
			seen.count(a, err)
			if err == nil && a.status == http.StatusServiceUnavailable {
				continue
			}
			if err != nil || a.status != http.StatusOK {
				return
			}
			found, rejected, err := foundIn(a.body)
			if err != nil {
				seen.mistake("%v", err)
				return
			}
			paid[client] += found
			if rejected == 0 && found != distinct {
				seen.mistake("a batch without rejected items found %d domains, want %d: %s", found, distinct, a.body)
			}
		}
	})
	seen.check(t, 0)
	total := 0
	for _, n := range paid {
		total += n
	}
	for { // a request got a 402 if credits were reserved for others; spend what those did not need
		a, err := c.apis[0].get(lookup(hit), who.secret)
		if err != nil || a.status != http.StatusOK {
			break
		}
		total++
	}
	if total != credits {
		t.Errorf("%d brands were returned for %d credits", total, credits)
	}
	for _, n := range c.apis {
		if s := n.standing(t, who); s != (standing{}) {
			t.Errorf("standing on %s = %+v, want no credits and no holds", n.name, s)
		}
		n.must(t, "ledger", "verify", "--account", who.id)
	}
}

// foundIn returns the number of distinct domains with a brand in the answer to a batch, and the number of rejected
// items.
func foundIn(body []byte) (found, rejected int, err error) {
	var v struct {
		Results []struct {
			Domain string
			Status int
			Brand  *struct{ Domain string }
		}
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return 0, 0, err
	}
	if len(v.Results) != len(batchOf) {
		return 0, 0, fmt.Errorf("%d results for %d identifiers: %s", len(v.Results), len(batchOf), body)
	}
	domains := map[string]bool{}
	for _, r := range v.Results {
		switch {
		case r.Status == http.StatusOK && r.Brand != nil && r.Brand.Domain == r.Domain:
			domains[r.Domain] = true
		case r.Brand == nil:
			rejected++
		default:
			return 0, 0, fmt.Errorf("unexpected item %+v", r)
		}
	}
	return len(domains), rejected, nil
}

// Every node must repeat the answer that another node gave under an idempotency key, even after that node was killed.
// The account is charged once.
// Rule 1.
func TestIdempotencyKey_OnEveryNodeAndAfterKill_RepeatsAnswer(t *testing.T) {
	c := whole(t)
	who := c.apis[0].open(t, "custom", 0)
	doomed := c.extra(t, "doomed-"+random(), "api")
	const rounds = 6
	for round := range rounds {
		key := http.Header{"Idempotency-Key": {fmt.Sprintf("round-%d", round)}}
		var first answer
		bodies := make([]answer, 12)
		atOnce(len(bodies), func(i int) {
			n := append([]*node{doomed}, c.apis...)[i%(apiNodes+1)]
			bodies[i], _ = n.send(http.MethodGet, lookup(hit), who.secret, nil, key)
		})
		if round == rounds-1 {
			doomed.kill()
			c.forget(doomed)
		}
		for i := range apiNodes {
			a, err := c.apis[i].send(http.MethodGet, lookup(hit), who.secret, nil, key)
			if err != nil || a.status != http.StatusOK {
				t.Fatalf("round %d on %s: %v, %s: %s", round, c.apis[i].name, err, a, a.body)
			}
			if first.body == nil {
				first = a
			}
			if !bytes.Equal(a.body, first.body) {
				t.Errorf("round %d: %s repeated a different answer under the same key", round, c.apis[i].name)
			}
		}
		for _, a := range bodies {
			if a.status == http.StatusOK && !bytes.Equal(a.body, first.body) {
				t.Errorf("round %d: %s gave a different answer under the same key", round, a.node)
			}
		}
		other, err := c.apis[round%apiNodes].send(http.MethodGet, lookup("stripe.com"), who.secret, nil, key)
		if err != nil || other.status != http.StatusBadRequest {
			t.Errorf("round %d: another request under the same key: %v, %s; want 400", round, err, other)
		}
		if s := c.apis[(round+1)%apiNodes].standing(t, who); s.Balance != 50-(round+1) {
			t.Errorf("after %d keys the standing is %+v, want a balance of %d", round+1, s, 50-(round+1))
		}
	}
	c.apis[0].must(t, "ledger", "verify", "--account", who.id)
}
