// Package disktest gives tests small disks that they can fill. It is for tests only.
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
	// mountFolder names the environment variable with the folder where the disk is mounted.
	mountFolder = "LETTERHEAD_TEST_MOUNT"
	notMounted  = "could not mount the test disk"
)

// Run calls test with the folder of an empty in-memory disk of the given size in bytes. For this it runs the calling
// test again, in a separate process and namespaces: only that process and its children see the disk, which the kernel
// removes when the process ends. The variables are added to the environment. Run skips the calling test if the machine
// does not allow such namespaces.
func Run(t *testing.T, bytes string, test func(at string), variables ...string) {
	t.Helper()
	if at := os.Getenv(mountFolder); at != "" {
		if err := syscall.Mount("tmpfs", at, "tmpfs", 0, "size="+bytes); err != nil {
			t.Fatalf("%s: %v", notMounted, err)
		}
		test(at)
		return
	}
	child := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
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
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// Fill writes a file until its disk has no room.
func Fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1 << 20, 4096} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
