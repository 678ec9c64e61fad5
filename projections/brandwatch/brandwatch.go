// Package brandwatch is a live tail of the brand streams, for requests that wait for a crawl to end. It
// has no tables: a waiter finds missed events by folding the stream. It also knows which brands were
// withdrawn recently, before the read models do.
//
// A request registers a Watch, then requests the crawl, then waits. Events appended to the brand's
// stream after Watch returned reach the Watch, in order, because the tail has not read past them yet.
package brandwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/telemetry"
)

const (
	// keptOutcomes limits the outcomes that a Watch stores for its owner. A crawl lasts seconds and a brand has one
	// live crawl at a time; if more than these end between Watch and Wait, the oldest are dropped.
	keptOutcomes = 16
	// DefaultMaxWatches limits the requests that wait at a time.
	DefaultMaxWatches = 100_000
	// firstRetry and lastRetry limit the pause before a failed subscription is reopened.
	firstRetry = 50 * time.Millisecond
	lastRetry  = 5 * time.Second
	// maxWithdrawn limits the remembered withdrawn domains, of about 100 bytes each: owners ask for a
	// handful a day, and a domain can safely be forgotten once the read models include its withdrawal.
	maxWithdrawn = 4096
)

var (
	// ErrClosed: the Watch was closed.
	ErrClosed = errors.New("watch is closed")
	// ErrTooMany: more requests are waiting than the configuration allows.
	ErrTooMany = errors.New("too many requests are waiting for crawls")
)

// Config of a Tail. The zero value is complete.
type Config struct {
	// MaxWatches limits the open watches. Default: DefaultMaxWatches.
	MaxWatches int
	// Follower is notified of everything that the tail reads. Optional.
	Follower   Follower
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Follower keeps data up to date that depends on the brand streams.
type Follower interface {
	// Event is called, in order, for each event of a brand's stream that may change answers about the brand. The
	// request of a crawl changes none.
	Event(domain string, at eventlog.Position)
	// Followed is called after Event was called for all such events after one position, up to and including another.
	Followed(after, upTo eventlog.Position)
}

// Validate reports an error in the configuration.
func (c Config) Validate() error {
	if c.MaxWatches < 0 {
		return fmt.Errorf("at most %d watches; it cannot be negative", c.MaxWatches)
	}
	return nil
}

// Tail follows the brand streams from the end of the log at its creation. It is safe for concurrent use.
type Tail struct {
	cfg Config
	log eventlog.Log
	at  eventlog.Position // of Run

	mu      sync.Mutex
	watches map[string]map[*Watch]struct{} // by domain
	open    int

	gone withdrawn
}

// withdrawn remembers the domains that were withdrawn last. The zero value is ready to use.
type withdrawn struct {
	mu      sync.RWMutex
	domains map[string]struct{}
	order   []string // a ring of maxWithdrawn, each domain once
	next    int
}

func (w *withdrawn) note(domain string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.domains[domain]; known {
		return
	}
	if w.domains == nil {
		w.domains = map[string]struct{}{}
	}
	if len(w.order) < maxWithdrawn {
		w.order = append(w.order, domain)
	} else {
		delete(w.domains, w.order[w.next])
		w.order[w.next] = domain
		w.next = (w.next + 1) % maxWithdrawn
	}
	w.domains[domain] = struct{}{}
}

// Withdrawn reports whether the tail has seen the withdrawal of the domain's brand, which is permanent: no later event
// changes it (brand.Brand.Apply). A false result is inconclusive. While no projection runs, tables and caches still
// have withdrawn brands; check here before answering from them.
func (t *Tail) Withdrawn(domain string) bool {
	t.gone.mu.RLock()
	defer t.gone.mu.RUnlock()
	_, gone := t.gone.domains[domain]
	return gone
}

// New returns a tail. Events appended from now on reach watches once Run is running.
func New(ctx context.Context, cfg Config, log eventlog.Log) (*Tail, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.MaxWatches = cmp.Or(cfg.MaxWatches, DefaultMaxWatches)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	head, err := log.Head(ctx)
	if err != nil {
		return nil, fmt.Errorf("find the end of the brand streams: %w", err)
	}
	t := &Tail{cfg: cfg, log: log, at: head, watches: make(map[string]map[*Watch]struct{})}
	open := telemetry.GaugeFunc("letterhead_crawl_watches",
		"Requests that wait for a crawl to end.", func() float64 { return float64(t.Open()) })
	if err := telemetry.Register(cfg.Registerer, open); err != nil {
		return nil, fmt.Errorf("register metrics of the waiting requests: %w", err)
	}
	return t, nil
}

// Open returns the number of open watches.
func (t *Tail) Open() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open
}

// Run follows the log until ctx ends, and then returns nil. Errors: eventlog.ErrCorrupt,
// eventlog.ErrClosed. It must not run concurrently with itself.
func (t *Tail) Run(ctx context.Context) error {
	retry := firstRetry
	for {
		before := t.at
		err := t.follow(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, eventlog.ErrCorrupt), errors.Is(err, eventlog.ErrClosed):
			return fmt.Errorf("follow the brand streams: %w", err)
		case t.at > before:
			retry = firstRetry
		}
		t.cfg.Logger.WarnContext(ctx, "brand streams are not followed and will be tried again", slog.Any("error", err))
		if delay.For(ctx, retry) != nil {
			return nil
		}
		retry = min(2*retry, lastRetry)
	}
}

