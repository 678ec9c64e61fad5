//go:build unix && !linux

package node

import (
	"syscall"
	"time"
)

// lowestPriority is the lowest priority of setpriority(2).
const lowestPriority = 19

func lowerPriority() {
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, lowestPriority) // a courtesy: the work is the same without it
}

// cpuDelay returns 0: this system does not count it.
func cpuDelay() time.Duration { return 0 }
