package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"letterhead/adminapi"
	"letterhead/eventschemas"
	"letterhead/node"
	"letterhead/projections/payments"
)

func creditsGrant(e *environment) *cobra.Command {
	c := command("grant", "Add credits; a payment id can be used only once")
	c.Flags().String("account", "", "account id")
	amount := c.Flags().Int64("amount", 0, "credits to add")
	named(c, "amount", "credits")
	c.Flags().String("kind", "topup", "topup, subscription or adjustment")
	c.Flags().String("payment-id", "",
		"opaque reference of the payment; required for topup and subscription, and with "+
			"--money")
	c.Flags().String("reason", "", "reason; required without a payment id")
	moneyFlags(c)
	c.Flags().Int64("tax", 0, "the part of the money that is tax, in minor units (cents)")
	asJSON := jsonFlag(c)
	return act(e, c, "POST", "/admin/accounts/{account}/grants", func(_ *client, done adminapi.Change) error {
		return e.printMoved(done, *asJSON, fmt.Sprintf("%d credits granted", *amount))
	})
}

func creditsRefund(e *environment) *cobra.Command {
	c := command("refund", "Take back credits of a refunded payment")
	c.Flags().String("account", "", "account id")
	paymentID := c.Flags().String("payment-id", "", "reference of the payment")
	amount := c.Flags().Int64("amount", 0, "credits to take back (default: all that are left of the payment)")
	named(c, "amount", "credits")
	refundID := c.Flags().String("refund-id", "",
		"reference of the refund; each refunds only once (default: a new one)")
	moneyFlags(c)
	asJSON := jsonFlag(c)
	c.RunE = e.onAPI(node.ToWrite, func(x *client) error {
		path, body, err := x.fill("/admin/accounts/{account}/refunds")
		if err != nil {
			return err
		}
		if body["all_credits"] = !c.Flags().Changed("amount"); body["all_credits"] == false && *amount < 1 {
			return misuse(
				"--amount must be a positive number; without it, all credits that are left are taken " +
					"back")
		}
		id := cmp.Or(*refundID, uuid.NewString())
		body["refund_id"] = id
		if *refundID == "" {
			x.repeat = "; to try again, repeat the command with --refund-id " + id
		}
		var done adminapi.Change
		if err := x.call("POST", path, body, &done); err != nil {
			return err
		}
		what := "payment " + *paymentID + " refunded"
		if r := done.Refund; r != nil {
			what = fmt.Sprintf("payment %s: refund %s of %d credits", *paymentID, r.RefundID, r.Credits)
			if r.Money != nil {
				what += " and " + formatMoney(r.Money.Minor, r.Money.Currency)
			}
		}
		return e.printMoved(done, *asJSON, what)
	})
	return c
}

func creditsReverse(e *environment) *cobra.Command {
	c := command("reverse", "Reverse what one request was charged, within 24 hours")
	c.Flags().String("account", "", "account id")
	requestID := c.Flags().String("request-id", "", "the answer's X-Request-Id")
	c.Flags().String("reason", "", "why; kept forever, so name no person")
	asJSON := jsonFlag(c)
	return act(e, c, "POST", "/admin/accounts/{account}/reversals", func(_ *client, done adminapi.Change) error {
		return e.printMoved(done, *asJSON, fmt.Sprintf("%d charge(s) of request %s reversed", done.Charges, *requestID))
	})
}

const alreadyDone = " (already done; nothing changed)"

// printMoved prints a change of an account's credits.
func (e *environment) printMoved(m adminapi.Change, asJSON bool, what string) error {
	if asJSON {
		out := map[string]any{"balance": m.Balance, "repeated": m.Repeated}
		if m.Refund != nil {
			out["refund"] = m.Refund
		}
		return printJSON(e.stdout, out)
	}
	return e.printf("account %s: %s%s; balance %d\n", m.Account, what, noteIf(m.Repeated, alreadyDone), m.Balance)
}

