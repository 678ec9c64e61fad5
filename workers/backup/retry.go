package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"letterhead/internal/assets"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
)

const (
	// defaultRetryAfter is the wait after the first failure of one step; it doubles up to maxRetryAfter.
	defaultRetryAfter = 200 * time.Millisecond
	maxRetryAfter     = 5 * time.Second
	// maxTries bounds the tries of one step: with the waits above, half a minute. Running the command again
	// continues the work.
	maxTries = 10
)

// transient reports whether a later try may succeed.
func transient(err error) bool {
	return errors.Is(err, eventlog.ErrUnavailable) || errors.Is(err, eventlog.ErrAmbiguous) ||
		errors.Is(err, assets.ErrUnavailable) || errors.Is(err, sqlstore.ErrUnavailable)
}

// headOf reads the head of a log.
func headOf(ctx context.Context, log eventlog.Log, retryAfter time.Duration) (head eventlog.Position, err error) {
	err = retry(ctx, retryAfter, func() (err error) {
		head, err = log.Head(ctx)
		return err
	})
	return head, err
}

// retry repeats one step until it succeeds, fails permanently, exhausts its tries, or ctx ends.
func retry(ctx context.Context, first time.Duration, step func() error) error {
	wait := first
	for try := 1; ; try++ {
		err := step()
		if err == nil || ctx.Err() != nil || !transient(err) {
			return err
		}
		if try == maxTries {
			return fmt.Errorf("failed %d times; run the command again to continue: %w", maxTries, err)
		}
		if err := delay.For(ctx, delay.Jittered(wait)); err != nil {
			return err
		}
		wait = min(2*wait, maxRetryAfter)
	}
}
