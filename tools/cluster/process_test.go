//go:build services

package cluster

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"letterhead/internal/testlink"
	"letterhead/tools/e2e/program"
)

const (
	// shownLog is the number of bytes of a process's log that a failed test prints.
	shownLog = 6000
	// commandWithin is the timeout of one operator command.
	commandWithin = 120 * time.Second
	// probeWithin is the timeout of one request for a node's readiness or metrics.
	probeWithin = 2 * time.Second
)

// process is a process of the binary that can be killed, frozen and restarted with the same arguments.
type process struct {
	name    string
	args    []string
	env     []string
	log     string // log file of all its runs
	release string // path of the program if it is not the binary under test

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when the current run has exited
}

func newProcess(name string, env []string, args ...string) *process {
	return &process{name: name, args: args, env: env, log: filepath.Join(scratch, name+".log")}
}

// newEventStore prepares a stand-in for an EventStoreDB server.
func newEventStore(name, listen string, args ...string) *process {
	p := newProcess(name, nil, append([]string{"--listen", listen}, args...)...)
	p.release = standin
	return p
}

// start runs the process.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	logs, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer logs.Close() // the process has its own descriptor
	cmd := exec.Command(cmp.Or(p.release, binary), p.args...)
	cmd.Env = environ(p.env...)
	cmd.Stdout, cmd.Stderr = logs, logs
	// The kernel kills the process if the test program is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	done := make(chan struct{})
	p.cmd, p.done = cmd, done
	go func() {
		defer close(done)
		_ = cmd.Wait() // ProcessState has the result
	}()
	return nil
}

func (p *process) life() (*exec.Cmd, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd, p.done
}

func (p *process) alive() bool {
	cmd, done := p.life()
	if cmd == nil {
		return false
	}
	select {
	case <-done:
		return false
	default:
		return true
	}
}

func (p *process) signal(s syscall.Signal) error {
	cmd, _ := p.life()
	if cmd == nil {
		return fmt.Errorf("%s was never started", p.name)
	}
	if err := cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: %s: %w", p.name, s, err)
	}
	return nil
}

// kill sends SIGKILL, which also ends a frozen process.
func (p *process) kill() {
	if !p.alive() {
		return
	}
	cmd, done := p.life()
	_ = cmd.Process.Kill() // it may have exited by itself
	<-done
}

// freeze pauses the process. Its connections stay open but do not answer.
func (p *process) freeze() error { return p.signal(syscall.SIGSTOP) }

// thaw resumes a frozen process.
func (p *process) thaw() error { return p.signal(syscall.SIGCONT) }

// stop sends SIGTERM and expects exit status 0.
func (p *process) stop() error {
	cmd, done := p.life()
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-done:
	case <-time.After(exitWithin):
		p.kill()
		return fmt.Errorf("%s did not stop within %s of SIGTERM", p.name, exitWithin)
	}
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s exited with %d after SIGTERM, want 0", p.name, code)
	}
	return nil
}

func (p *process) logSize() int64 {
	info, err := os.Stat(p.log)
	if err != nil {
		return 0
	}
	return info.Size()
}

// output returns the end of the process's log after an offset, without the lines about single requests.
func (p *process) output(after int64) string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return ""
	}
	var kept strings.Builder
	for line := range strings.Lines(string(text[min(after, int64(len(text))):])) {
		if !strings.Contains(line, " msg=request ") && !strings.Contains(line, ` msg="admin request" `) {
			kept.WriteString(line)
		}
	}
	out := kept.String()
	if len(out) > shownLog {
		out = "…" + out[len(out)-shownLog:]
	}
	return out
}

var probes = &http.Client{Timeout: probeWithin, Transport: &http.Transport{DisableKeepAlives: true}}

// node is a `letterhead serve` with its own data folder.
type node struct {
	*process
	data  string
	url   string
	admin string // URL of its admin API
	roles string
	// links are the connections of this node to the services. A test can make them hang or fail for this node alone.
	links map[string]*testlink.Link
}

// setting returns the value of a setting of the node.
func (n *node) setting(name string) string {
	for _, kv := range n.env {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}

// ready reports whether the node's readiness probe succeeds.
func (n *node) ready() bool {
	return n.alive() && program.Serves(n.url+"/readyz")
}

// accepts reports whether the node accepts connections.
func (n *node) accepts() bool {
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(n.url, "http://"), probeWithin)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// metric returns the sum of the samples of the node's metrics whose lines have a prefix. ok is false if there are none.
func (n *node) metric(begins string) (sum float64, ok bool) {
	return metricAt(n.url+"/metrics", begins)
}

func metricAt(url, begins string) (sum float64, ok bool) {
	resp, err := probes.Get(url)
	if err != nil {
		return 0, false
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, begins) {
			continue
		}
		var value float64
		if _, err := fmt.Sscanf(line[strings.LastIndexByte(strings.TrimSpace(line), ' ')+1:], "%g", &value); err == nil {
			sum, ok = sum+value, true
		}
	}
	return sum, ok
}

// letterhead runs an operator command on the node's data folder. While the node runs, it executes the command.
func (n *node) letterhead(args ...string) (stdout string, err error) {
	stdout, err = commandOf(cmp.Or(n.release, binary), n.env, append([]string{"--data", n.data}, args...)...)
	if err != nil {
		err = fmt.Errorf("on %s: %w", n.name, err)
	}
	return stdout, err
}

// command runs the binary under test with settings and arguments, and returns its standard output.
func command(env []string, args ...string) (stdout string, err error) {
	return commandOf(binary, env, args...)
}

func commandOf(release string, env []string, args ...string) (stdout string, err error) {
	cmd := exec.Command(release, args...)
	cmd.Env = environ(env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		return "", err
	}
	over := time.AfterFunc(commandWithin, func() { _ = cmd.Process.Kill() })
	err = cmd.Wait()
	if !over.Stop() {
		err = fmt.Errorf("timeout after %s", commandWithin)
	}
	if err != nil {
		return out.String(), fmt.Errorf("letterhead %s: %w\n%s%s", strings.Join(args, " "), err, out.String(), errs.String())
	}
	return out.String(), nil
}

// must runs an operator command and fails the test if the command fails.
func (n *node) must(t testing.TB, args ...string) string {
	t.Helper()
	out, err := n.letterhead(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
