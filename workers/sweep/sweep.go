// Package sweep ends abandoned holds and crawls: those whose deadline passed because the node that owned them died. It
// follows the log, remembers open holds and crawls, and appends the ends through the same commands that requests use.
//
// Any account writer that handles an account also releases its overdue holds, and any waiter ends its overdue
// crawl; the sweeper is for accounts and brands that are not in use. Several sweepers may run: the
// commands decide on the streams, so the second one finds nothing left to end.
//
// A damaged event is logged and skipped: its stream cannot be folded, so nothing can be ended there.
// An event of a newer release ends Run, because skipping it would lose the hold or crawl that it begins.
package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/internal/telemetry"
)

const (
	// DefaultEvery is the pause between two sweeps.
	DefaultEvery = 5 * time.Second
	// DefaultMaxOpen limits the holds and crawls that are remembered. It is some hundred times the
	// number that the service-wide crawl limit of 240 a minute leaves open, and as saved memory, of at
	// most about 340 bytes each, it is far below sqlstore.MaxSnapshotBytes.
	DefaultMaxOpen = 1 << 15
	// DefaultSaveEvery is the interval between saves of the memory, so that a start reads little of the log.
	DefaultSaveEvery = time.Minute
	// crawlSlack is added to a crawl's time before the sweeper ends it, so that a live waiter comes first.
	crawlSlack = 3 * time.Second
	// saveTime limits the last save, which comes after the end of ctx.
	saveTime = 5 * time.Second
	// endTime limits one command, so that one faulty account does not delay the others.
	endTime = 10 * time.Second
	// sweepBatch limits the accounts, and the crawls, that one sweep handles; the rest waits for the next.
	sweepBatch = 1000
)

// Holds releases holds; *commands.AccountWriter. Its clock must be the sweeper's.
type Holds interface {
	ReleaseOverdue(ctx context.Context, accountID string) (int, error)
}

// Crawls ends crawls; *commands.Brands. Its clock must be the sweeper's.
type Crawls interface {
	ExpireCrawl(ctx context.Context, domain, crawlID string) error
}

// Memory saves the sweeper's state; *sqlstore.Snapshots. It is disposable: without it the log is read
// from its beginning.
type Memory interface {
	Load(ctx context.Context, stream string, foldVersion int) (revision uint64, state []byte, found bool, err error)
	Save(ctx context.Context, stream string, foldVersion int, revision uint64, state []byte) error
	Discard(ctx context.Context, stream string, foldVersion int) error
}

// Config of a Sweeper. The zero value is complete.
type Config struct {
	Every      time.Duration         // between two sweeps; DefaultEvery when 0
	SaveEvery  time.Duration         // between two saves of the memory; DefaultSaveEvery when 0
	MaxOpen    int                   // holds and crawls remembered at a time; DefaultMaxOpen when 0
	Now        func() time.Time      // nil: time.Now
	Logger     *slog.Logger          // nil: none
	Registerer prometheus.Registerer // nil: none
}

func (c *Config) setDefaults() {
	c.Every = cmp.Or(c.Every, DefaultEvery)
	c.SaveEvery = cmp.Or(c.SaveEvery, DefaultSaveEvery)
	c.MaxOpen = cmp.Or(c.MaxOpen, DefaultMaxOpen)
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
}

// Sweeper is for one goroutine, which calls Run.
type Sweeper struct {
	cfg     Config
	log     eventlog.Log
	holds   Holds
	crawls  Crawls
	memory  Memory
	metrics metrics

	open  open
	saved eventlog.Position // of the last save
}

// New returns a sweeper.
func New(cfg Config, log eventlog.Log, holds Holds, crawls Crawls, memory Memory) (*Sweeper, error) {
	cfg.setDefaults()
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, err
	}
	return &Sweeper{cfg: cfg, log: log, holds: holds, crawls: crawls, memory: memory, metrics: m}, nil
}

// Run follows the log and sweeps until ctx ends, and then returns nil. While the log is unavailable it waits.
// Errors: eventlog.ErrCorrupt, eventlog.ErrClosed, eventschemas.ErrUnknownVersion.
func (s *Sweeper) Run(ctx context.Context) error {
	return delay.While(ctx, eventlog.ErrUnavailable, s.cfg.Every, s.cfg.Logger, "the sweeper waits for the log", s.follow)
}

// follow reads, folds and sweeps until an error occurs or ctx ends.
func (s *Sweeper) follow(ctx context.Context) error {
	if err := s.remember(ctx); err != nil {
		return err
	}
	sub, err := s.log.Subscribe(ctx, s.open.Position, filter)
	if err != nil {
		return fmt.Errorf("follow the log after position %d: %w", s.open.Position, err)
	}
	defer sub.Close()
	defer s.saveAtLast(ctx)

	var under eventlog.Batch // events of a batch for which there was no room yet
	live := false            // until live, most of what looks open has ended further down the log
	sweepAt, saveAt := time.Now().Add(s.cfg.Every), time.Now().Add(s.cfg.SaveEvery)
	for {
		wait, swept := min(time.Until(sweepAt), time.Until(saveAt)), false
		if len(under.Events) > 0 {
			err = delay.For(ctx, wait)
		} else {
			under, err = eventlog.NextWithin(ctx, sub, wait) // a sweep must not wait for an event
			swept = under.Live && !live                      // ends what was left behind while no sweeper ran
		}
		if err == nil {
			err = s.fold(&under)
		}
		if err != nil {
			return fmt.Errorf("follow the log: %w", err)
		}
		live = live || under.Live
		s.metrics.note(s.open)
		if !time.Now().Before(saveAt) {
			s.save(ctx)
			saveAt = time.Now().Add(s.cfg.SaveEvery)
		}
		due := !time.Now().Before(sweepAt)
		if swept || due && (live || len(under.Events) > 0) {
			// What cannot be ended now is retried at the next sweep; if the log is unavailable, the rest is skipped.
			if s.releaseHolds(ctx) {
				s.endCrawls(ctx)
			}
			if err := s.fold(&under); err != nil {
				return err
			}
			s.metrics.note(s.open)
		}
		if due { // counted from the end of a sweep: one that takes longer than Every leaves time to read the log
			sweepAt = time.Now().Add(s.cfg.Every)
		}
	}
}

