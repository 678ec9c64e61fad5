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
	"time"

	"letterhead/internal/config"
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
	unrouted := readapi.NewUnrouted(cfg.BaseURL, cfg.LogoHost, logger)
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

	n.life.running.Go(n.removeDrawn)
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
