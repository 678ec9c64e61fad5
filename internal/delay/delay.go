// Package delay waits between attempts, for results and for room, no longer than a context allows.
package delay

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"
)

// For waits for d. If ctx ends first it returns ctx.Err() immediately.
func For(ctx context.Context, d time.Duration) error { return Until(ctx, d, nil) }

// Until is For that also ends with a signal.
func Until(ctx context.Context, d time.Duration, signal <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-signal:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// Await calls do and returns its error. If ctx ends first, it returns ctx.Err() immediately, and do continues.
func Await(ctx context.Context, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Send sends a value to a channel. If ctx ends first, it returns ctx.Err().
func Send[T any](ctx context.Context, to chan<- T, value T) error {
	select {
	case to <- value:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Signal wakes the goroutine that receives from a channel with room for one signal. One that waits there is enough.
func Signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// Every calls do at each interval, until ctx ends.
func Every(ctx context.Context, interval time.Duration, do func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}

// While calls do again, after a warning and a pause, while it fails with the passing error. It returns other results,
// and nil if ctx has ended.
func While(ctx context.Context, passing error, pause time.Duration, log *slog.Logger, warning string,
	do func(context.Context) error) error {
	for {
		err := do(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if !errors.Is(err, passing) {
			return err
		}
		log.Warn(warning, "error", err, "pause", pause)
		if For(ctx, pause) != nil {
			return nil
		}
	}
}

// Jittered returns a random duration from d/2 to d, so that callers that failed together do not retry together.
func Jittered(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

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
