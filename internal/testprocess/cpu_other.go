//go:build !unix

package testprocess

import "time"

// CPUTime returns 0, because this system does not report the CPU time of a process.
func CPUTime() time.Duration { return 0 }
