package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"letterhead/adminapi"
	"letterhead/domain/books"
	"letterhead/node"
	"letterhead/workers/journal"
)

func booksCommand(e *environment) *cobra.Command {
	return group("books", "Report revenue, deferred revenue, usage and balances", booksRevenue(e), booksDeferred(e), booksUsage(e), booksTrialBalance(e), booksBreakage(e), booksClose(e), booksStatus(e))
}

// reportWriter writes the rows of a report as a table, as CSV or as JSON lines.
type reportWriter struct {
	asJSON, asCSV *bool
	columns       []string
	totals        []reportRow // only in the table, below the rows
}

func reportFlags(c *cobra.Command, columns ...string) *reportWriter {
	r := &reportWriter{asJSON: jsonFlag(c), asCSV: c.Flags().Bool("csv", false, "print CSV"), columns: columns}
	c.PreRunE = func(*cobra.Command, []string) error {
		if *r.asJSON && *r.asCSV {
			return usageError{errors.New("--json and --csv cannot be combined")}
		}
		return nil
	}
	return r
}

// write writes rows; cells are those of the table and of CSV, and object is for JSON. Money in cells is minor units
// with a currency.
func (r *reportWriter) write(w io.Writer, rows []reportRow) error {
	switch {
	case *r.asJSON:
		for _, row := range rows {
			if row.object == nil { // it is a part of another row's
				continue
			}
			if err := printJSON(w, row.object); err != nil {
				return err
			}
		}
		return nil
	case *r.asCSV:
		out := csv.NewWriter(w)
		if err := out.Write(r.columns); err != nil {
			return err
		}
		for _, row := range rows {
			if err := out.Write(row.texts(books.SafeCell)); err != nil {
				return err
			}
		}
		out.Flush()
		return out.Error()
	}
	table := newTable(w)
	fmt.Fprintln(table, strings.ToUpper(strings.Join(r.columns, "\t")))
	for _, row := range append(rows, r.totals...) {
		fmt.Fprintln(table, strings.Join(row.texts(func(text string) string { return text }), "\t"))
	}
	return table.Flush()
}

type reportRow struct {
	cells  []any // string, int64, or money
	object any
}

// money is a cell with an amount.
type money struct {
	minor    int64
	currency string
}

func (r reportRow) texts(text func(string) string) []string {
	texts := make([]string, len(r.cells))
	for i, c := range r.cells {
		switch c := c.(type) {
		case int64:
			texts[i] = strconv.FormatInt(c, 10)
		case money:
			texts[i] = strings.TrimSuffix(formatMoney(c.minor, c.currency), " "+c.currency)
		case string:
			texts[i] = text(c)
		}
	}
	return texts
}

// flowReport makes c a report by month, plan or account: rows returns its rows at a time.
func (e *environment) flowReport(c *cobra.Command, columns []string, rows func(by string, f *books.Flows, now time.Time) []reportRow) *cobra.Command {
	by := c.Flags().String("by", books.ByMonth, "one line for each month, plan or account")
	from := c.Flags().String("from", "", "start of the report: "+timeForms)
	to := c.Flags().String("to", "", "end of the report, inclusive")
	r := reportFlags(c, append([]string{"group"}, columns...)...)
	c.RunE = e.reads(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		if !slices.Contains(books.Groups(), *by) {
			return usageError{fmt.Errorf("--by is month, plan or account, not %q", *by)}
		}
		start, until, err := rangeOf(*from, "--to", *to)
		if err != nil {
			return err
		}
		flows := books.NewFlows(*by, start, until)
		if _, err := journal.Fold(ctx, n.Log, until, e.reading("books"), flows.Add); err != nil {
			return err
		}
		r.columns[0] = *by
		return r.write(e.stdout, rows(*by, flows, time.Now()))
	})
	return c
}

// reportEnd is adminapi.ParseReportEnd for --at.
func reportEnd(at string, now time.Time) (until time.Time, running bool, err error) {
	if until, running, err = adminapi.ParseReportEnd(at, now); err != nil {
		err = usageError{fmt.Errorf("--at %w", err)}
	}
	return until, running, err
}

// provisional is the cell of a row whose figures change.
func provisional(running bool) string {
	if running {
		return "provisional"
	}
	return ""
}

func booksRevenue(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "revenue", Short: "Report received, recognized and refunded money and deferred revenue", Args: exactArgs(),
		Long: "Report the money of each month, plan or account, in each currency. Received, refunded and recognized money is without tax; tax is that of payments less that of refunds. A credit that is used recognizes its share of the money of its payment; charges use the oldest grants first. Breakage is the revenue of credits that were removed from closed accounts, and fees are those of the payment processor. Opening deferred revenue plus received less refunded, recognized and breakage is closing deferred revenue. A change of plan does not move deferred revenue, so a report by plan has none."}
	columns := []string{"currency", "opening_deferred", "received", "tax", "refunded", "recognized", "breakage", "fees", "closing_deferred", "state"}
	return e.flowReport(c, columns, func(by string, f *books.Flows, now time.Time) (rows []reportRow) {
		for _, r := range f.Revenue(now) {
			in := func(minor int64) money { return money{minor, r.Currency} }
			cells := []any{r.Group, r.Currency, in(r.Opening), in(r.Received), in(r.Tax), in(r.Refunded), in(r.Recognized), in(r.Breakage), in(r.Fees), in(r.Closing), provisional(r.Running)}
			if by == books.ByPlan {
				cells[2], cells[9] = "", ""
			}
			rows = append(rows, reportRow{cells, adminapi.RevenueObject(by, &r)})
		}
		return rows
	})
}

