package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"letterhead/adminapi"
	"letterhead/domain/books"
	"letterhead/internal/eventlog"
	"letterhead/node"
	"letterhead/operations"
	"letterhead/workers/journal"
)

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
			return misuse("--json and --csv cannot be combined")
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
	c := command("revenue", "Report received, recognized and refunded money and deferred revenue")
	return e.flowReport(c, "/admin/books/revenue", "currency", "opening_deferred", "received", "tax",
		"refunded", "recognized",
		"breakage", "fees", "closing_deferred", "state")
}

func booksUsage(e *environment) *cobra.Command {
	c := command("usage", "Report granted, used, broken and refunded credits")
	return e.flowReport(c, "/admin/books/usage", "paid_granted", "paid_used", "paid_broken", "paid_refunded",
		"promotional_granted", "promotional_used", "promotional_broken", "promotional_refunded", "state")
}

func booksDeferred(e *environment) *cobra.Command {
	c := command("deferred", "Report the unspent credits and the deferred revenue of each account")
	c.Flags().String("at", "", "as of this time (default: now): "+timeForms)
	return e.report(c, "/admin/books/deferred",
		reportFlags(c, "account", "plan", "closed", "currency", "credits", "deferred", "deficit", "state"))
}

func booksTrialBalance(e *environment) *cobra.Command {
	c := command("trial-balance", "Report the balance of each ledger account")
	c.Flags().String("at", "", "as of this time (default: now): "+timeForms)
	chart := chartFlag(c)
	notSent(c, "chart")
	r := reportFlags(c, "currency", "account", "code", "debit", "credit", "state")
	return act(e, c, "GET", "/admin/books/trial-balance", func(_ *client, answer trialBalance) error {
		codes, err := readChart(*chart)
		if err != nil {
			return err
		}
		return r.write(e.stdout, answer.rows(codes, r))
	})
}

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

func booksBreakage(e *environment) *cobra.Command {
	c := command("breakage", "Recognize the remaining credits of closed accounts as revenue")
	accountID := c.Flags().String("account", "", "account id")
	before := c.Flags().String("closed-before", "", "all accounts that were closed before this time")
	policy := c.Flags().String("policy", "", "why the credits will not be used")
	yes := c.Flags().Bool("yes", false, "do not ask")
	r := reportFlags(c, "account", "currency", "credits", "breakage")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		until, err := startOf("--closed-before", *before)
		switch {
		case err != nil:
			return err
		case *policy == "":
			return misuse("--policy is needed: why the credits will not be used, such as a clause of your terms")
		case (*accountID == "") == (*before == ""):
			return misuse("either --account or --closed-before is needed")
		}
		ids := []string{*accountID}
		if *accountID == "" {
			list := func(x *client) (err error) { ids, err = e.breakageBefore(x, until, *yes, r); return err }
			if err := e.onAPI(node.ToRead, list)(cmd, args); err != nil {
				return err
			}
			if len(ids) > 0 && !*yes {
				// The folder is not held meanwhile. An account that is closed until the answer is left out.
				if err := confirm(os.Stdin, e.stderr, "Recognize this breakage? It cannot be undone."); err != nil {
					return err
				}
			}
		}
		if len(ids) == 0 {
			return r.write(e.stdout, nil)
		}
		return e.onAPI(node.ToWrite,
			func(x *client) error { return e.recognizeBreakage(x, ids, *policy, r) })(cmd, args)
	}
	return c
}

func breakageRow(b *operations.Breakage) reportRow {
	return reportRow{[]any{b.Account, b.Currency, b.Credits, money{b.Breakage, b.Currency}}, b}
}

// breakageBefore returns the accounts with credits that were closed before a time, and shows what would be recognized
// unless it is quiet.
func (e *environment) breakageBefore(x *client, until time.Time, quiet bool,
	r *reportWriter) (ids []string, err error) {
	var answer struct{ Rows []operations.Breakage }
	query := map[string]any{"closed_before": until.Format(time.RFC3339Nano), "limit": wholePage}
	if err := x.call("GET", withQuery("/admin/books/breakage", query), nil, &answer); err != nil {
		return nil, err
	}
	var rows []reportRow
	for i := range answer.Rows {
		b := &answer.Rows[i]
		rows = append(rows, breakageRow(b))
		if !slices.Contains(ids[max(0, len(ids)-1):], b.Account) { // the rows of an account follow each other
			ids = append(ids, b.Account)
		}
	}
	if len(rows) > 0 && !quiet {
		err = r.write(e.stderr, rows)
	}
	return ids, err
}

// recognizeBreakage removes the credits of accounts, and prints what was recognized.
func (e *environment) recognizeBreakage(x *client, ids []string, policy string, r *reportWriter) error {
	var rows []reportRow
	var rejected []error
	for _, id := range ids {
		var done struct{ Rows []operations.Breakage }
		err := x.call("POST", "/admin/accounts/"+url.PathEscape(id)+"/breakage",
			map[string]any{"policy": policy}, &done)
		for i := range done.Rows {
			rows = append(rows, breakageRow(&done.Rows[i]))
		}
		var answered *apiError
		switch {
		case errors.As(err, &answered) && answered.status == http.StatusConflict && len(ids) > 1:
			// It has open holds, which end within minutes.
			rejected = append(rejected, fmt.Errorf("account %s: %w; try again later", id, err))
		case err != nil: // those before are recorded
			return errors.Join(r.write(e.stdout, rows), err)
		}
	}
	return errors.Join(append(rejected, r.write(e.stdout, rows))...)
}

func booksClose(e *environment) *cobra.Command {
	c := command("close MONTH", "Close a month")
	asJSON := jsonFlag(c)
	type answer struct {
		operations.Month
		Repeated bool `json:"repeated"`
	}
	act(e, c, "POST", "/admin/books/{MONTH}/close", func(x *client, closed answer) error {
		if *asJSON {
			return printJSON(e.stdout, monthObject(row[operations.Month]{x.answer, closed.Month}))
		}
		state := "closed"
		if closed.Repeated {
			state = "was closed before"
		}
		return e.printf("%s %s: %d transaction(s), digest %s\n", closed.Month.Month, state,
			*closed.Transactions, closed.Digest)
	})
	run := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if _, err := monthOf("MONTH", args[0]); err != nil {
			return err
		}
		err := run(cmd, args)
		if errors.Is(err, eventlog.ErrLoss) { // the folder could not be opened
			return fmt.Errorf("%s was not closed: %w", args[0], err)
		}
		return err
	}
	return c
}

// monthObject returns a month for JSON. A closed one has totals, even if there are none.
func monthObject(m row[operations.Month]) any {
	object := m.without("repeated")
	fields, ok := object.(map[string]json.RawMessage)
	if ok && m.value.State == "closed" && len(m.value.Totals) == 0 {
		fields["totals"] = json.RawMessage("[]")
	}
	return object
}

func booksStatus(e *environment) *cobra.Command {
	c := command("status", "Show which months are closed")
	return listing[operations.Month]{
		path: "/admin/books/months", field: "months", titles: "MONTH\tSTATE\tCLOSED\tTRANSACTIONS\tDIGEST",
		cells: func(m *operations.Month) []any {
			if m.Transactions == nil {
				return []any{m.Month, m.State, "", "", ""}
			}
			return []any{m.Month, m.State, m.ClosedAt.Format(time.RFC3339), *m.Transactions, m.Digest}
		},
		object: monthObject,
	}.command(e, c)
}
