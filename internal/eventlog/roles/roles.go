// Package roles measures the lag of each role of a process behind the end of the event log.
package roles

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/eventlog"
	"letterhead/internal/telemetry"
)

// scrapeTimeout bounds the reads of the log for one scrape.
const scrapeTimeout = time.Second

var (
	positionsDesc = prometheus.NewDesc("letterhead_role_lag_positions",
		"Positions between the last event that a role of this process has processed and the end of the event log: events of a data folder, bytes of EventStoreDB.",
		[]string{"role"}, nil)
	secondsDesc = prometheus.NewDesc("letterhead_role_lag_seconds",
		"Age of the oldest event that a role of this process has not processed.", []string{"role"}, nil)
)

// Config of a Meter. The zero Config works.
type Config struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time // the clock that stamps events
}

// Meter tracks the subscriptions of the roles of a process. It is safe for concurrent use.
type Meter struct {
	log    eventlog.Log
	logger *slog.Logger
	now    func() time.Time

	mu       sync.Mutex
	open     map[*subscription]string // the role of each
	watching map[string]func() (eventlog.Position, bool)
}

// New returns a Meter for a log.
func New(log eventlog.Log, cfg Config) (*Meter, error) {
	m := &Meter{
		log: log, logger: cfg.Logger, now: cfg.Now,
		open: make(map[*subscription]string), watching: make(map[string]func() (eventlog.Position, bool)),
	}
	m.logger = cmp.Or(m.logger, slog.New(slog.DiscardHandler))
	if m.now == nil {
		m.now = time.Now
	}
	if err := telemetry.Register(cfg.Registerer, m); err != nil {
		return nil, fmt.Errorf("register metrics of the roles: %w", err)
	}
	return m, nil
}

// Log returns the log for a role. The position of a role with several subscriptions is the position of the slowest;
// a role without a subscription, which another node leads, has no lag.
func (m *Meter) Log(role string) eventlog.Log {
	return &log{Log: m.log, Prober: eventlog.Probe(m.log), meter: m, role: role}
}

// Watch adds a role that does not read the log itself. Position returns its position, or false while
// another node leads it.
func (m *Meter) Watch(role string, position func() (eventlog.Position, bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watching[role] = position
}

// positions returns the position of each role.
func (m *Meter) positions() map[string]eventlog.Position {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[string]eventlog.Position, len(m.open)+len(m.watching))
	for role, position := range m.watching {
		if at, working := position(); working {
			all[role] = at
		}
	}
	for s, role := range m.open {
		at := eventlog.Position(s.done.Load())
		if other, ok := all[role]; !ok || at < other {
			all[role] = at
		}
	}
	return all
}

func (m *Meter) Describe(ch chan<- *prometheus.Desc) {
	ch <- positionsDesc
	ch <- secondsDesc
}

// Collect implements prometheus.Collector. It reads the log, and omits metrics that it cannot read.
func (m *Meter) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout) // a scrape has no context
	defer cancel()
	at := m.positions() // before the head, so that a role that advances meanwhile does not appear to lag
	head, err := m.log.Head(ctx)
	if err != nil {
		m.logger.Warn("the lag of the roles is unknown", "error", err)
		return
	}
	ages := make(map[eventlog.Position]time.Duration)
	for role, position := range at {
		lag := uint64(0)
		if position < head {
			lag = uint64(head - position)
		}
		ch <- prometheus.MustNewConstMetric(positionsDesc, prometheus.GaugeValue, float64(lag), role)
		age, known := ages[position]
		if !known && lag > 0 {
			page, err := m.log.ReadAll(ctx, position, eventlog.Filter{}, 1)
			if err != nil {
				m.logger.Warn("the lag of a role is unknown in seconds", "role", role, "error", err)
				continue
			}
			if len(page.Events) > 0 {
				age = max(0, m.now().Sub(page.Events[0].OccurredAt))
			}
			ages[position] = age
		}
		ch <- prometheus.MustNewConstMetric(secondsDesc, prometheus.GaugeValue, age.Seconds(), role)
	}
}

// log is the log as a role sees it.
type log struct {
	eventlog.Log
	eventlog.Prober
	meter *Meter
	role  string
}

func (l *log) Subscribe(ctx context.Context, after eventlog.Position,
	filter eventlog.Filter) (eventlog.Subscription, error) {
	sub, err := l.Log.Subscribe(ctx, after, filter)
	if err != nil {
		return nil, err
	}
	s := &subscription{Subscription: sub, meter: l.meter, given: after}
	s.done.Store(uint64(after))
	l.meter.mu.Lock()
	defer l.meter.mu.Unlock()
	l.meter.open[s] = l.role
	return s, nil
}

// subscription records the position of its role. A role that requests the next batch has processed the previous one.
type subscription struct {
	eventlog.Subscription
	meter *Meter
	given eventlog.Position // of the last batch; used only by Next
	done  atomic.Uint64
}

func (s *subscription) Next(ctx context.Context) (eventlog.Batch, error) {
	s.done.Store(uint64(s.given))
	batch, err := s.Subscription.Next(ctx)
	if err == nil {
		s.given = batch.Position
	}
	return batch, err
}

func (s *subscription) Close() error {
	s.meter.mu.Lock()
	delete(s.meter.open, s)
	s.meter.mu.Unlock()
	return s.Subscription.Close()
}
