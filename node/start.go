package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"letterhead/domain/plan"
	"letterhead/internal/assets"
	"letterhead/internal/config"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/searchindex"
	"letterhead/internal/sqlstore"
	"letterhead/internal/telemetry"
	"letterhead/node/admin"
	"letterhead/node/datafolder"
	"letterhead/operations"
	"letterhead/projections"
	"letterhead/projections/accounts"
	"letterhead/projections/brands"
	"letterhead/projections/checkpoints"
	"letterhead/projections/engine"
	"letterhead/projections/keys"
	"letterhead/starter"
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
	return slices.ContainsFunc([]error{
		errUnavailable, eventlog.ErrUnavailable, eventlog.ErrLoss, sqlstore.ErrUnavailable, searchindex.ErrUnavailable,
		assets.ErrUnavailable, context.DeadlineExceeded,
	}, func(known error) bool { return errors.Is(err, known) })
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

// Begun describes a node that serves everything.
type Begun struct {
	AccountID string                 // the first account
	New       *operations.NewAccount // that account, if this start made it
	AdminURL  string                 // where the admin API is served; "" if it is not
}

// begin waits until a started node can serve everything: the read models have caught up and the starter index is
// searchable. A node with a log of its own then has a first account, and begin calls begun. A node in a cluster then
// calls accept, which lets clients connect.
func (n *Node) begin(ctx context.Context, begun func(*Node, Begun) error, accept func() error) error {
	if n.Config.Shared() {
		return n.beginShared(ctx, accept)
	}
	fault, err := n.fillIfWritable(ctx)
	if err != nil {
		return err
	}
	first, err := n.Models.Accounts.List(ctx, "", 1)
	if err != nil {
		return err
	}
	if err := n.drawing.await(ctx); err != nil {
		return err
	}
	if fault != nil && (len(first) == 0 || firstStartUnfinished(n.Config)) {
		return fmt.Errorf("the first start cannot finish: %w; start again when the disk can be written", fault)
	}
	if len(first) > 0 && !firstStartUnfinished(n.Config) {
		n.health.ready.Store(true)
		return begun(n, Begun{AccountID: first[0].ID, AdminURL: n.adminURL})
	}
	created, err := n.firstAccount(ctx, first)
	if err != nil {
		return err
	}
	n.health.ready.Store(true)
	if err := begun(n, Begun{AccountID: created.Account.ID, New: &created, AdminURL: n.adminURL}); err != nil {
		return err
	}
	return os.Remove(firstStartMarker(n.Config))
}

// fillIfWritable waits until everything that was stored is served, and loads the starter index. If the disk cannot be
// written, it returns why: then the rest follows in the background when it can.
func (n *Node) fillIfWritable(ctx context.Context) (fault, err error) {
	if fault, err = n.tryFill(ctx); fault == nil {
		return nil, err
	}
	n.logger.Error("serving only requests that write nothing", "error", fault)
	n.life.start([]part{{"rest of the start", func(ctx context.Context) error {
		for fault := fault; fault != nil && n.health.awaitWrites(ctx, true) == nil; {
			var err error
			if fault, err = n.tryFill(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		}
		<-ctx.Done()
		return nil
	}}})
	return fault, nil
}

// tryFill is fill until a file cannot be written. It then returns why, an errUnwritable.
func (n *Node) tryFill(ctx context.Context) (fault, err error) {
	filling, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		if fault := n.health.awaitWrites(filling, false); fault != nil {
			stop(fmt.Errorf("%w: %w", errUnwritable, fault))
		}
	}()
	err = n.fill(filling)
	fault = context.Cause(filling)
	if err == nil || !errors.Is(fault, errUnwritable) || ctx.Err() != nil || n.life.alive.Err() != nil {
		return nil, err
	}
	return fault, nil
}

