package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"letterhead/commands"
	"letterhead/eventschemas"
	"letterhead/node"
	"letterhead/projections/payments"
)

func paymentCommand(e *environment) *cobra.Command {
	return group("payment", "List and show payments and their refunds, and record fees", paymentList(e), paymentShow(e), paymentFee(e))
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
		if s.Kind != "" && !slices.Contains(commands.OperatorGrants, s.Kind) {
			return usageError{fmt.Errorf("--kind is topup, subscription or adjustment, not %q", s.Kind)}
		}
		if s.State = payments.State(*state); s.State != "" && !slices.Contains(payments.States, s.State) {
			return usageError{fmt.Errorf("--state is paid, partly_refunded or refunded, not %q", *state)}
		}
		if s.AccountID != "" {
			if err := n.AccountExists(ctx, s.AccountID); err != nil {
				return explainAccount(s.AccountID, err)
			}
		}
		if err := n.CatchUp(ctx, payments.Name); err != nil {
			return err
		}
		shown := newList(e.stdout, *asJSON, "PAYMENT\tACCOUNT\tPAID\tKIND\tCREDITS\tMONEY\tREFUNDED\tRETURNED\tSTATE")
		for last := (*payments.Payment)(nil); ; {
			page, err := n.Payments.List(ctx, s, last, payments.MaxPage)
			if err != nil {
				return err
			}
			for i := range page {
				p := &page[i]
				if err := shown.add(p, p.ID, p.AccountID, p.PaidAt.Format(time.RFC3339), p.Kind, p.Credits,
					formatMoney(p.Money, p.Currency), p.RefundedCredits, formatMoney(p.RefundedMoney, p.Currency), p.State); err != nil {
					return err
				}
				last = p
			}
			if len(page) < payments.MaxPage {
				return shown.end()
			}
		}
	})
	return c
}

func paymentShow(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "show ID", Short: "Show a payment, its refunds and its fees", Args: exactArgs("ID")}
	accountID := c.Flags().String("account", "", "account id; needed if several accounts have a payment with this id")
	asJSON := jsonFlag(c)
	c.RunE = e.looksAt(func(ctx context.Context, n *node.Node, _ *cobra.Command, args []string) error {
		p, err := findPayment(ctx, n, *accountID, args[0])
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(e.stdout, p)
		}
		return printPayment(e.stdout, p)
	})
	return c
}

// findPayment returns a payment with everything that is recorded of it; accountID may be empty.
func findPayment(ctx context.Context, n *node.Node, accountID, id string) (*payments.Payment, error) {
	if err := n.CatchUp(ctx, payments.Name); err != nil {
		return nil, err
	}
	p, err := n.Payments.Get(ctx, accountID, id)
	return p, explainPayment(id, err)
}

// explainPayment adds to the errors of a search for a payment what to do.
func explainPayment(id string, err error) error {
	switch {
	case errors.Is(err, payments.ErrNotFound):
		return fmt.Errorf("there is no payment %s; %q lists the payments", id, "letterhead payment list")
	case errors.Is(err, payments.ErrAmbiguous):
		return fmt.Errorf("%w: add --account; %q lists the payments", err, "letterhead payment list")
	}
	return err
}

func paymentFee(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "fee PAYMENT", Short: "Record a fee of the payment processor", Args: exactArgs("PAYMENT"),
		Long: "Record what the payment processor took from a payment, or from its refund or dispute. An amount below zero is a fee that the processor returned. The fee belongs to the month in which it is recorded. Repeating a command with the same --fee-id changes nothing. \"billing reconcile --record-fees\" records all fees of an export."}
	accountID := c.Flags().String("account", "", "account id; needed if several accounts have a payment with this id")
	minor := c.Flags().Int64("money", 0, "the fee in minor units (cents)")
	currency := c.Flags().String("currency", "", "ISO 4217 code of the balance at the processor (default: the currency of the payment)")
	feeID := c.Flags().String("fee-id", "", "reference of the fee; each is recorded only once (default: a new one)")
	asJSON := jsonFlag(c)
	c.RunE = e.onFolder(func(ctx context.Context, n *node.Node, _ *cobra.Command, args []string) error {
		if *minor == 0 {
			return usageError{errors.New("--money is needed: an amount in minor units, such as 145")}
		}
		p, err := findPayment(ctx, n, *accountID, args[0])
		if err != nil {
			return err
		}
		in := commands.RecordFee{Request: n.Operator(), AccountID: p.AccountID, FeeID: *feeID, PaymentID: p.ID,
			Money: eventschemas.Money{Minor: *minor, Currency: cmp.Or(*currency, p.Currency)}}
		if in.Money.Currency == "" {
			return usageError{errors.New("--currency is needed: the payment was recorded without money")}
		}
		if in.FeeID == "" {
			in.FeeID = in.Request.ID
		}
		done, err := n.AccountWriter.RecordFee(ctx, in)
		switch {
		case err != nil && *feeID == "" && !isRejection(err): // the fee may be recorded
			return fmt.Errorf("%w; to try again, repeat the command with --fee-id %s", err, in.FeeID)
		case err != nil:
			return err
		case *asJSON:
			return printJSON(e.stdout, map[string]any{"account": in.AccountID, "payment_id": in.PaymentID, "fee_id": in.FeeID, "money": in.Money, "repeated": done.Repeated})
		}
		note := ""
		if done.Repeated {
			note = " (already done; nothing changed)"
		}
		_, err = fmt.Fprintf(e.stdout, "payment %s: fee %s of %s recorded%s\n", in.PaymentID, in.FeeID, formatMoney(in.Money.Minor, in.Money.Currency), note)
		return err
	})
	return c
}

func printPayment(w io.Writer, p *payments.Payment) error {
	fmt.Fprintf(w, "payment   %s\naccount   %s\npaid      %s\nkind      %s\ncredits   %d (%d refunded)\n", p.ID, p.AccountID, p.PaidAt.Format(time.RFC3339), p.Kind, p.Credits, p.RefundedCredits)
	if p.Currency != "" {
		fmt.Fprintf(w, "money     %s (%s tax, %s returned)\n", formatMoney(p.Money, p.Currency), formatMoney(p.Tax, p.Currency), formatMoney(p.RefundedMoney, p.Currency))
	}
	sums := map[string]int64{}
	for _, f := range p.Fees {
		sums[f.Currency] += f.Money
	}
	for _, currency := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(w, "fees      %s\n", formatMoney(sums[currency], currency))
	}
	fmt.Fprintf(w, "state     %s\n", p.State)
	table := newTable(w)
	section(table, "REFUND\tAT\tCREDITS\tMONEY\tREVERSED", p.Refunds, func(r payments.Refund) []any {
		reversed := ""
		if r.ReversedAt != nil {
			reversed = r.ReversedAt.Format(time.RFC3339)
		}
		return []any{r.ID, r.At.Format(time.RFC3339), r.Credits, formatMoney(r.Money, r.Currency), reversed}
	})
	section(table, "FEE\tAT\tMONEY", p.Fees, func(f payments.Fee) []any {
		return []any{f.ID, f.At.Format(time.RFC3339), formatMoney(f.Money, f.Currency)}
	})
	return table.Flush()
}
