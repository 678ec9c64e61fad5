//go:build linux

package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/testmust"
)

// fullDiskBytes limits the size of the child's files.
const fullDiskBytes = 400 << 10

const fullDiskStream = "full"

// TestFullDisk_RejectsAppendsUntilRoom runs a child with a file size limit, which SQLite sees as a full disk. This
// needs no privileges, and the limit can be lifted while the log is open.
// Rule 2.
func TestFullDisk_RejectsAppendsUntilRoom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	cmd := child(t, "full disk", path)
	out := testmust.Get(cmd.StdoutPipe())(t)
	testmust.Succeed(t, cmd.Start())
	said := map[string]uint64{}
	for in := bufio.NewScanner(out); in.Scan(); {
		var what string
		var count uint64
		if n, _ := fmt.Sscanf(in.Text(), "%s %d", &what, &count); n != 2 {
			t.Errorf("the child wrote %q", in.Text())
		}
		said[what] = count
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the child failed: %v", err)
	}
	if said["before"] == 0 || said["after"] <= said["before"] {
		t.Errorf("%d events were appended before the disk was full, %d after", said["before"], said["after"])
	}
	l := open(t, sqlite.Config{Path: path})
	if err := l.Check(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if err := fullDiskHolds(t.Context(), l, said["after"]); err != nil {
		t.Error(err)
	}
}

func fullDiskChild(path string) error {
	ctx := context.Background()
	signal.Ignore(syscall.SIGXFSZ) // otherwise the first refused write kills the process
	l, err := sqlite.Open(ctx, sqlite.Config{Path: path})
	if err != nil {
		return err
	}
	if err := limitFiles(fullDiskBytes); err != nil {
		return err
	}
	next, err := appendUntilRejected(ctx, l, 0)
	if err != nil {
		return err
	}
	// Still full: every append fails, and everything can be read.
	for range 20 {
		if _, err := l.Append(ctx, fullDiskStream, eventlog.After(next), batchFrom(next, 40)); !errors.Is(err, eventlog.ErrUnavailable) {
			return fmt.Errorf("append to a full disk: %w", err)
		}
		if _, err := l.Append(ctx, "another", eventlog.NoStream(), batchFrom(9999, 40)); !errors.Is(err, eventlog.ErrUnavailable) {
			return fmt.Errorf("append to a full disk: %w", err)
		}
	}
	if err := fullDiskHolds(ctx, l, next); err != nil {
		return err
	}
	fmt.Println("before", next)

	if err := limitFiles(math.MaxUint64); err != nil {
		return err
	}
	for range 50 {
		if _, err := l.Append(ctx, fullDiskStream, eventlog.After(next), batchFrom(next, 40)); err != nil {
			return fmt.Errorf("append when there is room again: %w", err)
		}
		next += 40
	}
	if err := fullDiskHolds(ctx, l, next); err != nil {
		return err
	}
	fmt.Println("after", next)
	return l.Close()
}

// appendUntilRejected fills the disk. It returns the number of acknowledged events.
func appendUntilRejected(ctx context.Context, l *sqlite.Log, next uint64) (uint64, error) {
	const enough = 100_000
	for next < enough {
		_, err := l.Append(ctx, fullDiskStream, eventlog.After(next), batchFrom(next, 7))
		if errors.Is(err, eventlog.ErrUnavailable) {
			if !strings.Contains(err.Error(), fullDiskStream) {
				return 0, fmt.Errorf("the error does not name the attempted operation: %w", err)
			}
			return next, nil
		}
		if err != nil {
			return 0, err
		}
		next += 7
	}
	return 0, errors.New("the disk was never full")
}

func batchFrom(next uint64, n int) []eventlog.Proposed {
	batch := make([]eventlog.Proposed, n)
	for i := range batch {
		batch[i] = charge(next + uint64(i))
	}
	return batch
}

// fullDiskHolds checks that the log contains exactly the first count events of the stream.
func fullDiskHolds(ctx context.Context, l *sqlite.Log, count uint64) error {
	next := uint64(0)
	for {
		page, err := l.ReadStream(ctx, fullDiskStream, next, eventlog.Forward, 1000)
		if err != nil {
			return err
		}
		for _, e := range page {
			if e.Revision != next || e.ID != charge(next).ID {
				return fmt.Errorf("revision %d is event %s", e.Revision, e.ID)
			}
			next++
		}
		if len(page) == 0 {
			break
		}
	}
	head, err := l.Head(ctx)
	if err != nil || next != count || uint64(head) != count {
		return fmt.Errorf("%d events, head %d (%w), want %d", next, head, err, count)
	}
	return nil
}

// limitFiles sets the maximum file size of this process.
func limitFiles(bytes uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	limit.Cur = min(bytes, limit.Max)
	return os.NewSyscallError("setrlimit", syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
}
