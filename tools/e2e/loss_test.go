package e2e

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"letterhead/internal/testmust"
)

// exitLoss is the exit code of commands on a log that lost events.
const exitLoss = 3

// The files of the log in a data folder, and its marker.
var lossFiles, markerFile = []string{"events.db", "events.db-wal"}, "events.head"

// copyFiles replaces files of one data folder by those of another. If a file is missing in from, it is removed in to.
func copyFiles(t *testing.T, from, to string, names ...string) {
	t.Helper()
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(from, name))
		if os.IsNotExist(err) {
			err = os.RemoveAll(filepath.Join(to, name))
		} else if err == nil {
			err = os.WriteFile(filepath.Join(to, name), data, 0o600)
		}
		testmust.Succeed(t, err)
	}
}

// lossFolder is a data folder with copies of its log from before and after the last grants.
type lossFolder struct {
	data, older, newer string
	account            created
	key                string
}

// newLossFolder creates a folder in which 50 credits were granted before the older copy and 21 after it.
func newLossFolder(t *testing.T) lossFolder {
	t.Helper()
	w := lossFolder{data: folderWithoutStarter(t), older: t.TempDir(), newer: t.TempDir()}
	n := start(t, w.data, "LETTERHEAD_STARTER=off")
	w.account, w.key = account(t, w.data, "free")
	n.stop()
	copyFiles(t, w.data, w.older, append(lossFiles, markerFile)...)
	n = start(t, w.data, "LETTERHEAD_STARTER=off")
	for i := range 3 {
		ok(t, w.data, "credits", "grant", "--account", w.account.Account.ID, "--amount", "7", "--kind", "topup", "--payment-id", fmt.Sprint(i))
	}
	n.want(200, "/v1/me", w.key)
	n.stop()
	copyFiles(t, w.data, w.newer, append(lossFiles, markerFile)...)
	return w
}

// generations returns the recorded generations of the read models as text.
func generations(t *testing.T, data string) string {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(data, "letterhead.db"))
	testmust.Succeed(t, err)
	defer db.Close()
	rows, err := db.Query("SELECT name, generation, state, position FROM projections_registry ORDER BY 1, 2")
	testmust.Succeed(t, err)
	defer rows.Close()
	var out strings.Builder
	for rows.Next() {
		var name, state string
		var generation, position int64
		testmust.Succeed(t, rows.Scan(&name, &generation, &state, &position))
		fmt.Fprintln(&out, name, generation, state, position)
	}
	return out.String()
}

// checkRejected checks that serve and other commands reject the folder, that the error names the remedy, and that
// nothing was rebuilt. It returns the output of serve.
func checkRejected(t *testing.T, data string, commands ...[]string) (printed string) {
	t.Helper()
	before := generations(t, data)
	n := launch(t, data, "LETTERHEAD_STARTER=off")
	<-n.done
	if code := n.cmd.ProcessState.ExitCode(); code != exitLoss {
		t.Errorf("serve ended with %d, want %d:\n%s", code, exitLoss, n.out)
	}
	printed = n.out.String()
	for _, part := range []string{"acknowledged events are missing from the event log", "letterhead restore", "letterhead recover accept-loss", "position"} {
		if !strings.Contains(printed, part) {
			t.Errorf("serve did not print %q:\n%s", part, printed)
		}
	}
	for _, command := range commands {
		if out, errs, code := letterhead(t, data, command...); code != exitLoss {
			t.Errorf("%v ended with %d, want %d: %s%s", command, code, exitLoss, out, errs)
		} else if command[0] == "doctor" && !strings.Contains(out, "FAIL event log") {
			t.Errorf("doctor printed %s", out)
		}
	}
	if after := generations(t, data); after != before {
		t.Errorf("the commands changed the generations of the read models from\n%s\nto\n%s", before, after)
	}
	return printed
}

// checkServed checks that a server serves the folder, with the given balance, and that all verifications succeed.
func (w lossFolder) checkServed(t *testing.T, balance float64) {
	t.Helper()
	n := start(t, w.data, "LETTERHEAD_STARTER=off")
	if got := n.balance(w.key); got != balance {
		t.Errorf("the balance is %v, want %v", got, balance)
	}
	for _, command := range [][]string{{"doctor"}, {"ledger", "verify"}, {"projections", "verify"}} {
		ok(t, w.data, command...)
	}
	n.stop()
}

