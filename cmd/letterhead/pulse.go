package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/telemetry"
)

// A node that alone has lost the event store, the database or the object storage looks ready to the proxy and answers
// 503 to the accounts and brands that are kept on it. So a node of several asks them from time to time, and is not
// ready while one of them does not answer.
const (
	// pulseEvery is the time between two questions, pulseTimeout bounds each.
	pulseEvery   = 5 * time.Second
	pulseTimeout = 3 * time.Second
	// pulseMisses in a row make a node unready: short faults are cheaper to sit out than to move accounts.
	pulseMisses = 3
)

// pulse knows whether what the node cannot do without answers.
type pulse struct {
	asks    map[string]func(context.Context) error
	misses  *prometheus.CounterVec
	reaches *prometheus.GaugeVec
	row     map[string]int // of misses, by name
	lost    atomic.Pointer[string]
}

func newPulse(reg prometheus.Registerer, asks map[string]func(context.Context) error) (*pulse, error) {
	p := &pulse{asks: asks, row: map[string]int{}, misses: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "letterhead_node_misses_total", Help: "Times that a service this node cannot do without did not answer its question.",
	}, []string{"service"}), reaches: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "letterhead_node_reaches", Help: "1 if a service this node cannot do without answered its last question, else 0.",
	}, []string{"service"})}
	for name := range asks {
		p.misses.WithLabelValues(name)
		p.reaches.WithLabelValues(name).Set(1) // it was opened
	}
	if err := telemetry.Register(reg, p.misses, p.reaches); err != nil {
		return nil, fmt.Errorf("register metrics of the node: %w", err)
	}
	return p, nil
}

// run asks until ctx ends.
func (p *pulse) run(ctx context.Context) error {
	tick := time.NewTicker(pulseEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			p.beat(ctx)
		}
	}
}

// beat asks all services at once, so that several that hang do not delay each other's news.
func (p *pulse) beat(ctx context.Context) {
	var mu sync.Mutex
	failed := map[string]bool{}
	var asking sync.WaitGroup
	for name, ask := range p.asks {
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, pulseTimeout)
			defer cancel()
			err := ask(ctx)
			mu.Lock()
			defer mu.Unlock()
			failed[name] = err != nil
		})
	}
	asking.Wait()
	if ctx.Err() != nil {
		return
	}
	var lost *string
	for name, failed := range failed {
		if !failed {
			p.row[name] = 0
			p.reaches.WithLabelValues(name).Set(1)
			continue
		}
		p.reaches.WithLabelValues(name).Set(0)
		p.misses.WithLabelValues(name).Inc()
		if p.row[name]++; p.row[name] >= pulseMisses {
			lost = &name
		}
	}
	p.lost.Store(lost)
}

// missing names what has not answered for a while; empty when all is well, and for a nil pulse.
func (p *pulse) missing() string {
	if p == nil {
		return ""
	}
	if name := p.lost.Load(); name != nil {
		return *name
	}
	return ""
}
