// Package fanout lets the subscriptions of a process share what they read: Log the end of an event store, Past the
// past of a data folder's log, which keeps its end in memory.
//
// Separate subscriptions burden a store: a server without usable filters sends the whole log to each of
// them, and each process decodes the same events once per role. Here one reader follows the whole log and
// keeps its last events in memory. A subscription that begins in the past, or falls behind the kept events,
// first reads through its own subscription until it has caught up, and then joins the others. Nothing waits
// for a slow subscription: the memory is bounded, and dropped events are read from the store.
package fanout

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sort"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/telemetry"
)

const (
	// keptEvents and keptBytes bound the events that the reader keeps in memory, keptBytes by their data. Values that
	// the roles decoded from them are kept too, and take about three times as much. At either bound the older half is
	// dropped. A batch of a subscription has at most 4,096 events, so subscriptions that keep up miss none.
	keptEvents = 16384
	keptBytes  = 16 << 20
	// pageEvents bounds the events of one batch.
	pageEvents = 1024
	// The reader retries to find the end of the log after a delay that doubles from the first to the last.
	firstRetry = 20 * time.Millisecond
	lastRetry  = time.Second
)

// Config of a Log. The zero Config works.
type Config struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Log is an event log whose subscriptions share a reader. All other methods come from the wrapped log.
type Log struct {
	eventlog.Log
	eventlog.Prober

	logger     *slog.Logger
	open       prometheus.Gauge
	unregister func()
	beginning  sync.Mutex // held while the reader starts, and while Close ends life
	begun      bool
	running    sync.WaitGroup
	life       context.Context // ends with Close
	end        context.CancelFunc

	recent recent
}

// New wraps a log. The reader starts with the first subscription. Close also closes the wrapped log.
func New(log eventlog.Log, cfg Config) (*Log, error) {
	l := &Log{Log: log, Prober: eventlog.Probe(log), logger: cfg.Logger, recent: recent{changed: make(chan struct{})}}
	l.logger = cmp.Or(l.logger, slog.New(slog.DiscardHandler))
	l.open = telemetry.Gauge("letterhead_eventlog_subscriptions",
		"Subscriptions of this process to the event store: 1 while every role has caught up.")
	l.unregister = func() { telemetry.Unregister(cfg.Registerer, l.open) }
	if err := telemetry.Register(cfg.Registerer, l.open); err != nil {
		return nil, fmt.Errorf("register the metrics of the event log's reader: %w", err)
	}
	l.life, l.end = context.WithCancel(context.Background())
	return l, nil
}

// Subscribe implements eventlog.Log.
func (l *Log) Subscribe(ctx context.Context, after eventlog.Position,
	filter eventlog.Filter) (eventlog.Subscription, error) {
	if l.life.Err() != nil {
		return nil, fmt.Errorf("subscribe: %w", eventlog.ErrClosed)
	}
	own, err := l.Log.Subscribe(ctx, after, filter)
	if err != nil {
		return nil, err
	}
	l.begin()
	l.open.Inc()
	s := &subscription{log: l, filter: filter, at: after, own: own}
	s.life, s.end = context.WithCancel(l.life)
	return s, nil
}

// begin starts the reader unless it is running or the log is closed.
func (l *Log) begin() {
	l.beginning.Lock()
	defer l.beginning.Unlock()
	if !l.begun && l.life.Err() == nil {
		l.begun = true
		l.running.Go(l.read)
	}
}

// Close implements eventlog.Log.
func (l *Log) Close() error {
	l.beginning.Lock()
	l.end()
	l.beginning.Unlock()
	err := l.Log.Close()
	l.running.Wait()
	l.unregister()
	return err
}

// read follows the log until Close, or until an event cannot be read: then every subscription continues on
// its own, and those that select that event end with the error.
func (l *Log) read() {
	sub, head, err := l.follow()
	if err == nil {
		l.open.Inc()
		defer l.open.Dec()
		defer sub.Close()
		l.recent.start(head)
		for {
			var batch eventlog.Batch
			if batch, err = sub.Next(l.life); err != nil {
				break
			}
			l.recent.add(batch)
		}
		l.recent.stop()
	}
	if l.life.Err() == nil {
		l.logger.Error("the event log has no shared reader: every role reads separately", "error", err)
	}
}

// follow subscribes at the end of the log.
func (l *Log) follow() (eventlog.Subscription, eventlog.Position, error) {
	for retry := firstRetry; ; retry = min(2*retry, lastRetry) {
		head, err := l.Log.Head(l.life)
		if err == nil {
			var sub eventlog.Subscription
			if sub, err = l.Log.Subscribe(l.life, head, eventlog.Filter{}); err == nil {
				return sub, head, nil
			}
		}
		if l.life.Err() != nil {
			return nil, 0, err
		}
		l.logger.Debug("finding the end of the event log", "error", err)
		if err := delay.For(l.life, retry); err != nil {
			return nil, 0, err
		}
	}
}

// recent holds the last events that the reader has read.
type recent struct {
	mu      sync.Mutex
	reading bool
	base    eventlog.Position // all events after it, up to head, are kept
	head    eventlog.Position
	live    bool
	events  []eventlog.Recorded // never overwritten: subscriptions hold slices of it
	bytes   int
	changed chan struct{} // closed at the next change
}

func (r *recent) start(head eventlog.Position) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reading, r.live, r.base, r.head = true, true, head, head
	r.wake()
}

func (r *recent) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reading, r.events = false, nil
	r.wake()
}

func (r *recent) add(batch eventlog.Batch) {
	eventlog.Share(batch.Events)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range batch.Events {
		r.bytes += len(batch.Events[i].Data)
	}
	r.events = append(r.events, batch.Events...)
	r.head, r.live = batch.Position, batch.Live
	if len(r.events) > keptEvents || r.bytes > keptBytes {
		drop := 0
		for len(r.events)-drop > keptEvents/2 || r.bytes > keptBytes/2 {
			r.bytes -= len(r.events[drop].Data)
			r.base = r.events[drop].Position
			drop++
		}
		// with room until the next time
		r.events = append(make([]eventlog.Recorded, 0, keptEvents+pageEvents), r.events[drop:]...)
	}
	r.wake()
}

// wake ends the wait of all subscriptions. The caller must hold the lock.
func (r *recent) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// after returns the kept events after a position, at most a page, the position of the reader after them, and a channel
// that is closed at the next change. It returns false if events after the position may be missing.
func (r *recent) after(at eventlog.Position) (batch eventlog.Batch, changed <-chan struct{}, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.reading || at < r.base {
		return eventlog.Batch{}, r.changed, false
	}
	from := sort.Search(len(r.events), func(i int) bool { return r.events[i].Position > at })
	to := min(len(r.events), from+pageEvents)
	batch = eventlog.Batch{Events: r.events[from:to:to], Position: max(at, r.head), Live: r.live}
	if to < len(r.events) {
		batch.Position, batch.Live = r.events[to-1].Position, false
	}
	return batch, r.changed, true
}
