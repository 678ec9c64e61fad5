package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	domain "letterhead/domain/billing"
	"letterhead/node"
	"letterhead/operations"
	"letterhead/projections/inbox"
)

func billingCheckout(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "checkout", Short: "Create a page on which an account pays", Args: exactArgs(),
		Annotations: map[string]string{appendsNothing: "true"}}
	c.Flags().String("account", "", "account id")
	c.Flags().String("pack", "", "name of a pack")
	c.Flags().String("price", "", "id of a price")
	show(e, c, "POST", "/admin/billing/checkouts", func(_ *client, session operations.CheckoutSession) error {
		_, err := fmt.Fprintln(e.stdout, session.URL)
		return err
	})
	return c
}

func billingInbox(e *environment) *cobra.Command {
	c := group("inbox", "Events of the payment processor that were not applied", billingInboxShow(e),
		billingInboxReplay(e), billingInboxDismiss(e))
	c.Flags().String("state", "", "only events in this state: inbox, waiting or new")
	openReports.command(e, c)
	return c
}

// openReports are the reports that were not applied.
var openReports = listing[inbox.Report]{path: "/admin/billing/inbox", field: "reports", page: wholePage,
	titles: "EVENT\tAT\tTYPE\tSTATE\tACCOUNT\tCUSTOMER\tPAYMENT\tREASON",
	cells: func(r *inbox.Report) []any {
		return []any{r.EventID, r.At.Format(time.RFC3339), r.Type, r.State, r.AccountID, r.Customer,
			r.PaymentID, r.Reason}
	},
	orders: []order[inbox.Report]{
		by("at", func(r *inbox.Report) int64 { return r.At.UnixMicro() }),
		by("type", func(r *inbox.Report) string { return r.Type }),
		by("state", func(r *inbox.Report) string { return r.State }),
		by("customer", func(r *inbox.Report) string { return r.Customer }),
		by("payment", func(r *inbox.Report) string { return r.PaymentID }),
	},
}

// reports returns the ids of the reports that were not applied, selected by keep.
func (x *client) reports(keep func(*inbox.Report) bool) (ids []string, err error) {
	all := openReports
	all.keep = keep
	err = all.read(x, all.path, map[string]any{}, func(rows []row[inbox.Report], _ pageRest) error {
		for _, r := range rows {
			ids = append(ids, r.value.ID)
		}
		return nil
	})
	return ids, err
}

// report returns the id of the report that the argument names, which may be without its processor.
func (x *client) report() (string, error) {
	id := x.args[0]
	if strings.Contains(id, ":") {
		return id, nil
	}
	open, err := x.reports(func(r *inbox.Report) bool { return r.EventID == id })
	return append(open, domain.Stripe+":"+id)[0], err
}

func billingInboxShow(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "show ID", Short: "Show an event of the payment processor", Args: exactArgs("ID")}
	c.RunE = e.onAPI(node.ToRead, func(x *client) error {
		id, err := x.report()
		if err != nil {
			return err
		}
		var report struct{ Events []map[string]json.RawMessage }
		if err := x.call("GET", "/admin/billing/inbox/"+url.PathEscape(id), nil, &report); err != nil {
			return err
		}
		for _, line := range report.Events {
			if err := printJSON(e.stdout, line); err != nil {
				return err
			}
		}
		return nil
	})
	return c
}

const seeInbox = `: run "letterhead billing inbox" to see`

func billingInboxReplay(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "replay [ID]", Short: "Apply events of the inbox after their causes were removed",
		Args: atMostOneArg("ID"), Annotations: map[string]string{ifUnanswered: seeInbox}}
	all := c.Flags().Bool("all", false, "all events of the inbox")
	c.RunE = e.onAPI(node.ToWrite, func(x *client) error {
		if *all == (len(x.args) == 1) {
			return usageError{errors.New("either an event's id or --all is needed")}
		}
		var ids []string
		var err error
		if *all {
			ids, err = x.reports(func(r *inbox.Report) bool { return r.State == domain.Inbox })
		} else {
			ids = make([]string, 1)
			ids[0], err = x.report()
		}
		if err != nil {
			return err
		}
		for _, id := range ids {
			err := x.call("POST", "/admin/billing/inbox/"+url.PathEscape(id)+"/replay", nil, &struct{}{})
			if err != nil {
				return err
			}
		}
		_, err = fmt.Fprintf(e.stdout, "%d event(s) will be applied again; %q shows those that cannot be\n", len(ids),
			"letterhead billing inbox")
		return err
	})
	return c
}

func billingInboxDismiss(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "dismiss ID", Short: "Remove an event from the inbox without applying it",
		Args: exactArgs("ID"), Annotations: map[string]string{ifUnanswered: seeInbox}}
	reason := c.Flags().String("reason", "operator", "why it is not needed")
	c.RunE = e.onAPI(node.ToWrite, func(x *client) error {
		id, err := x.report()
		if err != nil {
			return err
		}
		if err := x.call("POST", "/admin/billing/inbox/"+url.PathEscape(id)+"/dismiss",
			map[string]any{"reason": *reason},
			&struct{}{}); err != nil {
			return err
		}
		_, err = fmt.Fprintf(e.stdout, "event %s is dismissed\n", x.args[0])
		return err
	})
	return c
}

func billingLink(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "link", Short: "Link a customer or a payment of the payment processor to an account",
		Args: exactArgs()}
	c.Flags().String("customer", "", "id of the customer, such as cus_1")
	c.Flags().String("payment", "", "id of a payment that was granted by hand, such as pi_1")
	named(c, "payment", "payment_id")
	c.Flags().String("account", "", "account id")
	c.Flags().String("processor", domain.Stripe, "name of the processor")
	act(e, c, "POST", "/admin/billing/links", func(_ *client, link operations.Link) error {
		what := "customer " + link.Customer
		if link.PaymentID != "" {
			what = "payment " + link.PaymentID
		}
		_, err := fmt.Fprintf(e.stdout, "%s is linked to account %s\n", what, link.AccountID)
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
