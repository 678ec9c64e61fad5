package node

import (
	"time"

	"golang.org/x/sys/windows"
)

func lowerPriority() {
	_ = windows.SetPriorityClass(windows.CurrentProcess(), windows.IDLE_PRIORITY_CLASS) // a courtesy: the work is the same without it
}

// cpuDelay returns 0: this system does not count it.
func cpuDelay() time.Duration { return 0 }
