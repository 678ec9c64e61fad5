package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"letterhead/adminapi"
	domain "letterhead/domain/billing"
	"letterhead/domain/books"
	"letterhead/domain/reconcile"
	"letterhead/eventschemas"
	"letterhead/internal/stripeapi"
	"letterhead/node"
	"letterhead/operations"
	"letterhead/projections/inbox"
	"letterhead/workers/journal"
)

func billingCheckout(e *environment) *cobra.Command {
	c := command("checkout", "Create a page on which an account pays")
	c.Annotations = map[string]string{appendsNothing: "true"}
	c.Flags().String("account", "", "account id")
	c.Flags().String("pack", "", "name of a pack")
	c.Flags().String("price", "", "id of a price")
	return show(e, c, "POST", "/admin/billing/checkouts", func(_ *client, session stripeapi.Session) error {
		return e.printf("%s\n", session.URL)
	})
}

func billingInbox(e *environment) *cobra.Command {
	c := group("inbox", "Events of the payment processor that were not applied", billingInboxShow(e),
		billingInboxReplay(e), billingInboxDismiss(e))
	c.Flags().String("state", "", "only events in this state: inbox, waiting or new")
	return openReports.command(e, c)
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
	c := command("show ID", "Show an event of the payment processor")
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
	c := command("replay [ID]", "Apply events of the inbox after their causes were removed")
	c.Annotations = map[string]string{ifUnanswered: seeInbox}
	all := c.Flags().Bool("all", false, "all events of the inbox")
	c.RunE = e.onAPI(node.ToWrite, func(x *client) error {
		if *all == (len(x.args) == 1) {
			return misuse("either an event's id or --all is needed")
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
		return e.printf("%d event(s) will be applied again; %q shows those that cannot be\n", len(ids),
			"letterhead billing inbox")
	})
	return c
}

func billingInboxDismiss(e *environment) *cobra.Command {
	c := command("dismiss ID", "Remove an event from the inbox without applying it")
	c.Annotations = map[string]string{ifUnanswered: seeInbox}
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
		return e.printf("event %s is dismissed\n", x.args[0])
	})
	return c
}

func billingLink(e *environment) *cobra.Command {
	c := command("link", "Link a customer or a payment of the payment processor to an account")
	c.Flags().String("customer", "", "id of the customer, such as cus_1")
	c.Flags().String("payment", "", "id of a payment that was granted by hand, such as pi_1")
	named(c, "payment", "payment_id")
	c.Flags().String("account", "", "account id")
	c.Flags().String("processor", domain.Stripe, "name of the processor")
	return act(e, c, "POST", "/admin/billing/links", func(_ *client, link operations.Link) error {
		what := "customer " + link.Customer
		if link.PaymentID != "" {
			what = "payment " + link.PaymentID
		}
		return e.printf("%s is linked to account %s\n", what, link.AccountID)
	})
}

func billingSetup(e *environment) *cobra.Command {
	c := command("setup FILE", "Create prices and a webhook endpoint at the payment processor")
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, err := e.config()
		if err != nil {
			return err
		}
		o := &operations.Billing{BaseURL: cfg.BaseURL,
			Stripe: stripeapi.New(stripeapi.Config{Key: cfg.StripeKey, URL: cfg.StripeURL})}
		return o.SetUp(c.Context(), args[0], e.printf)
	}
	return c
}

func billingReconcile(e *environment) *cobra.Command {
	c := command("reconcile FILE.csv", "Compare a payment processor's balance export with the ledger")
	from := c.Flags().String("from", "", "start of the range")
	to := c.Flags().String("to", "", "end of the range, inclusive")
	record := c.Flags().Bool("record-fees", false, "record the fees that are missing from the ledger")
	opening := c.Flags().StringSlice("opening", nil, "balance at the processor before the range, such as EUR=104.50")
	r := reportFlags(c, "result", "kind", "processor_currency", "processor", "ledger_currency", "ledger", "payment",
		"id", "account", "at", "line")
	var report *reconcile.Report
	compare := e.reads(func(ctx context.Context, n *node.Node, _ *cobra.Command, args []string) error {
		o := reconcile.Options{Fees: *record}
		var err error
		if o.From, o.Until, err = rangeOf(*from, "--to", *to); err != nil {
			return err
		}
		if o.Opening, err = openingBalances(*opening); err != nil {
			return misuse("--opening: %w", err)
		}
		report, err = reconcileFile(args[0], o, func() (*reconcile.Ledger, error) {
			ledger := reconcile.NewLedger()
			return ledger, journal.Events(ctx, n.Stores.Log, reconcile.Types(), e.reading("ledger"), ledger.Apply)
		})
		return err
	})
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := compare(cmd, args); err != nil {
			return err
		}
		if report == nil { // a server has compared, and has printed the report
			return nil
		}
		var rejected error
		if *record {
			rejected = e.recordFees(cmd, report.Differences)
		}
		if err := errors.Join(rejected, r.write(e.stdout, reconcileRows(report))); err != nil {
			return err
		}
		counts := map[reconcile.Result]int{}
		for _, d := range report.Differences {
			counts[d.Result]++
		}
		if counts[reconcile.Recorded] == len(report.Differences) {
			return nil
		}
		return fmt.Errorf("%s and the ledger differ: %d missing from the ledger, %d extra in it, %d different", args[0],
			counts[reconcile.Missing], counts[reconcile.Extra], counts[reconcile.Different])
	}
	return c
}

