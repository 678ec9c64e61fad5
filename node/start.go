package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"letterhead/internal/assets"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/searchindex"
	"letterhead/internal/sqlstore"
	"letterhead/internal/telemetry"
	"letterhead/node/admin"
	"letterhead/node/datafolder"
)

// Pauses between attempts to start while a shared service is unavailable; they double in between.
const (
	firstStartPause = time.Second
	lastStartPause  = 15 * time.Second
)

// errUnavailable means that a service that nodes share could not be reached.
var errUnavailable = errors.New("a shared service is unavailable")

// start opens and connects everything and admits requests. A node whose shared services are unavailable waits for them:
// if it ended instead, it would only be started again, and could answer nothing meanwhile. Without a lock it locks the
// folder itself.
func (v Server) start(ctx context.Context, lock *datafolder.Lock, front *front,
	logger *slog.Logger) (*Node, *admin.Server, error) {
	said := ""
	for pause := firstStartPause; ; pause = min(2*pause, lastStartPause) {
		var err error
		if lock == nil {
			lock, err = awaitFolder(ctx, v.Settings.Data, v.Release, folderTimeout, logger)
		}
		if err == nil {
			var n *Node
			var commands *admin.Server
			if n, commands, err = v.startOnce(ctx, lock, front); err == nil {
				return n, commands, nil
			}
			lock = nil // the attempt released it
		}
		// A command that waits for the services may hold the folder for as long as they are unavailable.
		inUse := errors.Is(err, datafolder.ErrInUse)
		if !v.Settings.Shared() || !isUnavailable(err) && !inUse || ctx.Err() != nil {
			return nil, nil, err
		}
		if !front.explained(err) && err.Error() != said {
			said = err.Error()
			logger.Warn("the node cannot start yet, and tries again", "error", err)
		}
		if !inUse {
			if err := front.explain(v, err); err != nil {
				return nil, nil, err
			}
		}
		if err := delay.For(ctx, pause); err != nil {
			return nil, nil, err
		}
	}
}

// startOnce releases the lock if it fails.
func (v Server) startOnce(ctx context.Context, lock *datafolder.Lock, front *front) (*Node, *admin.Server, error) {
	n, err := Open(ctx, v.Settings, lock,
		Options{Release: v.Release, Logs: v.Logs, LogLevel: v.Settings.LogLevel, lost: &front.lost})
	if err != nil {
		return nil, nil, err
	}
	n.adminURL = front.adminURL
	operators, err := n.operatorsAPI(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, n.Close())
	}
	n.commandAPI = operators.Local()
	commands, err := admin.Serve(v.Settings.Data, v.Runner(n), n.commandAPI, n.logger)
	if err != nil {
		return nil, nil, errors.Join(err, n.Close())
	}
	if err := n.startRoles(ctx); err != nil {
		return nil, nil, errors.Join(err, commands.Close(ctx), n.Close())
	}
	handler, err := n.handler(ctx)
	if err == nil {
		err = telemetry.Register(n.metrics, front.listener.Collectors()...)
	}
	if err != nil {
		return nil, nil, errors.Join(err, commands.Close(ctx), n.Close())
	}
	front.open(handler, n.operatorsHandler(), operators.Handler())
	return n, commands, nil
}

// isUnavailable reports whether retrying may help against an error of a shared service. A rejected event store counts
// too: it may be replaced by the right one, or an operator may accept it.
func isUnavailable(err error) bool {
	for _, known := range []error{
		errUnavailable, eventlog.ErrUnavailable, eventlog.ErrLoss, sqlstore.ErrUnavailable, searchindex.ErrUnavailable,
		assets.ErrUnavailable, context.DeadlineExceeded,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

const (
	// folderTimeout bounds how long a starting server waits for a command, or for a server that is stopping, to
	// release the data folder.
	folderTimeout = 10 * time.Second
	// folderPoll is the pause between two attempts to lock the folder: flock(2) has no wait with a deadline.
	folderPoll = 50 * time.Millisecond
)

// awaitFolder locks the data folder for a server. If a command has it locked, or a server that is stopping and does not
// answer on its admin socket, it logs that and waits. It returns datafolder.ErrInUse immediately if a server answers,
// and if the folder is still locked after the timeout.
func awaitFolder(ctx context.Context, path, release string, timeout time.Duration,
	logger *slog.Logger) (*datafolder.Lock, error) {
	lock, err := datafolder.Acquire(path, datafolder.MayBeNew, release)
	if !errors.Is(err, datafolder.ErrInUse) || admin.Answers(ctx, path) {
		return lock, err
	}
	logger.Warn("another letterhead process holds the data folder, such as a command; waiting for it to end",
		"data", path, "at_most", timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w; it was not released within %s", err, timeout))
	defer cancel()
	for {
		if delay.For(ctx, folderPoll) != nil {
			return nil, context.Cause(ctx)
		}
		lock, err := datafolder.Acquire(path, datafolder.MayBeNew, release)
		if !errors.Is(err, datafolder.ErrInUse) || admin.Answers(ctx, path) {
			return lock, err
		}
	}
}
