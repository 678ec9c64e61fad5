package node

import "github.com/KimMachineGun/automemlimit/memlimit"

// memoryShare of the memory that the process may use is what Go's collector keeps it below. The rest is for what the
// collector does not see: compiled code of the vector renderer, stacks of the kernel, pages of the databases.
const memoryShare = 0.8

// LimitMemory sets GOMEMLIMIT from the memory limit of the cgroup (v1 or v2), unless the operator has set it. Without a
// limit it changes nothing. A container that is about to be killed for its memory collects garbage first.
func LimitMemory(limit memlimit.Provider) error {
	_, err := memlimit.Set(memlimit.WithRatio(memoryShare), memlimit.WithProvider(limit))
	return err
}

// CgroupLimit is the memory that the cgroup of this process may use, in bytes. A process that is in none, or in one
// without a limit, has none.
func CgroupLimit() (uint64, error) {
	limit, err := memlimit.FromCgroup()
	if err != nil {
		return 0, memlimit.ErrNoLimit
	}
	return limit, nil
}
