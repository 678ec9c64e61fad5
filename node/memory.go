package node

import (
	"github.com/KimMachineGun/automemlimit/memlimit"
)

// memoryShare is the share of the process's memory limit that becomes the soft limit of Go's collector. The rest is for
// memory that the collector does not see: compiled code of the vector renderer, kernel stacks, pages of the databases.
const memoryShare = 0.8

// LimitMemory sets GOMEMLIMIT from the memory limit of the cgroup (v1 or v2), unless the operator has set it. Without a
// limit it changes nothing. A container that is about to be killed for its memory collects garbage first.
func LimitMemory(limit memlimit.Provider) error {
	_, err := memlimit.Set(memlimit.WithRatio(memoryShare), memlimit.WithProvider(limit))
	return err
}

// CgroupLimit returns the memory limit of this process's cgroup in bytes, or memlimit.ErrNoLimit.
func CgroupLimit() (uint64, error) {
	limit, err := memlimit.FromCgroup()
	if err != nil {
		return 0, memlimit.ErrNoLimit
	}
	return limit, nil
}
