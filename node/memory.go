package node

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"

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

// Limits of the garbage beside little live memory: in bytes, as a part of the free memory, and as values of GOGC.
const (
	maxSpare, spareShare      = 128 << 20, 8
	usualPercent, mostPercent = 100, 1000
)

// SpareCollector lets this process keep more garbage than the usual percentage of its live memory while that is small,
// whose collections take up to 10 % of the processor time under load. It changes nothing if the operator has set GOGC,
// or if the free memory is unknown. GOMEMLIMIT stays in force.
func SpareCollector() {
	if spare := min(freeMemory(), debug.SetMemoryLimit(-1)) / spareShare; os.Getenv("GOGC") == "" && spare > 0 {
		afterCollection(garbage{spare: min(spare, maxSpare)})
	}
}

// garbage is the percentage in force, and the bytes that it should allow.
type garbage struct {
	spare   int64
	percent int
}

// afterCollection sets the percentage by the live memory, after each collection. It leaves small differences, because a
// change stops all goroutines.
func afterCollection(g garbage) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if p := garbagePercent(int64(live[0].Value.Uint64()), g.spare); 10*max(p-g.percent, g.percent-p) > p {
		g.percent = p
		debug.SetGCPercent(p)
	}
	runtime.AddCleanup(new([64]byte), afterCollection, g) // which the next collection finds
}

// garbagePercent returns the percentage of live memory that is at least some spare garbage.
func garbagePercent(live, spare int64) int {
	return int(max(usualPercent, min(mostPercent, spare*100/max(live, 1))))
}

// freeMemory returns the bytes that Linux can give to processes without swapping; 0 elsewhere.
func freeMemory() int64 {
	text, _ := os.ReadFile("/proc/meminfo")
	_, after, _ := strings.Cut(string(text), "\nMemAvailable:")
	var kilobytes int64
	_, _ = fmt.Sscan(after, &kilobytes) // 0 if it is missing
	return kilobytes << 10
}

// CgroupLimit returns the memory limit of this process's cgroup in bytes, or memlimit.ErrNoLimit.
func CgroupLimit() (uint64, error) {
	limit, err := memlimit.FromCgroup()
	if err != nil {
		return 0, memlimit.ErrNoLimit
	}
	return limit, nil
}