func paymentList(e *environment) *cobra.Command {
	c := command("list", "List payments")
	account := c.Flags().String("account", "", "only payments of this account")
	c.Flags().String("kind", "", "only payments of this kind of grant, such as topup")
	c.Flags().String("state", "", "only payments in this state: paid, partly_refunded or refunded")
	sortFlag(c, payments.Sorts)
	asJSON := jsonFlag(c)
	l := listing[payments.Payment]{path: "/admin/payments", field: "payments", page: somePages,
		titles: "PAYMENT\tACCOUNT\tPAID\tKIND\tCREDITS\tMONEY\tREFUNDED\tRETURNED\tSTATE",
		cells: func(p *payments.Payment) []any {
			return []any{p.ID, p.AccountID, p.PaidAt.Format(time.RFC3339), p.Kind, p.Credits,
				formatMoney(p.Money, p.Currency), p.RefundedCredits, formatMoney(p.RefundedMoney, p.Currency), p.State}
		},
	}
	e.completeAccounts(c, l.path)
	c.RunE = e.onAPI(node.ToRead, func(x *client) error {
		if *account != "" { // the API would answer an empty list
			path, _, err := x.fill("/admin/accounts/{account}")
			if err == nil {
				err = x.call("GET", path, nil, &struct{}{})
			}
			if err != nil {
				return err
			}
		}
		return l.list(x, e, *asJSON, nil)
	})
	return c
}

func paymentShow(e *environment) *cobra.Command {
	c := command("show ID", "Show a payment, its refunds and its fees")
	c.Flags().String("account", "", "account id; needed if several accounts have a payment with this id")
	return show(e, c, "GET", "/admin/payments/{ID}", func(_ *client, p payments.Payment) error {
		return printPayment(e.stdout, &p)
	})
}

func paymentFee(e *environment) *cobra.Command {
	c := command("fee PAYMENT", "Record a fee of the payment processor")
	c.Flags().String("account", "", "account id; needed if several accounts have a payment with this id")
	c.Flags().Int64("money", 0, "the fee in minor units (cents)")
	c.Flags().String("currency", "", "ISO 4217 code of the balance at the processor (default: the currency of the "+
		"payment)")
	feeID := c.Flags().String("fee-id", "", "reference of the fee; each is recorded only once (default: a new one)")
	asJSON := jsonFlag(c)
	c.RunE = e.onAPI(node.ToWrite, func(x *client) error {
		path, body, err := x.fill("/admin/payments/{PAYMENT}/fees")
		if err != nil {
			return err
		}
		id := cmp.Or(*feeID, uuid.NewString())
		body["fee_id"] = id
		if *feeID == "" {
			x.repeat = "; to try again, repeat the command with --fee-id " + id
		}
		var done adminapi.Fee
		if err := x.call("POST", path, body, &done); err != nil {
			return err
		}
		if *asJSON {
			money := eventschemas.Money{Minor: done.Money, Currency: done.Currency}
			return printJSON(e.stdout, map[string]any{"account": done.Account, "payment_id": done.PaymentID,
				"fee_id": done.FeeID, "money": money, "repeated": done.Repeated})
		}
		return e.printf("payment %s: fee %s of %s recorded%s\n", done.PaymentID, done.FeeID,
			formatMoney(done.Money, done.Currency), noteIf(done.Repeated, alreadyDone))
	})
	return c
}

func printPayment(w io.Writer, p *payments.Payment) error {
	fmt.Fprintf(w, "payment   %s\naccount   %s\npaid      %s\nkind      %s\ncredits   %d (%d refunded)\n", p.ID,
		p.AccountID, p.PaidAt.Format(time.RFC3339), p.Kind, p.Credits, p.RefundedCredits)
	if p.Currency != "" {
		fmt.Fprintf(w, "money     %s (%s tax, %s returned)\n", formatMoney(p.Money, p.Currency),
			formatMoney(p.Tax, p.Currency), formatMoney(p.RefundedMoney, p.Currency))
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
