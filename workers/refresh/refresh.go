// Package refresh recrawls brands in the background.
//
// A brand becomes due in three ways. First, a record that a crawl found grows old: package brand decides
// when it is due (hours if parts are missing, weeks if none are, growing waits after failures), and
// the brands read model lists the due brands. Second, a data set fills the index with thousands of
// brands, of which only those are crawled that have been looked up: crawling them all would be rude
// and mostly useless. So the refresher also reads charged look-ups from the log. Third, an operator sends a list of
// domains, which is crawled at a rate of its own.
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
	"letterhead/eventschemas"
	"letterhead/internal/checkpoint"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/telemetry"
	"letterhead/internal/warming"
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
	// Off means that only the lists of operators are crawled.
	Off            bool
	Every          time.Duration // DefaultEvery
	Allowed        time.Duration // DefaultAllowed
	MaxOutstanding int           // at most the number of workers for bulk crawls; DefaultMaxOutstanding
	Poll           time.Duration // DefaultPoll

	Warming   *warming.Table // the lists of operators; nil: none
	WarmEvery time.Duration  // interval between their requests; DefaultWarmEvery

	Logger     *slog.Logger          // nil: none
	Registerer prometheus.Registerer // nil: none
	Now        func() time.Time      // nil: time.Now
}

func (c *Config) setDefaults() {
	c.Every = cmp.Or(c.Every, DefaultEvery)
	c.Allowed = cmp.Or(c.Allowed, DefaultAllowed)
	c.MaxOutstanding = cmp.Or(c.MaxOutstanding, DefaultMaxOutstanding)
	c.Poll = cmp.Or(c.Poll, DefaultPoll)
	c.WarmEvery = cmp.Or(c.WarmEvery, DefaultWarmEvery)
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

	// turn is held while requesting a crawl, so that due and looked-up brands together keep to the rate. It guards open.
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
			"Background crawls requested, by reason: imported brands that were looked up, due records, and lists of operators.", "why"),
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
	crawlID string                    // of an operator's list, which keeps to a rate of its own; else ""
	request commands.Request
	after   eventlog.Position // the end of a crawl that is running now comes after it
}

