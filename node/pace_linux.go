package node

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// cpuDelay returns how long threads of this process have been ready to run without a CPU, 0 if the kernel does not
// count it (sched-stats in the documentation of Linux).
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
