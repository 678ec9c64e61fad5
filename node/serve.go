package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"letterhead/internal/config"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/telemetry"
	"letterhead/node/admin"
	"letterhead/node/datafolder"
	"letterhead/readapi"
)

// shutdownTimeout, in addition to the time of a live crawl, bounds how long a stopping server waits for requests under
// way and for the reversal of their charges.
const shutdownTimeout = 8 * time.Second

// Server serves a node.
type Server struct {
	Settings config.Config
	Release  string
	Logs     io.Writer
	// Runner runs the command lines that other processes send to the node.
	Runner func(*Node) admin.Runner
	// Begun is called when a node with a log of its own serves everything.
	Begun func(*Node, Begun) error
}

// Serve runs the roles of this process until ctx ends, then drains.
func (v Server) Serve(ctx context.Context) error {
	cfg := v.Settings
	logger, err := telemetry.NewLogger(v.Logs, cfg.LogLevel, cfg.LogFormat)
	if err != nil {
		return err
	}
	for _, unknown := range config.UnknownSettings(os.Environ()) {
		logger.Warn("an environment variable has no effect, because it is not a setting", unknown.LogAttrs()...)
	}
	lock, err := awaitFolder(ctx, cfg.Data, v.Release, folderTimeout, logger)
	if errors.Is(err, datafolder.ErrInUse) {
		return fmt.Errorf("%w; stop it first, or serve another folder with --data", err)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil // asked to stop
		}
		return err
	}
	listener, err := listenFor(cfg)
	if err != nil {
		return errors.Join(err, lock.Release())
	}
	if listener.Listener != nil {
		cfg = cfg.ListeningOn(listener.Addr().String())
	}
	v.Settings = cfg
	unrouted := readapi.NewUnrouted(readapi.Config{BaseURL: cfg.BaseURL, LogoHost: cfg.LogoHost, LogoHosts: logoHosts(cfg)}, logger)
	unroutedAdmin := readapi.NewUnroutedAdmin(cfg.BaseURL, logger)
	unrouted.Ready, unroutedAdmin.Ready = notStarted(), notStarted()
	clients := readapi.NewListener(listener, unrouted)
	front := newFront(clients, unrouted, unroutedAdmin)
	server := readapi.NewServer(front)
	failed := make(chan error, 3)
	metrics, err := serveMetrics(cfg, &front.operators, failed)
	if err != nil {
		return errors.Join(err, listener.Close(), lock.Release())
	}
	operators, err := front.serveAdmin(&v.Settings, failed, logger)
	if err != nil {
		return errors.Join(err, listener.Close(), metrics.Close(), lock.Release())
	}
	front.accept = sync.OnceValue(func() error {
		if err := listener.listen(); err != nil {
			return err
		}
		go func() {
			if err := server.Serve(clients); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("serve on %s: %w", cfg.Listen, err)
			}
		}()
		return nil
	})
	if listener.Listener != nil {
		_ = front.accept() // cannot fail
	}
	for {
		err := v.serveOnce(ctx, lock, front, server, failed, logger)
		if !errors.Is(err, errForget) || ctx.Err() != nil {
			return errors.Join(err, server.Close(), clients.Close(), operators.Close(), metrics.Close())
		}
		logger.Warn("restarting the node", "reason", err)
		lock = nil // which was released
	}
}

// lateListener listens once listen is called. Until then clients are refused.
type lateListener struct {
	net.Listener // nil before
	address      string
}

// listenFor returns the listener for clients. It listens already, unless they are refused until the node has begun;
// then only another process that listens there is an error now.
func listenFor(cfg config.Config) (*lateListener, error) {
	l := &lateListener{address: cfg.Listen}
	if cfg.RefusesUntilBegun() {
		other, err := net.DialTimeout("tcp", cfg.Listen, time.Second)
		if err != nil {
			return l, nil
		}
		_ = other.Close() // listen says that the address is in use
	}
	return l, l.listen()
}

func (l *lateListener) listen() (err error) {
	if l.Listener != nil {
		return nil
	}
	if l.Listener, err = net.Listen("tcp", l.address); err != nil {
		return fmt.Errorf("listen on %s: %w; choose another address with --listen", l.address, err)
	}
	return nil
}

func (l *lateListener) Close() error {
	if l.Listener == nil {
		return nil
	}
	return l.Listener.Close()
}

// serveOnce serves until ctx ends or a part of the node has ended. With errForget it leaves the HTTP server open, and
// the node must be started again.
func (v Server) serveOnce(ctx context.Context, lock *datafolder.Lock, front *front, server *http.Server,
	failed <-chan error, logger *slog.Logger) error {
	n, commands, err := v.start(ctx, lock, front, logger)
	if err != nil {
		if ctx.Err() != nil {
			err = nil // asked to stop
		}
		return err
	}
	cfg := n.Config
	slog.SetDefault(n.logger) // net/http and others write to the standard logger
	n.logger.Info("serving", "listen", cfg.Listen, "admin", front.adminURL, "base_url", cfg.BaseURL,
		"data", cfg.Data, "node", cfg.Node, "roles", cfg.Roles, "memory_limit", debug.SetMemoryLimit(-1))

	go func() {
		select {
		case err := <-failed:
			n.life.kill(err)
		case <-n.life.alive.Done():
		case <-ctx.Done():
		}
	}()
	err = n.begin(ctx, v.Begun, front.accept)
	if err == nil {
		select {
		case <-ctx.Done():
		case <-n.life.alive.Done():
			err = context.Cause(n.life.alive)
		}
	}
	if ctx.Err() != nil {
		err = nil // asked to stop
	}
	n.logger.Info("stopping")
	n.stopAPI()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.CrawlTimeout+shutdownTimeout)
	defer cancel()
	if errors.Is(err, errForget) {
		if front.close(stopping) != nil {
			n.run.unclean.Store(true)
		}
		if closed := errors.Join(commands.Close(stopping), n.Close()); closed != nil {
			n.logger.Warn("the node did not shut down cleanly", "error", closed)
		}
		return err
	}
	drained := errors.Join(front.admin.close(stopping), front.listener.Drain(stopping, server))
	if drained != nil {
		n.run.unclean.Store(true)
	}
	return errors.Join(err, drained, commands.Close(stopping), n.Close())
}

// serveMetrics serves what operators read at an address of its own, if there is one. The server may be closed in any
// case.
func serveMetrics(cfg config.Config, handler http.Handler, failed chan<- error) (*http.Server, error) {
	server := readapi.NewServer(handler)
	if !cfg.OwnMetricsListen() {
		return server, nil
	}
	listener, err := net.Listen("tcp", cfg.MetricsListen)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w; choose another address with LETTERHEAD_METRICS_LISTEN",
			cfg.MetricsListen, err)
	}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve metrics on %s: %w", cfg.MetricsListen, err)
		}
	}()
	return server, nil
}

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
	if requests == nil {
		return nil
	}
	return delay.Await(ctx, func() error { requests.Wait(); return nil })
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
