// Package refresh crawls imported brands once somebody has looked them up.
//
// A data set fills the index with thousands of brands; crawling them all would be rude and mostly for
// nobody. So the refresher reads the log for look-ups that were charged, and asks for a crawl of each such
// brand that no crawl has ever confirmed. The crawls travel in the lane refresh, at a bounded rate, and
// never stand before live work. It remembers how far it came; a repeat is harmless.
package refresh

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// Limits and defaults.
const (
	// DefaultEvery is the time between two requests: at most one a second.
	DefaultEvery = time.Second
	// DefaultAllowed is how long one crawl may take.
	DefaultAllowed = 30 * time.Second

	// maxSeen bounds the domains that are remembered as looked at, so that a brand that everybody looks up
	// is folded once in a while and not for each charge.
	maxSeen = 10_000
	// seenFor is how long such a brand is not looked at again; a crawl that failed may be due by then.
	seenFor = time.Hour
	// saveEvery is how often the position is saved at most.
	saveEvery     = 5 * time.Second
	saveTime      = 5 * time.Second
	retryAfter    = 100 * time.Millisecond
	maxRetryAfter = 30 * time.Second

	checkpoint = "refresh"
	actor      = "system:refresh"
)

// Log is what a Refresher needs of the event log.
type Log interface {
	Subscribe(ctx context.Context, after eventlog.Position, filter eventlog.Filter) (eventlog.Subscription, error)
}

// Checkpoints remember how far the log was read.
type Checkpoints interface {
	Load(ctx context.Context, name string) (position eventlog.Position, found bool, err error)
	Save(ctx context.Context, name string, position eventlog.Position) error
}

// Brands is what a Refresher needs of the brand commands.
type Brands interface {
	State(ctx context.Context, domain string) (*brand.Brand, error)
	RequestCrawl(ctx context.Context, in commands.RequestCrawl) (commands.Crawl, error)
}

// Config configures a Refresher.
type Config struct {
	// Off makes Run wait for its context and do nothing.
	Off     bool
	Every   time.Duration // DefaultEvery
	Allowed time.Duration // DefaultAllowed

	Logger     *slog.Logger          // nil: none
	Registerer prometheus.Registerer // nil: none
	Now        func() time.Time      // nil: time.Now
}

func (c *Config) setDefaults() {
	if c.Every == 0 {
		c.Every = DefaultEvery
	}
	if c.Allowed == 0 {
		c.Allowed = DefaultAllowed
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
}

// Validate reports everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.Every < 0 {
		errs = append(errs, fmt.Errorf("Every is %s, must not be negative", c.Every))
	}
	if c.Allowed < time.Second {
		errs = append(errs, fmt.Errorf("Allowed is %s, must be at least a second", c.Allowed))
	}
	return errors.Join(errs...)
}

// Refresher asks for crawls of imported brands that somebody looked up.
type Refresher struct {
	cfg         Config
	log         Log
	checkpoints Checkpoints
	brands      Brands
	requested   prometheus.Counter
}

// New returns a Refresher.
func New(cfg Config, log Log, checkpoints Checkpoints, brands Brands) (*Refresher, error) {
	cfg.setDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("refresher configuration: %w", err)
	}
	if log == nil || checkpoints == nil || brands == nil {
		return nil, errors.New("refresher: log, checkpoints and brands are needed")
	}
	r := &Refresher{cfg: cfg, log: log, checkpoints: checkpoints, brands: brands, requested: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "letterhead_refresh_requested_total", Help: "Background crawls requested for imported brands that somebody looked up.",
	})}
	if cfg.Registerer != nil {
		if err := cfg.Registerer.Register(r.requested); err != nil {
			return nil, fmt.Errorf("register refresher metrics: %w", err)
		}
	}
	return r, nil
}

var filter = eventlog.Filter{EventTypes: []string{eventschemas.CreditsCharged{}.EventType()}}

// Run works until ctx ends, then returns nil. After a fault it begins again where it saved. A closed log
// ends it with eventlog.ErrClosed.
func (r *Refresher) Run(ctx context.Context) error {
	if r.cfg.Off {
		<-ctx.Done()
		return nil
	}
	wait := retryAfter
	for {
		err := r.follow(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, eventlog.ErrClosed) {
			return fmt.Errorf("refresh: %w", err)
		}
		r.cfg.Logger.Error("refresher starts again", "wait", wait, "error", err)
		if pause(ctx, wait/2+rand.N(wait/2+1)) != nil {
			return nil
		}
		wait = min(2*wait, maxRetryAfter)
	}
}

