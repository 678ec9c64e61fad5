//go:build lab

package lab

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"letterhead/internal/testprocess"
	"letterhead/tools/e2e/program"
)

const (
	readyTimeout  = 60 * time.Second
	clientTimeout = 30 * time.Second
	// maxShownLog is how many bytes of a server's log a failure prints.
	maxShownLog = 8000
	// credits are granted to the account of each server. All tests together spend less.
	credits = "5000"
)

var client = &http.Client{Timeout: clientTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// server runs the built binary with `serve`.
type server struct {
	base, data, logs string
	listen           string
	environment      []string
	account, secret  string
	cgroup           *testprocess.Group // the cgroup of the process; nil for none
	process          *os.Process
	kill             func()        // kills the process and waits for its end
	exited           chan struct{} // closed when the process has ended
	exitErr          error         // the error of Wait
}

// start starts a server with a new data folder and creates an account with credits.
func start(port int, environment ...string) (*server, error) {
	return startIn(nil, port, environment...)
}

// startIn is like start, with the process in a cgroup.
func startIn(cgroup *testprocess.Group, port int, environment ...string) (*server, error) {
	data, err := os.MkdirTemp("", "lab-data-")
	if err != nil {
		return nil, err
	}
	listen := fmt.Sprintf("127.0.0.1:%d", port)
	s := &server{base: "http://" + listen, listen: listen, data: data, logs: data + ".log", environment: environment, cgroup: cgroup, kill: func() {}}
	if err := errors.Join(s.run(), s.createAccount()); err != nil {
		err = fmt.Errorf("%w\nthe server's log ends:\n%s", err, s.logTail())
		s.stop()
		return nil, err
	}
	return s, nil
}

// run starts the process on the existing data folder.
func (s *server) run() error {
	logs, err := os.Create(s.logs)
	if err != nil {
		return err
	}
	defer logs.Close() // the process has its own descriptor
	command := exec.Command
	if s.cgroup != nil {
		command = s.cgroup.Command
	}
	cmd := command(os.Getenv("LETTERHEAD_BINARY"), "serve", "--data", s.data, "--listen", s.listen)
	// Rate limits must not affect these tests.
	cmd.Env = append(os.Environ(), "LETTERHEAD_CRAWLS_PER_MINUTE=10000", "LETTERHEAD_PLAN_CRAWLS=free=10,starter=30,growth=60,custom=10000")
	cmd.Env = append(cmd.Env, s.environment...)
	cmd.Stdout, cmd.Stderr = logs, logs
	if err := cmd.Start(); err != nil {
		return err
	}
	s.process, s.exited = cmd.Process, make(chan struct{})
	go func() {
		s.exitErr = cmd.Wait()
		close(s.exited)
	}()
	s.kill = func() {
		cmd.Process.Kill()
		<-s.exited
	}
	return program.AwaitServing(s.base+"/readyz", readyTimeout, s.exited)
}

func (s *server) stop() {
	s.kill()
	os.RemoveAll(s.data)
	os.Remove(s.logs)
}

// startWarm starts a server for measurements. An earlier process compiles the renderer, because the garbage of the
// compilation would distort the memory of crawls.
func startWarm(t testing.TB, port int, environment ...string) *server {
	t.Helper()
	s := startServer(t, port, environment...)
	s.crawlOnce(t)
	s.restart(t)
	return s
}

// restart replaces the process by a new one on the same data folder, which crawls one site to fill its caches.
func (s *server) restart(t testing.TB) {
	t.Helper()
	s.kill()
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
	s.crawlOnce(t)
}

func (s *server) crawlOnce(t testing.TB) {
	t.Helper()
	if a := s.lookup(t, "good-lab.com", "?refresh=true"); a.status != http.StatusOK {
		t.Fatalf("answered %s", a)
	}
}

// startServer starts a server for one test.
func startServer(t testing.TB, port int, environment ...string) *server {
	t.Helper()
	s, err := start(port, environment...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}

// createAccount creates the account and grants credits to it.
func (s *server) createAccount() error {
	out, err := s.letterhead("account", "create", "--name", "Lab", "--plan", "custom", "--json")
	if err != nil {
		return err
	}
	var created struct {
		Account struct{ ID string }
		Keys    []struct{ Kind, Key string }
	}
	if err := json.Unmarshal(out, &created); err != nil {
		return err
	}
	s.account = created.Account.ID
	for _, k := range created.Keys {
		if k.Kind == "secret" {
			s.secret = k.Key
		}
	}
	_, err = s.letterhead("credits", "grant", "--account", s.account, "--amount", credits, "--kind", "adjustment", "--reason", "test")
	return err
}

// logTail returns the end of the server's log.
func (s *server) logTail() string {
	text, _ := os.ReadFile(s.logs)
	return string(text[max(0, len(text)-maxShownLog):])
}

// letterhead runs a command on the server's data folder.
func (s *server) letterhead(args ...string) ([]byte, error) {
	cmd := exec.Command(os.Getenv("LETTERHEAD_BINARY"), append([]string{"--data", s.data}, args...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("letterhead %s: %w: %s", strings.Join(args, " "), err, errs.String())
	}
	return out, nil
}

type brand struct {
	Name        *string
	Domain      string
	Description *string
	Status      string
	IsNSFW      bool
	OGImage     *string
	Links       []struct{ Name, URL string }
	Colors      []struct{ Hex, Type string }
	Logos       []struct {
		Type    string
		Theme   *string
		Formats []struct {
			Src, Format   string
			Width, Height *int
		}
	}
	Error struct{ Code, Message string }
}

// files counts the files of all logos.
func (b *brand) files() int {
	n := 0
	for _, l := range b.Logos {
		n += len(l.Formats)
	}
	return n
}

type answer struct {
	status  int
	header  http.Header
	brand   brand
	body    []byte
	elapsed time.Duration
}

func (a answer) String() string {
	return fmt.Sprintf("%d %s, name %q, %d logos, after %s", a.status, a.brand.Error.Code, deref(a.brand.Name), len(a.brand.Logos), a.elapsed.Round(time.Millisecond))
}

// lookup requests a brand.
func (s *server) lookup(t testing.TB, identifier, query string) answer {
	t.Helper()
	a, err := s.ask(identifier, query)
	if err != nil {
		t.Fatalf("%s: %v", identifier, err)
	}
	return a
}

// ask is like lookup, for goroutines that may not call t.Fatal.
func (s *server) ask(identifier, query string) (answer, error) {
	req, err := http.NewRequest(http.MethodGet, s.base+"/v1/brands/"+identifier+query, nil)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Authorization", "Bearer "+s.secret)
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: resp.StatusCode, header: resp.Header, body: body, elapsed: time.Since(began)}
	if err := json.Unmarshal(body, &a.brand); err != nil {
		return a, fmt.Errorf("answered %d, not JSON: %s", resp.StatusCode, body)
	}
	return a, nil
}

// charges returns the cost of a request according to the ledger, and fails the test if a hold of it did not end.
func (s *server) charges(t testing.TB, requestID string) int {
	t.Helper()
	out, err := s.letterhead("ledger", "show", "--account", s.account, "--request-id", requestID, "--json")
	if err != nil {
		t.Fatal(err)
	}
	charged, openHolds := 0, 0
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		var l struct {
			Type   string
			Amount int
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		switch l.Type {
		case "CreditsHeld":
			openHolds++
		case "CreditsCharged":
			charged -= l.Amount
			openHolds--
		case "HoldReleased":
			openHolds--
		}
	}
	if openHolds > 0 {
		t.Errorf("request %s left a hold", requestID)
	}
	return charged
}

// fetchFile fetches a file of a record and returns its bytes.
func fetchFile(t testing.TB, src, format string) []byte {
	t.Helper()
	resp, err := client.Get(src)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || len(body) == 0 {
		t.Fatalf("%s: %d, %d bytes, %v", src, resp.StatusCode, len(body), err)
	}
	want := map[string]string{"svg": "image/svg+xml", "png": "image/png", "webp": "image/webp", "jpeg": "image/jpeg"}[format]
	if got := resp.Header.Get("Content-Type"); got != want {
		t.Errorf("Content-Type of %s = %s, want %s", src, got, want)
	}
	return body
}

// cpu returns the CPU time that the server has used so far.
func (s *server) cpu(t testing.TB) time.Duration {
	t.Helper()
	return mustRead(t, testprocess.ID(s.process.Pid).CPUTime)
}

// resident returns the server's resident memory in bytes.
func (s *server) resident(t testing.TB) int64 {
	t.Helper()
	return mustRead(t, testprocess.ID(s.process.Pid).Resident)
}

// peak returns the maximum of the resident memory since resetPeak.
func (s *server) peak(t testing.TB) int64 {
	t.Helper()
	return mustRead(t, testprocess.ID(s.process.Pid).Peak)
}

func mustRead[T any](t testing.TB, read func() (T, error)) T {
	t.Helper()
	value, err := read()
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// resetPeak sets the peak to the present resident memory.
func (s *server) resetPeak(t testing.TB) {
	t.Helper()
	if err := testprocess.ID(s.process.Pid).ForgetPeak(); err != nil {
		t.Fatal(err)
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
