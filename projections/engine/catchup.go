package engine

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
)

// Progress of a replay.
type Progress struct {
	// Events were folded so far.
	Events int64
	// Position is how far it is, Target where it is going; Target moves while events are appended.
	Position, Target eventlog.Position
}

// chaser brings units level with the main lane.
type chaser struct {
	r     *Runner
	units []*generation
	// failed are the units whose fold failed; they are no longer among units.
	failed   failures
	progress func(Progress) // may be nil
	events   int64
	room     room
}

// run folds until the units are level with the main lane, and calls level while the main lane stands still.
// loaded is called once before, when nearly all is folded. Units whose fold fails drop out, each standing
// right before the event that it failed on; run returns without calling level when none is left.
func (c *chaser) run(ctx context.Context, loaded, level func(context.Context) error) error {
	for first := true; len(c.units) > 0; first = false {
		folded, err := c.advance(ctx, eventlog.Position(c.r.level.Load()))
		if err != nil {
			return err
		}
		if len(c.units) == 0 {
			return nil
		}
		if first && loaded != nil {
			if err := loaded(ctx); err != nil {
				return err
			}
			continue // indexes take their time; see what has come meanwhile
		}
		if folded <= levelEvents {
			return c.levelOut(ctx, level)
		}
	}
	return nil
}

// position is where the hindmost unit stands.
func (c *chaser) position() eventlog.Position {
	at := c.units[0].position()
	for _, g := range c.units[1:] {
		at = min(at, g.position())
	}
	return at
}

// advance folds up to a position and returns how many events that was.
func (c *chaser) advance(ctx context.Context, target eventlog.Position) (folded int, err error) {
	at := c.position()
	if at >= target {
		return 0, nil
	}
	f := c.r.between(ctx, at, target)
	defer f.stop()
	p := &pipeline{c: c}
	for len(c.units) > 0 {
		b, more, err := f.next(ctx, c.r.cfg.BatchEvents)
		if err != nil || !more {
			return folded, errors.Join(err, p.drain(ctx))
		}
		if err := c.room.check(int64(b.bytes) * writeAmplification); err != nil {
			return folded, errors.Join(err, p.drain(ctx))
		}
		if err := p.put(ctx, b); err != nil {
			return folded, err
		}
		folded += len(b.events)
		c.events += int64(len(b.events))
		if c.progress != nil {
			c.progress(Progress{Events: c.events, Position: b.upTo, Target: target})
		}
	}
	return folded, p.drain(ctx)
}

// pipeline folds one batch while the one before is being written.
type pipeline struct {
	c       *chaser
	before  batch
	written chan written // nil when nothing is on its way
}

type written struct {
	failed failures
	err    error
}

// put folds a batch and starts writing it when the one before is written. After an error nothing is on its
// way and all folds are reset.
func (p *pipeline) put(ctx context.Context, b batch) error {
	c := p.c
	work, failed, err := c.r.foldOnce(ctx, c.units, b)
	late, derr := p.wait(ctx)
	if derr != nil {
		return derr
	}
	if err != nil { // a fault; now that nothing is on its way, it can be tried again
		reset(c.units)
		if work, failed, err = c.r.fold(ctx, c.units, b); err != nil {
			return err
		}
		late = nil
	}
	for g := range late { // folded on top of what could not be written
		work = without(work, g)
		g.fold.Reset()
		delete(failed, g)
	}
	if err := c.settle(ctx, failed, b); err != nil {
		return err
	}
	if err := c.again(ctx, late, b); err != nil {
		return err
	}
	p.before = b
	p.written = make(chan written, 1)
	go func() {
		failed, err := c.r.write(ctx, work, b.upTo)
		p.written <- written{failed, err}
	}()
	return nil
}

// wait waits until nothing is on its way, and returns the units whose part of it could not be written.
func (p *pipeline) wait(ctx context.Context) (late failures, err error) {
	if p.written == nil {
		return nil, nil
	}
	w := <-p.written // the write ends by itself when ctx does
	p.written = nil
	if w.err != nil {
		reset(p.c.units)
		return nil, w.err
	}
	reset(slices.Collect(maps.Keys(w.failed)))
	return w.failed, p.c.settle(ctx, w.failed, p.before)
}

func (p *pipeline) drain(ctx context.Context) error {
	_, err := p.wait(ctx)
	return err
}

// again folds a batch into those of the units that are still with us.
func (c *chaser) again(ctx context.Context, units failures, b batch) error {
	for g := range units {
		if !slices.Contains(c.units, g) {
			continue
		}
		failed, err := c.r.foldAndWrite(ctx, []*generation{g}, b)
		if err != nil {
			return err
		}
		if err := c.settle(ctx, failed, b); err != nil {
			return err
		}
	}
	return nil
}

// settle takes units that failed out, after it has brought each to the event that it failed on.
func (c *chaser) settle(ctx context.Context, failed failures, b batch) error {
	for g, cause := range failed {
		cause, err := c.narrow(ctx, g, b, cause)
		if err != nil {
			return err
		}
		if cause == nil {
			continue // it went well this time, piece by piece
		}
		c.failed = c.failed.add(g, cause)
		c.units = slices.DeleteFunc(c.units, func(u *generation) bool { return u == g })
	}
	return nil
}

