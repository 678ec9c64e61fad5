package crawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/broker"
	"letterhead/internal/delay"
	"letterhead/internal/telemetry"
	"letterhead/projections"
)

const group = "crawler" // the consumer group of all crawlers

// Defaults and limits of a Worker.
const (
	defaultLiveWorkers    = 32
	defaultRefreshWorkers = 4
	defaultDrain          = 10 * time.Second // limits how long a shutdown waits for running crawls
	// hurry is subtracted from the allowed time, so that the outcome is in the log before the deadline of waiting
	// callers.
	hurry          = 500 * time.Millisecond
	recordTime     = 10 * time.Second       // limits appending an outcome, including retries
	recordAttempts = 6                      // limits the attempts
	recordPause    = 100 * time.Millisecond // before the first retry; doubled with each
	actor          = "system:crawler"       // appends the outcomes of crawls
)

// Brands are the brand commands that a Worker needs.
type Brands interface {
	State(ctx context.Context, domain string) (*brand.Brand, error)
	SucceedCrawl(ctx context.Context, in commands.SucceedCrawl) error
	ConfirmCrawl(ctx context.Context, in commands.ConfirmCrawl) error
	FailCrawl(ctx context.Context, in commands.FailCrawl) error
}

// Noted records, for all processes that crawl, which crawls were begun;
// *Attempts implements it.
type Noted interface {
	// Begin durably records that an attempt begins a crawl. It reports false if another attempt has already begun it. A
	// repeat by the same attempt reports true again.
	Begin(ctx context.Context, crawlID, attempt string) (bool, error)
}

// Crawls runs one crawl; Crawler implements it.
type Crawls interface {
	Crawl(ctx context.Context, t Target) (*Result, Stats, error)
}

// WorkerConfig configures a Worker. Package config checks the numbers.
type WorkerConfig struct {
	LiveWorkers    int                   // concurrent crawls of priority live (32)
	RefreshWorkers int                   // concurrent crawls of priority refresh (4)
	Drain          time.Duration         // how long a shutdown waits for running crawls (10 s)
	Logger         *slog.Logger          // nil: none
	Registerer     prometheus.Registerer // nil: none
	Now            func() time.Time      // nil: time.Now

	// IsStock reports whether an icon that was just seen at a brand is the stock icon of a template; nil: none is. The
	// read model icons implements it.
	IsStock func(ctx context.Context, icon string, now brand.Sighting) (bool, error)
}

func (c *WorkerConfig) setDefaults() {
	c.LiveWorkers = cmp.Or(c.LiveWorkers, defaultLiveWorkers)
	c.RefreshWorkers = cmp.Or(c.RefreshWorkers, defaultRefreshWorkers)
	c.Drain = cmp.Or(c.Drain, defaultDrain)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
}

// Worker takes crawl requests from the broker and runs them, in a separate pool
// for each priority: live work never waits behind bulk.
//
// A message is acknowledged when a worker of its pool has taken the crawl and recorded the attempt. A waiting crawl is
// therefore redelivered after a stop or a crash, and while a store that it needs is unavailable. A crawl is begun once,
// however often it is delivered. A crawl that crashed its process is left to its deadline, which counts it as lost in
// the brand's stream. A crawl that is already running here, has ended, or is past its deadline is not repeated either.
type Worker struct {
	cfg     WorkerConfig
	from    broker.Port
	brands  Brands
	noted   Noted
	crawls  Crawls
	metrics *metrics
	live    *pool
	refresh *pool
}

// NewWorker returns a Worker.
func NewWorker(cfg WorkerConfig, from broker.Port, brands Brands, noted Noted, crawls Crawls) (*Worker, error) {
	cfg.setDefaults()
	if from == nil || brands == nil || noted == nil || crawls == nil {
		return nil, errors.New("crawl worker: broker, brands, noted attempts and crawler are needed")
	}
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, err
	}
	w := &Worker{cfg: cfg, from: from, brands: brands, noted: noted, crawls: crawls, metrics: m}
	w.live = newPool("live", cfg.LiveWorkers, m)
	w.refresh = newPool("refresh", cfg.RefreshWorkers, m)
	return w, nil
}

