package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"letterhead/domain/statement"
	"letterhead/node"
)

func statementCommand(e *environment) *cobra.Command {
	return group("statement", "Show statements of accounts", statementShow(e))
}

func statementShow(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "show MONTH", Short: "Show the statement of an account for a month",
		Args: exactArgs("MONTH")}
	c.Flags().String("account", "", "account id")
	asJSON := jsonFlag(c)
	asCSV := c.Flags().Bool("csv", false, "print CSV")
	c.RunE = e.onAPI(node.ToRead, func(x *client) error {
		if _, err := monthOf("MONTH", x.args[0]); err != nil {
			return err
		}
		path, _, err := x.fill("/admin/accounts/{account}/statements/{MONTH}")
		switch {
		case err != nil:
			return err
		case *asJSON && *asCSV:
			return usageError{errors.New("--json and --csv cannot be combined")}
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
