//go:build unix

package logo_test

import (
	"syscall"
	"time"
)

// cpuTime is what this process has computed so far, 0 when the system does not say.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
