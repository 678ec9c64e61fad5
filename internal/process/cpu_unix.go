//go:build unix

package process

import (
	"syscall"
	"time"
)

// CPUTime is what this process has computed so far, 0 when the system does not say.
func CPUTime() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
