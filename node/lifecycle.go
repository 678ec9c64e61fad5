package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

// lifecycle runs the parts of a node, and ends them.
type lifecycle struct {
	logger *slog.Logger
	// alive ends when a part that must run has ended, with its error as the cause.
	alive context.Context
	kill  context.CancelCauseFunc
	// serving ends when the first of the groups of parts that start started is closed.
	serving     context.Context
	stopServing context.CancelFunc
	running     sync.WaitGroup

	mu      sync.Mutex     // guards closers
	closers []func() error // in the order of opening
}

func newLifecycle() *lifecycle {
	l := &lifecycle{}
	l.alive, l.kill = context.WithCancelCause(context.Background()) // of the process, not of the caller
	l.serving, l.stopServing = context.WithCancel(context.Background())
	return l
}

// closing adds a function that close calls.
func (l *lifecycle) closing(f func() error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closers = append(l.closers, f)
}

// close ends everything in the reverse order of opening.
func (l *lifecycle) close() error {
	var errs []error
	for i := len(l.closers) - 1; i >= 0; i-- {
		errs = append(errs, l.closers[i]())
	}
	return errors.Join(errs...)
}

// background starts work that continues until the node closes.
func (l *lifecycle) background(work func(context.Context)) {
	l.running.Go(func() { work(l.serving) })
}

// part runs for as long as a node serves. It returns nil when its context ends.
type part struct {
	name string
	run  func(context.Context) error
}

// run runs a part until the node closes. A part that ends before that stops the node, which must not look alive while a
// part of it does nothing.
func (l *lifecycle) run(ctx context.Context, name string, part func(context.Context) error) {
	l.running.Go(func() {
		err := part(ctx)
		if ctx.Err() != nil {
			return
		}
		l.logger.Error("a part of the service ended", "part", name, "error", err)
		l.kill(fmt.Errorf("%s ended: %w", name, err))
	})
}

// start starts parts, which then run until the node closes. All parts are stopped together, whichever call started
// them.
func (l *lifecycle) start(parts []part) {
	var workers sync.WaitGroup
	l.closing(func() error {
		l.stopServing()
		workers.Wait()
		return nil
	})
	for _, p := range parts {
		workers.Add(1)
		l.run(l.serving, p.name, func(ctx context.Context) error {
			defer workers.Done()
			return p.run(ctx)
		})
	}
}
