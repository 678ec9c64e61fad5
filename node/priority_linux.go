package node

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const lowestPriority = 19

// lowerPriority gives this process the CPU time that no other process needs (SCHED_IDLE, sched(7)). With the lowest
// priority alone, the threads of a server are not placed on the CPUs that this process keeps busy, and wait for the
// others.
func lowerPriority() {
	// each has a policy and a priority of its own, which those that it starts inherit
	for _, thread := range threads() {
		var id int
		if _, err := fmt.Sscan(thread, &id); err != nil {
			continue
		}
		_ = unix.Setpriority(unix.PRIO_PROCESS, id, lowestPriority) // a courtesy: the work is the same without it
		_ = unix.SchedSetAttr(id,
			&unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE, Nice: lowestPriority}, 0)
	}
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