// narrow folds a batch that failed in halves, so that the unit ends up right before the event that it
// cannot fold, whose error is returned as cause. A nil cause means that the whole batch went well.
func (c *chaser) narrow(ctx context.Context, g *generation, b batch, known error) (cause, err error) {
	if len(b.events) <= 1 {
		return known, nil
	}
	first := b
	second := first.split(len(b.events) / 2)
	for _, half := range []batch{first, second} {
		failed, err := c.r.foldAndWrite(ctx, []*generation{g}, half)
		if err != nil {
			return nil, err
		}
		if own := failed[g]; own != nil {
			if cause, err := c.narrow(ctx, g, half, own); cause != nil || err != nil {
				return cause, err
			}
		}
	}
	return nil, nil
}

// levelOut folds what is left and calls level, both while the main lane stands still.
func (c *chaser) levelOut(ctx context.Context, level func(context.Context) error) error {
	if err := c.r.step.lock(ctx); err != nil {
		return err
	}
	defer c.r.step.Unlock()
	if _, err := c.advance(ctx, eventlog.Position(c.r.level.Load())); err != nil {
		return err
	}
	if len(c.units) == 0 {
		return nil
	}
	return level(ctx)
}

// failure is why the live generation of a model is set aside.
type failure struct {
	err      error
	attempts int
	retryAt  time.Time
}

// setAside takes a live generation out of the main lane and starts a lane that tries it again. The caller
// holds step and removes it from main.
func (r *Runner) setAside(ctx context.Context, g *generation, cause error) {
	r.noteFailure(ctx, g, cause, 0, 0)
	r.spawnRetry(g)
}

func (r *Runner) spawnRetry(g *generation) {
	if r.spawn != nil {
		r.spawn(func(ctx context.Context) { r.retry(ctx, g) })
	}
}

// noteFailure tells everybody that a live generation does not go on.
func (r *Runner) noteFailure(ctx context.Context, g *generation, cause error, attempts int, pause time.Duration) {
	m := g.model
	m.mu.Lock()
	m.failure = &failure{err: cause, attempts: attempts, retryAt: r.cfg.Now().Add(pause)}
	m.mu.Unlock()
	m.mark.fail(&SetAsideError{Name: m.name, Position: g.position(), Err: cause})
	r.cfg.Logger.ErrorContext(ctx, "read model is set aside and will be tried again",
		slog.String("projection", m.name), slog.Uint64("position", uint64(g.position())),
		slog.Int("attempts", attempts), slog.Duration("pause", pause), slog.Any("error", cause))
	r.storeFailure(ctx, g, failureText(cause))
}

// failureText is what the registry keeps of an error. A database of UTF-8 takes nothing else.
func failureText(err error) string {
	text := err.Error()
	return strings.ToValidUTF8(strings.ReplaceAll(text[:min(len(text), maxFailureBytes)], "\x00", ""), "")
}

// storeFailure keeps the reason in the registry, for a `projections list` without a server. It is news
// only, so a database that cannot take it does not matter.
func (r *Runner) storeFailure(ctx context.Context, g *generation, text string) {
	err := r.store.Write(ctx, func(tx *sqlstore.Tx) error { return setFailure(ctx, tx, g, text) })
	if err != nil && ctx.Err() == nil {
		r.cfg.Logger.WarnContext(ctx, "state of a read model could not be noted", slog.String("projection", g.model.name), slog.Any("error", err))
	}
}

// retry tries a set-aside generation until it is level with the main lane again, replaced by a rebuild, or
// ctx ends.
func (r *Runner) retry(ctx context.Context, g *generation) {
	pause := r.cfg.backoff()
	for attempts := 1; ; attempts++ {
		before := g.position()
		c := &chaser{r: r, units: []*generation{g}}
		err := c.run(ctx, nil, func(ctx context.Context) error { return r.rejoin(ctx, g) })
		switch {
		case ctx.Err() != nil, errors.Is(err, errReplaced):
			return
		case errors.Is(err, errDeposed):
			if r.replaced(ctx, g) {
				return
			}
			if r.shared {
				r.depose()
				return
			}
		case err == nil && c.failed[g] == nil:
			return
		case err == nil:
			err = c.failed[g]
		}
		if g.position() > before {
			pause, attempts = r.cfg.backoff(), 1
		}
		wait := pause.pause()
		if g.model.liveGeneration() != g {
			return
		}
		r.noteFailure(ctx, g, err, attempts, wait)
		if delay.For(ctx, wait) != nil {
			return
		}
	}
}

// replaced says whether another generation of this node's own making is live: one that is about to be holds step.
func (r *Runner) replaced(ctx context.Context, g *generation) bool {
	if err := r.step.lock(ctx); err != nil {
		return true // nobody goes on
	}
	defer r.step.Unlock()
	return g.model.liveGeneration() != g
}

// errReplaced: another generation became live while this one was tried again.
var errReplaced = errors.New("generation was replaced")

// rejoin puts a generation that is level back into the main lane. The caller holds step.
func (r *Runner) rejoin(ctx context.Context, g *generation) error {
	m := g.model
	if m.liveGeneration() != g {
		return errReplaced
	}
	r.main = append(r.main, g)
	m.mu.Lock()
	m.failure = nil
	m.mu.Unlock()
	m.mark.reach(g.position())
	r.storeFailure(ctx, g, "")
	r.cfg.Logger.InfoContext(ctx, "read model goes on", slog.String("projection", m.name))
	return nil
}
