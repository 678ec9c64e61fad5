package node

import (
	"context"
	"errors"
	"maps"
	"slices"

	"letterhead/adminapi"
	"letterhead/commands"
	"letterhead/eventschemas"
	"letterhead/projections/ledger"
)

// maxBreakageAttempts limits the attempts to recognize the breakage of an account while the outcome is not known.
const maxBreakageAttempts = 3

// RecognizeBreakage removes the remaining credits of a closed account, and returns what became revenue in each currency of
// its lots; nothing if no credits remained.
func (n *Node) RecognizeBreakage(ctx context.Context, by commands.Request, id, policy string) ([]adminapi.Breakage, error) {
	in := commands.RecognizeBreakage{Request: by, AccountID: id, Policy: policy}
	done, err := n.AccountWriter.RecognizeBreakage(ctx, in)
	for attempt := 1; attempt < maxBreakageAttempts && errors.Is(err, commands.ErrUnknownOutcome); attempt++ {
		done, err = n.AccountWriter.RecognizeBreakage(ctx, in)
	}
	if err != nil || done.Credits == 0 {
		return nil, err
	}
	if err := n.CatchUp(ctx, ledger.Name); err != nil {
		return nil, err
	}
	revision, err := n.Ledger.Last(ctx, id, ledger.Filter{Type: eventschemas.BreakageRecognized{}.EventType()}, 1)
	if err != nil {
		return nil, err
	}
	return n.breakageBefore(ctx, id, revision)
}

// BreakageOf returns what RecognizeBreakage would return now.
func (n *Node) BreakageOf(ctx context.Context, id string) ([]adminapi.Breakage, error) {
	last, err := n.Ledger.Last(ctx, id, ledger.Filter{}, 1)
	if err != nil {
		return nil, err
	}
	return n.breakageBefore(ctx, id, last+1)
}

// breakageBefore returns what remains in the lots of an account before the event at a revision.
func (n *Node) breakageBefore(ctx context.Context, id string, revision uint64) (rows []adminapi.Breakage, err error) {
	for before, err := range n.Ledger.Entries(ctx, id, ledger.Filter{FromRevision: revision - 1, Limit: 1}) {
		if err != nil {
			return nil, err
		}
		lots, err := n.Ledger.Books(ctx, before)
		if err != nil {
			return nil, err
		}
		rests := lots.Rests()
		for _, currency := range slices.Sorted(maps.Keys(rests)) {
			rest := rests[currency]
			rows = append(rows, adminapi.Breakage{Account: id, Breakage: rest.Deferred, Credits: rest.Credits, Currency: currency})
		}
	}
	return rows, nil
}
