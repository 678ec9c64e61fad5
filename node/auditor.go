package node

import (
	"context"
	"fmt"

	"letterhead/commands"
	"letterhead/dashboard/audit"
	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// newAuditor returns what replays accounts, for customers and operators together: its memory is limited.
func (n *Node) newAuditor() (*audit.Auditor, error) {
	limits := audit.DefaultLimits
	if n.options.Parts.Replays != nil {
		limits = *n.options.Parts.Replays
	}
	a, err := audit.New(audit.Sources{Events: accountEvents{n.Stores.Log}, Accounts: n.Models.Accounts,
		Names: n.Stores.Names, Keys: n.Models.Keys, Ledger: n.Models.Ledger, Folded: n.Operations.Reads.Folded,
		Logger: n.logger, Now: n.Stores.clock.Now, Limits: limits})
	if err != nil {
		return nil, err
	}
	n.life.closing(a.Close)
	return a, nil
}

type accountEvents struct{ log eventlog.Log }

func (e accountEvents) Newest(ctx context.Context, accountID string) (uint64, error) {
	last, err := e.log.ReadStream(ctx, account.Stream(accountID), eventlog.End, eventlog.Backward, 1)
	switch {
	case err != nil:
		return 0, err
	case len(last) == 0:
		return 0, fmt.Errorf("account %s: %w", accountID, account.ErrNotFound)
	}
	return last[0].Revision, nil
}

func (e accountEvents) Page(ctx context.Context, accountID string, from uint64, head eventschemas.Hash,
	limit int) ([]audit.Event, error) {
	stream := account.Stream(accountID)
	stored, err := e.log.ReadStream(ctx, stream, from, eventlog.Forward, limit)
	if err != nil {
		return nil, err
	}
	page := make([]audit.Event, 0, len(stored))
	for i := range stored {
		if head, err = commands.Chain.Check(head, stream, from+uint64(i), &stored[i]); err != nil {
			return page, err
		}
		page = append(page, audit.Event{Recorded: stored[i], Head: head})
	}
	return page, nil
}
