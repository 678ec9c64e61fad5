// Package delay waits between attempts, no longer than their context allows.
package delay

import (
	"context"
	"math/rand/v2"
	"time"
)

// For waits for d. If ctx ends first it returns ctx.Err() immediately.
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

// Jittered returns a random duration from d/2 to d, so that callers that failed together do not retry together.
func Jittered(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }
