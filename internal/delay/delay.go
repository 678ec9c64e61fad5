// Package delay waits between two attempts, and no longer than the work they are for.
package delay

import (
	"context"
	"math/rand/v2"
	"time"
)

// For waits for d. When ctx ends first it returns ctx.Err() at once.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Jittered draws from d/2 to d: those who failed together do not come back together.
func Jittered(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }
