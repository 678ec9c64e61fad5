package node

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"letterhead/commands/streamwriter"
	"letterhead/internal/delay"
	"letterhead/internal/runs"
	"letterhead/internal/sqlstore"
)

const (
	// beatEvery is how often a process that answers requests records that it is alive.
	beatEvery = 5 * time.Second
	// recordEvery is the pause between two attempts to record a start on a full disk.
	recordEvery = time.Second
	// forgetAfter is how many times the longest time of an answer an unanswered charge is remembered. It is more than
	// one, because a command may wait before its append.
	forgetAfter = 2
)

// processRun is the run of this process among the runs of nodes.
type processRun struct {
	id      string
	charges *runs.Charges // of this process
	stores  *Stores
	logger  *slog.Logger
	answers atomic.Bool           // the process answers requests, so its run is noted
	unclean atomic.Bool           // it ends with requests that were cut off, or with charges that were not reversed
	unnoted atomic.Pointer[error] // why it could not be recorded; it points to nil once it is
}

// openRun records that a process begins to answer requests, and returns the part that records that it is alive. If the
// disk is full, the process begins without charging anything.
func openRun(ctx context.Context, n *Node) ([]part, error) {
	run := runs.Run{
		ID: n.run.id, Node: n.Config.Node, Started: n.Stores.clock.Now(),
		AnswerWithin: n.apiConfig().AnswerWithin() + streamwriter.CompensateWithin,
	}
	if err := n.run.record(ctx, run); errors.Is(err, sqlstore.ErrFull) {
		n.logger.Error("nothing is charged until the start of this process can be recorded", "error", err)
	} else if err != nil {
		return nil, err
	}
	if file := n.Stores.log.File; file != nil {
		_ = file.Try(ctx) // the log notes the result
	}
	n.run.answers.Store(true)
	return []part{{"run", func(ctx context.Context) error { return n.run.beat(ctx, run) }}}, nil
}

func (r *processRun) record(ctx context.Context, run runs.Run) error {
	err := r.stores.runs.Begin(ctx, run)
	r.unnoted.Store(&err)
	return err
}

func (r *processRun) beat(ctx context.Context, run runs.Run) error {
	for r.unrecorded() != nil {
		if delay.For(ctx, recordEvery) != nil {
			return nil
		}
		if r.record(ctx, run) == nil {
			r.logger.Info("the start of this process is recorded; look-ups are charged")
		}
	}
	delay.Every(ctx, beatEvery, func() {
		r.charges.Forget(forgetAfter * run.AnswerWithin)
		err := r.stores.runs.Beat(ctx, r.id, r.stores.clock.Now(), r.charges.State())
		if err != nil && ctx.Err() == nil {
			r.logger.Warn("the process could not note that it is alive", "error", err)
		}
	})
	return nil
}

// end records a clean shutdown: every request was answered, or its charge reversed.
func (r *processRun) end() error {
	if !r.answers.Load() || r.unclean.Load() || r.unrecorded() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout) // independent of the request to stop
	defer cancel()
	if err := r.stores.runs.End(ctx, r.id, r.stores.clock.Now()); err != nil {
		r.logger.Warn(
			"could not record the clean shutdown; ledger undelivered will list the last charges of this process",
			"error", err)
	}
	return nil
}

// unrecorded returns why the run of this process is not recorded yet. Without it, charges that a crash leaves without
// their answers could not be found.
func (r *processRun) unrecorded() error {
	if err := r.unnoted.Load(); err != nil {
		return *err
	}
	return nil
}
