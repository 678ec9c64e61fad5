//go:build unix

package node

import (
	"fmt"
	"os"
	"syscall"
)

// lowestPriority is the lowest priority of setpriority(2).
const lowestPriority = 19

func lowerPriority() {
	threads, err := os.ReadDir("/proc/self/task") // on Linux a thread has a priority of its own, which those that it starts inherit
	if err != nil {
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, lowestPriority) // a courtesy: the work is the same without it
		return
	}
	for _, thread := range threads {
		var id int
		if _, err := fmt.Sscan(thread.Name(), &id); err == nil {
			_ = syscall.Setpriority(syscall.PRIO_PROCESS, id, lowestPriority)
		}
	}
}
