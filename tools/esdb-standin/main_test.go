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

// run runs the command until it has ended.
func run(ctx context.Context, stdout, stderr io.Writer, args ...string) error {
	c := command()
	c.SetArgs(args)
	c.SetOut(stdout)
	c.SetErr(stderr)
	return c.ExecuteContext(ctx)
}

func TestServe_Restarted_KeepsEvents(t *testing.T) {
	dir := t.TempDir()
	for life := range uint64(2) {
		ctx, cancel := context.WithCancel(t.Context())
		in, out := io.Pipe()
		var stderr bytes.Buffer
		ended := make(chan error, 1)
		go func() {
			ended <- run(ctx, out, &stderr, "--listen", "127.0.0.1:0", "--dir", dir, "--fault", "duplicate=0.5")
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
		if _, err := l.Append(t.Context(), "s", eventlog.After(life), []eventlog.Proposed{{ID: uuid.New(), Type: "Happened", Data: []byte(`{}`)}}); err != nil {
			t.Errorf("append in life %d: %v", life+1, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the server ended with %v, %s", err, stderr.String())
		}
	}
}

func TestServe_InvalidFlags_Fails(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel() // so that a server that starts nevertheless ends immediately
	for _, args := range [][]string{
		{"--fault", "rain=1"}, {"--fault", "lose-reply=2"}, {"--user", "ops"}, {"--user", "ops:secret"}, {"--cert", "missing.pem"}, {"extra"},
	} {
		var out bytes.Buffer
		if err := run(ended, &out, &out, append([]string{"--listen", "127.0.0.1:0"}, args...)...); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
