package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"letterhead/domain/books"
	"letterhead/domain/statement"
	"letterhead/internal/eventlog"
	"letterhead/node"
	"letterhead/workers/backup"
	"letterhead/workers/journal"
)

func journalExport(e *environment) *cobra.Command {
	c := command("export", "Write the journal to a file")
	output := c.Flags().StringP("output", "o", "", "file to write; - is standard output")
	format := c.Flags().String("format", string(journal.CSV), "format: "+joinFormats())
	from := c.Flags().String("from", "", "only transactions from this time on")
	to := c.Flags().String("to", "", "only transactions up to this time")
	chart := chartFlag(c)
	o := journal.Options{}
	c.Flags().StringVar((*string)(&o.Summary), "summary", "",
		"one transaction for each day or month, currency, plan and tax rate: "+string(journal.ByDay+", "+journal.ByMonth))
	c.Flags().StringVar(&o.AccountID, "account", "", "only the transactions of this account")
	c.RunE = e.reads(func(ctx context.Context, n *node.Node, c *cobra.Command, _ []string) error {
		if *output == "" {
			return misuse("-o is needed: the file to write, or - for standard output")
		}
		o.Format = journal.Format(*format)
		if !slices.Contains(journal.Formats(), o.Format) {
			return misuse("--format is %s, not %q", joinFormats(), *format)
		}
		if o.Summary != "" && o.Summary != journal.ByDay && o.Summary != journal.ByMonth {
			return misuse("--summary is %s or %s, not %q", journal.ByDay, journal.ByMonth, o.Summary)
		}
		var err error
		if o.From, o.Until, err = rangeOf(*from, "--to", *to); err != nil {
			return err
		}
		now := n.Now()
		if o.From.After(now) {
			return misuse("--from %s is in the future", *from)
		}
		if o.Chart, err = readChart(*chart); err != nil {
			return err
		}
		if o.AccountID != "" {
			if o.AccountID, err = accountIn(ctx, n, c, o.AccountID); err != nil {
				return err
			}
		}
		o.Progress = e.reading("journal")
		if *output == "-" {
			err = journal.Write(ctx, n.Stores.Log, o, e.stdout)
		} else {
			err = journal.WriteFile(ctx, n.Stores.Log, o, *output)
		}
		if err == nil && (o.Until.IsZero() || o.Until.After(books.MonthOf(now))) {
			fmt.Fprintf(e.stderr, "note: %s has not ended; the transactions of this month are provisional\n",
				now.UTC().Format(books.MonthLayout))
		}
		return err
	})
	return c
}

// reading shows the progress of a command that reads the events of the books.
func (e *environment) reading(what string) journal.Progress {
	show := stages(e.stderr, what)
	return func(events uint64, at, head eventlog.Position) {
		show(backup.Progress{Stage: backup.StageEvents, Done: events, Position: at, Head: head})
	}
}

func joinFormats() string {
	var all []string
	for _, f := range journal.Formats() {
		all = append(all, string(f))
	}
	return strings.Join(all, ", ")
}

// chartFlag adds the option of a chart of accounts; readChart reads its file.
func chartFlag(c *cobra.Command) *string {
	return c.Flags().String("chart", "",
		"YAML file with the codes of your general ledger, with lines like \"revenue: 4000\"")
}

func readChart(name string) (journal.Chart, error) {
	if name == "" {
		return journal.DefaultChart(), nil
	}
	chart, err := readFile(name, journal.ReadChart)
	if err != nil {
		err = fmt.Errorf("--chart %w", err)
	}
	return chart, err
}

func statementShow(e *environment) *cobra.Command {
	c := command("show MONTH", "Show the statement of an account for a month")
	c.Flags().String("account", "", "account id")
	asJSON := jsonFlag(c)
	asCSV := c.Flags().Bool("csv", false, "print CSV")
	e.completeAccounts(c, "")
	c.RunE = e.onAPI(node.ToRead, func(x *client) error {
		if _, err := monthOf("MONTH", x.args[0]); err != nil {
			return err
		}
		path, _, err := x.fill("/admin/accounts/{account}/statements/{MONTH}")
		switch {
		case err != nil:
			return err
		case *asJSON && *asCSV:
			return misuse("--json and --csv cannot be combined")
		case *asCSV:
			path += "?format=csv"
		}
		resp, err := x.send("GET", path, nil)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if *asJSON || *asCSV {
			_, err = io.Copy(e.stdout, resp.Body)
			return err
		}
		var s statement.Statement
		if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
			return err
		}
		return printStatement(e.stdout, &s)
	})
	return c
}

// printStatement prints a statement as tables. It leaves out tables without lines.
func printStatement(w io.Writer, s *statement.Statement) error {
	table := newTable(w)
	fmt.Fprintf(table, "Account\t%s\nMonth\t%s (%s)\nOpening balance\t%d\nGranted\t%d\nUsed\t%d\nReversed\t%d\nRefunded\t%d\nBreakage\t%d\nClosing balance\t%d\nChain\trevision %d, %s\n",
		s.AccountID, s.Month, s.State(), s.OpeningBalance, s.Granted, s.Used, s.Reversed, s.Refunded, s.Breakage,
		s.ClosingBalance, s.Chain.Revision, s.Chain.Hash)
	section(table, "CURRENCY\tPAID\tTAX\tREFUNDED\tTAX", s.Money, func(m statement.Money) []any {
		return []any{m.Currency, formatMoney(m.Paid, m.Currency), formatMoney(m.PaidTax, m.Currency),
			formatMoney(m.Refunded, m.Currency), formatMoney(m.RefundedTax, m.Currency)}
	})
	section(table, "GRANTED\tKIND\tPAYMENT\tCREDITS\tMONEY\tTAX\tREASON", s.Grants, func(g statement.Grant) []any {
		return []any{g.At.Format(time.RFC3339), g.Kind, g.PaymentID, g.Credits, formatMoney(g.Money, g.Currency),
			formatMoney(g.Tax, g.Currency), g.Reason}
	})
	section(table, "REFUNDED\tPAYMENT\tREFUND\tCREDITS\tMONEY\tTAX", s.Refunds, func(f statement.Refund) []any {
		return []any{f.At.Format(time.RFC3339), f.PaymentID, f.RefundID, f.Credits, formatMoney(f.Money, f.Currency),
			formatMoney(f.Tax, f.Currency)}
	})
	section(table, "KEY\tCHARGES\tUSED", s.UsageByKey,
		func(k statement.Key) []any { return []any{k.KeyID, k.Charges, k.Used} })
	section(table, "DAY\tCHARGES\tUSED\tREVERSALS\tREVERSED", s.UsageByDay, func(d statement.Day) []any {
		return []any{d.Date, d.Charges, d.Used, d.Reversals, d.Reversed}
	})
	return table.Flush()
}
