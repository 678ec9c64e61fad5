//go:build services

package cluster

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"letterhead/internal/testwait"
	"letterhead/tools/e2e/program"
)

// Timeouts for other processes. They only stop tests that hang, and are no performance targets.
const (
	// readyWithin is for a node to become ready; the first one also loads the starter index.
	readyWithin = 120 * time.Second
	// exitWithin is for a node to stop after SIGTERM; it may finish a crawl first.
	exitWithin = 30 * time.Second
	// settledWithin is for all counts to become final: read models have caught up, unanswered charges are reversed.
	settledWithin = 60 * time.Second
)

// figures enables the tests that measure.
var figures = flag.Bool("figures", false, "measure, and print the figures")

// Sizes of TestMixedRequests.
var (
	mixedRequests = flag.Int("requests", 2000, "mixed requests")
	mixedFaults   = flag.Int("faults", 6, "faults during the mixed requests")
)

var (
	binary  string // the program under test
	standin string // tools/esdb-standin, built
	// scratch contains everything that the tests write: data folders, logs, the binary. Its path is short, because data
	// folders contain Unix sockets, whose paths have a maximum length.
	scratch string
)

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	var err error
	if scratch, err = os.MkdirTemp("", "lhc-"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(scratch)
	if binary = os.Getenv("LETTERHEAD_BINARY"); binary == "" {
		if binary, err = program.Build(scratch); err != nil {
			return 1, err
		}
	}
	if standin, err = program.BuildCommand(scratch, "letterhead/tools/esdb-standin"); err != nil {
		return 1, err
	}
	code := m.Run()
	return code, endShared()
}

// environ returns the environment of a child process, without the developer's settings.
func environ(extra ...string) []string {
	return program.Environ(filepath.Join(scratch, "cache"), extra...)
}

// until waits for a condition, and fails the test if it does not become true in time.
func until(t testing.TB, within time.Duration, what string, condition func() bool) time.Duration {
	t.Helper()
	took, ok := testwait.Until(within, condition)
	if !ok {
		t.Fatalf("timeout after %s, waiting for: %s", within, what)
	}
	return took
}
