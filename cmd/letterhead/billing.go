package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"letterhead/adminapi"
	"letterhead/commands"
	domain "letterhead/domain/billing"
	"letterhead/internal/eventlog"
	"letterhead/node"
	"letterhead/projections/inbox"
)

func billingCheckout(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "checkout", Short: "Create a page on which an account pays", Args: exactArgs(),
		Long: "Create a checkout session at Stripe for a pack of credits or the price of a plan, and print the address of the page on which to pay. The credits are granted when Stripe reports the payment. It needs LETTERHEAD_STRIPE_KEY and LETTERHEAD_BILLING_FILE."}
	accountID := c.Flags().String("account", "", "account id")
	pack := c.Flags().String("pack", "", "name of a pack")
	price := c.Flags().String("price", "", "id of a price")
	asJSON := jsonFlag(c)
	c.RunE = e.looksAt(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		switch {
		case *accountID == "":
			return usageError{fmt.Errorf("--account is needed; %q lists the accounts", "letterhead account list")}
		case (*pack == "") == (*price == ""):
			return usageError{errors.New("either --pack or --price is needed")}
		}
		session, err := n.Checkout(ctx, *accountID, *pack, *price)
		if err != nil {
			return explainAccount(*accountID, err)
		}
		if *asJSON {
			return printJSON(e.stdout, session)
		}
		_, err = fmt.Fprintln(e.stdout, session.URL)
		return err
	})
	return c
}

func billingInbox(e *environment) *cobra.Command {
	c := group("inbox", "Events of the payment processor that were not applied", billingInboxShow(e), billingInboxReplay(e), billingInboxDismiss(e))
	c.Long = "List the events of the payment processor that were not applied: those in the inbox need you, those that wait apply by themselves when another event arrives. docs/billing.md explains the reasons."
	state := c.Flags().String("state", "", "only events in this state: inbox, waiting or new")
	order := addOrders(c, by("at", func(r inbox.Report) int64 { return r.At.UnixMicro() }), by("type", func(r inbox.Report) string { return r.Type }),
		by("state", func(r inbox.Report) string { return r.State }), by("customer", func(r inbox.Report) string { return r.Customer }),
		by("payment", func(r inbox.Report) string { return r.PaymentID }))
	asJSON := jsonFlag(c)
	c.RunE = e.looksAt(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		sort, err := order()
		if err != nil {
			return err
		}
		if !slices.Contains([]string{"", domain.Inbox, domain.Waiting, inbox.Undecided}, *state) {
			return usageError{fmt.Errorf("--state is inbox, waiting or new, not %q", *state)}
		}
		open, err := openReports(ctx, n, *state)
		if err != nil {
			return err
		}
		sort(open)
		shown := newList(e.stdout, *asJSON, "EVENT\tAT\tTYPE\tSTATE\tACCOUNT\tCUSTOMER\tPAYMENT\tREASON")
		for _, r := range open {
			err := shown.add(r, r.EventID, r.At.Format(time.RFC3339), r.Type, r.State, r.AccountID, r.Customer, r.PaymentID, r.Reason)
			if err != nil {
				return err
			}
		}
		return shown.end()
	})
	return c
}

// openReports returns the reports in a state that were not applied; all of them if it is empty.
func openReports(ctx context.Context, n *node.Node, state string) ([]inbox.Report, error) {
	if err := n.CatchUp(ctx, inbox.Name); err != nil {
		return nil, err
	}
	all, _, err := n.Inbox.List(ctx, state, math.MaxInt32)
	return all, err
}

// findEntry returns the stream of an event of a processor, which may be without its processor.
func findEntry(ctx context.Context, n *node.Node, id string) (string, error) {
	if err := n.CatchUp(ctx, inbox.Name); err != nil {
		return "", err
	}
	open, found, err := n.Inbox.Open(ctx, id)
	if err != nil {
		return "", err
	}
	if found {
		id = open
	}
	if processor, event, ok := strings.Cut(id, ":"); ok {
		return domain.Stream(processor, event), nil
	}
	return domain.Stream(domain.Stripe, id), nil
}

