// Package search keeps the search index up to date and answers searches.
//
// It follows the read model of brands, not the log: search finds what a look-up would answer, and the
// fold exists only once. The index uses the position of a brand's last change as its version and the
// position up to which it is fed as its checkpoint, which lags behind the brands table; after a crash
// the missing part is fed again, which does not change existing documents.
//
// # Several nodes on one index
//
// With Config.Lead one process feeds and the others follow: from the index's checkpoint and from the brands table they
// know up to where everything is searchable. Leadership only saves work. A feeder begins at the checkpoint of the very
// generation that it writes to, so that two feeders, one of them a former leader that has not noticed, keep the promise
// of a checkpoint: all of the brands table up to it is in that generation. Any node may rebuild: it freezes the live
// generation, feeds its own up to the same checkpoint, and swaps, so that everything searchable remains so.
//
// # The log of the index
//
// With Config.Log an index names the log that it is fed from: its first event, when that occurred, and the last restore or accepted loss.
// An index of another log is refused. The process that feeds rebuilds one of an earlier state of the log, or without a
// name, but only when it begins: two copies of an installation must not take turns. An embedded index belongs to its
// folder, and is rebuilt in any case.
package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/searchindex"
	"letterhead/internal/telemetry"
	"letterhead/projections"
	"letterhead/projections/brands"
)

// Name of the read model.
const Name = "search"

// Defaults and limits.
const (
	// batch is the number of brands that are read and indexed together.
	batch = brands.MaxPage
	// DefaultPoll is the interval between reads of the brands if there is no notification of changes.
	DefaultPoll = 100 * time.Millisecond
	// calm is the minimum interval between two reads that found nothing: the brands table moves with
	// every charge, but few of them change a brand.
	calm = 10 * time.Millisecond
	// retryFirst and retryLast limit the pause after a failure; it doubles in between.
	retryFirst = 100 * time.Millisecond
	retryLast  = 30 * time.Second
	// closing limits the last write of the checkpoint, including the wait for the right to write.
	closing = 5 * time.Second
	// openWait limits the comparison of a shared index with the log at a start.
	openWait = 5 * time.Second
	// lossChecks is how many consecutive checks, lossCheckPause apart, must find a shared index past the
	// end of the log before that counts as a loss: a node may briefly see an outdated end of the log.
	lossChecks     = 5
	lossCheckPause = 2 * time.Second
)

// Source provides the documents: the read model of brands.
type Source interface {
	// Changed returns brands that changed after a position, in that order, and the position up to
	// which all were returned; see brands.Model.
	Changed(ctx context.Context, after eventlog.Position, limit int) ([]brands.Doc, eventlog.Position, error)
}

