// Package delay waits between attempts, no longer than their context allows.
package delay

import (
	"context"
	"errors"
	"log/slog"
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
