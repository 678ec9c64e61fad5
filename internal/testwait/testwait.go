// Package testwait waits for what goes on beside a test, and ends the test when it does not come. It is for
// tests only.
package testwait

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

const (
	// Patience is how long to wait for what should happen at once: it ends a hanging test on a machine that
	// has much else to do, and nothing is measured by it.
	Patience = time.Minute
	// lookEvery is the pause between two looks at what cannot tell by itself.
	lookEvery = 50 * time.Millisecond
	// maxLines is more than a test's program writes while nobody reads.
	maxLines = 1000
)

// Receive waits for a value of a channel, or for its close.
func Receive[T any](t testing.TB, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(Patience):
		t.Fatalf("waited %s for %s", Patience, what)
		panic("unreachable")
	}
}

// Until looks until something is so. It gives the time that passed, and whether it became so within the bound.
func Until(within time.Duration, so func() bool) (took time.Duration, ok bool) {
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

// Lines is what a logger wrote, line by line.
type Lines chan string

// NewLines returns room for the lines of a test.
func NewLines() Lines { return make(Lines, maxLines) }

// Write implements io.Writer.
func (l Lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// Logger returns a logger that writes them.
func (l Lines) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// Wait waits for n lines that contain a text, and passes over others.
func (l Lines) Wait(t testing.TB, n int, text string) {
	t.Helper()
	over := time.After(Patience)
	for seen := 0; seen < n; {
		select {
		case line := <-l:
			if strings.Contains(line, text) {
				seen++
			}
		case <-over:
			t.Fatalf("%d lines of the log contain %q, want %d", seen, text, n)
		}
	}
}
