package node

import (
	"context"
	"time"

	wait "letterhead/internal/delay"
)

const (
	// turn is how long a process beside a server works before it checks how busy the machine is.
	turn = 50 * time.Millisecond
	// busyShare is the share of a turn, 1/busyShare, for which the process is ready to run and has no CPU if the
	// machine is busy.
	busyShare = 4
	// restPerDelay is how long the process rests for each second of such a delay if the machine is busy. The lowest
	// priority alone has a cost for the server: whatever the process computes while a server pauses evicts the server's
	// memory from the caches. See BenchmarkLookupsDuringExport.
	restPerDelay = 4
	// maxRest bounds a rest, so that a stall of the machine does not stop the work for long.
	maxRest = time.Second
)

// pacer makes a process that reads beside a server use less CPU time while the server is busy.
type pacer struct {
	// delay returns how long the threads of the process have been ready to run without a CPU. It falls when a thread
	// ends; a turn in which one does may seem less busy.
	delay func() time.Duration

	held  chan struct{} // the lock of what follows, which a goroutine also holds while it rests
	began time.Time     // of the turn; zero before the first
	seen  time.Duration // delay when the turn began
}

func newPacer(delay func() time.Duration) *pacer {
	return &pacer{delay: delay, held: make(chan struct{}, 1)}
}

// rest waits if the machine was busy during the turn that has ended. It returns ctx.Err() if ctx ends first.
func (p *pacer) rest(ctx context.Context) error {
	if err := wait.Send(ctx, p.held, struct{}{}); err != nil {
		return err
	}
	defer func() { <-p.held }()
	worked := time.Since(p.began)
	if worked < turn {
		return nil
	}
	if delay := p.delay() - p.seen; !p.began.IsZero() && delay*busyShare > worked {
		if err := wait.For(ctx, min(restPerDelay*delay, maxRest)); err != nil {
			return err
		}
	}
	p.began, p.seen = time.Now(), p.delay()
	return nil
}
