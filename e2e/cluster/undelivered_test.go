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

// A node that is killed under load leaves charges without answers. Once its run has certainly ended, they are listed
// with the node's name. No charge of a running node is listed.
func TestLedgerUndelivered_NodeKilled_ListsItsChargesOnly(t *testing.T) {
	const each = 100 // answers of each node before the kill
	c := whole(t)
	since := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	killed, lives := c.apis[0], c.apis[1]
	who := lives.open(t, "custom", 100_000)
	undelivered := func() map[string]string { // nodes by request
		t.Helper()
		listed := map[string]string{}
		for text := range strings.Lines(lives.must(t, "ledger", "undelivered", "--since", since, "--account", who.id, "--json")) {
			var l struct {
				RequestID string `json:"request_id"`
				Node      string
			}
			decode(t, text, &l)
			listed[l.RequestID] = l.Node
		}
		return listed
	}
	answered := map[*node]map[string]bool{killed: {}, lives: {}}
	for n, requests := range answered {
		requests[n.want(t, http.StatusOK, lookup(hit), who.secret).requestID()] = true
	}
	if listed := undelivered(); len(listed) != 0 {
		t.Errorf("while all nodes run %d charges are listed", len(listed))
	}

	var mu sync.Mutex
	enough, stop := make(chan struct{}), make(chan struct{})
	var clients sync.WaitGroup
	for _, n := range []*node{killed, lives} {
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
						t.Errorf("%s answered %d: %v", n.name, a.status, err)
						return
					}
					if a.status != http.StatusOK {
						continue
					}
					mu.Lock()
					before := min(len(answered[killed]), len(answered[lives]))
					answered[n][a.requestID()] = true
					if before < each && min(len(answered[killed]), len(answered[lives])) == each {
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
	if err := killed.start(); err != nil { // its run before is over
		t.Fatal(err)
	}
	c.ready(t)
	c.caughtUp(t)

	listed := undelivered()
	mine, missing := 0, 0
	for _, l := range lives.ledger(t, who) {
		switch node, ok := listed[l.RequestID]; {
		case l.Type != "CreditsCharged":
		case answered[lives][l.RequestID]:
			if ok {
				t.Errorf("a charge of %s is listed as one of %s", lives.name, node)
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
			t.Errorf("a charge of node %q is listed, want those of %q", node, want)
		}
	}
	if len(listed) < mine+missing {
		t.Errorf("%d charges are listed of %d that were answered shortly before the kill and %d that were not answered", len(listed), mine, missing)
	}
	t.Logf("%d answers of the killed node, %d of the other, %d charges without an answer, %d listed", mine, len(answered[lives]), missing, len(listed))
}
