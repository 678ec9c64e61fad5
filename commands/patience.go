package commands

import (
	"context"
	"math/rand/v2"
	"time"
)

// Pauses between attempts.
const (
	firstPause = 50 * time.Microsecond
	maxPause   = 5 * time.Millisecond
)

// patience is how long something is tried again: pauses that double, each drawn from the upper half so that
// two who collided part, within a bound on the whole.
type patience struct {
	end   time.Time
	pause time.Duration
}

func newPatience(within time.Duration) patience {
	return patience{end: time.Now().Add(within), pause: firstPause}
}

// left says whether the bound leaves time for a pause.
func (p *patience) left(pause time.Duration) bool { return !time.Now().Add(pause).After(p.end) }

// wait pauses before the next attempt. It returns false, at once, when the bound would pass or ctx has ended.
func (p *patience) wait(ctx context.Context) bool {
	pause := jittered(p.pause)
	p.pause = min(2*p.pause, maxPause)
	return p.left(pause) && pauseFor(ctx, pause)
}

// jittered draws from d/2 to d.
func jittered(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// pauseFor waits. It returns false when ctx ended.
func pauseFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
