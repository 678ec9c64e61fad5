package esdb

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/telemetry"
)

const (
	// closeTimeout bounds how long Close waits for running calls.
	closeTimeout = 10 * time.Second
	// leaderAttempts bounds the number of servers that an append is sent to while they answer that they are
	// not the leader.
	leaderAttempts = 3
)

// Log is an event log in EventStoreDB. It implements eventlog.Log; its methods are safe for concurrent use.
type Log struct {
	cfg        Config
	supervisor *supervisor
	metrics    *metrics

	calls   chan struct{}   // one element for each running call
	closing context.Context // ends when Close begins
	close   context.CancelFunc
	gate    sync.RWMutex   // read-locked while a subscription begins
	pumps   sync.WaitGroup // subscriptions, and goroutines of calls
	once    sync.Once

	// seen is the event with the highest position that this log has appended, read or followed; nil before the first.
	// A search for the head may stop there, and a store that does not hold it is not the one that was used.
	seen  atomic.Pointer[eventlog.Mark]
	heads headReads
}

var _ eventlog.Log = (*Log)(nil)

// Open connects to the store and checks that it answers.
//
// Errors: as the configuration, eventlog.ErrUnavailable, eventlog.ErrLoss (see Config.Admit),
// ErrUnsupported, ctx.Err().
func Open(ctx context.Context, cfg Config) (*Log, error) {
	if err := checkConnectionString(cfg.ConnectionString); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	conf, err := cfg.clientConfig()
	if err != nil {
		return nil, err
	}
	closing, cancel := context.WithCancel(context.Background())
	l := &Log{cfg: cfg, closing: closing, close: cancel, calls: make(chan struct{}, cfg.Calls)}
	if l.metrics, err = newMetrics(cfg.Registerer, func() int { return len(l.calls) }); err != nil {
		cancel()
		return nil, fmt.Errorf("open EventStoreDB: %w", err)
	}
	l.supervisor = newSupervisor(closing, cfg, conf, l.metrics, l.lastSeen)
	if err := l.supervisor.start(ctx); err != nil {
		cancel()
		l.metrics.unregister()
		return nil, fmt.Errorf("open EventStoreDB: %w", err)
	}
	return l, nil
}

func (l *Log) Append(ctx context.Context, stream string, expected eventlog.Expected,
	events []eventlog.Proposed) (eventlog.Appended, error) {
	if err := eventlog.CheckAppend(stream, events); err != nil {
		return eventlog.Appended{}, err
	}
	messages, err := toStore(events)
	if err != nil {
		return eventlog.Appended{}, fmt.Errorf("append to %s: %w", stream, err)
	}
	r := &request{stream: stream, expected: expected, events: messages}
	start := time.Now()
	appended, err := l.sendUntilKnown(ctx, r)
	if err != nil {
		return eventlog.Appended{}, appendError(ctx, stream, expected, err)
	}
	l.metrics.latency.Observe(time.Since(start).Seconds())
	l.noteSeen(eventlog.Mark{ID: events[len(events)-1].ID, Stream: stream, Revision: appended.LastRevision,
		Position: appended.Position})
	return appended, nil
}

// completed returns the result of an append with the last revision and the position that the server answered. After an
// error the outcome is unknown.
func (l *Log) completed(ctx context.Context, r *request, appended eventlog.Appended) (eventlog.Appended, error) {
	last, n := appended.LastRevision, uint64(len(r.events))
	if last+1 < n {
		return eventlog.Appended{}, fmt.Errorf("the store reports that %d events end at revision %d", n, last)
	}
	appended.FirstRevision = last + 1 - n
	if appended.Position != 0 {
		return appended, nil
	}
	// For a repeat the server may omit the position.
	events, err := l.ReadStream(ctx, r.stream, last, eventlog.Forward, 1)
	if err != nil || len(events) == 0 {
		return eventlog.Appended{}, fmt.Errorf("it is written, but its position cannot be read: %v", err)
	}
	appended.Position = events[0].Position
	return appended, nil
}

// noteSeen records an event of ours.
func (l *Log) noteSeen(e eventlog.Mark) {
	for old := l.seen.Load(); (old == nil || e.Position > old.Position) && !l.seen.CompareAndSwap(old, &e); {
		old = l.seen.Load()
	}
}

// lastSeen returns the zero Mark before the first event.
func (l *Log) lastSeen() eventlog.Mark {
	if seen := l.seen.Load(); seen != nil {
		return *seen
	}
	return eventlog.Mark{}
}

// Close implements eventlog.Log. If calls are stuck in the client, it does not close the client.
func (l *Log) Close() error {
	l.once.Do(func() {
		l.gate.Lock()
		l.close()
		l.gate.Unlock()
		l.metrics.unregister()
		// Not the caller's context: closing must end, but not early.
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		_ = delay.Await(ctx, func() error {
			for range cap(l.calls) {
				l.calls <- struct{}{} // all slots, after the running calls have released them
			}
			l.pumps.Wait()
			return nil
		})
		if !l.supervisor.close(ctx) {
			l.cfg.Logger.Warn("EventStoreDB: calls are stuck in the client, which is left open")
		}
	})
	return nil
}

type metrics struct {
	latency    prometheus.Histogram
	reconnects prometheus.Counter
	resumes    prometheus.Counter
	calls      prometheus.GaugeFunc

	unregister func()
}

// newMetrics creates the metrics; underWay counts the calls. All adapters use the name of the first metric.
func newMetrics(r prometheus.Registerer, underWay func() int) (*metrics, error) {
	m := &metrics{
		latency: telemetry.Histogram("letterhead_eventlog_append_duration_seconds",
			"Time from the call of an append until it was durable.",
			prometheus.ExponentialBuckets(50e-6, 2, 16)), // 50 µs to 1.6 s
		reconnects: telemetry.Counter("letterhead_eventlog_reconnects_total",
			"Number of new connections to the event store after the first."),
		resumes: telemetry.Counter("letterhead_eventlog_subscription_resumes_total",
			"How often a subscription fell behind or was ended by the event store or the connection, and continued where "+
				"it was."),
		calls: telemetry.GaugeFunc("letterhead_eventlog_calls",
			"Running calls to the event store.", func() float64 { return float64(underWay()) }),
	}
	all := []prometheus.Collector{m.latency, m.reconnects, m.resumes, m.calls}
	m.unregister = func() { telemetry.Unregister(r, all...) }
	if err := telemetry.Register(r, all...); err != nil {
		return nil, err
	}
	return m, nil
}