func billingInboxShow(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "show ID", Short: "Show an event of the payment processor", Args: exactArgs("ID"),
		Long: "Show, as JSON, what the log holds about an event of the payment processor: what was taken from it, and what became of it."}
	c.RunE = e.looksAt(func(ctx context.Context, n *node.Node, _ *cobra.Command, args []string) error {
		stream, err := findEntry(ctx, n, args[0])
		if err != nil {
			return err
		}
		events := 0
		err = eventlog.ReadPages(ctx, n.Log, stream, inboxPage, func(page []eventlog.Recorded) error {
			for _, rec := range page {
				events++
				line := map[string]any{"at": rec.OccurredAt, "event": rec.Type, "actor": rec.Metadata.Actor, "data": json.RawMessage(rec.Data)}
				if err := printJSON(e.stdout, line); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil && events == 0 {
			err = fmt.Errorf("there is no event %s; %q lists those that were not applied", args[0], "letterhead billing inbox")
		}
		return err
	})
	return c
}

// inboxPage is the number of events that are read at a time.
const inboxPage = 256

func billingInboxReplay(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "replay [ID]", Short: "Apply events of the inbox after their causes were removed", Args: atMostOneArg("ID"),
		Long: `Have an event of the inbox, or all of them, decided again: after the price was added
to LETTERHEAD_BILLING_FILE and the server restarted, or the account was opened. This
links no customer; "letterhead billing link" does. An event of another API version is
then used as far as it could be read. The running server applies them; what fails
again returns to the inbox.`}
	all := c.Flags().Bool("all", false, "all events of the inbox")
	c.RunE = e.onFolder(func(ctx context.Context, n *node.Node, _ *cobra.Command, args []string) error {
		if *all == (len(args) == 1) {
			return usageError{errors.New("either an event's id or --all is needed")}
		}
		var streams []string
		if *all {
			reports, err := openReports(ctx, n, domain.Inbox)
			if err != nil {
				return err
			}
			for _, r := range reports {
				streams = append(streams, r.Stream())
			}
		} else {
			stream, err := findEntry(ctx, n, args[0])
			if err != nil {
				return err
			}
			streams = []string{stream}
		}
		for _, stream := range streams {
			_, id, _ := strings.Cut(stream, ":")
			if err := explainReport(id, n.Billing.Reopen(ctx, n.Operator(), stream)); err != nil {
				return err
			}
		}
		_, err := fmt.Fprintf(e.stdout, "%d event(s) will be applied again; %q shows those that cannot be\n", len(streams), "letterhead billing inbox")
		return err
	})
	return c
}

func billingInboxDismiss(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "dismiss ID", Short: "Remove an event from the inbox without applying it", Args: exactArgs("ID"),
		Long: "Remove an event from the inbox, or one that waits, without applying it: after you have done by hand what it needs. The log keeps it, with the reason."}
	reason := c.Flags().String("reason", "operator", "why it is not needed")
	c.RunE = e.onFolder(func(ctx context.Context, n *node.Node, _ *cobra.Command, args []string) error {
		stream, err := findEntry(ctx, n, args[0])
		if err != nil {
			return err
		}
		if err := explainReport(args[0], n.Billing.Dismiss(ctx, n.Operator(), stream, *reason)); err != nil {
			return err
		}
		_, err = fmt.Fprintf(e.stdout, "event %s is dismissed\n", args[0])
		return err
	})
	return c
}

// explainReport adds to the errors of commands on a report what to do.
func explainReport(id string, err error) error {
	switch {
	case errors.Is(err, commands.ErrUnknownReport):
		return fmt.Errorf("there is no event %s; %q lists those that were not applied", id, "letterhead billing inbox")
	case errors.Is(err, commands.ErrReportDone):
		return fmt.Errorf("event %s was applied or dismissed already; %q shows it", id, "letterhead billing inbox show "+id)
	}
	return err
}

func billingLink(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "link", Short: "Link a customer or a payment of the payment processor to an account", Args: exactArgs(),
		Long: `Link a customer of Stripe to an account. Checkout sessions that letterhead creates do
so themselves; subscriptions that were created elsewhere need it, and so does moving
a customer from one account to another. Events of the customer that are in the inbox
are then applied. The account's customer portal and payment pages show the customer,
so check in Stripe whose customer it is.

With --payment, link a payment that was granted by hand. Its refunds and disputes,
which wait until then, are applied; no credits are granted again.`}
	customer := c.Flags().String("customer", "", "id of the customer, such as cus_1")
	payment := c.Flags().String("payment", "", "id of a payment that was granted by hand, such as pi_1")
	accountID := c.Flags().String("account", "", "account id")
	processor := c.Flags().String("processor", domain.Stripe, "name of the processor")
	c.RunE = e.onFolder(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		if (*customer == "") == (*payment == "") || *accountID == "" {
			return usageError{errors.New("--account and either --customer or --payment are needed")}
		}
		err := n.LinkBilling(ctx, n.Operator(), adminapi.Link{AccountID: *accountID, Processor: *processor, Customer: *customer, PaymentID: *payment})
		if err != nil {
			return explainAccount(*accountID, explainPayment(*payment, err))
		}
		what := "customer " + *customer
		if *payment != "" {
			what = "payment " + *payment
		}
		_, err = fmt.Fprintf(e.stdout, "%s is linked to account %s\n", what, *accountID)
		return err
	})
	return c
}

// atMostOneArg accepts one argument or none.
func atMostOneArg(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return exactArgs(name)(c, args)
		}
		return nil
	}
}
