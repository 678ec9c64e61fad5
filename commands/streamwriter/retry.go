package streamwriter

import (
	"context"
	"time"

	"letterhead/internal/delay"
)

// Pauses between attempts.
const (
	firstPause = 50 * time.Microsecond
	maxPause   = 5 * time.Millisecond
)

// retryBudget is a retry budget: pauses double, each drawn from the upper half so that colliding writers
// separate, within a limit on the total time.
type retryBudget struct {
	end   time.Time
	pause time.Duration
}

func newRetryBudget(within time.Duration) retryBudget {
	return retryBudget{end: time.Now().Add(within), pause: firstPause}
}

// left reports whether the limit leaves time for a pause.
func (p *retryBudget) left(pause time.Duration) bool { return !time.Now().Add(pause).After(p.end) }

// wait pauses before the next attempt. It returns false immediately if the limit would be exceeded or ctx has ended.
func (p *retryBudget) wait(ctx context.Context) bool {
	pause := delay.Jittered(p.pause)
	p.pause = min(2*p.pause, maxPause)
	return p.left(pause) && delay.For(ctx, pause) == nil
}
