package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/internal/runs"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
)

type undeliveredLine struct {
	AccountID string `json:"account_id"`
	RequestID string `json:"request_id"`
	Credits   int64
	Node      string
}

func undelivered(t *testing.T, data string, since time.Time, flags ...string) (lines []undeliveredLine) {
	t.Helper()
	text := ok(t, data, append([]string{"ledger", "undelivered", "--since", since.UTC().Format(time.RFC3339), "--json"}, flags...)...)
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if line != "" {
			var l undeliveredLine
			decode(t, line, &l)
			lines = append(lines, l)
		}
	}
	return lines
}

// A server that is killed under load leaves charges without answers. The command lists them and reverses each once. A
// clean shutdown leaves none.
func TestLedgerUndelivered_KilledUnderLoad_ListsWhatClientsDidNotReceive(t *testing.T) {
	data, since := folder(t), time.Now().Add(-time.Minute)
	n := start(t, data)
	acc, key := account(t, data, "custom")
	id := acc.Account.ID
	ok(t, data, "credits", "grant", "--account", id, "--amount", "100000", "--kind", "topup", "--payment-id", "p")
	cleanRun := n.want(200, "/v1/brands/github.com", key).header.Get("X-Request-Id")
	if lines := undelivered(t, data, since); len(lines) != 0 {
		t.Fatalf("a running server has %d undelivered charges, want 0", len(lines))
	}
	n.stop()
	if lines := undelivered(t, data, since); len(lines) != 0 {
		t.Fatalf("a clean shutdown left %d undelivered charges, want 0", len(lines))
	}

	n = start(t, data)
	keyed := func() answer {
		a := n.post("/v1/brands/batch", key, `{"identifiers":["stripe.com"]}`, "Idempotency-Key", "once")
		if a.status != 200 {
			t.Fatalf("the batch answered %d: %s", a.status, a.body)
		}
		return a
	}
	repeatedID := keyed().header.Get("X-Request-Id")
	var mu sync.Mutex
	received := map[string]bool{cleanRun: true, repeatedID: true}
	enough := make(chan struct{})
	var clients sync.WaitGroup
	for range 16 {
		clients.Go(func() {
			for {
				a, err := n.get("/v1/brands/github.com", key)
				if err != nil {
					return
				}
				if a.status != 200 {
					t.Errorf("the look-up answered %d, want 200: %s", a.status, a.body)
					return
				}
				mu.Lock()
				if received[a.header.Get("X-Request-Id")] = true; len(received) == 300+2 {
					close(enough)
				}
				mu.Unlock()
			}
		})
	}
	<-enough
	n.kill()
	clients.Wait()

	check := func(when string) []undeliveredLine {
		lines := undelivered(t, data, since)
		listed := map[string]bool{}
		for _, l := range lines {
			listed[l.RequestID] = true
			if l.AccountID != id || l.Credits != 1 || l.Node == "" {
				t.Errorf("%s: the command listed %+v", when, l)
			}
		}
		if listed[cleanRun] {
			t.Errorf("%s: the command listed a charge of a run that ended cleanly", when)
		}
		charges, missing := 0, 0
		for _, l := range ledgerOf(t, data, id) {
			if l.Type != "CreditsCharged" {
				continue
			}
			charges++
			if !received[l.RequestID] {
				if missing++; !listed[l.RequestID] {
					t.Errorf("%s: the command did not list the charge of request %s, which was not received", when, l.RequestID)
				}
			}
		}
		t.Logf("%s: %d charges, %d answers received, %d not received, %d listed", when, charges, len(received), missing, len(lines))
		return lines
	}
	check("without a server")
	n = start(t, data)
	later := n.want(200, "/v1/brands/github.com", key).header.Get("X-Request-Id")
	received[later] = true
	keyed() // answered from the charge of the killed run
	lines := check("with the next server")
	for _, l := range lines {
		if l.RequestID == later {
			t.Error("the command listed a charge of the running server")
		}
		if l.RequestID == repeatedID {
			t.Error("the command listed a charge whose answer was repeated")
		}
	}
	if none := undelivered(t, data, time.Now().Add(time.Hour)); len(none) != 0 {
		t.Errorf("the command listed %d charges after a future time", len(none))
	}
	unknown := []string{"ledger", "undelivered", "--since", since.UTC().Format(time.RFC3339), "--account", "nobody"}
	if out, errs, code := letterhead(t, data, unknown...); code != 1 || out != "" || !strings.Contains(errs, "there is no account nobody") {
		t.Errorf("for an unknown account the command ended with %d: %s%s", code, out, errs)
	}

	before := n.balance(key)
	reverse := []string{"ledger", "undelivered", "--since", since.UTC().Format(time.RFC3339), "--account", id, "--reverse"}
	runWithAnswer := func(answer string) (out string, err error) {
		cmd := exec.Command(binary, append([]string{"--data", data}, reverse...)...)
		cmd.Env, cmd.Stdin = environ(), strings.NewReader(answer+"\n")
		text, err := cmd.CombinedOutput()
		return string(text), err
	}
	if out, err := runWithAnswer("no"); err == nil || !strings.Contains(out, "Reverse these charges?") || n.balance(key) != before {
		t.Errorf("after the answer no: %v, balance %v, want %v: %s", err, n.balance(key), before, out)
	}
	if out, err := runWithAnswer("yes"); err != nil || !strings.Contains(out, fmt.Sprintf("%d charge(s) reversed", len(lines))) {
		t.Errorf("after the answer yes: %v: %s", err, out)
	}
	for range 2 {
		if out := ok(t, data, append(reverse, "--yes")...); !strings.HasPrefix(out, "0 charge(s) reversed") {
			t.Errorf("the repeated reversal printed %s", out)
		}
		if got, want := n.balance(key), before+float64(len(lines)); got != want {
			t.Errorf("the balance is %v, want %v", got, want)
		}
	}
	ok(t, data, "ledger", "verify")
}