// ask requests a crawl of a brand that is due for one, as soon as there is room for it, and keeps to
// the rate. A brand that is not due does not delay the others.
func (r *Refresher) ask(ctx context.Context, c candidate) error {
	if due, err := r.due(ctx, c); err != nil || !due {
		return err
	}
	if err := delay.Send(ctx, r.turn, struct{}{}); err != nil {
		return err
	}
	defer func() { <-r.turn }()
	if err := r.room(ctx); err != nil {
		return err
	}
	if due, err := r.due(ctx, c); err != nil || !due { // it may have been crawled while it waited
		return err
	}
	if err := r.request(ctx, c); err != nil || c.crawlID != "" {
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
	cause := brand.CauseSchedule
	if c.crawlID != "" {
		cause = brand.CauseOperator
	}
	crawl, err := r.brands.RequestCrawl(ctx, commands.RequestCrawl{
		Request: c.request, CrawlID: c.crawlID, Domain: c.domain, Cause: cause, Priority: brand.PriorityBulk,
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

var charges = eventlog.Filter{EventTypes: []string{eventschemas.CreditsCharged{}.EventType()}}

// Run works until ctx ends, then returns nil. After a fault it continues where it was, after a growing wait.
//
// Errors: eventlog.ErrClosed; eventschemas.ErrUnknownType and ErrUnknownVersion if a charge was
// written by a newer release.
func (r *Refresher) Run(ctx context.Context) error {
	var loops []func(context.Context) (came bool, err error)
	if !r.cfg.Off {
		defer r.done.SaveAtLast(ctx)
		loops = append(loops, r.keepFresh, r.follow)
	}
	if r.cfg.Warming != nil {
		loops = append(loops, r.warm)
	}
	working, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(loops))
	for _, loop := range loops {
		go func() { ended <- r.persist(working, loop) }()
	}
	var errs []error
	for range loops {
		errs = append(errs, <-ended)
		cancel()
	}
	if len(loops) == 0 {
		<-ctx.Done()
	}
	return errors.Join(errs...)
}

// persist runs loop until ctx ends, retrying after faults. If a loop has made progress since the last
// fault, the wait starts at its minimum.
func (r *Refresher) persist(ctx context.Context, loop func(ctx context.Context) (came bool, err error)) error {
	wait := retryAfter
	for {
		came, err := loop(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if permanent(err) {
			return fmt.Errorf("refresh: %w", err)
		}
		if came {
			wait = retryAfter
		}
		r.cfg.Logger.Error("refresher starts again", "wait", wait, "error", err)
		if delay.For(ctx, delay.Jittered(wait)) != nil {
			return nil
		}
		wait = min(2*wait, maxRetryAfter)
	}
}

// permanent reports whether retrying cannot help.
func permanent(err error) bool {
	return errors.Is(err, eventlog.ErrClosed) || errors.Is(err, eventschemas.ErrUnknownType) ||
		errors.Is(err, eventschemas.ErrUnknownVersion)
}

// follow reads charges until an error occurs or ctx ends.
func (r *Refresher) follow(ctx context.Context) (came bool, err error) {
	before := r.done.At
	err = r.charges(ctx)
	return r.done.At > before, err
}

func (r *Refresher) charges(ctx context.Context) error {
	if err := r.done.Begin(ctx, r.log); err != nil {
		return err
	}
	subscription, err := r.log.Subscribe(ctx, r.done.At, charges)
	if err != nil {
		return fmt.Errorf("subscribe after position %d: %w", r.done.At, err)
	}
	defer subscription.Close()
	seen := map[string]time.Time{}
	for {
		batch, err := subscription.Next(ctx)
		if err != nil {
			return fmt.Errorf("read after position %d: %w", r.done.At, err)
		}
		for _, ev := range batch.Events {
			if err := r.charged(ctx, ev, seen); err != nil {
				return err
			}
			r.done.At = ev.Position
			r.done.SaveInTime(ctx)
		}
		r.done.At = max(r.done.At, batch.Position)
		r.done.SaveInTime(ctx)
	}
}

// charged examines one charge and requests a crawl if its brand was imported and never crawled.
func (r *Refresher) charged(ctx context.Context, recorded eventlog.Recorded, seen map[string]time.Time) error {
	ev, err := eventlog.Decode(&recorded, eventschemas.Decode)
	if errors.Is(err, eventschemas.ErrDamaged) {
		r.skip(recorded, "", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s at position %d: %w", recorded.Type, recorded.Position, err)
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
	err = r.ask(ctx, candidate{
		domain: charge.Domain, due: (*brand.Brand).OnlyImported, why: "looked_up", after: recorded.Position,
		request: commands.Request{ID: recorded.ID.String(), Actor: actor,
			CorrelationID: recorded.Metadata.CorrelationID, CausationID: recorded.ID.String()},
	})
	if err == nil || isUnavailable(ctx, err) {
		return err // after a fault the charge is examined again
	}
	r.skip(recorded, charge.Domain, err)
	return nil
}

// isUnavailable reports whether requests for other brands would fail now, too.
func isUnavailable(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || errors.Is(err, eventlog.ErrUnavailable) ||
		errors.Is(err, eventlog.ErrAmbiguous) || errors.Is(err, eventlog.ErrClosed))
}

// skip skips a charge. Its brand is examined again after a later look-up.
func (r *Refresher) skip(charge eventlog.Recorded, domain string, err error) {
	r.skipped.Inc()
	r.cfg.Logger.Error("a charged brand is skipped", "stream", charge.Stream, "revision", charge.Revision,
		"domain", domain, "error", err)
}

// ends selects the events that end a crawl.
var ends = eventlog.Filter{EventTypes: []string{
	eventschemas.CrawlSucceeded{}.EventType(), eventschemas.CrawlConfirmed{}.EventType(),
	eventschemas.CrawlFailed{}.EventType(),
}}

// outstanding is a crawl whose end has not been seen.
type outstanding struct {
	id       string
	deadline time.Time         // by the refresher's clock
	after    eventlog.Position // its end comes after this position
}

// opened remembers a crawl by its brand's stream, even one that was requested by another caller at the
// same time. Crawls of an earlier process are not known: right after a restart a few more may be open.
func (r *Refresher) opened(domain string, crawl commands.Crawl, after eventlog.Position) {
	r.open[brand.Stream(domain)] = outstanding{
		id: crawl.ID,
		// Counted from now: the time of the request may be from another node's clock.
		deadline: r.cfg.Now().Add(crawl.Allowed),
		// a joined crawl has no position, and was running when the brand was examined
		after: max(after, crawl.Position),
	}
}

// room waits until fewer than MaxOutstanding crawls are open: until one has ended on the log, or its
// deadline has passed. Crawls that queued behind slow ones would run out of time without an attempt.
func (r *Refresher) room(ctx context.Context) error {
	first, after := r.oldest()
	if len(r.open) < r.cfg.MaxOutstanding {
		return nil
	}
	subscription, err := r.log.Subscribe(ctx, after, ends)
	if err != nil {
		return fmt.Errorf("subscribe after position %d: %w", after, err)
	}
	defer subscription.Close()
	for len(r.open) >= r.cfg.MaxOutstanding {
		batch, err := eventlog.NextWithin(ctx, subscription, first.Sub(r.cfg.Now()))
		if err != nil {
			return fmt.Errorf("read the ends of crawls after position %d: %w", after, err)
		}
		for _, ev := range batch.Events {
			r.ended(ev)
		}
		after = max(after, batch.Position)
		first, _ = r.oldest()
	}
	return nil
}

// oldest forgets crawls whose deadline has passed. It returns the first deadline of the remaining
// crawls, and a position that precedes the end of each of them.
func (r *Refresher) oldest() (deadline time.Time, after eventlog.Position) {
	now, found := r.cfg.Now(), false
	for stream, c := range r.open {
		if !now.Before(c.deadline) {
			delete(r.open, stream)
			continue
		}
		if !found || c.deadline.Before(deadline) {
			deadline = c.deadline
		}
		if !found || c.after < after {
			after = c.after
		}
		found = true
	}
	return deadline, after
}

// ended forgets a crawl that an event ends.
func (r *Refresher) ended(recorded eventlog.Recorded) {
	open, ok := r.open[recorded.Stream]
	if !ok {
		return
	}
	ev, err := eventlog.Decode(&recorded, eventschemas.Decode)
	if err != nil {
		// Its deadline ends it.
		r.cfg.Logger.Error("the end of a crawl cannot be read", "stream", recorded.Stream,
			"revision", recorded.Revision, "error", err)
		return
	}
	if id, _ := brand.EndOf(ev); id == open.id {
		delete(r.open, recorded.Stream)
	}
}
