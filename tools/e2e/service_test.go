package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"letterhead/internal/testmust"
)

// The greeting of a first start has ten lines and two commands. Each must work unchanged and offline, and a look-up must cost
// exactly one credit.
// Rule 13.
func TestFirstMinute_GreetingCommands_Work(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	n := launch(t, data)
	accountID := n.out.waitFor(t, `account\s+([0-9a-f-]{36})`, n.done)[1]
	keys := n.out.waitFor(t, `(?m)^  keys\s+(\S+)`, n.done)[1]
	n.out.waitFor(t, `50 credits`, n.done)
	n.out.waitFor(t, `ledger show`, n.done)
	n.listening()
	if !strings.Contains(n.out.String(), "serves on "+n.url+"\n") {
		t.Fatalf("the greeting lacks %s:\n%s", n.url, n.out)
	}
	secret := keyIn(t, keys, "SECRET", `lh_sk_[0-9A-Za-z]{38}`)
	publishable := keyIn(t, keys, "PUBLISHABLE", `lh_pk_[0-9A-Za-z]{38}`)
	if printed := n.out.String(); strings.Contains(printed, secret) || strings.Contains(printed, publishable) {
		t.Errorf("the output is not a terminal, but a key was printed:\n%s", printed)
	}
	if info, err := os.Stat(keys); err != nil || info.Mode().Perm() != 0o600 || filepath.Dir(keys) != data {
		t.Errorf("the file of keys is %s: %v, %v, want mode 0600 in the data folder", keys, info, err)
	}

	var commands []string
	for _, line := range strings.Split(n.out.String(), "\n") {
		for _, label := range []string{"  look-up ", "  ledger "} {
			if command, found := strings.CutPrefix(line, label); found {
				commands = append(commands, strings.TrimSpace(command))
			}
		}
	}
	if len(commands) != 2 {
		t.Fatalf("the greeting shows %d commands, want 2: %q", len(commands), commands)
	}
	answers := make([]string, 2)
	for i, command := range commands {
		cmd := exec.Command("sh", "-c", command)
		cmd.Env = environ()
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		answers[i] = string(out)
	}
	for i, want := range []string{`"domain":"github.com"`, "CreditsCharged"} {
		if !strings.Contains(answers[i], want) {
			t.Errorf("the output of %s lacks %s:\n%s", commands[i], want, answers[i])
		}
	}

	n.stop()
	again := start(t, data)
	again.out.waitFor(t, accountID, again.done)
	again.out.waitFor(t, `key issue --account`, again.done)
	if strings.Contains(again.out.String(), "lh_sk_") {
		t.Error("the second start printed a secret key again")
	}
	me := again.want(http.StatusOK, "/v1/me", secret).json(t)
	if got := me["credits"].(map[string]any)["balance"]; got != 49.0 {
		t.Errorf("after a restart the balance is %v, want 49", got)
	}
}

// The greeting begins with addresses, which answer, and says how to turn the operators' pages on where they are off.
func TestGreeting_OperatorsPages_AnswerOrAreSaidToBeOff(t *testing.T) {
	n := start(t, filepath.Join(t.TempDir(), "data"), "LETTERHEAD_STARTER=off")
	address := n.out.waitFor(t, `serves on \S+\n  first page .*\n  admin API    (\S+)\n`, n.done)[1]
	answer := testmust.Get(http.Get(address))(t)
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("%s answers %d", address, answer.StatusCode)
	}
	n = &node{t: t, out: newOutput(), cmd: exec.Command(binary, "serve", "--data", filepath.Join(t.TempDir(), "data"), "--listen", "0.0.0.0:0")}
	n.cmd.Env = environ("LETTERHEAD_REFRESH=off", "LETTERHEAD_STARTER=off")
	n.cmd.Stdout, n.cmd.Stderr = n.out, n.out
	n.run()
	n.out.waitFor(t, `serves on \S+\n  first page .*\n  operators    off; LETTERHEAD_ADMIN_LISTEN=127.0.0.1:8090 turns their pages on\n`, n.done)
}

// keyIn returns a key from the file that the first start wrote.
func keyIn(t *testing.T, path, kind, pattern string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	testmust.Succeed(t, err)
	found := regexp.MustCompile(`(?m)^LETTERHEAD_` + kind + `_KEY=(` + pattern + `)$`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("%s has no %s key", path, kind)
	}
	return string(found[1])
}

// A server that is killed during an import resumes it at the next start and imports no brand twice.
func TestImport_Interrupted_Resumes(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	n := launch(t, data)
	n.out.waitFor(t, `import`, n.done)
	n.kill()
	start(t, data)
	imported := map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(ok(t, data, "events", "tail", "--from", "0", "--no-follow", "--type", "BrandImported", "--json")), "\n") {
		var ev struct{ Stream string }
		decode(t, line, &ev)
		imported[ev.Stream]++
	}
	if len(imported) < 2500 {
		t.Errorf("%d brands were imported, want at least 2,500", len(imported))
	}
	for stream, times := range imported {
		if times != 1 {
			t.Errorf("%s was imported %d times, want once", stream, times)
		}
	}
}

