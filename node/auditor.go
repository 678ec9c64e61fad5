package node

import (
	"context"
	"fmt"

	"letterhead/commands/streamwriter"
	"letterhead/dashboard/audit"
	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// auditor returns what replays accounts, for customers and operators together: its memory is limited.
func (n *Node) auditor() (*audit.Auditor, error) {
	n.audits.Lock()
	defer n.audits.Unlock()
	if n.audits.auditor != nil {
		return n.audits.auditor, nil
	}
	limits := audit.DefaultLimits
	if n.parts.Replays != nil {
		limits = *n.parts.Replays
	}
	a, err := audit.New(audit.Sources{Events: accountEvents{n.Log}, Accounts: n.Accounts, Names: n.Names, Keys: n.Keys, Ledger: n.Ledger, Folded: n.Folded, Logger: n.logger, Now: n.clock.Now, Limits: limits})
	if err != nil {
		return nil, err
	}
	n.audits.auditor = a
	n.closing(a.Close)
	return a, nil
}

// accountEvents are the events of accounts.
type accountEvents struct{ log eventlog.Log }

// Newest implements audit.Events.
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

// Page implements audit.Events.
func (e accountEvents) Page(ctx context.Context, accountID string, from uint64, head eventschemas.Hash, limit int) ([]audit.Event, error) {
	stream := account.Stream(accountID)
	stored, err := e.log.ReadStream(ctx, stream, from, eventlog.Forward, limit)
	if err != nil {
		return nil, err
	}
	page := make([]audit.Event, 0, len(stored))
	for i := range stored {
		if head, err = streamwriter.NextHead(head, stream, from+uint64(i), &stored[i]); err != nil {
			return page, err
		}
		page = append(page, audit.Event{Recorded: stored[i], Head: head})
	}
	return page, nil
}
