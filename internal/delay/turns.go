package delay

import (
	"iter"
	"runtime"
	"sync/atomic"
	"time"
)

const (
	// slowTurn is the length of a turn that other work takes: a goroutine that computes runs so long before another one.
	slowTurn = 10 * time.Millisecond
	// turnlessFor is how many times the length of a slow turn passes before the next one: turns take a 17th of the time.
	turnlessFor = 16
	// turnEvery is the number of steps of InTurns between two turns: about 0.1 ms of work.
	turnEvery = 32
)

// turns lets other goroutines go first, unless that took long lately.
type turns struct {
	yield func()       // runtime.Gosched, but for tests
	start time.Time    // a time with a monotonic clock
	after atomic.Int64 // there is no turn before it, in nanoseconds since start
}

func (t *turns) give() {
	began := time.Since(t.start)
	if int64(began) < t.after.Load() {
		return
	}
	t.yield()
	ended := time.Since(t.start)
	if took := ended - began; took >= slowTurn {
		t.after.Store(int64(ended + turnlessFor*took))
	}
}

var process = turns{yield: runtime.Gosched, start: time.Now()}

// Turn lets the goroutines that are ready to run go first. Work that runs for milliseconds beside requests calls it now
// and then: until then, or for the 10 ms after which the scheduler ends a goroutine's run, the requests that became
// ready on the same processor wait. While other goroutines compute, a turn is long, and most calls return immediately.
func Turn() { process.give() }

// InTurns yields the integers below n, and takes a Turn after each 32.
func InTurns(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range n {
			if i%turnEvery == turnEvery-1 {
				Turn()
			}
			if !yield(i) {
				return
			}
		}
	}
}
