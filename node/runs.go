package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"letterhead/adminapi"
	"letterhead/commands"
	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/runs"
	"letterhead/internal/sqlstore"
	"letterhead/projections/ledger"
)

const (
	// beatEvery is how often a process that answers requests records that it is alive.
	beatEvery = 5 * time.Second
	// recordEvery is the pause between two attempts to record a start on a full disk.
	recordEvery = time.Second
	// forgetAfter is how many times the longest time of an answer an unanswered charge is remembered. It is more than
	// one, because a command may wait before its append.
	forgetAfter = 2
	// goneAfter is how long a node in a cluster may be silent before it counts as gone. A node that cannot reach the
	// database to report that it is alive cannot check keys either, and charges nothing.
	goneAfter = time.Minute
)

// openRun records that a process begins to answer requests, and returns the part that records that it is alive. If the
// disk is full, the process begins without charging anything.
func (n *Node) openRun(ctx context.Context) ([]part, error) {
	run := runs.Run{
		ID: n.runID, Node: n.Config.Node, Started: n.clock.Now(),
		AnswerWithin: n.apiConfig().AnswerWithin() + streamwriter.CompensateWithin,
	}
	if err := n.record(ctx, run); errors.Is(err, sqlstore.ErrFull) {
		n.logger.Error("nothing is charged until the start of this process can be recorded", "error", err)
	} else if err != nil {
		return nil, err
	}
	if n.logFile != nil {
		_ = n.logFile.Try(ctx) // the log notes the result
	}
	n.answers.Store(true)
	return []part{{"run", func(ctx context.Context) error { return n.beat(ctx, run) }}}, nil
}

// record records the start of a run.
func (n *Node) record(ctx context.Context, run runs.Run) error {
	err := n.runs.Begin(ctx, run)
	n.unnoted.Store(&err)
	return err
}

func (n *Node) beat(ctx context.Context, run runs.Run) error {
	for n.unrecorded() != nil {
		if delay.For(ctx, recordEvery) != nil {
			return nil
		}
		if n.record(ctx, run) == nil {
			n.logger.Info("the start of this process is recorded; look-ups are charged")
		}
	}
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			n.charges.Forget(forgetAfter * run.AnswerWithin)
			if err := n.runs.Beat(ctx, n.runID, n.clock.Now(), n.charges.State()); err != nil && ctx.Err() == nil {
				n.logger.Warn("the process could not note that it is alive", "error", err)
			}
		}
	}
}

// endRun records a clean shutdown: every request was answered, or its charge reversed.
func (n *Node) endRun() error {
	if !n.answers.Load() || n.unclean.Load() || n.unrecorded() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout) // independent of the request to stop
	defer cancel()
	if err := n.runs.End(ctx, n.runID, n.clock.Now()); err != nil {
		n.logger.Warn("could not record the clean shutdown; ledger undelivered will list the last charges of this process", "error", err)
	}
	return nil
}

// UndeliveredCharges returns the charges whose answers may not have been delivered, of an account (of all if the id is empty)
// in the order of the log. It returns adminapi.ErrTooMany if there are more than most.
func (n *Node) UndeliveredCharges(ctx context.Context, accountID string, since time.Time, most int) ([]adminapi.UndeliveredCharge, error) {
	if err := n.CatchUp(ctx, ledger.Name); err != nil {
		return nil, err
	}
	all, err := n.runs.All(ctx)
	if err != nil {
		return nil, err
	}
	var uncertain []runs.UncertainPeriod
	if now := n.clock.Now(); n.Config.Shared() {
		uncertain = runs.UncertainNodes(all, goneAfter, now)
	} else {
		uncertain = runs.UncertainSingleNode(all, n.runID, now)
	}
	var first time.Time
	for _, period := range uncertain {
		if first.IsZero() || period.From.Before(first) {
			first = period.From
		}
	}
	if len(uncertain) == 0 {
		return nil, nil
	}
	if first.Before(since) {
		first = since
	}
	runOf := runs.ByRequest(all)
	settled := map[string]bool{} // charges that were reversed or kept
	var found []adminapi.UndeliveredCharge
	for entry, err := range n.Ledger.Since(ctx, first) {
		if err != nil {
			return nil, err
		}
		if entry.ChargeID == "" || accountID != "" && entry.AccountID != accountID {
			continue
		}
		if entry.Amount >= 0 {
			settled[entry.ChargeID] = true
			continue
		}
		run := runOf(entry.RequestID)
		for _, period := range uncertain {
			if entry.At.Before(since) || !period.Covers(entry.At, entry.Position, entry.RequestID) ||
				run != "" && run != period.Run.ID {
				continue
			}
			if len(found) == most {
				return nil, fmt.Errorf("%w: more than %d charges may not have been delivered; name an account, or a later time", adminapi.ErrTooMany, most)
			}
			found = append(found, adminapi.UndeliveredCharge{
				Position: entry.Position, AccountID: entry.AccountID, Revision: entry.Revision, At: entry.At, Credits: -entry.Amount, Domain: entry.Domain,
				RequestID: entry.RequestID, ChargeID: entry.ChargeID, ReversibleUntil: entry.At.Add(account.ReversalWindow),
				Node: period.Run.Node, LastAlive: period.Run.Alive, GoneBy: period.Until,
			})
			break
		}
	}
	open := found[:0]
	for _, c := range found {
		if !settled[c.ChargeID] {
			open = append(open, c)
		}
	}
	return open, nil
}

// ReverseCharges reverses charges. A charge that is too old to be reversed stays, and a charge that cannot be reversed
// does not stop the others: failed holds their errors. It returns an error if it cannot continue.
func (n *Node) ReverseCharges(ctx context.Context, by commands.Request, charges []adminapi.UndeliveredCharge) (done adminapi.Reversals, failed []error, err error) {
	for _, c := range charges {
		_, err := n.AccountWriter.ReverseCharge(ctx, commands.ReverseCharge{
			Request: by, AccountID: c.AccountID, ChargeID: c.ChargeID, Revision: c.Revision, Reason: account.ReasonOperator,
		})
		switch {
		case errors.Is(err, account.ErrTooLate):
			done.TooOld++
		case err != nil:
			if ctx.Err() != nil || errors.Is(err, eventlog.ErrUnavailable) || errors.Is(err, eventlog.ErrClosed) {
				return done, failed, fmt.Errorf("reverse charge %s of account %s, after %d others; try again for the rest: %w", c.ChargeID, c.AccountID, done.Reversed, err)
			}
			failed = append(failed, fmt.Errorf("reverse charge %s of account %s: %w", c.ChargeID, c.AccountID, err))
		default:
			done.Reversed++
			done.Credits += c.Credits
		}
	}
	return done, failed, nil
}
