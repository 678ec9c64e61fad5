package node

import (
	"math"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"letterhead/internal/testmust"
)

func TestLimitMemory_Limits_SetSoftLimit(t *testing.T) {
	const cgroup = 512 << 20
	share := memoryShare
	for name, c := range map[string]struct {
		set   string // GOMEMLIMIT
		limit memlimit.Provider
		want  int64
	}{
		"a cgroup with a limit":     {"", memlimit.Limit(cgroup), int64(share * cgroup)},
		"the operator's goes first": {"100MiB", memlimit.Limit(cgroup), math.MaxInt64}, // the runtime has read it by now
		"no limit":                  {"", func() (uint64, error) { return 0, memlimit.ErrNoLimit }, math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64))
			if c.set != "" {
				t.Setenv("GOMEMLIMIT", c.set)
			}
			testmust.Succeed(t, LimitMemory(c.limit))
			if got := debug.SetMemoryLimit(-1); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}
