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
)

// exitLoss is the exit code over a log that lost events.
const exitLoss = 3

// Files of the log in a data folder, and the marker beside it.
var lossFiles, markerFile = []string{"events.db", "events.db-wal"}, "events.head"

// move copies files of one data folder over those of another; one that is not there is removed there.
func move(t *testing.T, from, to string, names ...string) {
	t.Helper()
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(from, name))
		if os.IsNotExist(err) {
			err = os.RemoveAll(filepath.Join(to, name))
		} else if err == nil {
			err = os.WriteFile(filepath.Join(to, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// wounded is a data folder, and a copy of its log from before the last grants.
type wounded struct {
	data, older, newer string
	account            created
	key                string
}

// wound makes a folder in which 50 credits were granted before the copy and 21 after it.
func wound(t *testing.T) wounded {
	t.Helper()
	w := wounded{data: t.TempDir(), older: t.TempDir(), newer: t.TempDir()}
	n := start(t, w.data, "LETTERHEAD_STARTER=off")
	w.account, w.key = account(t, w.data, "free")
	n.stop()
	move(t, w.data, w.older, append(lossFiles, markerFile)...)
	n = start(t, w.data, "LETTERHEAD_STARTER=off")
	for i := range 3 {
		ok(t, w.data, "credits", "grant", "--account", w.account.Account.ID, "--amount", "7", "--kind", "topup", "--payment-id", fmt.Sprint(i))
	}
	n.want(200, "/v1/me", w.key)
	n.stop()
	move(t, w.data, w.newer, append(lossFiles, markerFile)...)
	return w
}

// remembered returns the records of the read models' generations, as text.
func remembered(t *testing.T, data string) string {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(data, "letterhead.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query("SELECT name, generation, state, position FROM projections_registry ORDER BY 1, 2")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var out strings.Builder
	for rows.Next() {
		var name, state string
		var generation, position int64
		if err := rows.Scan(&name, &generation, &state, &position); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&out, name, generation, state, position)
	}
	return out.String()
}

// refused checks that serve and other commands refuse the folder, that the error names the remedy, and that nothing was
// rebuilt. It returns the output of serve.
func refused(t *testing.T, data string, commands ...[]string) (said string) {
	t.Helper()
	before := remembered(t, data)
	n := launch(t, data, "LETTERHEAD_STARTER=off")
	<-n.done
	if code := n.cmd.ProcessState.ExitCode(); code != exitLoss {
		t.Errorf("serve ended with %d, want %d:\n%s", code, exitLoss, n.out)
	}
	said = n.out.String()
	for _, part := range []string{"acknowledged events are missing from the event log", "letterhead restore", "letterhead recover accept-loss", "position"} {
		if !strings.Contains(said, part) {
			t.Errorf("serve did not say %q:\n%s", part, said)
		}
	}
	for _, command := range commands {
		if out, errs, code := letterhead(t, data, command...); code != exitLoss {
			t.Errorf("%v ended with %d, want %d: %s%s", command, code, exitLoss, out, errs)
		} else if command[0] == "doctor" && !strings.Contains(out, "FAIL event log") {
			t.Errorf("doctor printed %s", out)
		}
	}
	if after := remembered(t, data); after != before {
		t.Errorf("the registry of the read models was\n%s\nand is\n%s", before, after)
	}
	return said
}

// served checks that the folder is in order with a balance of the account.
func (w wounded) served(t *testing.T, balance float64) {
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

// A server neither serves nor repairs a log that lacks events the folder has recorded. It serves the right log again.
func TestServe_LogLostEvents_RefusesUntilItIsBack(t *testing.T) {
	w := wound(t)
	other := wound(t)
	t.Run("every command", func(t *testing.T) {
		move(t, w.older, w.data, lossFiles...)
		refused(t, w.data, []string{"doctor"}, []string{"ledger", "verify"}, []string{"projections", "verify"},
			[]string{"projections", "rebuild", "--all"}, []string{"account", "list"}, []string{"backup", t.TempDir()})
	})
	for name, hurt := range map[string]func(){
		"an older copy with its marker":   func() { move(t, w.older, w.data, append(lossFiles, markerFile)...) },
		"an older copy without a marker":  func() { move(t, w.older, w.data, lossFiles...); move(t, t.TempDir(), w.data, markerFile) },
		"another folder's log":            func() { move(t, other.newer, w.data, lossFiles...) },
		"another folder's log and marker": func() { move(t, other.newer, w.data, append(lossFiles, markerFile)...) },
		"no log":                          func() { move(t, t.TempDir(), w.data, lossFiles...) },
		"neither log nor marker":          func() { move(t, t.TempDir(), w.data, append(lossFiles, markerFile)...) },
	} {
		t.Run(name, func(t *testing.T) {
			hurt()
			if said := refused(t, w.data); strings.Contains(name, "another") && strings.Count(said, "begins with event") < 2 {
				t.Errorf("serve did not name both logs: %s", said)
			}
			move(t, w.newer, w.data, append(lossFiles, markerFile)...)
		})
	}
	w.served(t, 71)
}

// An accepted loss is recorded once, and the server continues with the remaining events.
func TestAcceptLoss_OlderLog_RecordsAndServes(t *testing.T) {
	for name, files := range map[string][]string{"without its marker": lossFiles, "with its marker": append(lossFiles, markerFile)} {
		t.Run(name, func(t *testing.T) {
			w := wound(t)
			if out := ok(t, w.data, "recover", "accept-loss"); !strings.Contains(out, "nothing is missing") {
				t.Errorf("a folder in order: %s", out)
			}
			move(t, w.older, w.data, files...)
			if _, errs, code := letterhead(t, w.data, "recover", "accept-loss"); code != 1 || !strings.Contains(errs, "not confirmed") || !strings.Contains(errs, "position") {
				t.Errorf("without an answer it ended with %d: %s", code, errs)
			}
			refused(t, w.data)
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
				t.Errorf("accepted %+v", accepted)
			}
			w.served(t, 50)
			events := acceptances(t, w.data)
			if len(events) != 1 || !strings.Contains(fmt.Sprint(events[0]), "the disk was replaced") || !strings.Contains(fmt.Sprint(events[0]), "operator:cli") {
				t.Errorf("the log records %v", events)
			}
			if out := ok(t, w.data, "recover", "accept-loss", "--yes"); !strings.Contains(out, "nothing is missing") {
				t.Errorf("a second time: %s", out)
			}
		})
	}
	t.Run("another folder's log", func(t *testing.T) {
		w, other := wound(t), wound(t)
		move(t, other.newer, w.data, lossFiles...)
		ok(t, w.data, "recover", "accept-loss", "--yes")
		n := start(t, w.data, "LETTERHEAD_STARTER=off")
		if got := n.balance(other.key); got != 71 {
			t.Errorf("the balance of the other folder's account is %v", got)
		}
		n.want(401, "/v1/me", w.key)
		n.stop()
		if n := len(acceptances(t, w.data)); n != 1 {
			t.Errorf("%d acceptances", n)
		}
	})
	t.Run("neither log nor marker", func(t *testing.T) {
		w := wound(t)
		move(t, t.TempDir(), w.data, append(lossFiles, markerFile)...)
		ok(t, w.data, "recover", "accept-loss", "--yes")
		start(t, w.data, "LETTERHEAD_STARTER=off").stop()
		if n := len(acceptances(t, w.data)); n != 1 {
			t.Errorf("%d acceptances", n)
		}
	})
}

// killedAfter runs a command and kills it after a while, and reports whether it had ended well before.
func killedAfter(t *testing.T, d time.Duration, args ...string) bool {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Env = environ()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(d, func() { cmd.Process.Kill() })
	defer kill.Stop()
	cmd.Wait()
	return cmd.ProcessState.ExitCode() == 0
}

// killSteps are times after which commands of some hundred milliseconds are killed.
func killSteps(step func(time.Duration) (ended bool)) {
	for d := 20 * time.Millisecond; !step(d); d += d / 3 {
	}
}

// However often an acceptance is killed, the folder is refused until one completes, which records the loss once.
func TestAcceptLoss_Killed_NextRunFinishes(t *testing.T) {
	w := wound(t)
	move(t, w.older, w.data, lossFiles...)
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
	w.served(t, 50)
	if n := len(acceptances(t, w.data)); n != 1 {
		t.Errorf("%d events record the loss", n)
	}
}

// A restored folder is served; one whose restore was killed is not, until the restore is repeated.
func TestRestore_Killed_IsUnfinishedThenServed(t *testing.T) {
	w := wound(t)
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
			return false // it had not begun
		case code != 1 || !strings.Contains(errs, "restore"):
			t.Fatalf("after a kill at %s ledger verify ended with %d: %s%s", d, code, out, errs)
		}
		return false
	})
	t.Logf("%d kills", kills)
	w.served(t, 71)
}
