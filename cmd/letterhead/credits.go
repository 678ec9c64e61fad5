package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/node"
)

func creditsCommand(e *environment) *cobra.Command {
	return group("credits", "Grant credits, refund payments and reverse charges", creditsGrant(e), creditsRefund(e), creditsReverse(e))
}

func creditsGrant(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "grant", Short: "Add credits; a payment id can be used only once", Args: exactArgs()}
	accountID := c.Flags().String("account", "", "account id")
	amount := c.Flags().Int64("amount", 0, "credits to add")
	kind := c.Flags().String("kind", "topup", "topup, subscription or adjustment")
	paymentID := c.Flags().String("payment-id", "", "opaque reference of the payment; required for topup and subscription, and with --money")
	reason := c.Flags().String("reason", "", "reason for an adjustment")
	money := addMoneyFlags(c, 1)
	tax := c.Flags().Int64("tax", 0, "the part of the money that is tax, in minor units (cents)")
	asJSON := jsonFlag(c)
	c.RunE = e.onFolder(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		paid, err := money()
		if err != nil {
			return err
		}
		switch {
		case *tax < 0 || *tax > 0 && (paid == nil || *tax > paid.Minor):
			return usageError{errors.New("--tax is a part of --money")}
		case *accountID == "" || *amount <= 0:
			return usageError{errors.New("--account and a positive --amount are needed")}
		case !slices.Contains(commands.OperatorGrants, *kind):
			return usageError{fmt.Errorf("--kind is topup, subscription or adjustment, not %q", *kind)}
		case commands.NeedsPayment(*kind) && *paymentID == "":
			return usageError{fmt.Errorf("--payment-id is needed for a %s, so that repeating the command grants once", *kind)}
		case paid != nil && *paymentID == "":
			return usageError{errors.New("--payment-id is needed with --money: payments are listed, refunded and reconciled by their ids")}
		}
		done, err := n.AccountWriter.GrantCredits(ctx, commands.GrantCredits{
			Request: n.Operator(), AccountID: *accountID, GrantID: uuid.NewString(), Kind: *kind, Credits: *amount,
			PaymentID: *paymentID, Money: paid, Tax: *tax, Reason: *reason,
		})
		return printBalance(e, *accountID, done, err, *asJSON, fmt.Sprintf("%d credits granted", *amount))
	})
	return c
}

func creditsRefund(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "refund", Short: "Take back credits of a refunded payment", Args: exactArgs(),
		Long: "Take back all credits that are left of a payment, or a part of them. A payment can be refunded in several parts.\n\nWithout --money a refund returns money in proportion to its credits, and the last one the rest. If no credits are left, --money without --amount returns money that is left, with a credit of the largest refund, which is recorded again with one less. Repeating a command with the same --refund-id changes nothing."}
	accountID := c.Flags().String("account", "", "account id")
	paymentID := c.Flags().String("payment-id", "", "reference of the payment")
	amount := c.Flags().Int64("amount", 0, "credits to take back (default: all that are left of the payment)")
	refundID := c.Flags().String("refund-id", "", "reference of the refund; each refunds only once (default: a new one)")
	money := addMoneyFlags(c, 0)
	asJSON := jsonFlag(c)
	c.RunE = e.onFolder(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		returned, err := money()
		if err != nil {
			return err
		}
		if *accountID == "" || *paymentID == "" {
			return usageError{errors.New("--account and --payment-id are needed")}
		}
		if *amount < 1 && c.Flags().Changed("amount") {
			return usageError{errors.New("--amount must be a positive number; without it, all credits that are left are taken back")}
		}
		request := n.Operator()
		done, err := n.AccountWriter.RefundPayment(ctx, commands.RefundPayment{
			Request: request, AccountID: *accountID, RefundID: *refundID, PaymentID: *paymentID, Credits: *amount, Money: returned,
		})
		if err != nil {
			if *refundID == "" && !isRejection(err) { // the refund may be recorded
				err = fmt.Errorf("%w; to try again, repeat the command with --refund-id %s", err, request.ID)
			}
			return explainAccount(*accountID, err)
		}
		return printRefund(e, *accountID, *paymentID, done, *asJSON)
	})
	return c
}

// isRejection reports whether err is the decision not to refund.
func isRejection(err error) bool {
	for _, rejection := range []error{
		account.ErrInvalid, account.ErrNotFound, account.ErrUnknownPayment, account.ErrPaymentMismatch,
		account.ErrRefundTooLarge, account.ErrCreditLimit,
	} {
		if errors.Is(err, rejection) {
			return true
		}
	}
	return false
}

func printRefund(e *environment, accountID, paymentID string, done commands.Refunded, asJSON bool) error {
	if asJSON {
		out := map[string]any{"balance": done.Balance, "repeated": done.Repeated}
		if done.Refund != nil {
			out["refund"] = done.Refund
		}
		return printJSON(e.stdout, out)
	}
	what := "payment " + paymentID + " refunded"
	if r := done.Refund; r != nil {
		what = fmt.Sprintf("payment %s: refund %s of %d credits", paymentID, r.RefundID, r.Credits)
		if r.Money != nil {
			what += " and " + formatMoney(r.Money.Minor, r.Money.Currency)
		}
	}
	return printBalance(e, accountID, done.Done, nil, false, what)
}

func creditsReverse(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "reverse", Short: "Reverse what one request was charged, within 24 hours", Args: exactArgs(),
		Long: "Reverse the charges of one request, given by its X-Request-Id, if its answer was charged but never arrived, for example because the server crashed in between. Repeating the command changes nothing."}
	accountID := c.Flags().String("account", "", "account id")
	requestID := c.Flags().String("request-id", "", "the answer's X-Request-Id")
	asJSON := jsonFlag(c)
	c.RunE = e.onFolder(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		if *accountID == "" || *requestID == "" {
			return usageError{errors.New("--account and --request-id are needed")}
		}
		charges, repeated, err := n.ReverseRequest(ctx, n.Operator(), *accountID, *requestID)
		if err != nil {
			return err
		}
		standing, err := n.AccountWriter.Standing(ctx, *accountID)
		return printBalance(e, *accountID, commands.Done{Balance: standing.Balance, Repeated: repeated}, err, *asJSON, fmt.Sprintf("%d charge(s) of request %s reversed", charges, *requestID))
	})
	return c
}

func printBalance(e *environment, accountID string, done commands.Done, err error, asJSON bool, what string) error {
	if err != nil {
		return explainAccount(accountID, err)
	}
	if asJSON {
		return printJSON(e.stdout, map[string]any{"balance": done.Balance, "repeated": done.Repeated})
	}
	note := ""
	if done.Repeated {
		note = " (already done; nothing changed)"
	}
	_, err = fmt.Fprintf(e.stdout, "account %s: %s%s; balance %d\n", accountID, what, note, done.Balance)
	return err
}

// explainAccount replaces account.ErrNotFound with a message that names the account.
func explainAccount(id string, err error) error {
	if errors.Is(err, account.ErrNotFound) {
		return fmt.Errorf("there is no account %s; %q lists the accounts", id, "letterhead account list")
	}
	return err
}
