// Package e2e runs the built binary as a user would: over HTTP, over its command line, and with kill -9.
package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"letterhead/internal/testmust"
	"letterhead/tools/e2e/program"
)

// Time limits for child processes. They only end hanging tests.
const (
	readyTimeout = 60 * time.Second
	exitTimeout  = 30 * time.Second
)

var binary string

// givenBinary is the environment variable with a binary that is used instead of building one.
const givenBinary = "LETTERHEAD_E2E_BINARY"

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "letterhead-e2e-")
	if err != nil {
		panic(err)
	}
	templates = dir
	if binary = os.Getenv(givenBinary); binary == "" {
		if binary, err = program.Build(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// node is one running `letterhead serve`.
type node struct {
	t    testing.TB
	data string
	url  string // set when the server listens
	cmd  *exec.Cmd
	out  *output
	done chan struct{}
}

// output collects what a process prints and lets tests wait for a line.
type output struct {
	mu    sync.Mutex
	text  bytes.Buffer
	grown chan struct{}
}

func newOutput() *output { return &output{grown: make(chan struct{})} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p)
	close(o.grown)
	o.grown = make(chan struct{})
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// waitFor waits until the output matches a pattern and returns the submatches of the first match.
func (o *output) waitFor(t testing.TB, pattern string, ended <-chan struct{}) []string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	limit := time.After(readyTimeout)
	for {
		o.mu.Lock()
		text, grown := o.text.String(), o.grown
		o.mu.Unlock()
		if m := re.FindStringSubmatch(text); m != nil {
			return m
		}
		select {
		case <-grown:
		case <-ended:
			if m := re.FindStringSubmatch(o.String()); m != nil {
				return m
			}
			t.Fatalf("the process ended without printing %q; it printed:\n%s", pattern, o)
		case <-limit:
			t.Fatalf("the process did not print %q in time; it printed:\n%s", pattern, o)
		}
	}
}

// environ returns the environment of a child process, without the developer's settings and with a separate cache.
func environ(extra ...string) []string { return program.Environ(filepath.Dir(binary), extra...) }

// launch starts a server without waiting until it is ready.
func launch(t testing.TB, data string, env ...string) *node {
	t.Helper()
	return launchBinary(t, binary, data, env...)
}

// launchBinary starts the server of a binary without waiting until it is ready.
func launchBinary(t testing.TB, file, data string, env ...string) *node {
	t.Helper()
	n := &node{t: t, data: data, out: newOutput()}
	n.cmd = exec.Command(file, "serve", "--data", data, "--listen", anyPort)
	n.cmd.Env = environ(append([]string{"LETTERHEAD_REFRESH=off"}, env...)...)
	n.cmd.Stdout, n.cmd.Stderr = n.out, n.out
	n.run()
	return n
}

// anyPort is an address whose port the system chooses, so that no other process can take it before the server listens.
const anyPort = "127.0.0.1:0"

// run starts the process, which is killed when the test ends.
func (n *node) run() {
	n.t.Helper()
	testmust.Succeed(n.t, n.cmd.Start())
	n.done = make(chan struct{})
	go func() {
		defer close(n.done)
		n.cmd.Wait()
	}()
	n.t.Cleanup(n.kill)
}

// listening waits until the server has logged the address on which it listens.
func (n *node) listening() {
	n.t.Helper()
	n.url = "http://" + n.out.waitFor(n.t, `msg=serving listen=(\S+)`, n.done)[1]
}

// start starts a server and waits until /readyz answers 200.
func start(t testing.TB, data string, env ...string) *node {
	t.Helper()
	n := launch(t, data, env...)
	n.ready()
	return n
}

// ready waits until the server is ready.
func (n *node) ready() {
	n.t.Helper()
	n.listening()
	if err := program.AwaitServing(n.url+"/readyz", readyTimeout, n.done); err != nil {
		n.t.Fatalf("%v:\n%s", err, n.out)
	}
}

// kill sends SIGKILL.
func (n *node) kill() {
	select {
	case <-n.done:
		return
	default:
	}
	n.cmd.Process.Kill()
	<-n.done
}

// stop sends SIGTERM and expects exit status 0.
func (n *node) stop() {
	n.t.Helper()
	testmust.Succeed(n.t, n.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-n.done:
	case <-time.After(exitTimeout):
		n.t.Fatalf("SIGTERM did not end the server:\n%s", n.out)
	}
	if code := n.cmd.ProcessState.ExitCode(); code != 0 {
		n.t.Fatalf("the server ended with %d after SIGTERM, want 0:\n%s", code, n.out)
	}
}

// answer is an HTTP response with its body.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) json(t testing.TB) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("the answer %d is not a JSON object: %v\n%s", a.status, err, a.body)
	}
	return v
}

// get sends a GET request with a key, or without one if key is "".
func (n *node) get(path, key string) (answer, error) {
	req, err := http.NewRequest(http.MethodGet, n.url+path, nil)
	if err != nil {
		return answer{}, err
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, body}, err
}

// want sends a GET request and fails the test on any other status.
func (n *node) want(status int, path, key string) answer {
	n.t.Helper()
	a, err := n.get(path, key)
	if err != nil {
		n.t.Fatalf("GET %s: %v", path, err)
	}
	if a.status != status {
		n.t.Fatalf("GET %s answered %d, want %d: %s", path, a.status, status, a.body)
	}
	return a
}

// letterhead runs a command on a data folder and returns its output and exit code.
func letterhead(t testing.TB, data string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"--data", data}, args...)...)
	cmd.Env = environ()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if _, isExit := err.(*exec.ExitError); err != nil && !isExit {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// ok runs a command and fails the test if the command fails.
func ok(t testing.TB, data string, args ...string) string {
	t.Helper()
	out, errs, code := letterhead(t, data, args...)
	if code != 0 {
		t.Fatalf("letterhead %s ended with %d: %s%s", strings.Join(args, " "), code, out, errs)
	}
	return out
}

type created struct {
	Account struct{ ID, Name, Plan, Status string }
	Credits struct{ Balance int64 }
	Keys    []struct{ ID, Kind, Key, Last4 string }
}

// account creates an account and returns it with its secret key.
func account(t testing.TB, data, plan string) (created, string) {
	t.Helper()
	var c created
	decode(t, ok(t, data, "account", "create", "--name", "Acme", "--plan", plan, "--json"), &c)
	for _, k := range c.Keys {
		if k.Kind == "secret" {
			return c, k.Key
		}
	}
	t.Fatal("account create printed no secret key")
	return c, ""
}

func decode(t testing.TB, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("decode JSON: %v\n%s", err, text)
	}
}

type ledgerLine struct {
	Position  uint64
	Revision  uint64
	Type      string
	At        time.Time
	Amount    int64
	Balance   int64
	RequestID string `json:"request_id"`
	Domain    string
	KeyID     string `json:"key_id"`
}

func ledgerOf(t testing.TB, data, accountID string, flags ...string) []ledgerLine {
	t.Helper()
	text := ok(t, data, append([]string{"ledger", "show", "--account", accountID, "--json"}, flags...)...)
	var lines []ledgerLine
	scan := bufio.NewScanner(strings.NewReader(text))
	for scan.Scan() {
		var l ledgerLine
		decode(t, scan.Text(), &l)
		lines = append(lines, l)
	}
	return lines
}
