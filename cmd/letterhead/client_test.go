package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"letterhead/adminapi"
	"letterhead/internal/testmust"
	"letterhead/node/admin"
	"letterhead/node/datafolder"
)

// answering has a server that answers with these handlers hold a new folder until the test ends.
func answering(t *testing.T, run admin.Runner, api http.Handler, logs io.Writer) (folder string) {
	t.Helper()
	folder = t.TempDir()
	testmust.Succeed(t, openFolder(t, folder).Close())
	lock := testmust.Get(datafolder.Acquire(folder, datafolder.MustExist, version))(t)
	t.Cleanup(func() { _ = lock.Release() })
	serveSocket(t, folder, run, api, logs)
	return folder
}

func serveSocket(t *testing.T, folder string, run admin.Runner, api http.Handler, logs io.Writer) (stop func()) {
	t.Helper()
	server := testmust.Get(admin.Serve(folder, run, api, slog.New(slog.NewTextHandler(logs, nil))))(t)
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			if err := server.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(stop)
	return stop
}

// ends runs a command, whose error must have a part, and must not have another one unless that is empty.
func ends(t *testing.T, args []string, code int, with, without string) (stderr string) {
	t.Helper()
	got, _, stderr := commandLine(t.Context(), args...)
	if got != code || !strings.Contains(stderr, with) || without != "" && strings.Contains(stderr, without) {
		t.Errorf("%v ended with %d: %s; want %d, %q and not %q", args, got, stderr, code, with, without)
	}
	return stderr
}

func TestClient_ServerHasLostEvents_ExitsWithItsCode(t *testing.T) {
	folder := answering(t, nil, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, `{"error":{"code":%q,"message":"events are missing"}}`, adminapi.CodeLogLost)
	}), io.Discard)
	for _, args := range []string{"account list", "account note a text", "books close 2026-01"} {
		ends(t, strings.Fields(args+" --data "+folder), exitLoss, "events are missing", "--repeat")
	}
}

// A connection breaks after the request, whose act is done. The command says so, and does nothing twice with its key.
func TestClient_ConnectionBreaks_RepeatIsDoneOnce(t *testing.T) {
	folder, id := openAccount(t)
	n := openNode(t, folder)
	api := testmust.Get(n.CommandAPI(t.Context()))(t)
	stop := serveSocket(t, folder, nil, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		api.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}), io.Discard)
	command := func(args string) []string { return strings.Fields(args + " --data " + folder) }
	grant := "credits grant --reason test --kind adjustment --amount 5 --account " + id
	const may = "may have been carried out"
	interrupted := func(args string) string {
		said := ends(t, command(args), exitFailure, may, "run it again")
		key := regexp.MustCompile(` --repeat [0-9a-f-]{36}( --expires .*)?`).FindString(said)
		if key == "" {
			t.Fatalf("the command printed no key: %s", said)
		}
		return key
	}
	key := interrupted(grant)
	secrets := []string{"key issue --expires 90d --account " + id, "account create --name Beta",
		"admin token issue --name t --scope read --expires 90d"}
	for i, args := range secrets {
		secrets[i] += interrupted(args)
	}
	ends(t, command("payment fee p1 --money 1"), exitFailure, may+"; to try again, repeat the command with --fee-id",
		"--repeat")
	ends(t, command("account plan "+id+" free"), exitFailure, may+"; run it again\n", "--repeat")
	ends(t, command("account login-link --account "+id), exitFailure,
		may+"; run it again (each run issues another link)\n", "--repeat")
	ends(t, command("account list"), exitFailure, "broke", may)
	stop()
	ends(t, command(grant), exitFailure, "try again in a moment", may)
	testmust.Succeed(t, n.Close())
	for range 2 {
		if said := output(t, folder, strings.Fields(grant+key)...); !strings.Contains(said, "balance 55") {
			t.Errorf("the repeat printed %s", said)
		}
	}
	for _, args := range secrets {
		said := output(t, folder, strings.Fields(args)...)
		revoke := regexp.MustCompile(`\(letterhead (.+)\)`).FindStringSubmatch(said)
		if !strings.Contains(said, "is lost") || strings.Contains(said, "only now") || revoke == nil {
			t.Errorf("%s printed %s", args, said)
			continue
		}
		output(t, folder, strings.Fields(revoke[1])...)
	}
	ends(t, command(grant+" --repeat 1"), exitUsage, "--repeat takes", "")
	ends(t, command(grant+" --repeat urn:uuid:"+strings.Fields(key)[1]), exitUsage, "--repeat takes", "")
	ends(t, command("account note "+id+" text"+key), exitUsage, "--repeat has the key of another command", "")
}

func TestForward_ConnectionBreaks_SaysWhatMayBeDone(t *testing.T) {
	broken := func(context.Context, []string, io.Writer, io.Writer) int { panic(http.ErrAbortHandler) }
	folder := answering(t, broken, nil, io.Discard)
	const may = `may have been carried out: run "letterhead names" to see`
	ends(t, []string{"names", "repair", "a", "--erase", "--data", folder}, exitFailure, may, "")
	ends(t, []string{"doctor", "--data", folder}, exitFailure, "broke", may)
}

func TestClient_Interrupted_SaysSo(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	folder := answering(t, nil, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		interrupt()
		<-r.Context().Done()
	}), io.Discard)
	_, _, said := commandLine(ctx, "account", "plan", "a", "free", "--data", folder)
	if said != "letterhead: interrupted before the server answered; it may have been carried out; run it again\n" {
		t.Errorf("the command printed %s", said)
	}
}

func TestIfUnanswered_NamedCommands_Exist(t *testing.T) {
	root, command := newRoot(&environment{}), regexp.MustCompile(`"letterhead (.+)"`)
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, named := range command.FindAllStringSubmatch(c.Annotations[ifUnanswered], -1) {
			found, rest, err := root.Find(strings.Fields(named[1]))
			if err != nil || !found.Runnable() || found.ValidateArgs(rest) != nil {
				t.Errorf("%s names %s, which cannot be run: %v", c.CommandPath(), named[1], err)
			}
		}
		for _, child := range c.Commands() {
			walk(child)
		}
	}
	walk(root)
}

func TestForward_CommandPanicsInServer_FailsWithoutStack(t *testing.T) {
	var deep func(int) int
	deep = func(n int) int {
		if n == 0 {
			panic("test")
		}
		return deep(n - 1)
	}
	var logs bytes.Buffer
	run := func(context.Context, []string, io.Writer, io.Writer) int { return deep(200) }
	folder := answering(t, run, nil, &logs)
	ends(t, []string{"events", "tail", "--data", folder}, exitFailure, "letterhead: panic: test\n", "goroutine")
	if logged := logs.Len(); logged == 0 || logged > 16<<10 {
		t.Errorf("%d bytes are logged: %s", logged, logs.String())
	}
}
