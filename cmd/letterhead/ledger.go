package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"letterhead/eventschemas"
	"letterhead/node"
	"letterhead/projections/ledger"
)

// listPage is the number of rows that a listing reads at a time.
const listPage = 500

func ledgerCommand(e *environment) *cobra.Command {
	return group("ledger", "Show, verify and prove grants, charges and reversals", ledgerShow(e), ledgerVerify(e),
		ledgerUndelivered(e),
		ledgerCheckpoint(e), ledgerProve(e), ledgerCheck(e), ledgerKey(e))
}

func ledgerShow(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "show", Short: "Show the ledger of an account", Args: exactArgs()}
	accountID := c.Flags().String("account", "", "account id")
	var f ledger.Filter
	c.Flags().StringVar(&f.RequestID, "request-id", "", "only the lines of this request (X-Request-Id of the answer)")
	c.Flags().StringVar(&f.Type, "type", "", "only events of this type, such as CreditsCharged")
	c.Flags().StringVar(&f.PaymentID, "payment-id", "", "only the lines of this payment")
	c.Flags().StringVar(&f.KeyID, "key", "", "only the lines of this API key")
	from := c.Flags().String("from", "", "only lines from this time on")
	to := c.Flags().String("to", "", "only lines up to this time")
	asOf := c.Flags().String("as-of", "", "the same as --to")
	last := c.Flags().Int("last", 0, "only the last N lines")
	all := c.Flags().Bool("all", false, "also show events that do not change the balance")
	asJSON := jsonFlag(c)
	c.RunE = e.onFolder(node.ToRead, func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		if *accountID == "" {
			return usageError{fmt.Errorf("--account is needed; %q lists the accounts", "letterhead account list")}
		}
		if *last < 1 && c.Flags().Changed("last") {
			return usageError{errors.New("--last must be a positive number")}
		}
		if f.Type != "" && !slices.Contains(eventschemas.Types(), f.Type) {
			return usageError{fmt.Errorf("--type: there are no events of type %q; docs/events.md lists the types",
				f.Type)}
		}
		if _, err := parsePast(*asOf, n.Now()); err != nil {
			return err
		}
		if *to != "" && *asOf != "" {
			return usageError{errors.New("--to and --as-of both end the list; give one of them")}
		}
		until := "--to"
		if *to == "" {
			until, to = "--as-of", asOf
		}
		var err error
		if f.From, f.Until, err = rangeOf(*from, until, *to); err != nil {
			return err
		}
		if err := n.Operations.Reads.AccountExists(ctx, *accountID); err != nil {
			return explainAccount(*accountID, err)
		}
		// The output must include everything that was answered before the command began.
		if err := n.Operations.Reads.Folded(ctx, ledger.Name); err != nil {
			return err
		}
		f.Credits = !*all && !*asJSON && f.Type == "" && f.RequestID == ""
		if *last > 0 {
			f.FromRevision, err = n.Models.Ledger.Last(ctx, *accountID, f, *last)
			if err != nil && !errors.Is(err, ledger.ErrNotFound) {
				return err
			}
		}
		shown := newList(e.stdout, *asJSON, "REV\tAT\tTYPE\tKIND\tAMOUNT\tMONEY\tBALANCE\tDOMAIN\tREQUEST")
		for entry, err := range n.Models.Ledger.Entries(ctx, *accountID, f) {
			if err != nil {
				return err
			}
			if err := shown.add(entry, entry.Revision, entry.At.UTC().Format(time.RFC3339), entry.Type, entry.Kind,
				fmt.Sprintf("%+d", entry.Amount),
				formatMoney(entry.Money, entry.Currency), entry.Balance, entry.Domain, entry.RequestID); err != nil {
				return err
			}
		}
		return shown.end()
	})
	return c
}
