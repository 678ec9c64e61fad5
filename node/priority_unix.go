//go:build unix && !linux

package node

import "syscall"

const lowestPriority = 19

func lowerPriority() {
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, lowestPriority) // a courtesy: the work is the same without it
}
