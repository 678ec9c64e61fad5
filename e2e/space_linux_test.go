package e2e

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"letterhead/internal/disk"
	"letterhead/internal/disk/disktest"
)

const (
	smallDisk    = "96m"
	smallCharges = 20_000
)

// Maintenance on a disk that is too small for it must not take the service down.
func TestMaintenance_SmallDisk_LeavesServiceRunning(t *testing.T) {
	t.Parallel()
	disktest.Run(t, "TestOnSmallDisk", givenBinary+"="+binary)
}

func TestOnSmallDisk(t *testing.T) {
	at := disktest.Mount(t, smallDisk)
	data := filepath.Join(at, "data")
	start(t, data, "LETTERHEAD_STARTER=off").stop()
	writeCharges(t, filepath.Join(data, "events.db"), smallCharges)
	n := start(t, data, "LETTERHEAD_STARTER=off")
	acc, _ := account(t, data, "free")
	granted := int64(0)
	grant := func() { // an append, as a charge is
		t.Helper()
		var after struct{ Balance int64 }
		decode(t, ok(t, data, "credits", "grant", "--account", acc.Account.ID, "--amount", "1", "--kind", "adjustment", "--json"), &after)
		if granted++; after.Balance != 50+granted {
			t.Fatalf("the balance is %d after %d grants", after.Balance, granted)
		}
	}
	grant()
	n.stop() // a clean end moves the write-ahead logs into the files, which would take room later
	n = start(t, data, "LETTERHEAD_STARTER=off")
	usual := free(t, at)

	// Room for the log to grow, and not for a copy of the tables.
	weight := filepath.Join(at, "ballast")
	database, err := os.Stat(filepath.Join(data, "letterhead.db"))
	if err != nil {
		t.Fatal(err)
	}
	const leave = 4 << 20
	if err := os.WriteFile(weight, make([]byte, usual-leave), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Logf("letterhead.db has %d bytes, %d are free", database.Size(), free(t, at))
	for _, command := range [][]string{{"projections", "verify"}, {"projections", "rebuild", "--all"}} {
		_, errs, code := letterhead(t, data, command...)
		if code != 1 || !strings.Contains(errs, "not enough free space") {
			t.Errorf("%s ended with %d: %s", strings.Join(command, " "), code, errs)
		}
		t.Logf("%s: %s", strings.Join(command, " "), errs)
		grant()
		if now := free(t, at); now < leave/2 {
			t.Errorf("%s left %d of %d bytes free", strings.Join(command, " "), now, leave)
		}
	}
	n.kill()
	n = start(t, data, "LETTERHEAD_STARTER=off") // which the full disk would refuse
	grant()

	if err := os.Remove(weight); err != nil {
		t.Fatal(err)
	}
	before := free(t, at)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		said := endVerify(t, data, signal)
		if signal == syscall.SIGINT {
			if !strings.Contains(said, "interrupted") {
				t.Errorf("after %s it said %s", signal, said)
			}
			noScratch(t, data)
		}
		grant()
	}
	ok(t, data, "projections", "verify") // which deletes what the kill left
	if now := free(t, at); now < before*9/10 {
		t.Errorf("%d bytes were free and %d are after the verify", before, now)
	}
	noScratch(t, data)
	grant()
	n.stop()
}

// endVerify sends a signal to a verify that has begun with its scratch tables, and returns what it said.
func endVerify(t *testing.T, data string, signal syscall.Signal) string {
	t.Helper()
	cmd := exec.Command(binary, "--data", data, "projections", "verify")
	cmd.Env = environ()
	said := newOutput()
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cmd.Wait()
	}()
	for begun := false; !begun; {
		tables, err := filepath.Glob(filepath.Join(data, "scratch", "*", "tables.db"))
		if err != nil {
			t.Fatal(err)
		}
		begun = len(tables) > 0
		select {
		case <-ended:
			t.Fatalf("the verify ended before it was seen to begin: %s", said)
		default:
		}
	}
	if err := cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	<-ended
	if cmd.ProcessState.Success() {
		t.Errorf("%s did not end the verify: %s", signal, said)
	}
	return said.String()
}

func free(t *testing.T, at string) int64 {
	t.Helper()
	space, err := disk.At(at)
	if err != nil {
		t.Fatal(err)
	}
	return space.Free
}

// noScratch checks that a folder has no scratch tables.
func noScratch(t *testing.T, data string) {
	t.Helper()
	left, err := os.ReadDir(filepath.Join(data, "scratch"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) || len(left) > 0 {
		t.Errorf("scratch tables are left: %v, %v", left, err)
	}
}
