package node

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"letterhead/internal/testmust"
)

const ownProcessVariable = "LETTERHEAD_TEST_OWN_PROCESS"

// inOwnProcess runs the test in a process of its own, in which it reports true.
func inOwnProcess(t *testing.T) bool {
	t.Helper()
	if os.Getenv(ownProcessVariable) != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), ownProcessVariable+"=1")
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil && strings.Contains(string(out), "--- SKIP"):
		t.Skipf("%s", out)
	case err != nil || !strings.Contains(string(out), "--- PASS"):
		t.Fatalf("%v: %s", err, out)
	}
	return false
}

// The process keeps the policy.
func TestYieldProcessor_AllThreads_RunWhenOthersAreIdle(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0); err != nil {
		t.Skipf("a process may not choose its policy here: %v", err)
	}
	yieldProcessor()
	threads := testmust.Get(os.ReadDir("/proc/self/task"))(t)
	var checked sync.WaitGroup
	release := make(chan struct{})
	for range 2 * len(threads) { // more than there are, so that some are new
		checked.Add(1)
		go func() {
			runtime.LockOSThread()
			if attr, err := unix.SchedGetAttr(0, 0); err != nil || attr.Policy != unix.SCHED_IDLE {
				t.Errorf("thread %d has the policy %v, %v, want SCHED_IDLE (%d)", unix.Gettid(), attr, err, unix.SCHED_IDLE)
			}
			checked.Done()
			<-release // keeps its thread
		}()
	}
	checked.Wait()
	close(release)
}
