package variants_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const (
	// mountFolder names the variable that makes a test's process mount a disk of its own there.
	mountFolder = "LETTERHEAD_TEST_VARIANTS_MOUNT"
	notMounted  = "a disk of its own could not be mounted"

	// smallDisk has room for what two sharers may keep, and not for ballast besides.
	smallDisk = "size=1m"
	ballast   = 824 << 10
)

// TestTwoProcessesShareASmallDisk is as TestTwoProcessesShareAFullDisk, with a disk that really has no space: one in
// memory that only this test's processes see.
func TestTwoProcessesShareASmallDisk(t *testing.T) {
	t.Parallel()
	child := exec.Command(os.Args[0], "-test.run", "^TestOnASmallDisk$", "-test.v")
	child.Env = append(os.Environ(), mountFolder+"="+t.TempDir())
	child.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := child.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOSPC) || strings.Contains(string(out), notMounted) {
		t.Skipf("this machine lets no user mount a disk in a namespace of its own: %v %s", err, out)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: TestOnASmallDisk") {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

func TestOnASmallDisk(t *testing.T) {
	at := os.Getenv(mountFolder)
	if at == "" {
		t.Skip("it is run by TestTwoProcessesShareASmallDisk, in namespaces of its own")
	}
	if err := syscall.Mount("tmpfs", at, "tmpfs", 0, smallDisk); err != nil {
		t.Fatalf("%s: %v", notMounted, err)
	}
	weight := filepath.Join(at, "ballast")
	full := func([]*sharer) {
		err := os.WriteFile(weight, make([]byte, ballast), 0o600)
		if err != nil && !errors.Is(err, syscall.ENOSPC) { // which is as full as can be
			t.Fatal(err)
		}
	}
	onAFullDisk(t, filepath.Join(at, "logos"), full, func([]*sharer) { noError(t, os.Remove(weight)) })
}
