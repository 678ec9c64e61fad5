package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"letterhead/internal/disk/disktest"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
)

// A server that crashed on a full disk starts with what it can do, and does everything when there is room.
// Rule 2.
func TestServe_CrashOnFullDisk_ServesWithoutCharging(t *testing.T) {
	t.Parallel()
	disktest.Run(t, "160m", func(at string) {
		data := filepath.Join(at, "data")
		n := start(t, data)
		acc, key := account(t, data, "custom")
		id := acc.Account.ID
		ok(t, data, "credits", "grant", "--account", id, "--amount", "100000", "--kind", "topup", "--payment-id", "p")
		n.want(200, "/logo/github.com?size=64", "")
		granted := n.balance(key)
		if status, got := n.readiness(); status != 200 ||
			got != (ready{LookUps: true, Crawls: true, Logos: true, Reads: true}) {
			t.Errorf("before: /readyz %d %+v", status, got)
		}
		ballast := filepath.Join(at, "ballast")
		disktest.Fill(t, ballast)
		charged := 0
		chargeAll := func(n *node) { // the write-ahead log may have room left
			for {
				a, err := n.get("/v1/brands/github.com", key)
				testmust.Succeed(t, err)
				if a.status != 200 {
					if a.status != 503 || a.header.Get("Retry-After") == "" ||
						!strings.Contains(string(a.body), "no storage left") {
						t.Errorf("on the full disk: %d %s", a.status, a.body)
					}
					return
				}
				charged++
			}
		}
		chargeAll(n)
		if status, got := n.readiness(); status != 503 || got.LookUps || got.Crawls || !got.Logos || !got.Reads {
			t.Errorf("on the full disk: /readyz %d %+v", status, got)
		}
		n.kill()
		for _, name := range []string{"events.db-shm", "letterhead.db-shm"} { // as after a restore of the files
			testmust.Succeed(t, os.Remove(filepath.Join(data, name)))
			disktest.Fill(t, ballast+name)
		}
		_, errs, code := letterhead(t, data, "credits", "grant", "--account", id, "--amount", "1", "--kind",
			"adjustment", "--reason", "test")
		if code == 0 || !strings.Contains(errs, "no space is left") || !strings.Contains(errs, "make room") {
			t.Errorf("credits grant on the full disk ended with %d: %s", code, errs)
		}

		n = launch(t, data)
		n.listening()
		n.eventually("reads are answered", func() bool { _, got := n.readiness(); return got.Reads })
		disktest.Fill(t, ballast+"again") // opening the folder may have freed a log
		chargeAll(n)
		status, got := n.readiness()
		if status != 503 || got.LookUps || got.Crawls || !got.Logos || got.Reason == "" {
			t.Errorf("after the crash: /readyz %d %+v", status, got)
		}
		for _, path := range []string{"/docs", "/logo/github.com?size=64", "/logo/stripe.com?size=128"} {
			n.want(200, path, "")
		}
		if balance := n.balance(key); balance != granted-float64(charged) {
			t.Errorf("the balance is %v after %d charges", balance, charged)
		}
		for _, name := range []string{"", "events.db-shm", "letterhead.db-shm", "again"} {
			testmust.Succeed(t, os.Remove(ballast+name))
		}
		n.eventually("look-ups are charged again", func() bool { status, _ := n.readiness(); return status == 200 })
		n.want(200, "/v1/brands/github.com", key)
		if balance := n.balance(key); balance != granted-float64(charged+1) {
			t.Errorf("the balance is %v after %d charges and one with room", balance, charged)
		}
		n.stop()
		ok(t, data, "ledger", "verify")
		ok(t, data, "projections", "verify")
	}, givenBinary+"="+binary)
}

type ready struct {
	LookUps bool `json:"look_ups"`
	Crawls  bool
	Logos   bool
	Reads   bool
	Reason  string
}

func (n *node) readiness() (status int, r ready) {
	n.t.Helper()
	resp, err := http.Get(n.url + "/readyz")
	testmust.Succeed(n.t, err)
	defer resp.Body.Close()
	testmust.Succeed(n.t, json.NewDecoder(resp.Body).Decode(&r))
	return resp.StatusCode, r
}

func (n *node) eventually(what string, so func() bool) {
	n.t.Helper()
	if _, ok := testwait.Until(readyTimeout, so); !ok {
		n.t.Fatalf("waited for: %s\n%s", what, n.out)
	}
}

// A first start on a full disk reports that and leaves nothing that a later start cannot continue.
func TestServe_FirstStartOnFullDisk_SaysSo(t *testing.T) {
	t.Parallel()
	disktest.Run(t, "64m", func(at string) {
		ballast := filepath.Join(at, "ballast")
		for _, leave := range []int64{0, 64 << 10} { // with 1 MiB the server starts, and crawls nothing
			disktest.Fill(t, ballast)
			if info, err := os.Stat(ballast); err != nil || os.Truncate(ballast, info.Size()-leave) != nil {
				t.Fatal("the disk could not be filled", err)
			}
			data := filepath.Join(at, "data")
			n := launch(t, data, "LETTERHEAD_STARTER=off")
			select {
			case <-n.done:
			case <-time.After(5 * readyTimeout): // a server that stops waits until its renderer is compiled
				t.Fatalf("with %d bytes free the first start does not end:\n%s", leave, n.out)
			}
			if said := n.out.String(); n.cmd.ProcessState.ExitCode() != 1 || !strings.Contains(said, "no space") {
				t.Errorf("with %d bytes free the first start ended with %d:\n%s", leave, n.cmd.ProcessState.ExitCode(),
					said)
			}
			testmust.Succeed(t, os.Remove(ballast))
		}
		start(t, filepath.Join(at, "data"), "LETTERHEAD_STARTER=off").stop()
	}, givenBinary+"="+binary)
}
