package refresh

import (
	"context"
	"errors"
	"fmt"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
)

// candidate is a brand that may be due for a crawl.
type candidate struct {
	domain  string
	due     func(b *brand.Brand) bool // according to the stream, which is ahead of every read model
	why     string                    // label of the metric
	request commands.Request
	after   eventlog.Position // the end of a crawl that is running now comes after it
}

// ask requests a crawl of a brand that is due for one, as soon as there is room for it, and keeps to
// the rate. A brand that is not due does not delay the others.
func (r *Refresher) ask(ctx context.Context, c candidate) error {
	if due, err := r.due(ctx, c); err != nil || !due {
		return err
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := r.room(ctx); err != nil {
		return err
	}
	if due, err := r.due(ctx, c); err != nil || !due { // it may have been crawled while it waited
		return err
	}
	if err := r.request(ctx, c); err != nil {
		return err
	}
	return delay.For(ctx, r.cfg.Every)
}

// due reports whether a brand is due, and no crawl of it is running or has just failed.
func (r *Refresher) due(ctx context.Context, c candidate) (bool, error) {
	b, err := r.brands.State(ctx, c.domain)
	if err != nil {
		return false, fmt.Errorf("fold brand %s: %w", c.domain, err)
	}
	return b.Idle(r.cfg.Now()) && c.due(b), nil
}

func (r *Refresher) request(ctx context.Context, c candidate) error {
	crawl, err := r.brands.RequestCrawl(ctx, commands.RequestCrawl{
		Request: c.request, Domain: c.domain, Cause: brand.CauseSchedule, Priority: brand.PriorityBulk,
		Allowed: r.cfg.Allowed,
	})
	var remembered *brand.RememberedError
	switch {
	case err == nil:
		r.opened(c.domain, crawl, c.after)
		if !crawl.Joined {
			r.requested.WithLabelValues(c.why).Inc()
			r.cfg.Logger.Info("background crawl requested", "domain", c.domain, "crawl_id", crawl.ID, "why", c.why)
		}
		return nil
	case errors.Is(err, brand.ErrWithdrawn), errors.Is(err, brand.ErrAlreadyKnown), errors.As(err, &remembered):
		return nil // decided in the meantime
	}
	return fmt.Errorf("request a crawl of %s: %w", c.domain, err)
}
