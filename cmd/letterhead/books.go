package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

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
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, strings.ToUpper(strings.Join(r.columns, "\t")))
	for _, row := range rows {
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

// flow is a row of sums: what came before the reported time, and what happened in it.
type flow struct {
	before, in books.Movement
	month      time.Time // of in, in a report by month
}

type flowKey struct{ group, currency string }

// grouping sums movements by month, plan or account.
type grouping struct {
	by          string
	from, until time.Time
	flows       map[flowKey]*flow
}

// groupingFlags adds the options of a report of flows, which begins with the column of the groups. The function that
// it returns parses them.
func groupingFlags(c *cobra.Command) func() (*grouping, error) {
	by := c.Flags().String("by", "month", "one line for each month, plan or account")
	from := c.Flags().String("from", "", "start of the report: "+timeForms)
	to := c.Flags().String("to", "", "end of the report, inclusive")
	return func() (*grouping, error) {
		g := &grouping{by: *by, flows: map[flowKey]*flow{}}
		if !slices.Contains([]string{"month", "plan", "account"}, g.by) {
			return nil, usageError{fmt.Errorf("--by is month, plan or account, not %q", g.by)}
		}
		var err error
		g.from, g.until, err = rangeOf(*from, *to)
		return g, err
	}
}

// flowReport makes c a report of flows: rows returns the rows of the groups at a time.
func (e *environment) flowReport(c *cobra.Command, columns []string, rows func(g *grouping, now time.Time) []reportRow) *cobra.Command {
	parse := groupingFlags(c)
	r := reportFlags(c, append([]string{"group"}, columns...)...)
	c.RunE = e.reads(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		g, err := parse()
		if err != nil {
			return err
		}
		if _, err := journal.Fold(ctx, n.Log, g.until, e.reading("books"), g.add); err != nil {
			return err
		}
		r.columns[0] = g.by
		return r.write(e.stdout, rows(g, time.Now()))
	})
	return c
}

func (g *grouping) add(at time.Time, h *books.Holder, currency string, m books.Movement) {
	key := flowKey{group: h.ID, currency: currency}
	switch g.by {
	case "month":
		key.group = at.UTC().Format(books.MonthLayout)
		if at.Before(g.from) {
			key.group = "" // before all months
		}
	case "plan":
		key.group = h.Plan
	}
	f, ok := g.flows[key]
	if !ok {
		f = &flow{}
		g.flows[key] = f
	}
	if at.Before(g.from) {
		f.before.Add(m)
		return
	}
	f.month = books.MonthOf(at)
	f.in.Add(m)
}

// keys returns the keys of all rows, in order. A report by month has a row for each month from its start, or from the
// first movement, to its end, or now.
func (g *grouping) keys(now time.Time) []flowKey {
	if g.by == "month" {
		g.carry(now)
	}
	return slices.SortedFunc(maps.Keys(g.flows), func(a, b flowKey) int {
		return cmp.Or(strings.Compare(a.group, b.group), strings.Compare(a.currency, b.currency))
	})
}

// carry adds the months without movements, and gives each month what came before it.
func (g *grouping) carry(now time.Time) {
	var month time.Time
	last := now.UTC()
	if !g.from.IsZero() {
		month = books.MonthOf(g.from)
	}
	if !g.until.IsZero() && g.until.Before(last) {
		last = g.until.Add(-time.Microsecond)
	}
	currencies := map[string]books.Movement{} // what came before the month
	for k, f := range g.flows {
		sum := currencies[k.currency]
		sum.Add(f.before)
		currencies[k.currency] = sum
		if f.month.IsZero() { // before all months
			delete(g.flows, k)
			continue
		}
		if month.IsZero() || f.month.Before(month) {
			month = f.month
		}
	}
	for ; !month.IsZero() && !month.After(last); month = month.AddDate(0, 1, 0) {
		for currency, before := range currencies {
			key := flowKey{month.Format(books.MonthLayout), currency}
			f, ok := g.flows[key]
			if !ok {
				f = &flow{}
				g.flows[key] = f
			}
			f.before = before
			before.Add(f.in)
			currencies[currency] = before
		}
	}
}

// isRunning reports whether a row is that of the running month, whose figures change.
func (g *grouping) isRunning(group string, now time.Time) bool {
	return g.by == "month" && group == now.UTC().Format(books.MonthLayout)
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
	return e.flowReport(c, columns, func(g *grouping, now time.Time) (rows []reportRow) {
		for _, k := range g.keys(now) {
			if k.currency == "" {
				continue // promotional credits
			}
			f, running := g.flows[k], g.isRunning(k.group, now)
			opening, closing := f.before.Deferred(), f.before.Deferred()+f.in.Deferred()
			cells := []any{k.group, k.currency, money{opening, k.currency}, money{f.in.Received, k.currency}, money{f.in.Tax, k.currency},
				money{f.in.Refunded, k.currency}, money{f.in.Recognized, k.currency}, money{f.in.Breakage, k.currency}, money{f.in.Fees, k.currency}, money{closing, k.currency}, provisional(running)}
			object := map[string]any{g.by: k.group, "currency": k.currency, "opening_deferred": opening, "received": f.in.Received, "tax": f.in.Tax,
				"refunded": f.in.Refunded, "recognized": f.in.Recognized, "breakage": f.in.Breakage, "fees": f.in.Fees, "closing_deferred": closing}
			if g.by == "plan" {
				cells[2], cells[9] = "", ""
				delete(object, "opening_deferred")
				delete(object, "closing_deferred")
			}
			if running {
				object["provisional"] = true
			}
			rows = append(rows, reportRow{cells, object})
		}
		return rows
	})
}