// acceptances returns the events that record an accepted loss.
func acceptances(t *testing.T, data string) (events []map[string]any) {
	t.Helper()
	for _, line := range strings.Split(ok(t, data, "events", "replay", "--from-beginning", "--no-follow", "--json"), "\n") {
		var event map[string]any
		if json.Unmarshal([]byte(line), &event) == nil && strings.Contains(line, `"LossAccepted"`) {
			events = append(events, event)
		}
	}
	return events
}

// A server neither serves nor repairs a log that lacks events known from other files of the folder. It serves the
// folder after the complete log is back.
// Rule 8.
func TestServe_LogLostEvents_FailsUntilItIsBack(t *testing.T) {
	w := newLossFolder(t)
	other := newLossFolder(t)
	t.Run("every command", func(t *testing.T) {
		copyFiles(t, w.older, w.data, lossFiles...)
		checkRejected(t, w.data, []string{"doctor"}, []string{"ledger", "verify"}, []string{"projections", "verify"},
			[]string{"projections", "rebuild", "--all"}, []string{"account", "list"}, []string{"backup", t.TempDir()})
	})
	for name, replaceFiles := range map[string]func(){
		"an older copy with its marker":   func() { copyFiles(t, w.older, w.data, append(lossFiles, markerFile)...) },
		"an older copy without a marker":  func() { copyFiles(t, w.older, w.data, lossFiles...); copyFiles(t, t.TempDir(), w.data, markerFile) },
		"another folder's log":            func() { copyFiles(t, other.newer, w.data, lossFiles...) },
		"another folder's log and marker": func() { copyFiles(t, other.newer, w.data, append(lossFiles, markerFile)...) },
		"no log":                          func() { copyFiles(t, t.TempDir(), w.data, lossFiles...) },
		"neither log nor marker":          func() { copyFiles(t, t.TempDir(), w.data, append(lossFiles, markerFile)...) },
	} {
		t.Run(name, func(t *testing.T) {
			replaceFiles()
			if printed := checkRejected(t, w.data); strings.Contains(name, "another") && strings.Count(printed, "begins with event") < 2 {
				t.Errorf("serve did not print the first events of both logs: %s", printed)
			}
			copyFiles(t, w.newer, w.data, append(lossFiles, markerFile)...)
		})
	}
	w.checkServed(t, 71)
}

// An accepted loss is recorded once, and the server continues with the remaining events.
func TestAcceptLoss_OlderLog_RecordsAndServes(t *testing.T) {
	for name, files := range map[string][]string{"without its marker": lossFiles, "with its marker": append(lossFiles, markerFile)} {
		t.Run(name, func(t *testing.T) {
			w := newLossFolder(t)
			if out := ok(t, w.data, "recover", "accept-loss"); !strings.Contains(out, "nothing is missing") {
				t.Errorf("accept-loss on a complete log printed %s", out)
			}
			copyFiles(t, w.older, w.data, files...)
			if _, errs, code := letterhead(t, w.data, "recover", "accept-loss"); code != 1 || !strings.Contains(errs, "not confirmed") || !strings.Contains(errs, "position") {
				t.Errorf("accept-loss without confirmation ended with %d: %s", code, errs)
			}
			checkRejected(t, w.data)
			var accepted struct {
				Lost      bool   `json:"lost"`
				EventID   string `json:"event_id"`
				Witnesses []struct {
					Name       string `json:"name"`
					Remembered uint64 `json:"remembered"`
				} `json:"witnesses"`
				Head, Position uint64
			}
			decode(t, ok(t, w.data, "recover", "accept-loss", "--yes", "--json", "--reason", "the disk was replaced"), &accepted)
			if !accepted.Lost || accepted.Position != accepted.Head+1 || len(accepted.Witnesses) == 0 || accepted.Witnesses[0].Remembered <= accepted.Head {
				t.Errorf("accept-loss printed %+v", accepted)
			}
			w.checkServed(t, 50)
			events := acceptances(t, w.data)
			if len(events) != 1 || !strings.Contains(fmt.Sprint(events[0]), "the disk was replaced") || !strings.Contains(fmt.Sprint(events[0]), "operator:cli") {
				t.Errorf("the log has the acceptances %v, want one with reason and actor", events)
			}
			if out := ok(t, w.data, "recover", "accept-loss", "--yes"); !strings.Contains(out, "nothing is missing") {
				t.Errorf("the second accept-loss printed %s", out)
			}
		})
	}
	t.Run("another folder's log", func(t *testing.T) {
		w, other := newLossFolder(t), newLossFolder(t)
		copyFiles(t, other.newer, w.data, lossFiles...)
		ok(t, w.data, "recover", "accept-loss", "--yes")
		n := start(t, w.data, "LETTERHEAD_STARTER=off")
		if got := n.balance(other.key); got != 71 {
			t.Errorf("the balance of the other folder's account is %v, want 71", got)
		}
		n.want(401, "/v1/me", w.key)
		n.stop()
		if n := len(acceptances(t, w.data)); n != 1 {
			t.Errorf("the log has %d acceptances, want 1", n)
		}
	})
	t.Run("neither log nor marker", func(t *testing.T) {
		w := newLossFolder(t)
		copyFiles(t, t.TempDir(), w.data, append(lossFiles, markerFile)...)
		ok(t, w.data, "recover", "accept-loss", "--yes")
		start(t, w.data, "LETTERHEAD_STARTER=off").stop()
		if n := len(acceptances(t, w.data)); n != 1 {
			t.Errorf("the log has %d acceptances, want 1", n)
		}
	})
}

