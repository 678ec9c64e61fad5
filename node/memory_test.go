package node

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
)

func TestSpareCollector_LiveMemoryGrows_KeepsLessGarbage(t *testing.T) {
	spare := min(freeMemory()/spareShare, maxSpare)
	if spare == 0 {
		t.Skip("this system does not report its free memory")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	SpareCollector()
	first := debug.SetGCPercent(100)
	if first <= 100 || first > mostPercent {
		t.Errorf("GOGC is %d", first)
	}
	live := make([]byte, spare/4)
	if _, ok := testwait.Until(time.Minute, func() bool {
		runtime.GC()
		now := debug.SetGCPercent(100)
		return now > 100 && now <= 400
	}); !ok {
		t.Errorf("with %d of %d bytes live, a collection does not set GOGC", len(live), spare)
	}
	runtime.KeepAlive(live)
}

func TestGarbagePercent(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		live, spare int64
		want        int
	}{
		{64 * mb, 128 * mb, 200}, {128 * mb, 128 * mb, 100}, {1000 * mb, 128 * mb, 100}, {mb, 128 * mb, mostPercent}, {0, mb, mostPercent},
		{64 * mb, 32 * mb, 100},
	} {
		if got := garbagePercent(c.live, c.spare); got != c.want {
			t.Errorf("%d live, %d spare: %d, want %d", c.live, c.spare, got, c.want)
		}
	}
}

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
