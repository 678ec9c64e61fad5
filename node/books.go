package node

import (
	"context"
	"fmt"
	"strings"
	"time"

	"letterhead/domain/account"
	"letterhead/domain/books"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/workers/backup"
)

// bookPage is how many events are read at a time.
const bookPage = eventlog.MaxPage

// Books folds the books of all accounts from the events of their streams that occurred before a time; the zero time is
// now. It calls moved for each change, in the order of the log. Memory grows with accounts, grants and the charges
// of books.ReversalMemory, not with older charges.
func (n *Node) Books(ctx context.Context, until time.Time, show func(backup.Progress), moved func(at time.Time, h *books.Holder, currency string, m books.Movement)) (*books.Ledger, error) {
	head, err := n.Log.Head(ctx)
	if err != nil {
		return nil, err
	}
	ledger := books.NewLedger()
	money := eventlog.Filter{StreamPrefixes: []string{account.StreamPrefix}, EventTypes: books.Types()}
	var events uint64
	for at := eventlog.Position(0); at < head; {
		page, err := n.Log.ReadAll(ctx, at, money, bookPage)
		if err != nil {
			return nil, err
		}
		for i := range page.Events {
			e := &page.Events[i]
			if e.Position > head {
				break
			}
			if !until.IsZero() && !e.OccurredAt.Before(until) {
				continue
			}
			body, err := eventschemas.Decode(e.Type, e.SchemaVersion, e.Data)
			if err != nil {
				return nil, fmt.Errorf("event at position %d: %w", e.Position, err)
			}
			ledger.Apply(strings.TrimPrefix(e.Stream, account.StreamPrefix), body, e.Revision, e.OccurredAt, func(h *books.Holder, currency string, m books.Movement) {
				moved(e.OccurredAt, h, currency, m)
			})
		}
		events += uint64(len(page.Events))
		at = page.Next
		show(backup.Progress{Stage: backup.StageEvents, Done: events, Position: min(at, head), Head: head})
		if page.End {
			break
		}
	}
	return ledger, nil
}
