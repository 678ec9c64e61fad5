package engine

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"letterhead/internal/delay"
	"letterhead/internal/sqlstore"
)

// failure is the reason why a model's live generation is quarantined.
type failure struct {
	err      error
	attempts int
	retryAt  time.Time
}

// spawnRetry starts a catch-up loop that retries a generation that is not in the live loop. The caller holds step.
func (r *Runner) spawnRetry(g *generation) {
	if r.spawn != nil {
		r.spawn(func(ctx context.Context) { r.retry(ctx, g) })
	}
}

// noteFailure records why a live generation is stopped, for waiters, logs and other nodes.
func (r *Runner) noteFailure(ctx context.Context, g *generation, cause error, attempts int, pause time.Duration) {
	m := g.model
	m.mu.Lock()
	m.failure = &failure{err: cause, attempts: attempts, retryAt: r.cfg.Now().Add(pause)}
	m.mu.Unlock()
	m.mark.fail(&QuarantinedError{Name: m.name, Position: g.position(), Err: cause})
	r.cfg.Logger.ErrorContext(ctx, "read model is quarantined; will retry",
		slog.String("projection", m.name), slog.Uint64("position", uint64(g.position())),
		slog.Int("attempts", attempts), slog.Duration("pause", pause), slog.Any("error", cause))
	r.storeFailure(ctx, g, failureText(cause))
}

// failureText returns the text of an error as projections_registry stores it: limited, and valid UTF-8.
func failureText(err error) string {
	text := err.Error()
	return strings.ToValidUTF8(strings.ReplaceAll(text[:min(len(text), maxFailureBytes)], "\x00", ""), "")
}

// storeFailure records the reason in projections_registry, where `projections list` finds it without a server. If that
// fails, nothing else depends on it.
func (r *Runner) storeFailure(ctx context.Context, g *generation, text string) {
	err := r.store.Write(ctx, func(tx *sqlstore.Tx) error { return setFailure(ctx, tx, g, text) })
	if err != nil && ctx.Err() == nil {
		r.cfg.Logger.WarnContext(ctx, "state of a read model could not be recorded",
			slog.String("projection", g.model.name), slog.Any("error", err))
	}
}

// retry retries a quarantined generation until it has reached the live loop, a rebuild has replaced it, or ctx ends.
func (r *Runner) retry(ctx context.Context, g *generation) {
	pause := r.cfg.backoff()
	for attempts := 1; ; attempts++ {
		before := g.position()
		c := &catchUp{r: r, units: []*generation{g}}
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

// replaced reports whether this node has made another generation live. It waits for a swap, which holds step.
func (r *Runner) replaced(ctx context.Context, g *generation) bool {
	if err := r.step.lock(ctx); err != nil {
		return true // ctx ended
	}
	defer r.step.Unlock()
	return g.model.liveGeneration() != g
}

// errReplaced: another generation became live while this one was being retried.
var errReplaced = errors.New("generation was replaced")

// rejoin puts a generation that has caught up back into the live loop. The caller holds step.
func (r *Runner) rejoin(ctx context.Context, g *generation) error {
	m := g.model
	if m.liveGeneration() != g {
		return errReplaced
	}
	r.inLive = append(r.inLive, g)
	m.mu.Lock()
	m.failure = nil
	m.mu.Unlock()
	m.mark.reach(g.position(), nil)
	r.storeFailure(ctx, g, "")
	r.cfg.Logger.InfoContext(ctx, "read model left quarantine", slog.String("projection", m.name))
	return nil
}