// fill waits for the read models and the first checkpoint, and loads the starter index.
func (n *Node) fill(ctx context.Context) error {
	if err := n.Operations.Reads.CatchUp(ctx); err != nil {
		// A quarantined read model must not keep the others from being served, nor itself from being rebuilt.
		if !errors.As(err, new(*engine.QuarantinedError)) {
			return err
		}
		n.logger.Error("serving without all read models", "error", err)
		if err := n.Operations.Reads.CatchUp(ctx, keys.Name, accounts.Name, brands.Name); err != nil {
			return err
		}
	}
	if n.Config.Starter {
		if err := n.loadStarter(ctx, starter.FileMarker{Path: filepath.Join(n.Config.Data, "starter")}); err != nil {
			return err
		}
	}
	return n.awaitCheckpoint(ctx)
}

// beginShared is begin for a node in a cluster, where other nodes fold. It waits without a limit for the read models
// that answers depend on. `letterhead account create` makes accounts, a crawler loads the starter index, and look-ups
// work without the search index.
func (n *Node) beginShared(ctx context.Context, accept func() error) error {
	pause := firstStartPause
	for {
		waiting, cancel := n.Operations.Reads.Bounded(ctx)
		err := n.Operations.Reads.FoldedTo(waiting, keys.Name, accounts.Name, brands.Name)
		cancel()
		if n.life.alive.Err() != nil {
			return context.Cause(n.life.alive)
		}
		if err == nil {
			err = n.Runner.Ready() // the others may still be built
		}
		if err == nil || ctx.Err() != nil {
			break
		}
		// A stopped read model may stay so until an operator acts. Clients get what the others can answer.
		if errors.As(err, new(*engine.QuarantinedError)) || errors.Is(err, projections.ErrNewerRelease) {
			if err := accept(); err != nil {
				return err
			}
		}
		n.logger.Warn("the read models are not current yet", "error", err, "again_in", pause)
		_ = delay.For(ctx, pause) // the next wait ends at once if ctx does
		pause = min(2*pause, lastStartPause)
	}
	if err := n.drawing.await(ctx); err != nil {
		return err
	}
	if err := accept(); err != nil { // before /readyz says that clients can connect
		return err
	}
	n.health.ready.Store(true)
	n.logger.Info("ready")
	return nil
}

// firstStartMarker returns the name of a file that exists until a first start has shown the keys of its account.
func firstStartMarker(cfg config.Config) string { return filepath.Join(cfg.Data, "first-start") }

// firstStartUnfinished reports whether a first start was interrupted before it had shown the keys of its account.
func firstStartUnfinished(cfg config.Config) bool {
	_, err := os.Stat(firstStartMarker(cfg))
	return err == nil
}

// firstAccount makes the account of a first start. If an earlier first start was interrupted before it had shown that
// account's keys, the keys are lost, and the account gets new ones.
func (n *Node) firstAccount(ctx context.Context, existing []accounts.Account) (operations.NewAccount, error) {
	if err := os.WriteFile(firstStartMarker(n.Config), nil, 0o600); err != nil {
		return operations.NewAccount{}, err
	}
	if len(existing) == 0 {
		return n.Operations.Accounts.Create(ctx, n.Operator(), "first account", plan.Free)
	}
	return n.Operations.Accounts.KeysFor(ctx, n.Operator(), existing[0].ID, "first account")
}

// firstCheckpointWait bounds how long a starting server waits for the first checkpoint of a ledger. With many accounts
// it is made while the server answers.
const firstCheckpointWait = 5 * time.Second

// awaitCheckpoint waits, for some time, until the ledger has a checkpoint that can be read.
func (n *Node) awaitCheckpoint(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, firstCheckpointWait)
	defer cancel()
	select {
	case <-n.hasCheckpoint:
		if err := n.Operations.Reads.FoldedTo(waiting, checkpoints.Name); err != nil && waiting.Err() == nil {
			n.logger.Warn("the checkpoint of the ledger cannot be read", "error", err)
		}
	case <-waiting.Done():
	case <-n.life.alive.Done():
		return context.Cause(n.life.alive)
	}
	return ctx.Err()
}
