//go:build !unix

package process

import "time"

// CPUTime returns the CPU time of this process, 0 if the system does not report it, as here.
func CPUTime() time.Duration { return 0 }
