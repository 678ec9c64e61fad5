package search

import (
	"cmp"
	"context"
	"errors"
	"time"

	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/searchindex"
	"letterhead/projections"
)

// followEvery is how often a process that does not feed checks the index's position when no caller waits.
const followEvery = time.Second

// Position is the position up to which all changes of brands are searchable, as far as this process knows; see Current.
func (p *Projection) Position() eventlog.Position {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at
}

// Current returns Position, after a look at the index if another process feeds it. Errors: those of
// the index and of the source, ctx.Err().
func (p *Projection) Current(ctx context.Context) (eventlog.Position, error) {
	if p.Feeding() {
		return p.Position(), nil
	}
	err := p.look(ctx)
	return p.Position(), err
}

// Feeding reports whether this process feeds the index.
func (p *Projection) Feeding() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.feeding
}

// Err returns why the index is not making progress, nil while it is fed.
func (p *Projection) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *Projection) setFeeding(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.feeding = yes
	p.wake()
}

// wake lets all waiters check again. The caller holds mu.
func (p *Projection) wake() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

func (p *Projection) reach(at eventlog.Position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.err = max(p.at, at), nil
	p.wake()
}

// restart is reach for an index that was rebuilt: its position may be before the position of the index it
// replaces. The caller holds feed.
func (p *Projection) restart(at eventlog.Position) {
	p.saved = at
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.err = at, nil
	p.wake()
}

func (p *Projection) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
	p.metrics.failures.Inc()
}

// WaitFor waits until everything up to a position is searchable. It keeps waiting if feeding fails, because feeding is
// retried: only the caller's ctx limits it. Errors: ctx.Err(), with the failure if there is one.
func (p *Projection) WaitFor(ctx context.Context, at eventlog.Position) error {
	for {
		p.mu.Lock()
		if p.at >= at {
			p.mu.Unlock()
			return nil
		}
		if p.changed == nil {
			p.changed = make(chan struct{})
		}
		changed, looker := p.changed, p.looker
		if p.feeding {
			looker = nil
		}
		p.mu.Unlock()
		select {
		case <-changed:
		case looker <- struct{}{}: // one waiter looks for all
			p.note(ctx, p.look(ctx))
			if p.Position() < at {
				until(ctx, changed, p.cfg.Poll)
			}
			<-p.looker
		case <-ctx.Done():
			return errors.Join(ctx.Err(), p.Err())
		}
	}
}

func until(ctx context.Context, changed <-chan struct{}, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-changed:
	case <-t.C:
	case <-ctx.Done():
	}
}

// follow periodically looks at the index's position, for the metric and for Err.
func (p *Projection) follow(ctx context.Context) {
	for ctx.Err() == nil {
		if !p.Feeding() {
			p.note(ctx, p.look(ctx))
		}
		_ = delay.For(ctx, followEvery)
	}
}

// look determines up to where everything is searchable while another process feeds: up to the index's
// checkpoint, and further if no brand has changed after it. The checkpoint is read first, so that the
// brands table is read at the same time or later.
func (p *Projection) look(ctx context.Context) error {
	checkpoint, of, err := p.index.Checkpoint(ctx)
	if _, name, failed := p.own(ctx); err == nil && of.Log != "" && of.Log != name {
		err = cmp.Or(failed, p.Check(ctx))
	}
	if err != nil {
		return err
	}
	at := eventlog.Position(checkpoint)
	docs, upTo, err := p.source.Changed(ctx, at, 1)
	if err != nil && !errors.Is(err, projections.ErrNotReady) {
		return err
	}
	if err == nil && len(docs) == 0 {
		at = upTo
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.feeding { // feeding began in the meantime, and has better information
		return nil
	}
	moved := p.at != at
	if p.at = at; moved {
		p.wake()
	}
	return nil
}

// note records why a look failed, or that it succeeded.
func (p *Projection) note(ctx context.Context, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil || p.feeding {
		return
	}
	if p.err == nil && errors.Is(err, searchindex.ErrOtherLog) {
		p.cfg.Logger.Error("searches are answered with 503", "error", err)
	}
	p.err = err
}
