package main

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"letterhead/eventschemas"
	"letterhead/node"
)

func creditsCommand(e *environment) *cobra.Command {
	return group("credits", "Grant credits, refund payments and reverse charges", creditsGrant(e), creditsRefund(e),
		creditsReverse(e))
}

func creditsGrant(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "grant", Short: "Add credits; a payment id can be used only once", Args: exactArgs()}
	c.Flags().String("account", "", "account id")
	amount := c.Flags().Int64("amount", 0, "credits to add")
	named(c, "amount", "credits")
	c.Flags().String("kind", "topup", "topup, subscription or adjustment")
	c.Flags().String("payment-id", "",
		"opaque reference of the payment; required for topup and subscription, and with "+
			"--money")
	c.Flags().String("reason", "", "reason for an adjustment")
	moneyFlags(c)
	c.Flags().Int64("tax", 0, "the part of the money that is tax, in minor units (cents)")
	asJSON := jsonFlag(c)
	act(e, c, "POST", "/admin/accounts/{account}/grants", func(_ *client, done moved) error {
		return done.print(e, *asJSON, fmt.Sprintf("%d credits granted", *amount))
	})
	return c
}

func creditsRefund(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "refund", Short: "Take back credits of a refunded payment", Args: exactArgs()}
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
			return usageError{errors.New(
				"--amount must be a positive number; without it, all credits that are left are taken " +
					"back")}
		}
		id := cmp.Or(*refundID, uuid.NewString())
		body["refund_id"] = id
		if *refundID == "" {
			x.repeat = "; to try again, repeat the command with --refund-id " + id
		}
		var done moved
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
		return done.print(e, *asJSON, what)
	})
	return c
}

func creditsReverse(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "reverse", Short: "Reverse what one request was charged, within 24 hours",
		Args: exactArgs()}
	c.Flags().String("account", "", "account id")
	requestID := c.Flags().String("request-id", "", "the answer's X-Request-Id")
	asJSON := jsonFlag(c)
	act(e, c, "POST", "/admin/accounts/{account}/reversals", func(_ *client, done moved) error {
		return done.print(e, *asJSON, fmt.Sprintf("%d charge(s) of request %s reversed", done.Charges, *requestID))
	})
	return c
}

// moved is a change of an account's credits as the admin API answers it.
type moved struct {
	Account  string `json:"account"`
	Balance  int64  `json:"balance"`
	Repeated bool   `json:"repeated"`
	Charges  int    `json:"charges"`
	Refund   *eventschemas.PaymentRefunded
}

func (m moved) print(e *environment, asJSON bool, what string) error {
	if asJSON {
		out := map[string]any{"balance": m.Balance, "repeated": m.Repeated}
		if m.Refund != nil {
			out["refund"] = m.Refund
		}
		return printJSON(e.stdout, out)
	}
	note := ""
	if m.Repeated {
		note = " (already done; nothing changed)"
	}
	_, err := fmt.Fprintf(e.stdout, "account %s: %s%s; balance %d\n", m.Account, what, note, m.Balance)
	return err
}
