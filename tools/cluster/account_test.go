//go:build services

package cluster

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"letterhead/internal/testwait"
)

// customer is an account with its keys.
type customer struct {
	id     string
	secret string
	keyID  string
}

// open creates an account on a node and grants credits until its balance is as requested.
func (n *node) open(t testing.TB, plan string, credits int) customer {
	t.Helper()
	var created struct {
		Account struct{ ID string }
		Credits struct{ Balance int }
		Keys    []struct{ ID, Kind, Key string }
	}
	decode(t, n.must(t, "account", "create", "--name", "Cluster", "--plan", plan, "--json"), &created)
	c := customer{id: created.Account.ID}
	for _, k := range created.Keys {
		if k.Kind == "secret" {
			c.secret, c.keyID = k.Key, k.ID
		}
	}
	if c.secret == "" {
		t.Fatal("account create returned no secret key")
	}
	if credits > created.Credits.Balance {
		n.grant(t, c, credits-created.Credits.Balance)
	}
	return c
}

// grant adds credits by a command on this node.
func (n *node) grant(t testing.TB, c customer, credits int) {
	t.Helper()
	n.must(t, "credits", "grant", "--account", c.id, "--amount", strconv.Itoa(credits), "--kind", "adjustment", "--reason", "test")
}

// standing is the state of an account that a node reads from the account's stream.
type standing struct {
	Balance   int
	Available int
	OpenHolds int
}

func (n *node) standing(t testing.TB, c customer) standing {
	t.Helper()
	var shown struct {
		Credits   struct{ Balance, Available int }
		OpenHolds int `json:"open_holds"`
	}
	decode(t, n.must(t, "account", "show", c.id, "--json"), &shown)
	return standing{shown.Credits.Balance, shown.Credits.Available, shown.OpenHolds}
}

// line is a line of the ledger.
type line struct {
	Revision  uint64
	Type      string
	Amount    int
	Balance   int
	RequestID string `json:"request_id"`
	Domain    string
	KeyID     string `json:"key_id"`
	EventID   string `json:"event_id"`
	PaymentID string `json:"payment_id"`
	RefundID  string `json:"refund_id"`
}

// ledger returns the whole ledger of an account, read from this node.
func (n *node) ledger(t testing.TB, c customer) []line {
	t.Helper()
	lines, err := n.readLedger(c)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func (n *node) readLedger(c customer) ([]line, error) {
	text, err := n.letterhead("ledger", "show", "--account", c.id, "--json")
	if err != nil {
		return nil, err
	}
	var lines []line
	for text := range strings.Lines(text) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			return nil, fmt.Errorf("ledger show printed %q: %w", text, err)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// charges returns the net charge of each request: its charges minus its reversals.
func charges(lines []line) map[string]int {
	net := map[string]int{}
	for _, l := range lines {
		switch l.Type {
		case "CreditsCharged", "ChargeReversed":
			net[l.RequestID] -= l.Amount
		}
	}
	return net
}

// event is an event of the log.
type event struct {
	Position   uint64
	Stream     string
	ID         string
	Type       string
	OccurredAt string `json:"occurred_at"`
	Data       json.RawMessage

	SchemaVersion int `json:"schema_version"`
}

// events returns the events of all streams with a prefix.
func (n *node) events(t testing.TB, stream string, types ...string) []event {
	t.Helper()
	args := []string{"events", "tail", "--from", "0", "--no-follow", "--stream", stream, "--json"}
	for _, name := range types {
		args = append(args, "--type", name)
	}
	var events []event
	for text := range strings.Lines(n.must(t, args...)) {
		var e event
		decode(t, text, &e)
		events = append(events, e)
	}
	return events
}

func decode(t testing.TB, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, text)
	}
}

// agree checks that the ledger matches what the clients saw: each look-up answered with a brand is charged once,
// rejected look-ups are not charged, and of the others at most the unanswered ones are charged. It waits for pending
// reversals. It also verifies the account's chain and balance.
func (c *cluster) agree(t testing.TB, who customer, seen *tally) {
	t.Helper()
	reader := c.apis[0]
	seen.mu.Lock()
	defer seen.mu.Unlock()
	var lines []line
	var wrong []string
	_, ok := testwait.Until(settledWithin, func() bool {
		var err error
		if lines, err = reader.readLedger(who); err != nil {
			wrong = []string{err.Error()}
			return false
		}
		wrong = disagreements(charges(lines), seen)
		return len(wrong) == 0
	})
	if !ok {
		t.Errorf("%d differences between the ledger of account %s and the answers to its clients, such as:\n%s", len(wrong), who.id, strings.Join(wrong[:min(len(wrong), shownFaults)], "\n"))
	}
	sum := 0
	for _, l := range lines {
		sum += l.Amount
	}
	if len(lines) == 0 || sum != lines[len(lines)-1].Balance {
		t.Errorf("the ledger's lines sum to %d, but its last line is %+v", sum, lines[max(0, len(lines)-1):])
	}
	if balance := reader.standing(t, who).Balance; balance != sum {
		t.Errorf("the ledger sums to %d, but the account's balance is %d", sum, balance)
	}
	reader.must(t, "ledger", "verify", "--account", who.id)
}

// disagreements compares the charges of each request with what its client saw. seen is locked.
func disagreements(net map[string]int, seen *tally) []string {
	var wrong []string
	for id := range seen.paid {
		if net[id] != 1 {
			wrong = append(wrong, fmt.Sprintf("request %s was answered with a brand and cost %d credits, want 1", id, net[id]))
		}
	}
	for id := range seen.rejected {
		if net[id] != 0 {
			wrong = append(wrong, fmt.Sprintf("request %s was rejected and cost %d credits, want 0", id, net[id]))
		}
	}
	silent := 0
	for id, cost := range net {
		switch {
		case cost < 0 || cost > 1:
			wrong = append(wrong, fmt.Sprintf("request %s cost %d credits", id, cost))
		case cost == 1 && !seen.paid[id] && !seen.rejected[id]:
			silent++
		}
	}
	if silent > len(seen.unanswered) {
		wrong = append(wrong, fmt.Sprintf("%d charges have no answered request, but only %d requests got no answer", silent, len(seen.unanswered)))
	}
	return wrong
}

// verified checks that all read models and the search index match a replay of the log, and that the chain of every
// account is intact.
func (c *cluster) verified(t testing.TB) {
	t.Helper()
	c.verifiedOn(t, c.apis[0])
}

func (c *cluster) verifiedOn(t testing.TB, n *node) {
	t.Helper()
	n.must(t, "projections", "verify")
	n.must(t, "ledger", "verify")
}
