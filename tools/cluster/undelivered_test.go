//go:build services

package cluster

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"letterhead/internal/testwait"
)

// A node that is killed under load leaves charges without answers. When its run has certainly ended, the command must
// list them with the node's name, and no charges of a running node.
// Rule 2.
func TestLedgerUndelivered_NodeKilled_ListsItsChargesOnly(t *testing.T) {
	const each = 100 // answers of each node before the kill
	c := whole(t)
	since := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	killed, other := c.apis[0], c.apis[1]
	who := other.open(t, "custom", 100_000)
	undelivered := func() map[string]string { // nodes by request
		t.Helper()
		listed := map[string]string{}
		for text := range strings.Lines(other.must(t, "ledger", "undelivered", "--since", since, "--account", who.id, "--json")) {
			var l struct {
				RequestID string `json:"request_id"`
				Node      string
			}
			decode(t, text, &l)
			listed[l.RequestID] = l.Node
		}
		return listed
	}
	answered := map[*node]map[string]bool{killed: {}, other: {}}
	for n, requests := range answered {
		requests[n.want(t, http.StatusOK, lookup(hit), who.secret).requestID()] = true
	}
	if listed := undelivered(); len(listed) != 0 {
		t.Errorf("%d charges are listed while all nodes run, want 0", len(listed))
	}

	var mu sync.Mutex
	enough, stop := make(chan struct{}), make(chan struct{})
	var clients sync.WaitGroup
	for _, n := range []*node{killed, other} {
		for range 4 {
			clients.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					a, err := n.get(lookup(hit), who.secret)
					if err != nil && n == killed {
						return
					}
					if err != nil || a.status != http.StatusOK && a.status != http.StatusServiceUnavailable {
						t.Errorf("look-up on %s: status %d, error %v", n.name, a.status, err)
						return
					}
					if a.status != http.StatusOK {
						continue
					}
					mu.Lock()
					before := min(len(answered[killed]), len(answered[other]))
					answered[n][a.requestID()] = true
					if before < each && min(len(answered[killed]), len(answered[other])) == each {
						close(enough)
					}
					mu.Unlock()
				}
			})
		}
	}
	testwait.Receive(t, enough, "enough answers")
	killed.kill()
	close(stop)
	clients.Wait()
	if err := killed.start(); err != nil { // proves that its previous run has ended
		t.Fatal(err)
	}
	c.ready(t)
	c.caughtUp(t)

	listed := undelivered()
	mine, missing := 0, 0
	for _, l := range other.ledger(t, who) {
		switch node, ok := listed[l.RequestID]; {
		case l.Type != "CreditsCharged":
		case answered[other][l.RequestID]:
			if ok {
				t.Errorf("a charge of %s is listed with node %s", other.name, node)
			}
		case answered[killed][l.RequestID]:
			mine++
		default:
			if missing++; !ok {
				t.Errorf("the charge of request %s was not answered and is not listed", l.RequestID)
			}
		}
	}
	for _, node := range listed {
		if want := killed.setting("LETTERHEAD_NODE"); node != want {
			t.Errorf("a charge of node %q is listed, want only those of %q", node, want)
		}
	}
	if len(listed) > mine+missing {
		t.Errorf("%d charges are listed, want at most the %d that the killed node answered and %d without an answer",
			len(listed), mine, missing)
	}
	t.Logf("%d answers of the killed node, %d of the other, %d charges without an answer, %d listed", mine, len(answered[other]), missing, len(listed))
}
