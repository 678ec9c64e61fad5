//go:build unix

package readapi

import (
	"math"
	"syscall"
)

// openFiles returns how many files the process may have open at a time. Go has raised the limit to the
// maximum that the system allows.
func openFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxUint64
	}
	return uint64(limit.Cur)
}
