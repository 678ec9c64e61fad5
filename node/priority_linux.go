package node

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lowestPriority is the lowest priority of setpriority(2).
const lowestPriority = 19

// lowerPriority gives this process the processor time that no other process needs (SCHED_IDLE, sched(7)). With the lowest
// priority alone, the threads of a server are not placed on the processors that this process keeps busy, and wait for the
// others.
func lowerPriority() {
	for _, thread := range threads() { // each has a policy and a priority of its own, which those that it starts inherit
		var id int
		if _, err := fmt.Sscan(thread, &id); err != nil {
			continue
		}
		_ = unix.Setpriority(unix.PRIO_PROCESS, id, lowestPriority)
		_ = unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE, Nice: lowestPriority}, 0)
	}
}

// cpuDelay returns how long threads of this process have been ready to run without a CPU, 0 if the kernel does not count
// it (sched-stats in the documentation of Linux).
func cpuDelay() (delay time.Duration) {
	for _, thread := range threads() {
		text, err := os.ReadFile(filepath.Join(tasks, thread, "schedstat"))
		if err != nil {
			continue // the thread has ended
		}
		var running, waiting time.Duration // nanoseconds
		if _, err := fmt.Sscan(string(text), &running, &waiting); err == nil {
			delay += waiting
		}
	}
	return delay
}

const tasks = "/proc/self/task"

// threads returns the ids of the threads of this process, none if they cannot be listed.
func threads() (ids []string) {
	entries, _ := os.ReadDir(tasks)
	for _, e := range entries {
		ids = append(ids, e.Name())
	}
	return ids
}
