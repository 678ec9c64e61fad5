package operations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/internal/eventlog"
	"letterhead/internal/runs"
	"letterhead/projections/ledger"
)

// goneAfter is how long a node in a cluster may be silent before it counts as gone. A node that cannot reach the
// database to report that it is alive cannot check keys either, and charges nothing.
const goneAfter = time.Minute

// Errors of Charges.
var (
	// ErrNotCharged means that a request was not charged.
	ErrNotCharged = errors.New("was not charged")
	// ErrTooMany means that more than can be listed was found.
	ErrTooMany = errors.New("too many to be listed")
)

// UndeliveredCharge is a charge whose answer may not have been delivered, with the state of the process that made it.
type UndeliveredCharge struct {
	Position        eventlog.Position `json:"position"`
	AccountID       string            `json:"account_id"`
	Revision        uint64            `json:"revision"`
	At              time.Time         `json:"at"`
	Credits         int64             `json:"credits"`
	Domain          string            `json:"domain"`
	RequestID       string            `json:"request_id"`
	ChargeID        string            `json:"charge_id"`
	ReversibleUntil time.Time         `json:"reversible_until"`
	Node            string            `json:"node"`            // whose process ended
	LastAlive       time.Time         `json:"node_last_alive"` // as it last recorded
	GoneBy          time.Time         `json:"node_gone_by"`    // the latest moment of its end
}

// Reversals is what became of charges that were to be reversed.
type Reversals struct {
	Reversed int   `json:"reversed"`
	Credits  int64 `json:"credits"`
	TooOld   int   `json:"too_old"`
}

// Charges are the use cases of charges that are reversed.
type Charges struct {
	Reads  *Reads
	Writer *commands.AccountWriter
	Ledger *ledger.Model
	Runs   *runs.Runs
	RunID  string // of this process
	Now    func() time.Time
}

// ReverseRequest reverses the charges of one request for a reason. It returns how many the request had, and whether all of them were
// reversed before.
func (o *Charges) ReverseRequest(ctx context.Context, by commands.Request,
	accountID, requestID, reason string) (charges int, repeated bool, err error) {
	if err := o.Reads.CatchUp(ctx, ledger.Name); err != nil {
		return 0, false, err
	}
	repeated = true
	for entry, err := range o.Ledger.Entries(ctx, accountID, ledger.Filter{RequestID: requestID}) {
		if err != nil {
			return 0, false, err
		}
		if entry.ChargeID == "" || entry.Amount >= 0 {
			continue
		}
		charges++
		done, err := o.Writer.ReverseCharge(ctx, commands.ReverseCharge{
			Request: by, AccountID: accountID, ChargeID: entry.ChargeID, Revision: entry.Revision,
			Reason: account.ReasonOperator, Note: reason,
		})
		if err != nil {
			return 0, false, fmt.Errorf("reverse charge %s: %w", entry.ChargeID, err)
		}
		repeated = repeated && done.Repeated
	}
	if charges == 0 {
		return 0, false, fmt.Errorf("request %s: %w to account %s", requestID, ErrNotCharged, accountID)
	}
	return charges, repeated, nil
}

// Undelivered returns the charges whose answers may not have been delivered, of an account (of all if the id is empty)
// in the order of the log. It returns ErrTooMany if there are more than most.
func (o *Charges) Undelivered(ctx context.Context, accountID string, since time.Time,
	most int) ([]UndeliveredCharge, error) {
	if err := o.Reads.Folded(ctx, ledger.Name); err != nil {
		return nil, err
	}
	all, err := o.Runs.All(ctx)
	if err != nil {
		return nil, err
	}
	var uncertain []runs.UncertainPeriod
	if now := o.Now(); o.Reads.Apart {
		uncertain = runs.UncertainNodes(all, goneAfter, now)
	} else {
		uncertain = runs.UncertainSingleNode(all, o.RunID, now)
	}
	if len(uncertain) == 0 {
		return nil, nil
	}
	first := slices.MinFunc(uncertain, func(a, b runs.UncertainPeriod) int { return a.From.Compare(b.From) }).From
	if first.Before(since) {
		first = since
	}
	runOf := runs.ByRequest(all)
	settled := map[string]bool{} // charges that were reversed or kept
	var found []UndeliveredCharge
	for entry, err := range o.Ledger.Since(ctx, first) {
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
				return nil, fmt.Errorf(
					"%w: more than %d charges may not have been delivered; name an account, or a later time",
					ErrTooMany, most)
			}
			found = append(found, UndeliveredCharge{
				Position: entry.Position, AccountID: entry.AccountID, Revision: entry.Revision, At: entry.At,
				Credits: -entry.Amount, Domain: entry.Domain, RequestID: entry.RequestID, ChargeID: entry.ChargeID,
				ReversibleUntil: entry.At.Add(account.ReversalWindow), Node: period.Run.Node,
				LastAlive: period.Run.Alive, GoneBy: period.Until,
			})
			break
		}
	}
	return slices.DeleteFunc(found, func(c UndeliveredCharge) bool { return settled[c.ChargeID] }), nil
}

// maxReversing is the number of charges that are reversed at a time: those of an account are then durable together.
const maxReversing = 16

// Reverse reverses charges. A charge that is too old to be reversed stays, and a charge that cannot be reversed
// does not stop the others: failed holds their errors. It returns an error if it cannot continue.
func (o *Charges) Reverse(ctx context.Context, by commands.Request,
	charges []UndeliveredCharge) (done Reversals, failed []error, err error) {
	errs := make([]error, len(charges))
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(maxReversing)
	ends := func(err error) bool {
		return inner.Err() != nil || errors.Is(err, eventlog.ErrUnavailable) || errors.Is(err, eventlog.ErrClosed)
	}
	for i, c := range charges {
		group.Go(func() error {
			_, errs[i] = o.Writer.ReverseCharge(inner, commands.ReverseCharge{
				Request: by, AccountID: c.AccountID, ChargeID: c.ChargeID, Revision: c.Revision,
				Reason: account.ReasonOperator, Note: "undelivered",
			})
			if errs[i] != nil && ends(errs[i]) {
				return fmt.Errorf("reverse charge %s of account %s: %w", c.ChargeID, c.AccountID, errs[i])
			}
			return nil
		})
	}
	err = group.Wait()
	for i, c := range charges {
		switch {
		case errs[i] == nil:
			done.Reversed++
			done.Credits += c.Credits
		case errors.Is(errs[i], account.ErrTooLate):
			done.TooOld++
		case err == nil:
			failed = append(failed, fmt.Errorf("reverse charge %s of account %s: %w", c.ChargeID, c.AccountID, errs[i]))
		}
	}
	if err != nil {
		err = fmt.Errorf("%w, after %d others; try again for the rest", err, done.Reversed)
	}
	return done, failed, err
}
