package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
)

// Progress of a replay.
type Progress struct {
	// Events is the number of events folded so far.
	Events int64
	// Position is how far the replay is and Target its end, which moves while events are appended.
	Position, Target eventlog.Position
}

// catchUp brings generations up to the position of the live loop.
type catchUp struct {
	r     *Runner
	units []*generation
	// failed holds the generations whose fold failed; they are no longer among units.
	failed   failures
	progress func(Progress) // may be nil
	events   int64
	space    freeSpace
	// eager means that no fold holds rows.
	eager bool
}

// run folds until the units have reached the live loop, and then calls level while the live loop is paused. It calls
// loaded once before that, when most events are folded. A unit whose fold fails drops out at the position before the
// event that it failed on. If none is left, run returns without calling level.
func (c *catchUp) run(ctx context.Context, loaded, level func(context.Context) error) error {
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
			continue // building indexes took time, in which events were appended
		}
		if folded <= levelEvents {
			return c.levelOut(ctx, level)
		}
	}
	return nil
}

// position returns the position of the unit that is furthest behind.
func (c *catchUp) position() eventlog.Position {
	return slices.MinFunc(c.units, func(a, b *generation) int { return cmp.Compare(a.position(), b.position()) }).position()
}

// advance folds up to a position and returns the number of events.
func (c *catchUp) advance(ctx context.Context, target eventlog.Position) (folded int, err error) {
	units := slices.Clone(c.units)
	defer func() {
		for _, g := range units {
			if g.hold = false; err != nil {
				g.reset()
			}
		}
	}()
	for pause := c.r.cfg.faultBackoff(); ; {
		n, err := c.fromCheckpoint(ctx, target)
		if folded += n; !errors.Is(err, errDropped) {
			return folded, err
		}
		c.r.cfg.Logger.ErrorContext(ctx, "folding events failed; will retry from the checkpoint",
			slog.Any("error", err))
		if err := delay.For(ctx, pause.pause()); err != nil {
			return folded, err
		}
	}
}

// errDropped: rows that were held in memory have been dropped with a failure of the database or of the log.
var errDropped = errors.New("rows in memory were dropped")

