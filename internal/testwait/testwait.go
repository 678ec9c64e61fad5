// Package testwait waits for events outside a test's goroutine and fails the test if they do not happen.
// It is for tests only.
package testwait

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

const (
	// Timeout limits the wait for an event that should happen immediately. It only ends a hanging test, so
	// it is long enough for a busy machine.
	Timeout = time.Minute
	// lookEvery is the polling interval.
	lookEvery = 50 * time.Millisecond
	// maxLines is more than any test logs before it reads the lines.
	maxLines = 1000
)

// Receive waits for a value from a channel, or until the channel is closed.
func Receive[T any](t testing.TB, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(Timeout):
		t.Fatalf("waited %s for %s", Timeout, what)
		panic("unreachable")
	}
}

// Until polls until a condition is true. It returns the elapsed time, and whether the condition became
// true within the limit.
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

// Lines collects the lines written by a logger.
type Lines chan string

// NewLines returns an empty buffer.
func NewLines() Lines { return make(Lines, maxLines) }

// Write implements io.Writer.
func (l Lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// Logger returns a logger that writes to l.
func (l Lines) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// Wait waits for n lines that contain text and ignores all others.
func (l Lines) Wait(t testing.TB, n int, text string) {
	t.Helper()
	over := time.After(Timeout)
	for seen := 0; seen < n; {
		select {
		case line := <-l:
			if strings.Contains(line, text) {
				seen++
			}
		case <-over:
			t.Fatalf("%d log lines contain %q, want %d", seen, text, n)
		}
	}
}
