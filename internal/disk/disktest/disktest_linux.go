// Package disktest gives a test a small disk that it can fill. It is for tests only.
package disktest

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

const (
	// mountFolder names the environment variable with the folder where Mount mounts the disk.
	mountFolder = "LETTERHEAD_TEST_MOUNT"
	notMounted  = "could not mount the test disk"
)

// Run runs another test of the calling package, which calls Mount, in a separate process and
// namespaces: only that process and its children see the disk. The variables are added to the
// environment. It skips the calling test if the machine does not allow such namespaces.
func Run(t *testing.T, test string, variables ...string) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run", "^"+test+"$", "-test.v")
	child.Env = append(append(os.Environ(), mountFolder+"="+t.TempDir()), variables...)
	child.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := child.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOSPC) || strings.Contains(string(out), notMounted) {
		t.Skipf("this machine does not allow mounting a disk in a user namespace: %v %s", err, out)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+test) {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// Mount mounts an in-memory disk of the given size in bytes and returns its folder. The kernel removes the
// disk when the process started by Run ends. In any other process Mount skips the test.
func Mount(t *testing.T, bytes string) string {
	t.Helper()
	at := os.Getenv(mountFolder)
	if at == "" {
		t.Skip("another test runs this one in a process that may mount a disk")
	}
	if err := syscall.Mount("tmpfs", at, "tmpfs", 0, "size="+bytes); err != nil {
		t.Fatalf("%s: %v", notMounted, err)
	}
	return at
}
