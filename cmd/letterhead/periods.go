package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"letterhead/domain/books"
	"letterhead/internal/eventlog"
	"letterhead/node"
	"letterhead/workers/journal"
)

func booksClose(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "close MONTH", Short: "Close a month", Args: exactArgs("MONTH"),
		Long: "Close a month: verify the streams of all accounts, and record the month's totals and the digest of its journal as an event. Months are closed in order. An event of the month that is appended later is booked at the beginning of the next month that has not ended. Closing a month again changes nothing."}
	asJSON := jsonFlag(c)
	opened := false
	run := e.onFolderApart(node.ToWrite, func(ctx context.Context, n *node.Node, _ *cobra.Command, args []string) error {
		opened = true
		month, err := monthOf("MONTH", args[0])
		if err != nil {
			return err
		}
		period, repeated, err := n.CloseMonthShowing(ctx, n.Operator(), month, e.reading("journal"), stages(e.stderr, "verify"))
		if err != nil {
			return err
		}
		state := "closed"
		if repeated {
			state = "was closed before"
		}
		if *asJSON {
			return printJSON(e.stdout, periodJSON(period))
		}
		_, err = fmt.Fprintf(e.stdout, "%s %s: %d transaction(s), digest %s\n", args[0], state, period.Closing.Transactions, period.Closing.Digest)
		return err
	})
	c.RunE = func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if !opened && errors.Is(err, eventlog.ErrLoss) {
			return fmt.Errorf("%s was not closed: %w", args[0], err)
		}
		return err
	}
	return c
}

func periodJSON(p *books.Period) map[string]any {
	return map[string]any{"month": p.Closing.Month, "state": "closed", "closed_at": p.ClosedAt, "position": p.Position, "digest": p.Closing.Digest, "transactions": p.Closing.Transactions, "totals": p.Closing.Totals}
}

func booksStatus(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "status", Short: "Show which months are closed", Args: exactArgs(),
		Long: "List the months from that of the first event to the running one, with the digest of those that are closed."}
	asJSON := jsonFlag(c)
	c.RunE = e.looksAt(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		now := time.Now()
		months, err := journal.Status(ctx, n.Log, now)
		if err != nil {
			return err
		}
		shown := newList(e.stdout, *asJSON, "MONTH\tSTATE\tCLOSED\tTRANSACTIONS\tDIGEST")
		for _, m := range months {
			month := m.Month.Format(books.MonthLayout)
			object, cells := map[string]any{"month": month, "state": m.State(now)}, []any{month, m.State(now), "", "", ""}
			if p := m.Closing; p != nil {
				object, cells = periodJSON(p), []any{month, m.State(now), p.ClosedAt.Format(time.RFC3339), p.Closing.Transactions, p.Closing.Digest}
			}
			if err := shown.add(object, cells...); err != nil {
				return err
			}
		}
		return shown.end()
	})
	return c
}
