package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"letterhead/adminapi"
	"letterhead/domain/books"
	"letterhead/node"
	"letterhead/workers/journal"
)

func booksCommand(e *environment) *cobra.Command {
	return group("books", "Report revenue, deferred revenue, usage and balances", booksRevenue(e), booksDeferred(e),
		booksUsage(e), booksTrialBalance(e), booksBreakage(e), booksClose(e), booksStatus(e))
}

// reportWriter writes the rows of a report as a table, as CSV or as JSON lines.
type reportWriter struct {
	asJSON, asCSV *bool
	columns       []string
	totals        []reportRow // only in the table, below the rows
}

func reportFlags(c *cobra.Command, columns ...string) *reportWriter {
	r := &reportWriter{asJSON: jsonFlag(c), asCSV: c.Flags().Bool("csv", false, "print CSV"), columns: columns}
	notSent(c, "csv")
	c.PreRunE = func(*cobra.Command, []string) error {
		if *r.asJSON && *r.asCSV {
			return usageError{errors.New("--json and --csv cannot be combined")}
		}
		return nil
	}
	return r
}

// write writes rows: their cells to a table or as CSV, or their objects as JSON. Money in cells is minor units with a
// currency.
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

// amounts are the columns with money, in minor units of the currency of their row.
var amounts = []string{"opening_deferred", "received", "tax", "refunded", "recognized", "breakage", "fees",
	"closing_deferred", "deferred", "debit", "credit"}

// row returns the row of an object that the admin API answered. The columns have the names of its fields.
func (r *reportWriter) row(text json.RawMessage) (reportRow, error) {
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil {
		return reportRow{}, err
	}
	currency, _ := fields["currency"].(string)
	if fields["provisional"] == true {
		fields["state"] = "provisional"
	}
	cells := make([]any, len(r.columns))
	for i, column := range r.columns {
		switch value := fields[column].(type) {
		case json.Number:
			n, err := value.Int64()
			if err != nil {
				return reportRow{}, err
			}
			if cells[i] = n; slices.Contains(amounts, column) {
				cells[i] = money{n, currency}
			}
		case bool:
			if value {
				cells[i] = column
			}
		default:
			cells[i] = value
		}
	}
	return reportRow{cells, text}, nil
}

// report makes a command print a report of the admin API.
func (e *environment) report(c *cobra.Command, path string, r *reportWriter) *cobra.Command {
	c.RunE = e.onAPI(node.ToRead, func(x *client) error {
		path, query, err := x.fill(path)
		if err != nil {
			return err
		}
		query["limit"] = wholePage
		var answer struct{ Rows []json.RawMessage }
		if err := x.call("GET", withQuery(path, query), nil, &answer); err != nil {
			return err
		}
		if by := c.Flags().Lookup("by"); by != nil {
			r.columns[0] = by.Value.String()
		}
		rows := make([]reportRow, len(answer.Rows))
		for i, text := range answer.Rows {
			if rows[i], err = r.row(text); err != nil {
				return err
			}
		}
		return r.write(e.stdout, rows)
	})
	return c
}

// flowReport makes a command print a report by month, plan or account, which the first column names.
func (e *environment) flowReport(c *cobra.Command, path string, columns ...string) *cobra.Command {
	c.Flags().String("by", books.ByMonth, "one line for each month, plan or account")
	c.Flags().String("from", "", "start of the report: "+timeForms)
	c.Flags().String("to", "", "end of the report, inclusive")
	return e.report(c, path, reportFlags(c, append([]string{"by"}, columns...)...))
}

func booksRevenue(e *environment) *cobra.Command {
	c := &cobra.Command{
		Use: "revenue", Short: "Report received, recognized and refunded money and deferred revenue", Args: exactArgs(),
	}
	return e.flowReport(c, "/admin/books/revenue", "currency", "opening_deferred", "received", "tax",
		"refunded", "recognized",
		"breakage", "fees", "closing_deferred", "state")
}

func booksUsage(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "usage", Short: "Report granted, used, broken and refunded credits", Args: exactArgs()}
	return e.flowReport(c, "/admin/books/usage", "paid_granted", "paid_used", "paid_broken", "paid_refunded",
		"promotional_granted", "promotional_used", "promotional_broken", "promotional_refunded", "state")
}

func booksDeferred(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "deferred", Short: "Report the unspent credits and the deferred revenue of each account",
		Args: exactArgs()}
	c.Flags().String("at", "", "as of this time (default: now): "+timeForms)
	return e.report(c, "/admin/books/deferred",
		reportFlags(c, "account", "plan", "closed", "currency", "credits", "deferred", "deficit", "state"))
}

func booksTrialBalance(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "trial-balance", Short: "Report the balance of each ledger account", Args: exactArgs()}
	c.Flags().String("at", "", "as of this time (default: now): "+timeForms)
	chart := chartFlag(c)
	notSent(c, "chart")
	r := reportFlags(c, "currency", "account", "code", "debit", "credit", "state")
	act(e, c, "GET", "/admin/books/trial-balance", func(_ *client, answer trialBalance) error {
		codes, err := readChart(*chart)
		if err != nil {
			return err
		}
		return r.write(e.stdout, answer.rows(codes, r))
	})
	return c
}

// trialBalance is an answer of GET /admin/books/trial-balance.
type trialBalance struct {
	Balances []struct {
		Currency string `json:"currency"`
		Account  string `json:"account"`
		Debit    int64  `json:"debit"`
		Credit   int64  `json:"credit"`
	} `json:"balances"`
	Provisional bool `json:"provisional"`
}

// rows returns the rows, with the codes of a chart, and adds the totals of each currency to the report.
func (t *trialBalance) rows(codes journal.Chart, r *reportWriter) (rows []reportRow) {
	code, state := map[string]string{}, ""
	for i, entry := range books.Chart {
		code[entry.Name] = codes[i]
	}
	if t.Provisional {
		state = "provisional"
	}
	var debits, credits int64
	for i, b := range t.Balances {
		row := func(account, code string, debit, credit int64) []any {
			return []any{b.Currency, account, code, money{debit, b.Currency}, money{credit, b.Currency}, state}
		}
		object := adminapi.Moment{Provisional: t.Provisional}.Mark(map[string]any{
			"currency": b.Currency, "account": b.Account, "code": code[b.Account], "debit": b.Debit, "credit": b.Credit,
		})
		rows = append(rows, reportRow{row(b.Account, code[b.Account], b.Debit, b.Credit), object})
		debits, credits = debits+b.Debit, credits+b.Credit
		if i+1 == len(t.Balances) || t.Balances[i+1].Currency != b.Currency {
			r.totals = append(r.totals, reportRow{cells: row("total", "", debits, credits)})
			debits, credits = 0, 0
		}
	}
	return rows
}
