package refresh

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/internal/delay"
	"letterhead/projections"
	"letterhead/projections/brands"
)

// keepFresh requests crawls of due records until an error occurs or ctx ends.
func (r *Refresher) keepFresh(ctx context.Context) (came bool, err error) {
	skipped := map[string]time.Time{}
	for {
		switch err := r.round(ctx, skipped); {
		case errors.Is(err, projections.ErrNotReady): // its tables are being built
		case err != nil:
			return came, err
		default:
			came = true
		}
		if err := delay.For(ctx, r.cfg.Poll); err != nil {
			return came, err
		}
	}
}

// round goes once through all due brands, longest due first. The list lags slightly behind the log: the brand's stream
// decides. A brand that could not be decided on remains on the list, and is skipped for a while.
func (r *Refresher) round(ctx context.Context, skipped map[string]time.Time) error {
	now := r.cfg.Now()
	var last brands.Due
	for {
		page, err := r.schedule.Due(ctx, now, last, duePage)
		if err != nil {
			return fmt.Errorf("read the schedule: %w", err)
		}
		if len(page) == 0 {
			return nil
		}
		for _, due := range page {
			last = due
			if at, ok := skipped[due.Domain]; ok && now.Sub(at) < seenFor {
				continue
			}
			if kept, err := r.keep(ctx, due.Domain); err != nil {
				return err
			} else if kept {
				continue
			}
			if len(skipped) >= maxSeen {
				clear(skipped)
			}
			skipped[due.Domain] = now
		}
	}
}

// keep requests a crawl of one due brand. kept is false if it could not be decided on.
func (r *Refresher) keep(ctx context.Context, domain string) (kept bool, err error) {
	head, err := r.log.Head(ctx)
	if err != nil {
		return false, fmt.Errorf("read the head of the log: %w", err)
	}
	err = r.ask(ctx, candidate{
		domain: domain, why: "due", after: head,
		due: func(b *brand.Brand) bool {
			at, ok := b.NextCrawl()
			return ok && !r.cfg.Now().Before(at)
		},
		request: commands.Request{ID: uuid.NewString(), Actor: actor},
	})
	if err == nil || isUnavailable(ctx, err) {
		return err == nil, err
	}
	r.skipped.Inc()
	r.cfg.Logger.Error("a brand that is due is skipped", "domain", domain, "error", err)
	return false, nil
}
