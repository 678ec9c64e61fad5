//go:build services

package cluster

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Bounds of waiting for other processes. They end a hanging test; nothing is measured by them.
const (
	// readyWithin is for a node to serve: the first one also loads the starter index through every part.
	readyWithin = 120 * time.Second
	// exitWithin is for a node to stop when asked; it may finish a crawl first.
	exitWithin = 30 * time.Second
	// settledWithin is for what was begun to be counted everywhere: read models caught up, charges without
	// an answer handed back.
	settledWithin = 60 * time.Second
	// lookEvery is the pause between two looks at another process.
	lookEvery = 50 * time.Millisecond
)

// figures says whether the tests that measure run.
var figures = flag.Bool("figures", false, "measure, and print the figures")

var (
	binary string // the program under test
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
		binary = filepath.Join(scratch, "letterhead")
		build := exec.Command("go", "build", "-o", binary, "letterhead/cmd/letterhead")
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			return 1, fmt.Errorf("build the binary under test: %w", err)
		}
	}
	code := m.Run()
	return code, endShared()
}

// environ is the environment of a child: none of the developer's own settings.
func environ(extra ...string) []string {
	out := []string{"XDG_CACHE_HOME=" + filepath.Join(scratch, "cache")}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "LETTERHEAD_") && !strings.HasPrefix(kv, "XDG_CACHE_HOME=") {
			out = append(out, kv)
		}
	}
	return append(out, extra...)
}

// eventually looks until something is so. It gives the time that passed, and whether it became so within
// the bound.
func eventually(within time.Duration, so func() bool) (time.Duration, bool) {
	began := time.Now()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	over := time.NewTimer(within)
	defer over.Stop()
	for {
		if so() {
			return time.Since(began), true
		}
		select {
		case <-tick.C:
		case <-over.C:
			ok := so()
			return time.Since(began), ok
		}
	}
}

// until is eventually, and ends the test when it did not become so.
func until(t testing.TB, within time.Duration, what string, so func() bool) time.Duration {
	t.Helper()
	took, ok := eventually(within, so)
	if !ok {
		t.Fatalf("after %s still not so: %s", within, what)
	}
	return took
}