// Run works until ctx ends. Then it takes no more messages, finishes the running crawls within the configured time, and
// returns nil. It returns the errors of the broker's Subscribe.
func (w *Worker) Run(ctx context.Context) error {
	// Running crawls outlive ctx by Drain, so that a restart does not lose them.
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	subscribed, cancel := context.WithCancel(ctx)
	defer cancel()

	var pools, subscriptions sync.WaitGroup
	errs := make(chan error, 2)
	for _, source := range []struct {
		topic string
		pool  *pool
	}{{broker.CrawlLive, w.live}, {broker.CrawlRefresh, w.refresh}} {
		source.pool.start(&pools, func(j *job) { w.crawl(working, source.pool, j) })
		subscriptions.Go(func() {
			err := w.from.Subscribe(subscribed, source.topic, group, func(ctx context.Context, m broker.Message) error {
				return w.accept(ctx, source.pool, m)
			})
			if err != nil && ctx.Err() == nil {
				errs <- fmt.Errorf("crawl worker, topic %s: %w", source.topic, err)
				cancel() // a worker needs both topics
			}
		})
	}
	subscriptions.Wait()
	w.live.close()
	w.refresh.close()
	drain := time.AfterFunc(w.cfg.Drain, stop)
	pools.Wait()
	drain.Stop()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// accept gives a request to its pool, and waits until the crawl is begun there
// or is unnecessary. Errors: broker.ErrNotNow if that could not be determined,
// ctx.Err(); any other error means that the message is not a crawl request.
func (w *Worker) accept(ctx context.Context, into *pool, m broker.Message) error {
	eventType, version, err := broker.EventType(m)
	if err != nil {
		return err
	}
	ev, err := eventschemas.Decode(eventType, version, m.Payload)
	if err != nil {
		return fmt.Errorf("message %s: %w", m.ID, err)
	}
	request, ok := ev.(eventschemas.CrawlRequested)
	if !ok {
		return fmt.Errorf("message %s is a %s, not a crawl request", m.ID, ev.EventType())
	}
	return into.accept(ctx, &job{
		request:     request,
		received:    w.cfg.Now(),
		causation:   m.ID,
		correlation: m.Metadata[broker.MetaCorrelation],
		attempt:     uuid.NewString(),
		decided:     make(chan struct{}),
	})
}

// crawl runs one job: it checks whether the crawl is still needed, crawls, and appends the outcome.
func (w *Worker) crawl(ctx context.Context, in *pool, j *job) {
	priority, began := in.priority, w.cfg.Now()
	logger := w.cfg.Logger.With("crawl_id", j.request.CrawlID, "domain", j.request.Domain, "lane", priority)
	target, held, why, err := w.wanted(ctx, j)
	if err != nil {
		err = fmt.Errorf("%w: %w", broker.ErrNotNow, err)
		logger.Error("crawl cannot begin now", "error", err)
	}
	in.decide(j, err)
	if err != nil {
		return
	}
	if why != "" {
		w.metrics.skipped.WithLabelValues(priority, why).Inc()
		logger.Info("crawl skipped", "reason", why)
		return
	}
	allowed := time.Duration(j.request.AllowedMS) * time.Millisecond
	working, cancel := context.WithTimeout(ctx, j.received.Add(max(allowed-hurry, allowed/2)).Sub(w.cfg.Now()))
	defer cancel()
	result, stats, err := w.safely(working, target)
	if err == nil && result.Withheld && brand.LosesLogo(held, result.Record, result.ByConvention) {
		result = &Result{NotModified: true} // a more restricted crawl must not lose the result of a live look-up
	}
	outcome := w.record(ctx, logger, j, result, err)
	took := w.cfg.Now().Sub(began)
	w.metrics.ended(priority, outcome, took, stats)
	logger.Info("crawl ended", "outcome", outcome, "duration", took, "requests", stats.Requests, "bytes", stats.Bytes)
}

// wanted folds the brand's state: a crawl that has ended, was superseded or is past its deadline is skipped. Otherwise
// the crawl is recorded as begun, and skipped if it already was. It returns the target and its known data: the data
// set's record of the brand, and for a scheduled crawl of a complete record the validators of the last home page. held
// is the record of the last crawl, or nil. Errors: as the brand and of the attempts if one of them is unavailable.
func (w *Worker) wanted(ctx context.Context, j *job) (target Target, held *eventschemas.Record, why string, err error) {
	allowed := time.Duration(j.request.AllowedMS) * time.Millisecond
	if !w.cfg.Now().Before(j.received.Add(allowed)) {
		return target, nil, "overdue", nil // it waited too long, here or for its delivery
	}
	var state *brand.Brand
	err = repeat(ctx, func(ctx context.Context) (err error) {
		state, err = w.brands.State(ctx, j.request.Domain)
		return err
	})
	if err != nil {
		return target, nil, "", fmt.Errorf("read brand: %w", err)
	}
	id, requestedAt, _, running := state.Running()
	switch {
	case !running || id != j.request.CrawlID:
		return target, nil, "ended", nil
	case !w.cfg.Now().Before(requestedAt.Add(allowed)):
		return target, nil, "overdue", nil
	}
	first := false
	j.late = w.cfg.Now().After(requestedAt.Add(allowed / 2))
	err = repeat(ctx, func(ctx context.Context) (err error) {
		first, err = w.noted.Begin(ctx, id, j.attempt)
		return err
	})
	if err != nil {
		return target, nil, "", err
	}
	if !first {
		return target, nil, "begun", nil // the deadline ends it if its process has crashed
	}
	target = Target{Domain: j.request.Domain, Known: state.Imported(),
		Scheduled: j.request.Cause == brand.CauseSchedule}
	if w.cfg.IsStock != nil && !state.View().Claimed {
		target.IsStock = w.isStock
	}
	if target.Scheduled && !target.holdsStock(ctx, state.Held()) {
		if etag, modified, ok := state.Conditional(); ok {
			target.ETag, target.LastModified = etag, modified
		}
	}
	if state.Crawled() {
		held = state.Held()
	}
	return target, held, "", nil
}

// isStock reports whether an icon is a template's. If the read model cannot tell, the site keeps the icon.
func (w *Worker) isStock(ctx context.Context, icon string, seen brand.Sighting) bool {
	stock, err := w.cfg.IsStock(ctx, icon, seen)
	if err != nil && !errors.Is(err, projections.ErrNotReady) {
		w.cfg.Logger.Warn("cannot tell whether an icon is a template's", "domain", seen.Domain, "error", err)
	}
	return err == nil && stock
}

// holdsStock reports whether a record has a template's icon, which a crawl must drop even if the page is unchanged.
func (t *Target) holdsStock(ctx context.Context, held *eventschemas.Record) bool {
	return t.IsStock != nil && held != nil && slices.ContainsFunc(held.Logos, func(l eventschemas.Logo) bool {
		return len(l.Formats) > 0 && t.IsStock(ctx, l.Formats[0].ID, brand.Sighting{Domain: t.Domain, At: t.Domain})
	})
}

// safely crawls, and turns a panic into a failure: a page that triggers a bug in a parser must not stop other crawls.
func (w *Worker) safely(ctx context.Context, t Target) (result *Result, stats Stats, err error) {
	defer func() {
		if p := recover(); p != nil {
			w.cfg.Logger.Error("crawl panicked", "domain", t.Domain, "panic", p, "stack", string(debug.Stack()))
			result, err = nil, &Failure{Outcome: brand.FetchFailed,
				Detail: "The page could not be read because of a bug in the crawler."}
		}
	}()
	return w.crawls.Crawl(ctx, t)
}

// record appends the outcome of a crawl and returns its name.
func (w *Worker) record(ctx context.Context, logger *slog.Logger, j *job, result *Result, crawlErr error) string {
	request := commands.Request{ID: j.request.CrawlID, Actor: actor, CorrelationID: j.correlation,
		CausationID: j.causation}
	var failure *Failure
	switch {
	case crawlErr == nil && result.NotModified:
		err := repeat(ctx, func(ctx context.Context) error {
			return w.brands.ConfirmCrawl(ctx,
				commands.ConfirmCrawl{Request: request, Domain: j.request.Domain, CrawlID: j.request.CrawlID})
		})
		if err != nil {
			logger.Error("appending the confirmation failed", "error", err)
			return "lost" // the deadline ends the crawl
		}
		return brand.Confirmed
	case crawlErr == nil:
		err := repeat(ctx, func(ctx context.Context) error {
			return w.brands.SucceedCrawl(ctx, commands.SucceedCrawl{
				Request: request, Domain: j.request.Domain, CrawlID: j.request.CrawlID, Record: result.Record,
				Evidence: result.Evidence, FinalURL: result.FinalURL, ETag: result.ETag,
				LastModified: result.LastModified, ByConvention: result.ByConvention,
			})
		})
		if err == nil {
			return brand.Succeeded
		}
		logger.Error("appending the record failed", "error", err)
		if !errors.Is(err, brand.ErrRecordTooLarge) {
			return "lost" // the deadline ends the crawl
		}
		failure = &Failure{Outcome: brand.NoData, Detail: "The result is too large for a record."}
	case errors.Is(crawlErr, context.Canceled):
		return "interrupted"
	case !errors.As(crawlErr, &failure):
		// For example, the pictures could not be stored, which says nothing about the site.
		logger.Error("crawl could not be completed", "error", crawlErr)
		failure = &Failure{Outcome: brand.NotBegun, Detail: "The crawl could not be completed here."}
	}
	if j.late && failure.Outcome == brand.Timeout { // a queue took the time, not the site
		failure = &Failure{brand.NotBegun, "The crawl began in the second half of its time, which ran out.", failure.Err}
	}
	err := repeat(ctx, func(ctx context.Context) error {
		return w.brands.FailCrawl(ctx, commands.FailCrawl{
			Request: request, Domain: j.request.Domain, CrawlID: j.request.CrawlID, Outcome: failure.Outcome,
			Detail: failure.Detail,
		})
	})
	if err != nil {
		logger.Error("appending the failure failed", "outcome", failure.Outcome, "error", err)
		return "lost"
	}
	logger.Info("crawl failed", "outcome", failure.Outcome, "detail", failure.Detail, "error", failure.Err)
	return failure.Outcome
}

// repeat retries a function within recordTime, unless it fails with a permanent error.
func repeat(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	pause := recordPause
	for attempt := 1; ; attempt++ {
		err := do(ctx)
		if err == nil || attempt == recordAttempts || errors.Is(err, brand.ErrRecordTooLarge) ||
			errors.Is(err, brand.ErrInvalidCrawl) {
			return err
		}
		if delay.For(ctx, pause) != nil {
			return err
		}
		pause *= 2
	}
}

// metrics of a Worker.
type metrics struct {
	outcomes *prometheus.CounterVec
	skipped  *prometheus.CounterVec
	duration *prometheus.HistogramVec
	bytes    *prometheus.HistogramVec
	requests *prometheus.HistogramVec
	busy     *prometheus.GaugeVec
	queued   *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		outcomes: telemetry.Counters("letterhead_crawls_total",
			"Completed crawls, by priority (label lane) and outcome.", "lane", "outcome"),
		skipped: telemetry.Counters("letterhead_crawls_skipped_total",
			"Skipped crawl requests, by priority (label lane) and reason: ended, overdue, begun (before, by a process that "+
				"may be gone).", "lane", "reason"),
		duration: telemetry.Histograms("letterhead_crawl_duration_seconds", "Duration of a crawl, outcome appended.",
			[]float64{0.1, 0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 20, 30}, "lane"),
		bytes: telemetry.Histograms("letterhead_crawl_bytes", "Bytes of bodies fetched by a crawl, decompressed.",
			prometheus.ExponentialBuckets(1<<12, 4, 8), "lane"),
		requests: telemetry.Histograms("letterhead_crawl_requests", "Fetches of a crawl.",
			[]float64{1, 2, 4, 8, 12, 16, 24, 32}, "lane"),
		busy: telemetry.Gauges("letterhead_crawl_pool_busy", "Running crawls, by priority (label lane).", "lane"),
		queued: telemetry.Gauges("letterhead_crawl_pool_queued",
			"Delivered crawls waiting for a free worker, by priority (label lane).", "lane"),
	}
	err := telemetry.Register(r, m.outcomes, m.skipped, m.duration, m.bytes, m.requests, m.busy, m.queued)
	if err != nil {
		return nil, fmt.Errorf("register crawl metrics: %w", err)
	}
	return m, nil
}

func (m *metrics) ended(priority, outcome string, took time.Duration, s Stats) {
	m.outcomes.WithLabelValues(priority, outcome).Inc()
	m.duration.WithLabelValues(priority).Observe(took.Seconds())
	m.bytes.WithLabelValues(priority).Observe(float64(s.Bytes))
	m.requests.WithLabelValues(priority).Observe(float64(s.Requests))
}