// Config of a Projection. The zero value is complete.
type Config struct {
	// Await waits until the source has reached a position. Without it the source is read every Poll;
	// with it Poll is only the pause after it failed.
	Await func(ctx context.Context, at eventlog.Position) error
	// Lead is set if other processes share the index. It runs do while this process is the leader for the name, like
	// sqlstore.Store.Lead, and never if this process should only follow. nil: this process feeds.
	Lead func(ctx context.Context, name string, do func(context.Context) error) error
	// Log is the log that the brands are folded from. An index that is past its end is not fed: it was fed from events
	// that the log does not have. New then fails with a *eventlog.LossError; the leader of a shared index retries and
	// Err returns the error. nil: the index is not compared with a log.
	Log eventlog.Prober
	// Accepted identifies the last restore of the log or accepted loss; see sqlstore.Store.LogID.
	Accepted string
	// Last returns an event that the brands are folded up to, or a later one; nil: none is stored with the checkpoint.
	Last func(ctx context.Context) (eventlog.Mark, error)
	// Poll is 100 ms unless set.
	Poll       time.Duration
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

func (c Config) withDefaults() Config {
	c.Poll = cmp.Or(c.Poll, DefaultPoll)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// Validate reports an error in the configuration.
func (c Config) Validate() error {
	if c.Poll < 0 {
		return fmt.Errorf("search: Poll is %s", c.Poll)
	}
	return nil
}

// Projection feeds an index, or follows one that another process feeds, and searches it.
type Projection struct {
	cfg     Config
	source  Source
	index   searchindex.Index
	metrics *metrics

	shared bool // other processes feed the index, too

	// feed has an entry while the index is being written; see hold.
	feed chan struct{}
	// saved is the index's checkpoint; adrift means that the index was replaced, and joined that this process has fed an
	// index of its log; marked is when an event was last stored with a checkpoint. All are guarded by feed.
	saved          eventlog.Position
	joined, adrift bool
	marked         time.Time

	// looker is held by the waiter that looks for all others while another process feeds.
	looker chan struct{}

	naming sync.Mutex // held while the log is read, unlike mu
	log    string     // names the log of this process; "" before it was read and while it is empty
	origin origin     // the content of log

	mu      sync.Mutex
	feeding bool
	at      eventlog.Position // everything up to here is searchable
	err     error             // why it is not making progress
	changed chan struct{}     // closed at the next change; nil while there is no waiter
}

// New returns a projection that continues from the index's checkpoint. Errors: as Validate, of Log and of the index; of
// a shared index only searchindex.ErrOtherLog, so that a node can start while the index is unavailable.
func New(ctx context.Context, cfg Config, source Source, index searchindex.Index) (*Projection, error) {
	err := cfg.Validate()
	if source == nil || index == nil {
		err = errors.Join(err, errors.New("search: source and index are needed"))
	}
	if err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	p := &Projection{cfg: cfg, shared: cfg.Lead != nil, source: source, index: index, feed: make(chan struct{}, 1),
		looker: make(chan struct{}, 1)}
	if err := p.open(ctx); err != nil {
		return nil, fmt.Errorf("open search: %w", err)
	}
	if p.metrics, err = newMetrics(cfg.Registerer, p.Position); err != nil {
		return nil, err
	}
	return p, nil
}

// open compares the index with the log.
func (p *Projection) open(ctx context.Context) error {
	if p.shared {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, openWait)
		defer cancel()
	}
	at, err := p.inspect(ctx)
	p.feeding = !p.shared
	switch {
	case err == errUnnamed, err == errEarlier, p.shared && !errors.Is(err, searchindex.ErrOtherLog):
		return nil
	case err == nil:
		p.at, p.saved = at, at
	}
	return err
}

// Empty empties an index, so that it is fed from the beginning. No process may feed it at the same
// time. Errors: as the index.
func Empty(ctx context.Context, index searchindex.Index) error {
	g, err := index.Rebuild(ctx)
	if err != nil {
		return err
	}
	return errors.Join(g.Publish(ctx), g.Discard())
}

// Run feeds the index until ctx ends, or, if the index is shared, while this process leads, and then returns nil.
// Failures are retried with growing pauses. Errors: as Lead, and of the last write of the checkpoint.
func (p *Projection) Run(ctx context.Context) error {
	if p.cfg.Lead == nil {
		return p.lead(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	var follower sync.WaitGroup
	follower.Go(func() { p.follow(ctx) })
	defer follower.Wait()
	defer cancel()
	return p.cfg.Lead(ctx, Name, p.lead)
}

// lead feeds the index until ctx ends.
func (p *Projection) lead(ctx context.Context) error {
	if !p.persist(ctx, p.begin) {
		return nil
	}
	if p.cfg.Lead != nil {
		defer p.setFeeding(false)
	}
	p.keepFeeding(ctx)
	return p.save(ctx)
}

// hold waits for the right to write to the index, which a rebuild has while it levels and publishes. Errors: ctx.Err().
func (p *Projection) hold(ctx context.Context) error {
	if err := ctx.Err(); err != nil { // select would choose at random
		return err
	}
	select {
	case p.feed <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the right to write to the search index: %w", ctx.Err())
	}
}

func (p *Projection) release() { <-p.feed }

// begin determines the position of the index, and takes over feeding it. It first rebuilds an index that names no log
// or an earlier state of it.
func (p *Projection) begin(ctx context.Context) error {
	err := p.join(ctx, true)
	if err != errUnnamed && err != errEarlier {
		return err
	}
	if own, _, err := p.own(ctx); err != nil || own.First == (eventlog.Mark{}) {
		return cmp.Or(err, projections.ErrNotReady) // there is nothing to feed before the first event
	}
	if _, _, err := p.source.Changed(ctx, 0, 1); err != nil {
		return err // without a new generation for each attempt
	}
	p.cfg.Logger.Info("filling the search index again", "reason", err)
	if err := p.Rebuild(ctx); err != nil {
		return err
	}
	return p.join(ctx, true)
}

// join continues at the checkpoint of the index. Until then this process writes nothing to one that was replaced.
// Errors: as shareStart.
func (p *Projection) join(ctx context.Context, feed bool) error {
	if err := p.hold(ctx); err != nil {
		return err
	}
	defer p.release()
	at, err := p.shareStart(ctx)
	if p.joined && err == errEarlier {
		return fmt.Errorf("%w, or a copy of this installation uses the same index: give each an alias of its own in LETTERHEAD_SEARCH (?alias=NAME)",
			err)
	}
	if err != nil {
		return err
	}
	p.joined, p.adrift = true, false
	if feed {
		p.setFeeding(true)
	}
	p.restart(at)
	return nil
}

// shareStart is inspect for a shared index: it reports a loss only if the index is past the log's end, and does not
// move, in several checks. An index that moves is fed by a process that sees more of the log.
func (p *Projection) shareStart(ctx context.Context) (eventlog.Position, error) {
	at, err := p.inspect(ctx)
	for seen := 1; errors.Is(err, eventlog.ErrLoss) && seen < lossChecks; seen++ {
		if err := delay.For(ctx, lossCheckPause); err != nil {
			return at, err
		}
		before := at
		if at, err = p.inspect(ctx); at != before {
			seen = 0
		}
	}
	return at, err
}

// keepFeeding feeds until ctx ends.
func (p *Projection) keepFeeding(ctx context.Context) {
	for p.persist(ctx, func(ctx context.Context) error {
		fed, err := p.step(ctx)
		if errors.Is(err, searchindex.ErrReplaced) {
			p.cfg.Logger.Info("search index was replaced by another node")
			err = p.begin(ctx)
		} else if err == nil && fed == 0 {
			p.idle(ctx)
		}
		return err
	}) {
	}
}

// persist calls do until it succeeds, with growing pauses, and reports whether it did before ctx ended.
func (p *Projection) persist(ctx context.Context, do func(context.Context) error) bool {
	pause := retryFirst
	for ctx.Err() == nil {
		err := do(ctx)
		switch {
		case ctx.Err() != nil:
		case err == nil:
			return true
		case errors.Is(err, projections.ErrNotReady): // on a first start the brands table is being built
			_ = delay.For(ctx, p.cfg.Poll)
		default:
			p.fail(err)
			p.cfg.Logger.Warn("feeding the search index failed; trying again", "position", p.Position(), "error", err,
				"again_in", pause)
			_ = delay.For(ctx, pause)
			pause = min(2*pause, retryLast)
		}
	}
	return false
}

// idle waits until the source may have changed.
func (p *Projection) idle(ctx context.Context) {
	if p.cfg.Await == nil {
		_ = delay.For(ctx, p.cfg.Poll)
		return
	}
	_ = delay.For(ctx, calm)
	if err := p.cfg.Await(ctx, p.Position()+1); err != nil {
		_ = delay.For(ctx, p.cfg.Poll)
	}
}

// step feeds one batch and returns its number of brands. After searchindex.ErrReplaced it fails until join succeeds.
func (p *Projection) step(ctx context.Context) (int, error) {
	if err := p.hold(ctx); err != nil {
		return 0, err
	}
	defer p.release()
	if p.adrift {
		return 0, searchindex.ErrReplaced
	}
	docs, upTo, err := p.source.Changed(ctx, p.Position(), batch)
	if err != nil {
		return 0, err
	}
	err = p.take(ctx, docs, upTo)
	p.adrift = errors.Is(err, searchindex.ErrReplaced)
	return len(docs), err
}

// take indexes brands. Without any there is nothing to write: the checkpoint may lag, and the position
// moves with every event of any kind.
func (p *Projection) take(ctx context.Context, docs []brands.Doc, upTo eventlog.Position) error {
	if len(docs) > 0 {
		p.mark(ctx, upTo)
		if err := p.index.Apply(ctx, documents(docs), uint64(upTo)); err != nil {
			return err
		}
		p.saved = upTo
		p.metrics.indexed.Add(float64(len(docs)))
	}
	p.reach(upTo)
	return nil
}

// save writes the checkpoint when feeding ends, so that the next start has nothing to catch up with.
func (p *Projection) save(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing) // feeding ends because ctx has ended
	defer cancel()
	if err := p.hold(ctx); err != nil {
		return fmt.Errorf("save the search index's checkpoint: %w", err)
	}
	defer p.release()
	at := p.Position()
	if at == p.saved || p.adrift {
		return nil
	}
	p.mark(ctx, at)
	err := p.index.Apply(ctx, nil, uint64(at))
	if errors.Is(err, searchindex.ErrReplaced) {
		return nil // the generation that replaced it has its own checkpoint
	}
	if err != nil {
		return fmt.Errorf("save the search index's checkpoint: %w", err)
	}
	p.saved = at
	return nil
}

func documents(docs []brands.Doc) []searchindex.Document {
	out := make([]searchindex.Document, len(docs))
	for i, d := range docs {
		out[i] = document(d)
	}
	return out
}

// document returns the indexed form of a brand. Brands that came with a data set are popular: the collections behind
// the starter index contain only popular brands, whereas anyone can cause a crawl of an unknown domain. The flag is
// derived from the brand's own stream and is the same after every replay.
func document(d brands.Doc) searchindex.Document {
	if d.Gone {
		return searchindex.Document{Domain: d.Domain, Version: uint64(d.Position), Gone: true}
	}
	return searchindex.Document{
		Domain: d.Domain, BrandID: d.BrandID, Name: d.Name, Quality: d.QualityScore, Claimed: d.Claimed,
		Popular: d.Imported, Version: uint64(d.Position),
	}
}

type metrics struct {
	indexed, failures, searchFailures prometheus.Counter
	seconds                           prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer, position func() eventlog.Position) (*metrics, error) {
	m := &metrics{
		indexed: telemetry.Counter("letterhead_search_indexed_total",
			"Changes of brands that were written to the search index."),
		failures: telemetry.Counter("letterhead_search_feed_failures_total",
			"Attempts to feed the search index that failed."),
		searchFailures: telemetry.Counter("letterhead_search_failures_total", "Searches that failed."),
		seconds: telemetry.Histogram("letterhead_search_seconds",
			"Time of searches in the index.", prometheus.ExponentialBuckets(0.0001, 2, 14)), // 0.1 ms to 0.8 s
	}
	at := telemetry.GaugeFunc("letterhead_search_position",
		"Log position up to which all changes of brands are found.", func() float64 { return float64(position()) })
	if err := telemetry.Register(reg, m.indexed, m.failures, m.searchFailures, m.seconds, at); err != nil {
		return nil, fmt.Errorf("search metrics: %w", err)
	}
	return m, nil
}
