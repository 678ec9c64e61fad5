//go:build unix

package testprocess

import (
	"syscall"
	"time"
)

// CPUTime returns the CPU time of this process, or 0 if the system does not report it.
func CPUTime() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
