package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"letterhead/internal/assets"
	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/internal/searchindex"
	"letterhead/internal/sqlstore"
	"letterhead/internal/telemetry"
	"letterhead/readapi"
)

// Pauses between attempts to start while a shared service is away; they double in between.
const (
	firstStartPause = time.Second
	lastStartPause  = 15 * time.Second
)

// errAway: something that nodes share could not be reached.
var errAway = errors.New("a service that nodes share is away")

// startNode opens and wires everything and lets requests in. A node whose shared services are away waits for
// them: ending would only have it started again, and nothing could be asked of it meanwhile. Without a lock it takes
// the folder itself.
func startNode(ctx context.Context, e *environment, cfg config.Config, lock *folderLock, front *door, logger *slog.Logger) (*service, *adminServer, error) {
	for pause := firstStartPause; ; pause = min(2*pause, lastStartPause) {
		var err error
		if lock == nil {
			lock, err = awaitFolder(ctx, cfg.Data, folderTimeout, logger)
		}
		if err == nil {
			var s *service
			var admin *adminServer
			if s, admin, err = startOnce(ctx, e, cfg, lock, front); err == nil {
				return s, admin, nil
			}
			lock = nil // the attempt released it
		}
		// A command that waits for the services may hold the folder for as long as they are away.
		inUse := errors.Is(err, errFolderInUse)
		if !cfg.Shared() || !away(err) && !inUse || ctx.Err() != nil {
			return nil, nil, err
		}
		logger.Warn("the node cannot start yet", "error", err, "again_in", pause)
		if !inUse {
			if err := front.explain(cfg, err); err != nil {
				return nil, nil, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// startOnce gives the lock back when it fails.
func startOnce(ctx context.Context, e *environment, cfg config.Config, lock *folderLock, front *door) (*service, *adminServer, error) {
	s, err := openService(ctx, cfg, lock, serviceOptions{logs: e.stderr, logLevel: cfg.LogLevel})
	if err != nil {
		return nil, nil, err
	}
	admin, err := serveAdmin(cfg.Data, s)
	if err != nil {
		return nil, nil, errors.Join(err, s.close())
	}
	if err := s.work(ctx); err != nil {
		return nil, nil, errors.Join(err, admin.close(ctx), s.close())
	}
	handler, err := s.handler()
	if err == nil {
		err = telemetry.Register(s.metrics, front.listener.Collectors()...)
	}
	if err != nil {
		return nil, nil, errors.Join(err, admin.close(ctx), s.close())
	}
	front.open(handler, s.operatorsHandler())
	return s, admin, nil
}

// away reports whether an error of shared services may be gone later: also another event store may be replaced by the
// right one, or accepted.
func away(err error) bool {
	for _, known := range []error{
		errAway, eventlog.ErrUnavailable, eventlog.ErrLoss, sqlstore.ErrUnavailable, searchindex.ErrUnavailable, assets.ErrUnavailable, context.DeadlineExceeded,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// door answers that the node is starting, until it is opened.
type door struct {
	listener           *readapi.Listener
	clients, operators entrance
}

func newDoor(l *readapi.Listener) *door { return &door{listener: l} }

func (d *door) open(clients, operators http.Handler) {
	d.operators.open(operators)
	d.clients.open(clients)
}

// shut makes both entrances answer that the node is starting, and waits until those inside have left or ctx ends.
func (d *door) shut(ctx context.Context) error {
	return errors.Join(d.clients.shut(ctx), d.operators.shut(ctx))
}

// explain has the door tell why a node does not start: /readyz and letterhead_log_lost say that the event store is
// refused.
func (d *door) explain(cfg config.Config, why error) error {
	if !errors.Is(why, eventlog.ErrLoss) {
		d.open(nil, nil)
		return nil
	}
	s := &service{config: cfg, metrics: telemetry.NewMetrics(version)}
	s.lost.Store(&why)
	if err := s.watchLoss(); err != nil {
		return err
	}
	clients := operatorsMux(s.operators(cfg.MetricsListen == config.MetricsWithAPI))
	clients.HandleFunc("/", starting)
	d.open(clients, operatorsMux(s.operators(true)))
	return nil
}

// ServeHTTP implements http.Handler.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.clients.ServeHTTP(w, r) }

// entrance leads requests to a handler that is exchanged.
type entrance struct {
	mu     sync.Mutex
	inside http.Handler    // nil while the node is starting
	guests *sync.WaitGroup // requests inside
}

// open leads requests to a handler, which may be nil.
func (e *entrance) open(inside http.Handler) (guests *sync.WaitGroup) {
	e.mu.Lock()
	defer e.mu.Unlock()
	guests, e.inside, e.guests = e.guests, inside, &sync.WaitGroup{}
	return guests
}

func (e *entrance) shut(ctx context.Context) error {
	guests := e.open(nil)
	left := make(chan struct{})
	go func() {
		defer close(left)
		if guests != nil {
			guests.Wait()
		}
	}()
	select {
	case <-left:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ServeHTTP implements http.Handler.
func (e *entrance) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	inside, guests := e.inside, e.guests
	if inside == nil {
		e.mu.Unlock()
		starting(w, r)
		return
	}
	guests.Add(1)
	e.mu.Unlock()
	defer guests.Done()
	inside.ServeHTTP(w, r)
}

// starting answers for a node that is not open yet.
func starting(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if r.URL.Path == "/healthz" {
		fmt.Fprintln(w, "ok")
		return
	}
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	fmt.Fprintln(w, "starting")
}
