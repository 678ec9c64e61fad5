package node

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"

	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/internal/telemetry"
	"letterhead/readapi"
)

// front answers for a node on all its addresses: that the node is starting, until it is opened.
type front struct {
	listener                  *readapi.Listener
	adminURL                  string // "" without an admin API
	clients, operators, admin handlerSwitch

	accept func() error          // lets clients connect
	lost   atomic.Pointer[error] // why the event store is rejected, or was before this start
}

// newFront returns a front that answers with these while the node is starting.
func newFront(l *readapi.Listener, clients, admin http.Handler) *front {
	return &front{
		listener: l, clients: handlerSwitch{starting: clients}, operators: handlerSwitch{starting: admin},
		admin: handlerSwitch{starting: admin},
	}
}

func (f *front) open(clients, operators, admin http.Handler) {
	f.operators.open(operators)
	f.admin.open(admin)
	f.clients.open(clients)
}

// close makes all addresses answer that the node is starting, and waits until the running requests have ended or
// ctx ends.
func (f *front) close(ctx context.Context) error {
	return errors.Join(f.clients.close(ctx), f.operators.close(ctx), f.admin.close(ctx))
}

// explain reports why a node does not start: /readyz and letterhead_log_lost say that the event store is rejected.
func (f *front) explain(v Server, why error) error {
	if !errors.Is(why, eventlog.ErrLoss) {
		f.open(nil, nil, nil)
		return nil
	}
	guard := &lossGuard{lost: &f.lost}
	if !f.explained(why) {
		f.lost.Store(&why)
	}
	h := &health{stores: &Stores{guard: guard}, metrics: telemetry.NewMetrics(v.Release)}
	if err := guard.watch(h.metrics); err != nil {
		return err
	}
	clients := operatorsMux(h.operators(v.Settings.MetricsListen == config.MetricsWithAPI))
	clients.Handle("/", f.clients.starting)
	f.open(clients, operatorsMux(h.operators(true)), nil)
	return nil
}

// explained reports whether the event store is rejected for the same reason already.
func (f *front) explained(why error) bool {
	lost := f.lost.Load()
	return lost != nil && eventlog.SameLoss(*lost, why)
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.clients.ServeHTTP(w, r) }

// handlerSwitch passes requests to a handler that can be exchanged.
type handlerSwitch struct {
	starting http.Handler // answers while the node is starting
	mu       sync.Mutex
	handler  http.Handler    // nil while the node is starting
	requests *sync.WaitGroup // in the handler
}

// open passes requests to a handler, which may be nil, and returns those that are in the handler before.
func (s *handlerSwitch) open(handler http.Handler) (requests *sync.WaitGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	requests, s.handler, s.requests = s.requests, handler, &sync.WaitGroup{}
	return requests
}

func (s *handlerSwitch) close(ctx context.Context) error {
	requests := s.open(nil)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if requests != nil {
			requests.Wait()
		}
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *handlerSwitch) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	handler, requests := s.handler, s.requests
	if handler == nil {
		s.mu.Unlock()
		s.starting.ServeHTTP(w, r)
		return
	}
	requests.Add(1)
	s.mu.Unlock()
	defer requests.Done()
	handler.ServeHTTP(w, r)
}
