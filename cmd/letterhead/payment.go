package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"letterhead/node"
	"letterhead/projections/payments"
)

func paymentCommand(e *environment) *cobra.Command {
	return group("payment", "List and show payments and their refunds", paymentList(e), paymentShow(e))
}

// addSortFlag adds the option of a listing's order. The function that it returns parses its value.
func addSortFlag(c *cobra.Command, sorts []string) func() (by string, descending bool, err error) {
	text := c.Flags().String("sort", "", "order: "+strings.Join(sorts, ", ")+"; with a minus sign, such as -"+sorts[1]+", in descending order")
	return func() (string, bool, error) {
		by, descending := strings.CutPrefix(*text, "-")
		if by == "" && !descending {
			return "", false, nil
		}
		if !slices.Contains(sorts, by) {
			return "", false, usageError{fmt.Errorf("--sort is one of %s, not %q", strings.Join(sorts, ", "), *text)}
		}
		return by, descending, nil
	}
}

func paymentList(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List payments", Args: exactArgs()}
	var s payments.Selection
	c.Flags().StringVar(&s.AccountID, "account", "", "only payments of this account")
	c.Flags().StringVar(&s.Kind, "kind", "", "only payments of this kind of grant, such as topup")
	state := c.Flags().String("state", "", "only payments in this state: paid, partly_refunded or refunded")
	order := addSortFlag(c, payments.Sorts)
	asJSON := jsonFlag(c)
	c.RunE = e.looksAt(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		var err error
		if s.Sort, s.Descending, err = order(); err != nil {
			return err
		}
		if s.State = payments.State(*state); s.State != "" && !slices.Contains(payments.States, s.State) {
			return usageError{fmt.Errorf("--state is paid, partly_refunded or refunded, not %q", *state)}
		}
		if err := n.CatchUp(ctx, payments.Name); err != nil {
			return err
		}
		table := tabwriter.NewWriter(e.stdout, 0, 4, 2, ' ', 0)
		if !*asJSON {
			fmt.Fprintln(table, "PAYMENT\tACCOUNT\tPAID\tKIND\tCREDITS\tMONEY\tREFUNDED\tRETURNED\tSTATE")
		}
		for last := (*payments.Payment)(nil); ; {
			page, err := n.Payments.List(ctx, s, last, payments.MaxPage)
			if err != nil {
				return err
			}
			for i := range page {
				p := &page[i]
				if *asJSON {
					err = printJSON(e.stdout, p)
				} else {
					_, err = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\t%d\t%s\t%s\n", p.ID, p.AccountID, p.PaidAt.Format(time.RFC3339), p.Kind, p.Credits,
						formatMoney(p.Money, p.Currency), p.RefundedCredits, formatMoney(p.RefundedMoney, p.Currency), p.State)
				}
				if err != nil {
					return err
				}
				last = p
			}
			if len(page) < payments.MaxPage {
				return table.Flush()
			}
		}
	})
	return c
}

func paymentShow(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "show ID", Short: "Show a payment and its refunds", Args: exactArgs("ID")}
	accountID := c.Flags().String("account", "", "account id; needed if several accounts have a payment with this id")
	asJSON := jsonFlag(c)
	c.RunE = e.looksAt(func(ctx context.Context, n *node.Node, _ *cobra.Command, args []string) error {
		if err := n.CatchUp(ctx, payments.Name); err != nil {
			return err
		}
		p, err := n.Payments.Get(ctx, *accountID, args[0])
		switch {
		case errors.Is(err, payments.ErrNotFound):
			return fmt.Errorf("there is no payment %s; %q lists the payments", args[0], "letterhead payment list")
		case errors.Is(err, payments.ErrAmbiguous):
			return fmt.Errorf("%w: add --account; %q lists the payments", err, "letterhead payment list")
		case err != nil:
			return err
		case *asJSON:
			return printJSON(e.stdout, p)
		}
		return printPayment(e.stdout, p)
	})
	return c
}

func printPayment(w io.Writer, p *payments.Payment) error {
	fmt.Fprintf(w, "payment   %s\naccount   %s\npaid      %s\nkind      %s\ncredits   %d (%d refunded)\n", p.ID, p.AccountID, p.PaidAt.Format(time.RFC3339), p.Kind, p.Credits, p.RefundedCredits)
	if p.Currency != "" {
		fmt.Fprintf(w, "money     %s (%s tax, %s returned)\n", formatMoney(p.Money, p.Currency), formatMoney(p.Tax, p.Currency), formatMoney(p.RefundedMoney, p.Currency))
	}
	if _, err := fmt.Fprintf(w, "state     %s\n", p.State); err != nil || len(p.Refunds) == 0 {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "\nREFUND\tAT\tCREDITS\tMONEY")
	for _, r := range p.Refunds {
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", r.ID, r.At.Format(time.RFC3339), r.Credits, formatMoney(r.Money, r.Currency))
	}
	return table.Flush()
}