const (
	whatHold  = "hold"
	whatCrawl = "crawl"
)

type metrics struct {
	swept *prometheus.CounterVec
	open  *prometheus.GaugeVec
}

func newMetrics(registerer prometheus.Registerer) (metrics, error) {
	m := metrics{
		swept: telemetry.Counters("letterhead_sweep_ended_total",
			"Overdue holds that the sweeper released, and overdue crawls that it ended.", "what"),
		open: telemetry.Gauges("letterhead_sweep_open",
			"Holds and crawls that have not ended, as far as the sweeper has read the log.", "what"),
	}
	if err := telemetry.Register(registerer, m.swept, m.open); err != nil {
		return m, fmt.Errorf("register metrics of the sweeper: %w", err)
	}
	return m, nil
}

func (m metrics) note(o open) {
	m.open.WithLabelValues(whatHold).Set(float64(len(o.Holds)))
	m.open.WithLabelValues(whatCrawl).Set(float64(len(o.Crawls)))
}

// releaseHolds returns false if the log is unavailable.
func (s *Sweeper) releaseHolds(ctx context.Context) bool {
	for id, holds := range s.overdueHolds() {
		n, err := s.release(ctx, id)
		s.metrics.swept.WithLabelValues(whatHold).Add(float64(n))
		switch {
		case isUnavailable(ctx, err):
			s.cfg.Logger.Warn("the event log is unavailable; overdue holds are released later", "error", err)
			return false
		case permanent(err):
			s.cfg.Logger.Error("overdue holds cannot be released; look at the account", "account", id,
				"holds", len(holds), "error", err)
		case err != nil:
			s.cfg.Logger.Warn("overdue holds could not be released yet", "account", id, "error", err)
			continue
		case n == account.MaxReleases:
			continue // there may be more than one command releases
		}
		// They are removed now, not when their ends are read from the log, which is not read while memory is full.
		for _, key := range holds {
			delete(s.open.Holds, key)
		}
	}
	return true
}

// overdueHolds returns the keys of overdue holds, by account.
func (s *Sweeper) overdueHolds() map[string][]string {
	// Account writers decide in whole microseconds. Holds that are overdue here must be overdue there, or they
	// would be forgotten.
	now, due := s.cfg.Now().Truncate(time.Microsecond), map[string][]string{}
	for key, h := range s.open.Holds {
		if _, chosen := due[h.Account]; now.After(h.Deadline) && (chosen || len(due) < sweepBatch) {
			due[h.Account] = append(due[h.Account], key)
		}
	}
	return due
}

func (s *Sweeper) endCrawls(ctx context.Context) {
	now, looked := s.cfg.Now(), 0
	for domain, c := range s.open.Crawls {
		if !now.After(c.Deadline.Add(crawlSlack)) {
			continue
		}
		if looked++; looked > sweepBatch {
			return
		}
		err := s.expire(ctx, domain, c.ID)
		switch {
		case isUnavailable(ctx, err):
			s.cfg.Logger.Warn("the event log or the database is unavailable; overdue crawls are ended later", "error", err)
			return
		case permanent(err):
			s.cfg.Logger.Error("an overdue crawl cannot be ended; look at the brand", "domain", domain, "error", err)
		case err != nil:
			s.cfg.Logger.Warn("an overdue crawl could not be ended yet", "domain", domain, "error", err)
			continue
		default:
			s.metrics.swept.WithLabelValues(whatCrawl).Inc()
		}
		delete(s.open.Crawls, domain)
	}
}

func (s *Sweeper) release(ctx context.Context, accountID string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	return s.holds.ReleaseOverdue(ctx, accountID)
}

func (s *Sweeper) expire(ctx context.Context, domain, crawlID string) error {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	return s.crawls.ExpireCrawl(ctx, domain, crawlID)
}

// isUnavailable reports whether further commands would fail now, too.
func isUnavailable(ctx context.Context, err error) bool {
	return err != nil &&
		(ctx.Err() != nil || errors.Is(err, eventlog.ErrUnavailable) || errors.Is(err, eventlog.ErrClosed) ||
			errors.Is(err, sqlstore.ErrUnavailable))
}

// permanent reports whether later sweeps would fail, too: this release cannot decide on the stream.
func permanent(err error) bool {
	return slices.ContainsFunc([]error{
		account.ErrNotFound, eventlog.ErrCorrupt, eventlog.ErrInvalid,
		eventschemas.ErrDamaged, eventschemas.ErrUnknownType, eventschemas.ErrUnknownVersion,
	}, func(fault error) bool { return errors.Is(err, fault) })
}
