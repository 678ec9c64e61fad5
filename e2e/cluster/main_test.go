//go:build services

package cluster

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"letterhead/e2e/program"
	"letterhead/internal/testwait"
)

// Bounds on waiting for other processes. They end a hanging test; no test measures with them.
const (
	// readyWithin is for a node to serve: the first one also loads the starter index through every part.
	readyWithin = 120 * time.Second
	// exitWithin is for a node to stop when asked; it may finish a crawl first.
	exitWithin = 30 * time.Second
	// settledWithin bounds the time until all counts are final: read models caught up, charges without
	// an answer reversed.
	settledWithin = 60 * time.Second
)

// figures reports whether the tests that measure run.
var figures = flag.Bool("figures", false, "measure, and print the figures")

var (
	binary  string // the program under test
	standin string // tools/esdb-standin, built
	// scratch holds everything that the tests write: data folders, logs, the binary. Its path is short,
	// because sockets lie in data folders.
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
	if standin, err = program.BuildStandin(scratch); err != nil {
		return 1, err
	}
	code := m.Run()
	return code, endShared()
}

// environ is the environment of a child: none of the developer's own settings.
func environ(extra ...string) []string {
	return program.Environ(filepath.Join(scratch, "cache"), extra...)
}

// until waits for a condition, and fails the test if it does not hold within the bound.
func until(t testing.TB, within time.Duration, what string, so func() bool) time.Duration {
	t.Helper()
	took, ok := testwait.Until(within, so)
	if !ok {
		t.Fatalf("after %s still not true: %s", within, what)
	}
	return took
}