// After a heartbeat, the command lists no charge that was answered before it, and every charge that was not answered.
// Rule 2.
func TestLedgerUndelivered_KilledAfterHeartbeat_OmitsAnsweredCharges(t *testing.T) {
	data, since := folder(t), time.Now().Add(-time.Minute)
	n := start(t, data)
	acc, key := account(t, data, "custom")
	id := acc.Account.ID
	ok(t, data, "credits", "grant", "--account", id, "--amount", "100000", "--kind", "topup", "--payment-id", "p")
	var mu sync.Mutex
	received := map[string]bool{}
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for {
				a, err := n.get("/v1/brands/github.com", key)
				if err != nil {
					return
				}
				if a.status == 429 {
					continue
				}
				mu.Lock()
				received[a.header.Get("X-Request-Id")] = true
				mu.Unlock()
			}
		})
	}
	answered := heartbeatAfter(t, data, 100)
	n.kill()
	clients.Wait()
	listed := map[string]bool{}
	for _, l := range undelivered(t, data, since) {
		listed[l.RequestID] = true
	}
	missing, omitted := 0, 0
	for _, l := range ledgerOf(t, data, id) {
		if l.Type != "CreditsCharged" {
			continue
		}
		if !received[l.RequestID] {
			if missing++; !listed[l.RequestID] {
				t.Errorf("the command did not list the charge of request %s, which was not received", l.RequestID)
			}
			continue
		}
		if answered.Covers(eventlog.Position(l.Position), l.RequestID) {
			if omitted++; listed[l.RequestID] {
				t.Errorf("the command listed the charge at %d of request %s, which was answered before the heartbeat",
					l.Position, l.RequestID)
			}
		}
	}
	if omitted < 50 {
		t.Errorf("%d charges were answered before the heartbeat, want at least 50", omitted)
	}
	t.Logf("%d not received, %d answered before the heartbeat, %d listed", missing, omitted, len(listed))
}

// heartbeatAfter waits for a heartbeat by which charges behind a position were answered, and returns it.
func heartbeatAfter(t *testing.T, data string, charges eventlog.Position) (answered runs.Answered) {
	t.Helper()
	store, err := sqlstore.Open(t.Context(), sqlstore.Config{Path: filepath.Join(data, "letterhead.db"),
		ReadOnly: true})
	testmust.Succeed(t, err)
	defer store.Close()
	table, err := runs.New(t.Context(), store)
	testmust.Succeed(t, err)
	first := eventlog.Position(0)
	_, reached := testwait.Until(readyTimeout, func() bool {
		all, err := table.All(t.Context())
		testmust.Succeed(t, err)
		last := all[len(all)-1]
		if last.Answered == nil || last.Answered.UpTo == 0 {
			return false
		}
		if first == 0 {
			first = last.Answered.UpTo
		}
		answered = *last.Answered
		return answered.UpTo >= first+charges
	})
	if !reached {
		t.Fatal("no heartbeat recorded enough answers")
	}
	return answered
}