func (t *Tail) follow(ctx context.Context) error {
	sub, err := t.log.Subscribe(ctx, t.at, eventlog.Filter{StreamPrefixes: []string{brand.StreamPrefix}})
	if err != nil {
		return err
	}
	defer sub.Close() // closing loses nothing
	for {
		b, err := sub.Next(ctx)
		if err != nil {
			return err
		}
		for i := range b.Events {
			t.deliver(ctx, &b.Events[i])
		}
		if t.cfg.Follower != nil {
			t.cfg.Follower.Followed(t.at, b.Position)
		}
		t.at = b.Position
	}
}

// ends are the events that end a crawl: its outcomes, and the brand's withdrawal, which ends all crawls.
var ends = map[string]bool{
	eventschemas.CrawlSucceeded{}.EventType(): true,
	eventschemas.CrawlConfirmed{}.EventType(): true,
	eventschemas.CrawlFailed{}.EventType():    true,
	withdrawal:                                true,
}

var (
	withdrawal = eventschemas.BrandWithdrawn{}.EventType()
	request    = eventschemas.CrawlRequested{}.EventType()
)

func (t *Tail) deliver(ctx context.Context, rec *eventlog.Recorded) {
	domain := strings.TrimPrefix(rec.Stream, brand.StreamPrefix)
	if t.cfg.Follower != nil && rec.Type != request {
		t.cfg.Follower.Event(domain, rec.Position)
	}
	if !ends[rec.Type] {
		return
	}
	if rec.Type == withdrawal {
		t.gone.note(domain)
	}
	waiting := t.waiting(domain)
	if len(waiting) == 0 {
		return // most events; they need no decoding
	}
	ev, err := eventlog.Decode(rec, eventschemas.Decode)
	if err != nil {
		t.cfg.Logger.ErrorContext(ctx, "outcome of a crawl cannot be read", slog.String("stream", rec.Stream),
			slog.Uint64("revision", rec.Revision), slog.Any("error", err))
		return
	}
	crawlID, _ := brand.EndOf(ev) // "" for a withdrawal, which ends all
	for _, w := range waiting {
		w.add(outcome{crawlID: crawlID, event: ev, recorded: *rec})
	}
}

func (t *Tail) waiting(domain string) []*Watch {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.watches[domain]))
}

// Watch sees the outcomes of crawls of one domain from its creation until it is closed. Wait is for
// one goroutine; Close may be called from any, and must be called.
type Watch struct {
	tail   *Tail
	domain string
	err    error // why it sees nothing

	mu       sync.Mutex
	outcomes []outcome
	closed   bool
	news     chan struct{} // capacity 1
}

type outcome struct {
	crawlID  string
	event    eventschemas.Event
	recorded eventlog.Recorded
}

// Watch registers for a registrable domain. Register before requesting the crawl. If too many watches
// are open already, Wait returns the error.
func (t *Tail) Watch(domain string) *Watch {
	w := &Watch{tail: t, domain: domain, news: make(chan struct{}, 1)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open >= t.cfg.MaxWatches {
		w.err = ErrTooMany
		return w
	}
	if t.watches[domain] == nil {
		t.watches[domain] = make(map[*Watch]struct{})
	}
	t.watches[domain][w] = struct{}{}
	t.open++
	return w
}

// Wait waits for the end of a crawl: CrawlSucceeded, CrawlConfirmed or CrawlFailed of that crawl, or
// BrandWithdrawn. Errors: ErrTooMany, ErrClosed, ctx.Err().
func (w *Watch) Wait(ctx context.Context, crawlID string) (eventschemas.Event, eventlog.Recorded, error) {
	if w.err != nil {
		return nil, eventlog.Recorded{}, w.err
	}
	for {
		w.mu.Lock()
		closed := w.closed
		for _, o := range w.outcomes {
			if o.crawlID == crawlID || o.crawlID == "" {
				w.mu.Unlock()
				return o.event, o.recorded, nil
			}
		}
		w.mu.Unlock()
		if closed {
			return nil, eventlog.Recorded{}, ErrClosed
		}
		select {
		case <-w.news:
		case <-ctx.Done():
			return nil, eventlog.Recorded{}, ctx.Err()
		}
	}
}

func (w *Watch) add(o outcome) {
	w.mu.Lock()
	if len(w.outcomes) == keptOutcomes {
		w.outcomes = append(w.outcomes[:0], w.outcomes[1:]...)
	}
	w.outcomes = append(w.outcomes, o)
	w.mu.Unlock()
	delay.Signal(w.news)
}

// Close ends the watch. Further calls do nothing.
func (w *Watch) Close() {
	t := w.tail
	t.mu.Lock()
	if of, ok := t.watches[w.domain]; ok {
		if _, open := of[w]; open {
			delete(of, w)
			t.open--
			if len(of) == 0 {
				delete(t.watches, w.domain)
			}
		}
	}
	t.mu.Unlock()
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	delay.Signal(w.news)
}
