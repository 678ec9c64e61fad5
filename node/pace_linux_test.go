package node

import (
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"letterhead/internal/testmust"
)

// In a process of its own, no other thread ends meanwhile.
func TestCPUDelay_ThreadsThatShareACPU_Counted(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skipf("the kernel does not count delays: %v", err)
	}
	var all, one unix.CPUSet
	testmust.Succeed(t, unix.SchedGetaffinity(0, &all))
	for cpu := 0; one.Count() == 0; cpu++ {
		if all.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	threadTime := func() time.Duration {
		var used unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used); err != nil {
			t.Error(err)
		}
		return time.Duration(used.Nano())
	}
	before := cpuDelay()
	var working sync.WaitGroup
	release := make(chan struct{})
	for range 2 {
		working.Add(1)
		go func() {
			runtime.LockOSThread() // the thread ends with the goroutine, and so does its affinity
			if err := unix.SchedSetaffinity(0, &one); err != nil {
				t.Error(err)
			}
			for began := threadTime(); !t.Failed() && threadTime() < began+100*time.Millisecond; {
			}
			working.Done()
			<-release
		}()
	}
	working.Wait()
	if after := cpuDelay(); after <= before {
		t.Errorf("the delay is %v after two threads shared a CPU, and was %v before", after, before)
	}
	close(release)
}