func booksUsage(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "usage", Short: "Report granted, used, broken and refunded credits", Args: exactArgs(),
		Long: "Report the credits of each month, plan or account. Paid credits come from grants with money, promotional ones from all others. A reversal subtracts its credits from the month in which it occurs, and so does a refund of credits that were used, until other credits cover them. Broken credits were removed from closed accounts."}
	columns := []string{"paid_granted", "paid_used", "paid_broken", "paid_refunded", "promotional_granted", "promotional_used", "promotional_broken", "promotional_refunded", "state"}
	return e.flowReport(c, columns, func(g *grouping, now time.Time) (rows []reportRow) {
		paid, promotional := map[string]books.Movement{}, map[string]books.Movement{}
		var groups []string
		for _, k := range g.keys(now) {
			if len(groups) == 0 || groups[len(groups)-1] != k.group {
				groups = append(groups, k.group)
			}
			sums := paid
			if k.currency == "" {
				sums = promotional
			}
			sum := sums[k.group]
			sum.Add(g.flows[k].in)
			sums[k.group] = sum
		}
		for _, name := range groups {
			running := g.isRunning(name, now)
			p, free := paid[name], promotional[name]
			object := map[string]any{g.by: name, "paid_granted": p.CreditsGranted, "paid_used": p.CreditsUsed, "paid_broken": p.CreditsBroken, "paid_refunded": p.CreditsRefunded,
				"promotional_granted": free.CreditsGranted, "promotional_used": free.CreditsUsed, "promotional_broken": free.CreditsBroken, "promotional_refunded": free.CreditsRefunded}
			if running {
				object["provisional"] = true
			}
			rows = append(rows, reportRow{[]any{name, p.CreditsGranted, p.CreditsUsed, p.CreditsBroken, p.CreditsRefunded,
				free.CreditsGranted, free.CreditsUsed, free.CreditsBroken, free.CreditsRefunded, provisional(running)}, object})
		}
		return rows
	})
}

func booksDeferred(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "deferred", Short: "Report the unspent credits and the deferred revenue of each account", Args: exactArgs(),
		Long: "Report what is left of the grants of each account: unspent credits and the money that is not recognized yet, in each currency; promotional credits have no currency. The deficit is the credits below zero. Credits never expire; those of a closed account remain, and are marked, until \"books breakage\" removes them."}
	at := c.Flags().String("at", "", "as of this time (default: now): "+timeForms)
	r := reportFlags(c, "account", "plan", "closed", "currency", "credits", "deferred", "deficit")
	c.RunE = e.reads(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		until, err := endOf("--at", *at)
		if err != nil {
			return err
		}
		ledger, err := journal.Fold(ctx, n.Log, until, e.reading("books"), func(time.Time, *books.Holder, string, books.Movement) {})
		if err != nil {
			return err
		}
		var rows []reportRow
		for _, id := range slices.Sorted(maps.Keys(ledger.Holders())) {
			h := ledger.Holders()[id]
			rests := h.Rests()
			if h.Deficit() > 0 {
				rests[""] = books.Rest{} // a deficit leaves no unspent credits
			}
			for _, currency := range slices.Sorted(maps.Keys(rests)) {
				rest, deficit, closed := rests[currency], int64(0), ""
				if currency == "" {
					deficit = h.Deficit()
				}
				if h.Closed {
					closed = "closed"
				}
				rows = append(rows, reportRow{[]any{id, h.Plan, closed, currency, rest.Credits, money{rest.Deferred, currency}, deficit},
					map[string]any{"account": id, "plan": h.Plan, "closed": h.Closed, "currency": currency, "credits": rest.Credits, "deferred": rest.Deferred, "deficit": deficit}})
			}
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
	r := reportFlags(c, "currency", "account", "code", "debit", "credit")
	c.RunE = e.reads(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		until, err := endOf("--at", *at)
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
		for _, b := range balances {
			name, code, debit, credit := books.Chart[b.Account].Name, codes[b.Account], max(b.Amount, 0), max(-b.Amount, 0)
			rows = append(rows, reportRow{[]any{b.Commodity, name, code, money{debit, b.Commodity}, money{credit, b.Commodity}},
				map[string]any{"currency": b.Commodity, "account": name, "code": code, "debit": debit, "credit": credit}})
		}
		return r.write(e.stdout, rows)
	})
	return c
}
