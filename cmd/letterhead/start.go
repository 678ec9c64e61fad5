package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
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
// them: ending would only have it started again, and nothing could be asked of it meanwhile.
func startNode(ctx context.Context, e *environment, cfg config.Config, lock *folderLock, front *door, logger *slog.Logger) (*service, *adminServer, error) {
	pause := firstStartPause
	for {
		s, admin, err := startOnce(ctx, e, cfg, lock, front)
		if err == nil || !cfg.Shared() || !away(err) || ctx.Err() != nil {
			return s, admin, err
		}
		logger.Warn("the node cannot start yet", "error", err, "again_in", pause)
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(pause):
		}
		pause = min(2*pause, lastStartPause)
		if lock, err = awaitFolder(ctx, cfg.Data, folderTimeout, logger); err != nil { // the attempt released it
			return nil, nil, err
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

// away says that an error may be gone later without anybody's doing.
func away(err error) bool {
	if errors.Is(err, eventlog.ErrLoss) { // an operator must decide
		return false
	}
	for _, known := range []error{
		errAway, eventlog.ErrUnavailable, sqlstore.ErrUnavailable, searchindex.ErrUnavailable, assets.ErrUnavailable, context.DeadlineExceeded,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// door answers that the node is starting, until it is opened.
type door struct {
	listener  *readapi.Listener
	inside    atomic.Pointer[http.Handler]
	operators operatorsDoor
}

func newDoor(l *readapi.Listener) *door { return &door{listener: l} }

func (d *door) open(inside, operators http.Handler) {
	d.operators.inside.Store(&operators)
	d.inside.Store(&inside)
}

// operatorsDoor is the door of the address that serves /metrics.
type operatorsDoor struct{ inside atomic.Pointer[http.Handler] }

// ServeHTTP implements http.Handler.
func (d *operatorsDoor) ServeHTTP(w http.ResponseWriter, r *http.Request) { enter(&d.inside, w, r) }

// ServeHTTP implements http.Handler.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) { enter(&d.inside, w, r) }

func enter(inside *atomic.Pointer[http.Handler], w http.ResponseWriter, r *http.Request) {
	if inside := inside.Load(); inside != nil {
		(*inside).ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if r.URL.Path == "/healthz" {
		fmt.Fprintln(w, "ok")
		return
	}
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	fmt.Fprintln(w, "starting")
}
