package node

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// lowestPriority is the lowest priority of setpriority(2).
const lowestPriority = 19

// lowerPriority gives this process the processor time that no other process needs (SCHED_IDLE, sched(7)). With the lowest
// priority alone, the threads of a server are not placed on the processors that this process keeps busy, and wait for the
// others.
func lowerPriority() {
	threads, err := os.ReadDir("/proc/self/task") // a thread has a policy and a priority of its own, which those that it starts inherit
	if err != nil {
		return // a courtesy: the work is the same without it
	}
	for _, thread := range threads {
		var id int
		if _, err := fmt.Sscan(thread.Name(), &id); err != nil {
			continue
		}
		_ = unix.Setpriority(unix.PRIO_PROCESS, id, lowestPriority)
		_ = unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE, Nice: lowestPriority}, 0)
	}
}