// follow reads charges from the saved position on, until something fails or ctx ends.
func (r *Refresher) follow(ctx context.Context) (err error) {
	saved, _, err := r.checkpoints.Load(ctx, checkpoint)
	if err != nil {
		return fmt.Errorf("load checkpoint: %w", err)
	}
	subscription, err := r.log.Subscribe(ctx, saved, filter)
	if err != nil {
		return fmt.Errorf("subscribe after position %d: %w", saved, err)
	}
	defer subscription.Close()
	at, savedAt := saved, time.Now()
	save := func(ctx context.Context) error {
		if at <= saved {
			return nil
		}
		if err := r.checkpoints.Save(ctx, checkpoint, at); err != nil {
			return fmt.Errorf("save checkpoint: %w", err)
		}
		saved, savedAt = at, time.Now()
		return nil
	}
	defer func() {
		saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
		defer cancel()
		err = errors.Join(err, save(saving))
	}()
	seen := map[string]time.Time{}
	for {
		batch, err := subscription.Next(ctx)
		if err != nil {
			return fmt.Errorf("read after position %d: %w", at, err)
		}
		for _, ev := range batch.Events {
			if err := r.charged(ctx, ev, seen); err != nil {
				return err
			}
			at = ev.Position
			if time.Since(savedAt) >= saveEvery {
				if err := save(ctx); err != nil {
					return err
				}
			}
		}
		at = max(at, batch.Position)
		if time.Since(savedAt) >= saveEvery {
			if err := save(ctx); err != nil {
				return err
			}
		}
	}
}

// charged looks at one charge and asks for a crawl when its brand was imported and never crawled.
func (r *Refresher) charged(ctx context.Context, recorded eventlog.Recorded, seen map[string]time.Time) error {
	ev, err := eventschemas.Decode(recorded.Type, recorded.SchemaVersion, recorded.Data)
	if err != nil {
		return fmt.Errorf("event at position %d: %w", recorded.Position, err)
	}
	charge, ok := ev.(eventschemas.CreditsCharged)
	now := r.cfg.Now()
	if last, known := seen[charge.Domain]; !ok || charge.Domain == "" || known && now.Sub(last) < seenFor {
		return nil
	}
	if len(seen) >= maxSeen {
		clear(seen)
	}
	seen[charge.Domain] = now
	state, err := r.brands.State(ctx, charge.Domain)
	if err != nil {
		return fmt.Errorf("fold brand %s: %w", charge.Domain, err)
	}
	if !due(state, now) {
		return nil
	}
	err = r.request(ctx, recorded, charge.Domain)
	if err != nil {
		delete(seen, charge.Domain)
		return err
	}
	return pause(ctx, r.cfg.Every)
}

// due says whether a brand was imported, and no crawl has found it, is under way or has just failed.
func due(b *brand.Brand, now time.Time) bool {
	if b.Withdrawn() || b.Crawled() || b.Imported() == nil {
		return false
	}
	if _, _, _, running := b.Running(); running {
		return false
	}
	_, _, remembered := b.Remembered(now)
	return !remembered
}

func (r *Refresher) request(ctx context.Context, charge eventlog.Recorded, domain string) error {
	crawl, err := r.brands.RequestCrawl(ctx, commands.RequestCrawl{
		Request: commands.Request{ID: charge.ID.String(), Actor: actor, CorrelationID: charge.Metadata.CorrelationID, CausationID: charge.ID.String()},
		Domain:  domain, Cause: brand.CauseSchedule, Lane: brand.LaneRefresh, Allowed: r.cfg.Allowed,
	})
	var remembered *brand.RememberedError
	switch {
	case err == nil:
		if !crawl.Joined {
			r.requested.Inc()
			r.cfg.Logger.Info("background crawl requested", "domain", domain, "crawl_id", crawl.ID)
		}
		return nil
	case errors.Is(err, brand.ErrWithdrawn), errors.Is(err, brand.ErrAlreadyKnown), errors.As(err, &remembered):
		return nil // decided meanwhile
	}
	return fmt.Errorf("request a crawl of %s: %w", domain, err)
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
