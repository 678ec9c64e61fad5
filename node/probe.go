package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/telemetry"
)

// A single node that cannot reach the event store, the database or the asset store would look ready to the proxy and
// answer 503 for the accounts and brands that the proxy keeps on it. So a node in a cluster checks them periodically,
// and is not ready while one of them does not answer.
const (
	// probeEvery is the time between two checks; probeTimeout bounds each.
	probeEvery   = 3 * time.Second
	probeTimeout = 3 * time.Second
	// assetsEvery is the time between two checks of a bucket that answers: each lists it, which costs money.
	assetsEvery = 5 * time.Second
	// faultyFor is how long a service may fail before the node is unready: waiting for a short fault to pass, such as
	// the election of a leader (up to 9.5 s were measured), is cheaper than moving accounts.
	faultyFor = 12 * time.Second
	// silentFor is the same for a service of which nothing answers (errSilent). With the intervals above, the node is
	// unready within 10 s.
	silentFor = 4 * time.Second
)

// errSilent is the error of a check if nothing of the service answers, not even that it cannot serve now.
var errSilent = errors.New("nothing answers")

// probe checks whether the services that the node cannot do without answer.
type probe struct {
	checks  map[string]func(context.Context) error
	misses  *prometheus.CounterVec
	reaches *prometheus.GaugeVec
	since   map[string]time.Time // start of the first check of those that failed in a row, by service
	lost    atomic.Pointer[[]string]
}

func newProbe(reg prometheus.Registerer, checks map[string]func(context.Context) error) (*probe, error) {
	p := &probe{checks: checks, since: map[string]time.Time{},
		misses: telemetry.Counters("letterhead_node_misses_total",
			"Failed probes of a service that this node requires.", "service"),
		reaches: telemetry.Gauges("letterhead_node_reaches",
			"1 if a service this node cannot do without answered its last question, else 0.", "service")}
	for name := range checks {
		p.misses.WithLabelValues(name)
		p.reaches.WithLabelValues(name).Set(1) // it was opened
	}
	if err := telemetry.Register(reg, p.misses, p.reaches); err != nil {
		return nil, fmt.Errorf("register metrics of the node: %w", err)
	}
	return p, nil
}

// run checks until ctx ends.
func (p *probe) run(ctx context.Context) error {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			p.check(ctx)
		}
	}
}

// check probes all services concurrently, so that those that hang do not delay each other's results.
func (p *probe) check(ctx context.Context) {
	var mu sync.Mutex
	failures, began := map[string]error{}, time.Now()
	var checking sync.WaitGroup
	for name, check := range p.checks {
		checking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, probeTimeout)
			defer cancel()
			err := check(ctx)
			mu.Lock()
			defer mu.Unlock()
			failures[name] = err
		})
	}
	checking.Wait()
	if ctx.Err() != nil {
		return
	}
	var lost []string
	for name, err := range failures {
		if err == nil {
			delete(p.since, name)
			p.reaches.WithLabelValues(name).Set(1)
			continue
		}
		p.reaches.WithLabelValues(name).Set(0)
		p.misses.WithLabelValues(name).Inc()
		if _, failing := p.since[name]; !failing {
			p.since[name] = began
			continue // one failed check says little: this process itself may have been frozen meanwhile
		}
		limit := faultyFor
		if errors.Is(err, errSilent) {
			limit = silentFor
		}
		if time.Since(p.since[name]) >= limit {
			lost = append(lost, name)
		}
	}
	slices.Sort(lost)
	p.lost.Store(&lost)
}

// missing names the services that have not answered for a while. It is empty if all answer, and for a nil probe.
func (p *probe) missing() []string {
	if p == nil {
		return nil
	}
	if names := p.lost.Load(); names != nil {
		return *names
	}
	return nil
}