// Whenever the server is killed, every answered look-up is in the ledger, and all chains, counts and read models agree
// afterwards.
// Rule 2.
func TestKill_UnderLoad_LosesNoAnsweredCharge(t *testing.T) {
	data := folder(t)
	n := start(t, data)
	acc, key := account(t, data, "custom")
	answered := map[string]bool{}
	for round := range 5 {
		var mu sync.Mutex
		var wg sync.WaitGroup
		enough := make(chan struct{})
		var once sync.Once
		for range 16 {
			wg.Go(func() {
				for {
					a, err := n.get("/v1/brands/github.com", key)
					if err != nil {
						return
					}
					if a.status != http.StatusOK {
						once.Do(func() { close(enough) }) // no more credits, or the limit per minute is reached
						return
					}
					mu.Lock()
					answered[a.header.Get("X-Request-Id")] = true
					if len(answered) >= (round+1)*8 {
						once.Do(func() { close(enough) })
					}
					mu.Unlock()
				}
			})
		}
		<-enough
		n.kill()
		wg.Wait()
		n = start(t, data)
	}
	charged := map[string]int{}
	var last ledgerLine
	for _, l := range ledgerOf(t, data, acc.Account.ID) {
		last = l
		if l.Type == "CreditsCharged" {
			charged[l.RequestID]++
		}
	}
	for id := range answered {
		if charged[id] != 1 {
			t.Errorf("request %s was answered but charged %d times, want once", id, charged[id])
		}
	}
	if want := int64(50 - len(charged)); last.Balance != want {
		t.Errorf("the balance is %d after %d charges of 1 credit from 50", last.Balance, len(charged))
	}
	ok(t, data, "ledger", "verify")
	ok(t, data, "projections", "verify")
	n.stop()
	ok(t, data, "projections", "verify") // without a server
}

func TestServe_FolderHeldByServer_Fails(t *testing.T) {
	data := folderWithoutStarter(t)
	start(t, data, "LETTERHEAD_STARTER=off")
	second := launch(t, data, "LETTERHEAD_STARTER=off")
	<-second.done
	if second.cmd.ProcessState.ExitCode() == 0 || !strings.Contains(second.out.String(), "in use") {
		t.Fatalf("the second server ended with %d and printed: %s", second.cmd.ProcessState.ExitCode(), second.out)
	}
}

// A server that starts while a command uses the folder reports that it waits, and serves after the command has ended.
func TestServe_FolderHeldByCommand_Waits(t *testing.T) {
	data := folderWithoutStarter(t)
	start(t, data, "LETTERHEAD_STARTER=off").stop()
	holder := exec.Command(binary, "--data", data, "events", "tail", "--from", "0")
	holder.Env = environ()
	printed := newOutput()
	holder.Stdout, holder.Stderr = printed, printed
	testmust.Succeed(t, holder.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		holder.Wait()
	}()
	printed.waitFor(t, "AccountOpened", ended) // the command has opened the folder
	n := launch(t, data, "LETTERHEAD_STARTER=off")
	n.out.waitFor(t, "waiting for it to end", n.done)
	testmust.Succeed(t, holder.Process.Signal(os.Interrupt))
	<-ended
	n.ready()
}

func TestServe_DamagedLog_IsNamedAndUnchanged(t *testing.T) {
	data := folder(t)
	n := start(t, data)
	n.stop()
	path := filepath.Join(data, "events.db")
	whole, err := os.ReadFile(path)
	testmust.Succeed(t, err)
	cut := whole[:len(whole)/2]
	testmust.Succeed(t, os.WriteFile(path, cut, 0o600))
	broken := launch(t, data)
	<-broken.done
	printed := broken.out.String()
	if broken.cmd.ProcessState.ExitCode() == 0 || !strings.Contains(printed, "events.db") || !strings.Contains(printed, "backup") {
		t.Fatalf("the server with a truncated log ended with %d and printed: %s", broken.cmd.ProcessState.ExitCode(), printed)
	}
	testmust.Succeed(t, os.WriteFile(path, whole, 0o600))
	start(t, data) // fails if the failed launch changed other files
}

func TestServe_FolderOfNewerRelease_Fails(t *testing.T) {
	data := t.TempDir()
	newer, err := json.Marshal(map[string]any{"format": 99, "written_by": "v9.9.9"})
	testmust.Succeed(t, err)
	testmust.Succeed(t, os.WriteFile(filepath.Join(data, "format.json"), newer, 0o600))
	n := launch(t, data)
	<-n.done
	if n.cmd.ProcessState.ExitCode() == 0 || !strings.Contains(n.out.String(), "v9.9.9") {
		t.Fatalf("the server ended with %d and printed: %s", n.cmd.ProcessState.ExitCode(), n.out)
	}
}
