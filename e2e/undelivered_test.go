package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
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
// clean stop leaves none.
func TestLedgerUndelivered_KilledUnderLoad_ListsWhatClientsDidNotReceive(t *testing.T) {
	data, since := t.TempDir(), time.Now().Add(-time.Minute)
	n := start(t, data)
	acc, key := account(t, data, "custom")
	id := acc.Account.ID
	ok(t, data, "credits", "grant", "--account", id, "--amount", "100000", "--kind", "topup", "--payment-id", "p")
	calm := n.want(200, "/v1/brands/github.com", key).header.Get("X-Request-Id")
	if lines := undelivered(t, data, since); len(lines) != 0 {
		t.Fatalf("a server that runs has %d undelivered charges", len(lines))
	}
	n.stop()
	if lines := undelivered(t, data, since); len(lines) != 0 {
		t.Fatalf("a clean stop left %d undelivered charges", len(lines))
	}

	n = start(t, data)
	keyed := func() answer {
		a := n.post("/v1/brands/batch", key, `{"identifiers":["stripe.com"]}`, "Idempotency-Key", "once")
		if a.status != 200 {
			t.Fatalf("the batch answered %d: %s", a.status, a.body)
		}
		return a
	}
	repeated := keyed().header.Get("X-Request-Id")
	var mu sync.Mutex
	received := map[string]bool{calm: true, repeated: true}
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
					t.Errorf("answered %d: %s", a.status, a.body)
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
				t.Errorf("%s: listed %+v", when, l)
			}
		}
		if listed[calm] {
			t.Errorf("%s: a charge of the run that ended cleanly is listed", when)
		}
		charges, missing := 0, 0
		for _, l := range ledgerOf(t, data, id) {
			if l.Type != "CreditsCharged" {
				continue
			}
			charges++
			if !received[l.RequestID] {
				if missing++; !listed[l.RequestID] {
					t.Errorf("%s: charge of request %s was not received and is not listed", when, l.RequestID)
				}
			}
		}
		t.Logf("%s: %d charges, %d answers received, %d not received, %d listed", when, charges, len(received), missing, len(lines))
		return lines
	}
	check("nothing serves")
	n = start(t, data)
	later := n.want(200, "/v1/brands/github.com", key).header.Get("X-Request-Id")
	received[later] = true
	keyed() // is answered from the charge of the run that was killed
	lines := check("the next serves")
	for _, l := range lines {
		if l.RequestID == later {
			t.Error("a charge of the running server is listed")
		}
		if l.RequestID == repeated {
			t.Error("a charge that was answered again is listed")
		}
	}
	if none := undelivered(t, data, time.Now().Add(time.Hour)); len(none) != 0 {
		t.Errorf("%d charges of the future", len(none))
	}
	if none := undelivered(t, data, since, "--account", "nobody"); len(none) != 0 {
		t.Errorf("%d charges of another account", len(none))
	}

	before := n.balance(key)
	reverse := []string{"ledger", "undelivered", "--since", since.UTC().Format(time.RFC3339), "--account", id, "--reverse"}
	asked := func(answer string) (out string, err error) {
		cmd := exec.Command(binary, append([]string{"--data", data}, reverse...)...)
		cmd.Env, cmd.Stdin = environ(), strings.NewReader(answer+"\n")
		text, err := cmd.CombinedOutput()
		return string(text), err
	}
	if out, err := asked("no"); err == nil || !strings.Contains(out, "Reverse these charges?") || n.balance(key) != before {
		t.Errorf("after no: %v, balance %v of %v: %s", err, n.balance(key), before, out)
	}
	if out, err := asked("yes"); err != nil || !strings.Contains(out, fmt.Sprintf("%d charge(s) reversed", len(lines))) {
		t.Errorf("after yes: %v: %s", err, out)
	}
	for range 2 {
		if out := ok(t, data, append(reverse, "--yes")...); !strings.HasPrefix(out, "0 charge(s) reversed") {
			t.Errorf("again: %s", out)
		}
		if got, want := n.balance(key), before+float64(len(lines)); got != want {
			t.Errorf("the balance is %v, want %v", got, want)
		}
	}
	ok(t, data, "ledger", "verify")
}