// killedAfter runs a command, kills it after a delay, and reports whether the command had succeeded before.
func killedAfter(t *testing.T, d time.Duration, args ...string) bool {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Env = environ()
	testmust.Succeed(t, cmd.Start())
	kill := time.AfterFunc(d, func() { cmd.Process.Kill() })
	defer kill.Stop()
	cmd.Wait()
	return cmd.ProcessState.ExitCode() == 0
}

// killSteps calls step with increasing delays, suitable for commands that take some hundred milliseconds, until step
// returns true.
func killSteps(step func(time.Duration) (ended bool)) {
	for d := 20 * time.Millisecond; !step(d); d += d / 3 {
	}
}

// If accept-loss is killed repeatedly, the folder is rejected until one run completes, and that run records the loss
// once.
// Rule 2.
func TestAcceptLoss_Killed_NextRunFinishes(t *testing.T) {
	w := newLossFolder(t)
	copyFiles(t, w.older, w.data, lossFiles...)
	kills := 0
	killSteps(func(d time.Duration) bool {
		if killedAfter(t, d, "--data", w.data, "recover", "accept-loss", "--yes") {
			return true
		}
		kills++
		if out, errs, code := letterhead(t, w.data, "ledger", "verify"); code != exitLoss && code != 0 {
			t.Fatalf("after a kill at %s ledger verify ended with %d: %s%s", d, code, out, errs)
		} else if code == 0 { // killed after its last write
			return true
		}
		return false
	})
	t.Logf("%d kills", kills)
	w.checkServed(t, 50)
	if n := len(acceptances(t, w.data)); n != 1 {
		t.Errorf("%d events record the loss, want 1", n)
	}
}

// A folder whose restore was killed is rejected until the restore is repeated.
// Rule 2.
func TestRestore_Killed_IsUnfinishedThenServed(t *testing.T) {
	w := newLossFolder(t)
	backup := t.TempDir()
	ok(t, w.data, "backup", backup)
	w.data = filepath.Join(t.TempDir(), "data")
	kills := 0
	killSteps(func(d time.Duration) bool {
		if killedAfter(t, d, "--data", w.data, "restore", backup) {
			return true
		}
		kills++
		out, errs, code := letterhead(t, w.data, "ledger", "verify")
		switch {
		case code == 0 && strings.Contains(out, " 2 account(s), 11 events"):
			return true // killed after its last write
		case code == 0 && strings.Contains(out, " 0 account(s)"), strings.Contains(errs, "there is no letterhead data"):
			return false // killed before its first write
		case code != 1 || !strings.Contains(errs, "restore"):
			t.Fatalf("after a kill at %s ledger verify ended with %d: %s%s", d, code, out, errs)
		}
		return false
	})
	t.Logf("%d kills", kills)
	w.checkServed(t, 71)
}
