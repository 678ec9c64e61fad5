// Package refresh crawls brands again in the background.
//
// Two things make a brand due. A record that a crawl found grows old: package brand says when it is due
// (hours where parts are missing, weeks where none are, growing waits after failures), and the brands read
// model lists who is. And a data set fills the index with thousands of brands, of which only those are
// crawled that somebody has looked up: crawling them all would be rude and mostly for nobody. So the
// refresher also reads the log for look-ups that were charged.
//
// All these crawls travel in the lane refresh, at a bounded rate and a few at a time, and never stand before
// live work. It remembers how far it came on the log; a repeat is harmless.
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
	"letterhead/internal/telemetry"
	"letterhead/projections/brands"
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
	// DefaultPoll is how often the schedule is looked at when nothing is due.
	DefaultPoll = time.Minute

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
	saveTime = 5 * time.Second
	// duePage bounds the due brands that are read at a time.
	duePage       = 100
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
	// Reset saves a position that may stand before the saved one, which Save does not.
	Reset(ctx context.Context, name string, position eventlog.Position) error
}

// Brands is what a Refresher needs of the brand commands.
type Brands interface {
	State(ctx context.Context, domain string) (*brand.Brand, error)
	RequestCrawl(ctx context.Context, in commands.RequestCrawl) (commands.Crawl, error)
}

// Schedule lists the brands whose records are due; the brands read model is the real one.
type Schedule interface {
	Due(ctx context.Context, now time.Time, after brands.Due, limit int) ([]brands.Due, error)
}

// Config configures a Refresher.
type Config struct {
	// Off makes Run wait for its context and do nothing.
	Off            bool
	Every          time.Duration // DefaultEvery
	Allowed        time.Duration // DefaultAllowed
	MaxOutstanding int           // not more than there are workers of lane refresh; DefaultMaxOutstanding
	Poll           time.Duration // DefaultPoll

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
	if c.Poll == 0 {
		c.Poll = DefaultPoll
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
	if c.Poll < 0 {
		errs = append(errs, fmt.Errorf("refresher: Poll is %s, must not be negative", c.Poll))
	}
	if c.MaxOutstanding < 1 || c.MaxOutstanding > limitOutstanding {
		errs = append(errs, fmt.Errorf("refresher: MaxOutstanding is %d, must be 1 to %d", c.MaxOutstanding, limitOutstanding))
	}
	return errors.Join(errs...)
}

// Refresher asks for crawls of brands that are due. It is for one goroutine, which calls Run.
type Refresher struct {
	cfg         Config
	log         Log
	checkpoints Checkpoints
	brands      Brands
	schedule    Schedule
	requested   *prometheus.CounterVec
	skipped     prometheus.Counter

	// turn is held by who asks for a crawl, so that both kinds together keep to the rate. It guards open.
	turn chan struct{}
	open map[string]outstanding

	begun   bool              // at and saved are known
	at      eventlog.Position // everything up to it was looked at
	saved   eventlog.Position // what the checkpoint says
	savedAt time.Time         // when a save was last attempted
}

// New returns a Refresher.
func New(cfg Config, log Log, checkpoints Checkpoints, brands Brands, schedule Schedule) (*Refresher, error) {
	cfg.setDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("refresher configuration: %w", err)
	}
	if log == nil || checkpoints == nil || brands == nil || schedule == nil {
		return nil, errors.New("refresher: log, checkpoints, brands and schedule are needed")
	}
	r := &Refresher{
		cfg: cfg, log: log, checkpoints: checkpoints, brands: brands, schedule: schedule,
		turn: make(chan struct{}, 1), open: map[string]outstanding{},
		requested: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "letterhead_refresh_requested_total", Help: "Background crawls requested, by why: imported brands that somebody looked up, and records that are due.",
		}, []string{"why"}),
		skipped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "letterhead_refresh_skipped_total", Help: "Brands that were skipped because they, or the charge that named them, could not be read or decided on.",
		}),
	}
	if err := telemetry.Register(cfg.Registerer, r.requested, r.skipped); err != nil {
		return nil, fmt.Errorf("register refresher metrics: %w", err)
	}
	return r, nil
}