// maxFeeErrors is the number of errors after which no more fees are recorded.
const maxFeeErrors = 100

// recordFees records missing fees whose payment one account has, and marks them. It returns the errors of the fees that
// stay missing.
func (e *environment) recordFees(cmd *cobra.Command, differences []reconcile.Difference) error {
	var missing []*reconcile.Difference
	for i := range differences {
		if d := &differences[i]; d.Kind == reconcile.Fee && d.Result == reconcile.Missing && d.AccountID != "" {
			missing = append(missing, d)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return e.onAPI(node.ToWrite, func(x *client) error {
		var errs []error
		for _, d := range missing {
			fee := map[string]any{"account": d.AccountID, "fee_id": d.ID, "money": d.Processor.Minor,
				"currency": d.Processor.Currency}
			err := x.call("POST", "/admin/payments/"+url.PathEscape(d.PaymentID)+"/fees", fee, &adminapi.Fee{})
			if err != nil {
				errs = append(errs, fmt.Errorf("record fee %s of payment %s: %w", d.ID, d.PaymentID, err))
			} else {
				d.Result, d.Ledger = reconcile.Recorded, d.Processor
			}
			if x.ctx.Err() != nil || len(errs) >= maxFeeErrors {
				return errors.Join(append(errs, errors.New("run the command again to record the rest"))...)
			}
		}
		return errors.Join(errs...)
	})(cmd, nil)
}

// openingBalances returns the balances of texts such as EUR=104.50.
func openingBalances(texts []string) (map[string]int64, error) {
	balances := map[string]int64{}
	for _, text := range texts {
		currency, amount, _ := strings.Cut(text, "=")
		currency, err := reconcile.ParseCurrency(currency)
		if err != nil {
			return nil, err
		}
		if _, twice := balances[currency]; twice {
			return nil, fmt.Errorf("%s is given twice", currency)
		}
		if balances[currency], err = books.ParseAmount(amount, currency); err != nil {
			return nil, err
		}
	}
	return balances, nil
}

// reconcileFile reads the header of the file before it folds the ledger, which takes longer.
func reconcileFile(name string, o reconcile.Options,
	fold func() (*reconcile.Ledger, error)) (_ *reconcile.Report, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	in, err := reconcile.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	ledger, err := fold()
	if err != nil {
		return nil, err
	}
	report, err := reconcile.Compare(ledger, in, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return report, nil
}

// reconcileRows returns a row for each difference, and the clearing account of each currency: a row for each of its
// lines, and one object for JSON.
func reconcileRows(report *reconcile.Report) (rows []reportRow) {
	for _, d := range report.Differences {
		rows = append(rows, differenceRow(d))
	}
	for _, c := range report.Clearing {
		object := map[string]any{"result": "clearing", "currency": c.Currency}
		for i, line := range []struct {
			name  string
			minor int64
		}{{"opening", c.Opening}, {"received", c.Received}, {"refunded", c.Refunded}, {"disputed", c.Disputed},
			{"fees", c.Fees}, {"payouts", c.Payouts}, {"other", c.Other}, {"closing", c.Closing}} {
			row := reportRow{cells: []any{"clearing", line.name, c.Currency, money{line.minor, c.Currency}, "", "",
				"", "", "", "", ""}}
			if object[line.name] = line.minor; i == 0 {
				row.object = object
			}
			rows = append(rows, row)
		}
	}
	return rows
}

func differenceRow(d reconcile.Difference) reportRow {
	object := map[string]any{"result": d.Result, "kind": d.Kind, "processor": d.Processor, "ledger": d.Ledger,
		"payment_id": d.PaymentID, "at": d.At}
	for name, text := range map[string]string{"id": d.ID, "account": d.AccountID} {
		if text != "" {
			object[name] = text
		}
	}
	line := ""
	if d.Line > 0 {
		object["line"], line = d.Line, fmt.Sprint(d.Line)
	}
	amount := func(m *eventschemas.Money) (currency string, cell any) {
		if m == nil {
			return "", ""
		}
		return m.Currency, money{m.Minor, m.Currency}
	}
	charged, processor := amount(d.Processor)
	booked, ledger := amount(d.Ledger)
	return reportRow{[]any{string(d.Result), string(d.Kind), charged, processor, booked, ledger, d.PaymentID, d.ID,
		d.AccountID, d.At.UTC().Format(time.RFC3339), line}, object}
}
