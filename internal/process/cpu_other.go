//go:build !unix

package process

import "time"

// CPUTime is what this process has computed so far, 0 when the system does not say, as here.
func CPUTime() time.Duration { return 0 }
