package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"letterhead/internal/disk"
	"letterhead/internal/disk/disktest"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
)

const (
	smallDisk    = "96m"
	smallCharges = 20_000
)

// Maintenance on a disk that is too small for it must not stop the service.
// Rule 8.
func TestMaintenance_SmallDisk_LeavesServiceRunning(t *testing.T) {
	t.Parallel()
	disktest.Run(t, smallDisk, func(at string) {
		data := filepath.Join(at, "data")
		start(t, data, "LETTERHEAD_STARTER=off").stop()
		writeCharges(t, filepath.Join(data, "events.db"), smallCharges)
		n := start(t, data, "LETTERHEAD_STARTER=off")
		acc, _ := account(t, data, "free")
		granted := int64(0)
		grant := func() { // appends an event, like a charge
			t.Helper()
			var after struct{ Balance int64 }
			decode(t, ok(t, data, "credits", "grant", "--account", acc.Account.ID, "--amount", "1", "--kind",
				"adjustment", "--reason", "test", "--json"), &after)
			if granted++; after.Balance != 50+granted {
				t.Fatalf("the balance is %d after %d grants of 1 credit to the initial 50", after.Balance, granted)
			}
		}
		grant()
		n.stop() // a clean shutdown checkpoints the write-ahead logs, which would need space later
		n = start(t, data, "LETTERHEAD_STARTER=off")
		usual := free(t, at)

		// Leave space for the log to grow, but not for a copy of the tables.
		ballast := filepath.Join(at, "ballast")
		database, err := os.Stat(filepath.Join(data, "letterhead.db"))
		testmust.Succeed(t, err)
		const leave = 4 << 20
		testmust.Succeed(t, os.WriteFile(ballast, make([]byte, usual-leave), 0o600))
		t.Logf("letterhead.db has %d bytes, the disk has %d free", database.Size(), free(t, at))
		for _, command := range [][]string{{"projections", "verify"}, {"projections", "rebuild", "--all"}} {
			_, errs, code := letterhead(t, data, command...)
			if code != 1 || !strings.Contains(errs, "not enough free space") {
				t.Errorf("%s ended with %d: %s", strings.Join(command, " "), code, errs)
			}
			t.Logf("%s: %s", strings.Join(command, " "), errs)
			grant()
			if now := free(t, at); now < leave/2 {
				t.Errorf("after %s %d bytes are free, want at least half of %d", strings.Join(command, " "), now, leave)
			}
		}
		n.kill()
		n = start(t, data, "LETTERHEAD_STARTER=off") // fails if the disk is full
		grant()

		testmust.Succeed(t, os.Remove(ballast))
		before := free(t, at)
		for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
			printed := endVerify(t, data, signal)
			if signal == syscall.SIGINT {
				if !strings.Contains(printed, "interrupted") {
					t.Errorf("after %s verify printed %s", signal, printed)
				}
				noScratch(t, data)
			}
			grant()
		}
		ok(t, data, "projections", "verify") // deletes the files that the killed verify left
		if now := free(t, at); now < before*9/10 {
			t.Errorf("%d bytes were free before verify, %d after", before, now)
		}
		noScratch(t, data)
		grant()
		n.stop()
	}, givenBinary+"="+binary)
}

// endVerify starts a verify, sends it a signal when it has created its scratch tables, and returns its output.
func endVerify(t *testing.T, data string, signal syscall.Signal) string {
	t.Helper()
	cmd := exec.Command(binary, "--data", data, "projections", "verify")
	cmd.Env = environ()
	printed := newOutput()
	cmd.Stdout, cmd.Stderr = printed, printed
	testmust.Succeed(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cmd.Wait()
	}()
	for begun := false; !begun; {
		begun = hasScratch(cmd.Process.Pid)
		select {
		case <-ended:
			t.Fatalf("verify ended before the test noticed its start: %s", printed)
		default:
		}
	}
	testmust.Succeed(t, cmd.Process.Signal(signal))
	<-ended
	if cmd.ProcessState.Success() {
		t.Errorf("verify succeeded after %s: %s", signal, printed)
	}
	return printed.String()
}

func free(t *testing.T, at string) int64 {
	t.Helper()
	space, err := disk.At(at)
	testmust.Succeed(t, err)
	return space.Free
}

// hasScratch reports whether a process has scratch tables open. Those of the server's scrub come and go.
func hasScratch(pid int) bool {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // the pattern is valid
	return slices.ContainsFunc(files, func(file string) bool {
		to, err := os.Readlink(file)
		return err == nil && strings.HasSuffix(to, "/tables.db")
	})
}

// noScratch checks that a folder has no scratch tables between two passes of the server's scrub.
func noScratch(t *testing.T, data string) {
	t.Helper()
	var left []fs.DirEntry
	var err error
	testwait.Until(readyTimeout, func() bool {
		left, err = os.ReadDir(filepath.Join(data, "scratch"))
		return len(left) == 0
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) || len(left) > 0 {
		t.Errorf("the folder still has scratch tables: %v, %v", left, err)
	}
}