func booksUsage(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "usage", Short: "Report granted, used, broken and refunded credits", Args: exactArgs(),
		Long: "Report the credits of each month, plan or account. Paid credits come from grants with money, promotional ones from all others. A reversal subtracts its credits from the month in which it occurs, and so does a refund of credits that were used, until other credits cover them. Broken credits were removed from closed accounts."}
	columns := []string{"paid_granted", "paid_used", "paid_broken", "paid_refunded", "promotional_granted", "promotional_used", "promotional_broken", "promotional_refunded", "state"}
	return e.flowReport(c, columns, func(by string, f *books.Flows, now time.Time) (rows []reportRow) {
		for _, u := range f.Usage(now) {
			p, free := &u.Paid, &u.Promotional
			rows = append(rows, reportRow{[]any{u.Group, p.CreditsGranted, p.CreditsUsed, p.CreditsBroken, p.CreditsRefunded,
				free.CreditsGranted, free.CreditsUsed, free.CreditsBroken, free.CreditsRefunded, provisional(u.Running)}, adminapi.UsageObject(by, &u)})
		}
		return rows
	})
}

func booksDeferred(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "deferred", Short: "Report the unspent credits and the deferred revenue of each account", Args: exactArgs(),
		Long: "Report what is left of the grants of each account: unspent credits and the money that is not recognized yet, in each currency; promotional credits have no currency. The deficit is the credits below zero. Credits never expire; those of a closed account remain, and are marked, until \"books breakage\" removes them."}
	at := c.Flags().String("at", "", "as of this time (default: now): "+timeForms)
	r := reportFlags(c, "account", "plan", "closed", "currency", "credits", "deferred", "deficit", "state")
	c.RunE = e.reads(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		until, running, err := reportEnd(*at, n.Now())
		if err != nil {
			return err
		}
		ledger, err := journal.Fold(ctx, n.Log, until, e.reading("books"), func(time.Time, *books.Holder, string, books.Movement) {})
		if err != nil {
			return err
		}
		var rows []reportRow
		for _, u := range ledger.Unspent() {
			closed := ""
			if u.Holder.Closed {
				closed = "closed"
			}
			rows = append(rows, reportRow{[]any{u.Holder.ID, u.Holder.Plan, closed, u.Currency, u.Credits, money{u.Deferred, u.Currency}, u.Deficit, provisional(running)}, adminapi.UnspentObject(&u, running)})
		}
		return r.write(e.stdout, rows)
	})
	return c
}

func booksTrialBalance(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "trial-balance", Short: "Report the balance of each ledger account", Args: exactArgs(),
		Long: "Report the balances of the ledger accounts (docs/books.md) in each currency, and in CREDIT, the commodity of credits. In each of them, debits equal credits."}
	at := c.Flags().String("at", "", "as of this time (default: now): "+timeForms)
	chart := chartFlag(c)
	r := reportFlags(c, "currency", "account", "code", "debit", "credit", "state")
	c.RunE = e.reads(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		until, running, err := reportEnd(*at, n.Now())
		if err != nil {
			return err
		}
		codes, err := readChart(*chart)
		if err != nil {
			return err
		}
		balances, err := journal.Balances(ctx, n.Log, until, e.reading("books"))
		if err != nil {
			return err
		}
		slices.SortFunc(balances, func(a, b books.Posting) int {
			return cmp.Or(strings.Compare(a.Commodity, b.Commodity), cmp.Compare(a.Account, b.Account))
		})
		var rows []reportRow
		var debits, credits int64
		for i, b := range balances {
			name, code, debit, credit := books.Chart[b.Account].Name, codes[b.Account], max(b.Amount, 0), max(-b.Amount, 0)
			object := adminapi.Moment{Provisional: running}.Mark(map[string]any{"currency": b.Commodity, "account": name, "code": code, "debit": debit, "credit": credit})
			rows = append(rows, reportRow{[]any{b.Commodity, name, code, money{debit, b.Commodity}, money{credit, b.Commodity}, provisional(running)}, object})
			debits, credits = debits+debit, credits+credit
			if i+1 == len(balances) || balances[i+1].Commodity != b.Commodity {
				r.totals = append(r.totals, reportRow{cells: []any{b.Commodity, "total", "", money{debits, b.Commodity}, money{credits, b.Commodity}, provisional(running)}})
				debits, credits = 0, 0
			}
		}
		return r.write(e.stdout, rows)
	})
	return c
}
