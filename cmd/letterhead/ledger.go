package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"letterhead/node"
	"letterhead/projections/ledger"
)

// endOfTime is later than every event: the last second that RFC 3339 can express.
var endOfTime = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// listPage is the number of rows that a listing reads at a time.
const listPage = 500

func ledgerCommand(e *environment) *cobra.Command {
	return group("ledger", "Show and verify grants, charges and reversals", ledgerShow(e), ledgerVerify(e), ledgerUndelivered(e))
}

func ledgerShow(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "show", Short: "Show the ledger of an account", Args: exactArgs()}
	accountID := c.Flags().String("account", "", "account id")
	requestID := c.Flags().String("request-id", "", "only the lines of this request (X-Request-Id of the answer)")
	asOf := c.Flags().String("as-of", "", "only lines up to this time (RFC 3339)")
	last := c.Flags().Int("last", 0, "only the last N lines")
	asJSON := jsonFlag(c)
	c.RunE = e.looksAt(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		if *accountID == "" {
			return usageError{fmt.Errorf("--account is needed; %q lists the accounts", "letterhead account list")}
		}
		if *last < 0 || *last > 0 && *requestID != "" {
			return usageError{errors.New("--last must be a positive number, and cannot be used with --request-id")}
		}
		var until time.Time
		if *asOf != "" {
			var err error
			if until, err = time.Parse(time.RFC3339, *asOf); err != nil {
				return usageError{fmt.Errorf("--as-of %q is not like 2026-11-21T15:04:05Z", *asOf)}
			}
		}
		if err := n.AccountExists(ctx, *accountID); err != nil {
			return explainAccount(*accountID, err)
		}
		// The output must include everything that was answered before the command began.
		if err := n.CatchUp(ctx); err != nil {
			return err
		}
		filter := ledger.Filter{RequestID: *requestID}
		if *last > 0 {
			at := until
			if at.IsZero() {
				at = endOfTime
			}
			end, err := n.Ledger.AsOf(ctx, *accountID, at)
			if errors.Is(err, ledger.ErrNotFound) {
				return fmt.Errorf("there is no account %s with entries up to then; %q lists the accounts", *accountID, "letterhead account list")
			}
			if err != nil {
				return err
			}
			filter.FromRevision = end.Revision + 1 - min(uint64(*last), end.Revision+1)
		}
		table := tabwriter.NewWriter(e.stdout, 0, 4, 2, ' ', 0)
		if !*asJSON {
			fmt.Fprintln(table, "REV\tAT\tTYPE\tAMOUNT\tBALANCE\tDOMAIN\tREQUEST")
		}
		for entry, err := range n.Ledger.Entries(ctx, *accountID, filter) {
			if err != nil {
				return err
			}
			if !until.IsZero() && entry.At.After(until) {
				break
			}
			if *asJSON {
				err = printJSON(e.stdout, entry)
			} else {
				_, err = fmt.Fprintf(table, "%d\t%s\t%s\t%+d\t%d\t%s\t%s\n", entry.Revision, entry.At.UTC().Format(time.RFC3339), entry.Type, entry.Amount, entry.Balance, entry.Domain, entry.RequestID)
			}
			if err != nil {
				return err
			}
		}
		return table.Flush()
	})
	return c
}
