// Package refresh recrawls brands in the background.
//
// A brand becomes due in two ways. First, a record that a crawl found grows old: package brand decides
// when it is due (hours if parts are missing, weeks if none are, growing waits after failures), and
// the brands read model lists the due brands. Second, a data set fills the index with thousands of
// brands, of which only those are crawled that have been looked up: crawling them all would be rude
// and mostly useless. So the refresher also reads charged look-ups from the log.
//
// All these crawls have bulk priority, run at a limited rate and a few at a time, and never precede live
// work. The refresher remembers its position in the log; a repeat is harmless.
//
// Unreadable data is logged and skipped, because one faulty brand must not stop the others. Only a
// charge written by a newer release ends Run.
package refresh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/internal/checkpoint"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/telemetry"
	"letterhead/projections"
	"letterhead/projections/brands"
)

// Limits and defaults.
const (
	// DefaultEvery is the interval between requests: at most one a second.
	DefaultEvery = time.Second
	// DefaultAllowed is the time limit of one crawl.
	DefaultAllowed = 30 * time.Second
	// DefaultMaxOutstanding is the number of crawls that may be open at a time: by default as many as
	// there are workers for them. More would wait for a worker while their time runs out.
	DefaultMaxOutstanding = 4
	// DefaultPoll is how often the schedule is read when nothing is due.
	DefaultPoll = time.Minute

	// maxSeen limits the domains that are remembered as examined, so that a popular brand is folded
	// occasionally, not for each charge.
	maxSeen = 10_000
	// seenFor is how long such a brand is not examined again; a crawl that failed may be due by then.
	seenFor = time.Hour
	// saveEvery is the minimum interval between saves of the position.
	saveEvery = 5 * time.Second
	// duePage is the number of due brands that are read at a time.
	duePage       = 100
	retryAfter    = 100 * time.Millisecond
	maxRetryAfter = 30 * time.Second

	actor = "system:refresh"
)

// Brands are the brand commands that a Refresher uses.
type Brands interface {
	State(ctx context.Context, domain string) (*brand.Brand, error)
	RequestCrawl(ctx context.Context, in commands.RequestCrawl) (commands.Crawl, error)
}

// Schedule lists the brands whose records are due; it is implemented by the brands read model.
type Schedule interface {
	Due(ctx context.Context, now time.Time, after brands.Due, limit int) ([]brands.Due, error)
}

// Config configures a Refresher.
type Config struct {
	// Off makes Run wait for its context and do nothing.
	Off            bool
	Every          time.Duration // DefaultEvery
	Allowed        time.Duration // DefaultAllowed
	MaxOutstanding int           // at most the number of workers for bulk crawls; DefaultMaxOutstanding
	Poll           time.Duration // DefaultPoll

	Logger     *slog.Logger          // nil: none
	Registerer prometheus.Registerer // nil: none
	Now        func() time.Time      // nil: time.Now
}

func (c *Config) setDefaults() {
	c.Every = cmp.Or(c.Every, DefaultEvery)
	c.Allowed = cmp.Or(c.Allowed, DefaultAllowed)
	c.MaxOutstanding = cmp.Or(c.MaxOutstanding, DefaultMaxOutstanding)
	c.Poll = cmp.Or(c.Poll, DefaultPoll)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
}

// Refresher requests crawls of due brands. It is for one goroutine, which calls Run.
type Refresher struct {
	cfg       Config
	log       checkpoint.Log
	brands    Brands
	schedule  Schedule
	requested *prometheus.CounterVec
	skipped   prometheus.Counter

	// turn is held while requesting a crawl, so that both kinds together keep to the rate. It guards open.
	turn chan struct{}
	open map[string]outstanding

	done checkpoint.Checkpoint // everything up to it was examined
}

// New returns a Refresher.
func New(cfg Config, log checkpoint.Log, checkpoints checkpoint.Store, brands Brands, schedule Schedule) (*Refresher, error) {
	cfg.setDefaults()
	r := &Refresher{
		cfg: cfg, log: log, brands: brands, schedule: schedule,
		done: checkpoint.Checkpoint{Name: "refresh", Store: checkpoints, Every: saveEvery, Logger: cfg.Logger},
		turn: make(chan struct{}, 1), open: map[string]outstanding{},
		requested: telemetry.Counters("letterhead_refresh_requested_total",
			"Background crawls requested, by reason: imported brands that were looked up, and due records.", "why"),
		skipped: telemetry.Counter("letterhead_refresh_skipped_total",
			"Brands that were skipped because they, or the charge that named them, could not be read or decided on."),
	}
	if err := telemetry.Register(cfg.Registerer, r.requested, r.skipped); err != nil {
		return nil, fmt.Errorf("register refresher metrics: %w", err)
	}
	return r, nil
}

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
