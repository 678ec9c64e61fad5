//go:build !linux

package node

import "time"

// cpuDelay is implemented only on Linux. It returns 0, so that the process does not rest.
func cpuDelay() time.Duration { return 0 }