func (c *catchUp) fromCheckpoint(ctx context.Context, target eventlog.Position) (folded int, err error) {
	at := c.position()
	if at >= target {
		return 0, nil
	}
	f := c.r.between(ctx, at, target)
	defer f.stop()
	p := &pipeline{c: c}
	for len(c.units) > 0 {
		b, more, err := f.next(ctx, c.r.cfg.BatchEvents)
		if err == nil && !more {
			err = p.flush(ctx)
		}
		if err != nil || !more {
			return folded, errors.Join(err, p.drain(ctx))
		}
		b.after = p.before.upTo
		if err := c.space.check(int64(b.bytes) * writeAmplification); err != nil {
			return folded, errors.Join(err, p.drain(ctx))
		}
		p.hold()
		if err := p.fold(ctx, b); err != nil {
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

const (
	// heldBatches limits the batches whose changed rows are held and then written at once; a crash repeats them.
	heldBatches = 25
	// maxHeldRows limits the rows that all read models hold, of 200 to 400 bytes each.
	maxHeldRows = 400_000
)

// pipeline folds a batch while the previous one is being written.
type pipeline struct {
	c       *catchUp
	before  batch
	held    int          // batches since all rows were written
	written chan written // nil if no write is pending
}

type written struct {
	failed failures
	err    error
}

// hold decides which units hold the rows of the next batch. Each writes them after heldBatches, one unit after another,
// because a transaction keeps other writers waiting; if there are too many rows, the one that has most writes them.
func (p *pipeline) hold() {
	p.held++
	rows, most := 0, 0
	for _, g := range p.c.units {
		rows, most = rows+g.tables.Held(), max(most, g.tables.Held())
	}
	for i, g := range p.c.units {
		due := (p.held+i*heldBatches/len(p.c.units))%heldBatches == 0
		g.hold = !due && !p.c.eager && g.state != stateLive && (rows < maxHeldRows || g.tables.Held() < most)
	}
}

// flush writes the rows that are held.
func (p *pipeline) flush(ctx context.Context) error {
	holding := func(g *generation) bool { return g.tables.Held() > 0 }
	if !slices.ContainsFunc(p.c.units, holding) {
		return nil
	}
	for _, g := range p.c.units {
		g.hold = false
	}
	return p.fold(ctx, batch{upTo: p.before.upTo, after: p.before.upTo})
}

// fold folds a batch and starts to write it after the previous one. After an error no write is pending and all folds
// are reset.
func (p *pipeline) fold(ctx context.Context, b batch) error {
	c := p.c
	work, failed, err := c.r.foldOnce(ctx, c.units, b)
	late, derr := p.wait(ctx)
	if derr != nil {
		return derr
	}
	if err != nil { // a failure of the store; with no write pending, it can be retried
		reset(c.units)
		if slices.ContainsFunc(c.units, b.gap) {
			return fmt.Errorf("%w: %w", errDropped, err)
		}
		if work, failed, err = c.r.fold(ctx, c.units, b); err != nil {
			return err
		}
		late = nil
	}
	for g := range late { // its batch was folded on top of changes that could not be written
		work = without(work, g)
		g.reset()
		delete(failed, g)
	}
	if err := c.dropFailed(ctx, failed, b); err != nil {
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

// wait waits for the pending write and returns the units that it failed for.
func (p *pipeline) wait(ctx context.Context) (late failures, err error) {
	if p.written == nil {
		return nil, nil
	}
	w := <-p.written // the write ends with ctx
	p.written = nil
	if w.err != nil {
		reset(p.c.units)
		return nil, w.err
	}
	reset(slices.Collect(maps.Keys(w.failed)))
	return w.failed, p.c.dropFailed(ctx, w.failed, p.before)
}

func (p *pipeline) drain(ctx context.Context) error {
	_, err := p.wait(ctx)
	return err
}

// again folds a batch into those of the units that have not dropped out.
func (c *catchUp) again(ctx context.Context, units failures, b batch) error {
	for g := range units {
		if !slices.Contains(c.units, g) {
			continue
		}
		failed, err := c.r.foldAndWrite(ctx, []*generation{g}, b)
		if err != nil {
			return err
		}
		if err := c.dropFailed(ctx, failed, b); err != nil {
			return err
		}
	}
	return nil
}

// dropFailed folds each failed unit up to the event that it cannot fold, and removes it. A unit that succeeds when the
// batch is folded in pieces is kept.
func (c *catchUp) dropFailed(ctx context.Context, failed failures, b batch) error {
	for g, cause := range failed {
		var err error
		if b.gap(g) {
			cause, err = c.alone(ctx, g, b.upTo)
		} else {
			g.hold = false
			cause, err = c.narrow(ctx, g, b, cause)
		}
		if err != nil {
			return err
		}
		if cause == nil {
			continue // it succeeded in pieces
		}
		c.failed = c.failed.add(g, cause)
		c.units = slices.DeleteFunc(c.units, func(u *generation) bool { return u == g })
	}
	return nil
}

// gap reports whether events before the batch are missing in the rows of a unit, because it held some when it failed.
func (b batch) gap(g *generation) bool { return g.position() < b.after }

// alone folds a unit up to a position without holding rows. cause is the error of the event that it cannot fold.
func (c *catchUp) alone(ctx context.Context, g *generation, upTo eventlog.Position) (cause, err error) {
	one := &catchUp{r: c.r, units: []*generation{g}, space: c.space, eager: true}
	_, err = one.advance(ctx, upTo)
	return one.failed[g], err
}

// narrow folds a failed batch in halves, so that the unit stops right before the event that it cannot fold. It returns
// that event's error as cause, or nil if the whole batch succeeded.
func (c *catchUp) narrow(ctx context.Context, g *generation, b batch, known error) (cause, err error) {
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

// levelOut folds the rest and calls level, while the live loop is paused.
func (c *catchUp) levelOut(ctx context.Context, level func(context.Context) error) error {
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
