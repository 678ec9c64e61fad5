package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/google/uuid"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb"
)

// runDev runs "dev ARGS" until it has ended.
func runDev(ctx context.Context, stdout, stderr io.Writer, args ...string) error {
	e := &environment{stdout: stdout, stderr: stderr}
	c := devCommand(e)
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs(args)
	c.SetOut(stdout)
	c.SetErr(stderr)
	return c.ExecuteContext(ctx)
}

// It prints where it is, serves until it is interrupted, and keeps what it took.
func TestDevEventStore(t *testing.T) {
	dir := t.TempDir()
	for run := range uint64(2) {
		ctx, cancel := context.WithCancel(t.Context())
		in, out := io.Pipe()
		var stderr bytes.Buffer
		ended := make(chan error, 1)
		go func() {
			ended <- runDev(ctx, out, &stderr, "eventstore", "--listen", "127.0.0.1:0", "--dir", dir, "--fault", "duplicate=0.5")
		}()
		line := make([]byte, 200)
		n, err := in.Read(line)
		if err != nil {
			t.Fatal(err)
		}
		l, err := esdb.Open(t.Context(), esdb.Config{ConnectionString: strings.TrimSpace(string(line[:n]))})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(t.Context(), "s", eventlog.After(run), []eventlog.Proposed{{ID: uuid.New(), Type: "Happened", Data: []byte(`{}`)}}); err != nil {
			t.Errorf("run %d: %v", run, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v, %s", err, stderr.String())
		}
	}
}

func TestDevEventStoreRefuses(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel() // so that what is accepted ends at once
	for _, args := range [][]string{
		{"--fault", "rain=1"}, {"--fault", "lose-reply=2"}, {"--user", "ops"}, {"--user", "ops:secret"}, {"--cert", "missing.pem"}, {"extra"},
	} {
		var out bytes.Buffer
		if err := runDev(ended, &out, &out, append([]string{"eventstore", "--listen", "127.0.0.1:0"}, args...)...); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}
