package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/uuid"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/testmust"
)

// The test binary starts itself again as the process to be killed.
const (
	childEnv     = "EVENTLOG_TEST_CHILD" // the child's task
	childPathEnv = "EVENTLOG_TEST_PATH"  // path of the log
)

func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "":
		os.Exit(m.Run())
	case "crash":
		exitWith(crashChild(os.Getenv(childPathEnv)))
	case "crash import":
		exitWith(crashImportChild(os.Getenv(childPathEnv)))
	case "full disk":
		exitWith(fullDiskChild(os.Getenv(childPathEnv)))
	case "hold":
		exitWith(holdChild(os.Getenv(childPathEnv)))
	default:
		exitWith(errors.New("unknown child"))
	}
}

func exitWith(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// child prepares a run of the test binary as a child process.
func child(t *testing.T, what, path string) *exec.Cmd {
	t.Helper()
	binary := testmust.Get(os.Executable())(t)
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env = append(os.Environ(), childEnv+"="+what, childPathEnv+"="+path)
	cmd.Stderr = os.Stderr
	return cmd
}

const (
	crashes      = 100
	crashWriters = 6
	crashBatch   = 3 // events of one append
)

// crashEvent returns the event of a writer's stream at a revision; its id contains the revision.
func crashEvent(w int, revision uint64) eventlog.Proposed {
	e := charge(revision)
	e.ID = uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "%d/%d", w, revision))
	return e
}

func crashStream(w int) string { return fmt.Sprintf("crash-%d", w) }

// crashChild appends from several goroutines until it is killed, and prints the stream and the last
// revision of each acknowledged append.
func crashChild(path string) error {
	ctx := context.Background()
	// Checkpoints as often as possible, because a crash during one leaves a partly written file.
	l, err := sqlite.Open(ctx, sqlite.Config{Path: path, CheckpointPages: 4})
	if err != nil {
		return err
	}
	fmt.Println("open")
	failed := make(chan error)
	for w := range crashWriters {
		go func() { failed <- crashWriter(ctx, l, w) }()
	}
	return <-failed
}

func crashWriter(ctx context.Context, l *sqlite.Log, w int) error {
	last, err := l.ReadStream(ctx, crashStream(w), eventlog.End, eventlog.Backward, 1)
	if err != nil {
		return err
	}
	next := uint64(0)
	if len(last) > 0 {
		next = last[0].Revision + 1
	}
	for {
		var batch []eventlog.Proposed
		for i := range uint64(crashBatch) {
			batch = append(batch, crashEvent(w, next+i))
		}
		appended, err := l.Append(ctx, crashStream(w), eventlog.After(next), batch)
		if err != nil {
			return fmt.Errorf("writer %d: %w", w, err)
		}
		// One write system call per line: every line in the pipe belongs to an acknowledged append.
		if _, err := os.Stdout.WriteString(fmt.Sprintf("ack %d %d\n", w, appended.LastRevision)); err != nil {
			return err
		}
		next += crashBatch
	}
}

// kills returns the number of processes that a crash test kills: a fifth with -short.
func kills(all int) int {
	if testing.Short() {
		return all / 5
	}
	return all
}

// Rule 2.
func TestAcknowledgedEvents_SurviveKills(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	acknowledged := make([]uint64, crashWriters) // events of each writer
	total := 0
	for range kills(crashes) {
		total += crashOnce(t, "crash", path, acknowledged)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d killed processes acknowledged %d appends", kills(crashes), total)
	l := open(t, sqlite.Config{Path: path})
	if err := l.Check(t.Context(), nil); err != nil {
		t.Error(err)
	}
	for w, count := range acknowledged {
		checkCrashStream(t, l, w, count)
	}
}

// crashOnce starts a child, kills it at some moment, and records its acknowledged appends.
func crashOnce(t *testing.T, what, path string, acknowledged []uint64) (acks int) {
	cmd := child(t, what, path)
	out := testmust.Get(cmd.StdoutPipe())(t)
	testmust.Succeed(t, cmd.Start())
	// The moment is a number of lines: 0 may hit the start or the recovery, 1 the first commits.
	kill := sync.OnceFunc(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
	})
	lines, last := 0, rand.IntN(120)
	if last == 0 {
		kill()
	}
	for in := bufio.NewScanner(out); in.Scan(); {
		if lines++; lines >= last {
			kill()
		}
		var w int
		var revision uint64
		if n, _ := fmt.Sscanf(in.Text(), "ack %d %d", &w, &revision); n == 2 {
			acks++
			acknowledged[w] = max(acknowledged[w], revision+1)
		} else if in.Text() != "open" {
			t.Errorf("the child wrote %q", in.Text())
		}
	}
	kill()
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Exited() {
		t.Errorf("the child ended before it was killed: %v", err)
	}
	return acks
}

// checkCrashStream reads a writer's stream: each event once, in order, whole appends, and at least the
// acknowledged ones.
func checkCrashStream(t *testing.T, l *sqlite.Log, w int, acknowledged uint64) {
	t.Helper()
	next, position := uint64(0), eventlog.Position(0)
	for {
		page := testmust.Get(l.ReadStream(t.Context(), crashStream(w), next, eventlog.Forward, 1000))(t)
		for _, e := range page {
			if e.Revision != next || e.ID != crashEvent(w, next).ID || e.Position <= position {
				t.Fatalf("%s: event %d at position %d is revision %d with id %s", crashStream(w), next, e.Position, e.Revision, e.ID)
			}
			next, position = next+1, e.Position
		}
		if len(page) == 0 {
			break
		}
	}
	if next < acknowledged {
		t.Errorf("%s: found %d events, want at least the %d acknowledged ones", crashStream(w), next, acknowledged)
	}
	if next%crashBatch != 0 {
		t.Errorf("%s: found %d events: an append of %d was written partly", crashStream(w), next, crashBatch)
	}
}

// holdChild opens the log, reports it, and waits to be killed.
func holdChild(path string) error {
	l, err := sqlite.Open(context.Background(), sqlite.Config{Path: path})
	if err != nil {
		return err
	}
	fmt.Println("open")
	bufio.NewScanner(os.Stdin).Scan()
	return l.Close()
}
