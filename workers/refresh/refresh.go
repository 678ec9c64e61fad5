// Package refresh crawls imported brands once somebody has looked them up.
//
// A data set fills the index with thousands of brands; crawling them all would be rude and mostly for
// nobody. So the refresher reads the log for look-ups that were charged, and asks for a crawl of each such
// brand that no crawl has ever confirmed. The crawls travel in the lane refresh, at a bounded rate and a few
// at a time, and never stand before live work. It remembers how far it came; a repeat is harmless.
//
// What cannot be read is told and skipped, for one brand in trouble must not stop the others. Only a charge
// written by a newer release ends Run.
package refresh

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/internal/eventlog"
)

// Limits and defaults.
const (
	// DefaultEvery is the time between two requests: at most one a second.
	DefaultEvery = time.Second
	// DefaultAllowed is how long one crawl may take.
	DefaultAllowed = 30 * time.Second
	// DefaultMaxOutstanding is how many crawls may be open at a time: as many as there are workers for them
	// by default. More would wait for a worker while their time runs out.
	DefaultMaxOutstanding = 4

	// limitOutstanding bounds MaxOutstanding.
	limitOutstanding = 1000
	// maxSeen bounds the domains that are remembered as looked at, so that a brand that everybody looks up
	// is folded once in a while and not for each charge.
	maxSeen = 10_000
	// seenFor is how long such a brand is not looked at again; a crawl that failed may be due by then.
	seenFor = time.Hour
	// saveEvery is how often the position is saved at most.
	saveEvery = 5 * time.Second
	// saveTime bounds one save, also the last, which comes after the end of Run's context.
	saveTime      = 5 * time.Second
	retryAfter    = 100 * time.Millisecond
	maxRetryAfter = 30 * time.Second

	checkpoint = "refresh"
	actor      = "system:refresh"
)

// Log is what a Refresher needs of the event log.
type Log interface {
	Subscribe(ctx context.Context, after eventlog.Position, filter eventlog.Filter) (eventlog.Subscription, error)
	Head(ctx context.Context) (eventlog.Position, error)
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
	Off            bool
	Every          time.Duration // DefaultEvery
	Allowed        time.Duration // DefaultAllowed
	MaxOutstanding int           // not more than there are workers of lane refresh; DefaultMaxOutstanding

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
	if c.MaxOutstanding == 0 {
		c.MaxOutstanding = DefaultMaxOutstanding
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
		errs = append(errs, fmt.Errorf("refresher: Every is %s, must not be negative", c.Every))
	}
	if c.Allowed < time.Second {
		errs = append(errs, fmt.Errorf("refresher: Allowed is %s, must be at least a second", c.Allowed))
	}
	if c.MaxOutstanding < 1 || c.MaxOutstanding > limitOutstanding {
		errs = append(errs, fmt.Errorf("refresher: MaxOutstanding is %d, must be 1 to %d", c.MaxOutstanding, limitOutstanding))
	}
	return errors.Join(errs...)
}

// Refresher asks for crawls of imported brands that somebody looked up. It is for one goroutine, which calls
// Run.
type Refresher struct {
	cfg         Config
	log         Log
	checkpoints Checkpoints
	brands      Brands
	requested   prometheus.Counter
	skipped     prometheus.Counter

	begun   bool              // at and saved are known
	at      eventlog.Position // everything up to it was looked at
	saved   eventlog.Position // what the checkpoint says
	savedAt time.Time         // when a save was last attempted
	open    map[string]outstanding
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
	r := &Refresher{
		cfg: cfg, log: log, checkpoints: checkpoints, brands: brands, open: map[string]outstanding{},
		requested: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "letterhead_refresh_requested_total", Help: "Background crawls requested for imported brands that somebody looked up.",
		}),
		skipped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "letterhead_refresh_skipped_total", Help: "Charges that were skipped because they or their brand could not be read or decided on.",
		}),
	}
	if cfg.Registerer != nil {
		if err := errors.Join(cfg.Registerer.Register(r.requested), cfg.Registerer.Register(r.skipped)); err != nil {
			return nil, fmt.Errorf("register refresher metrics: %w", err)
		}
	}
	return r, nil
}
