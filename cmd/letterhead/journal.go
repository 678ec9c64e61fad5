package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"letterhead/domain/books"
	"letterhead/internal/eventlog"
	"letterhead/node"
	"letterhead/workers/backup"
	"letterhead/workers/journal"
)

func journalCommand(e *environment) *cobra.Command {
	return group("journal", "Export the double entry of all accounts", journalExport(e))
}

func journalExport(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "export", Short: "Write the journal to a file", Args: exactArgs()}
	output := c.Flags().StringP("output", "o", "", "file to write; - is standard output")
	format := c.Flags().String("format", string(journal.CSV), "format: "+joinFormats())
	from := c.Flags().String("from", "", "only transactions from this time on")
	to := c.Flags().String("to", "", "only transactions up to this time")
	chart := chartFlag(c)
	o := journal.Options{}
	c.Flags().StringVar(&o.AccountID, "account", "", "only the transactions of this account")
	c.RunE = e.reads(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		if *output == "" {
			return usageError{errors.New("-o is needed: the file to write, or - for standard output")}
		}
		o.Format = journal.Format(*format)
		if !slices.Contains(journal.Formats(), o.Format) {
			return usageError{fmt.Errorf("--format is %s, not %q", joinFormats(), *format)}
		}
		var err error
		if o.From, o.Until, err = rangeOf(*from, "--to", *to); err != nil {
			return err
		}
		now := n.Now()
		if o.From.After(now) {
			return usageError{fmt.Errorf("--from %s is in the future", *from)}
		}
		if o.Chart, err = readChart(*chart); err != nil {
			return err
		}
		if o.AccountID != "" {
			if err := n.Operations.Reads.AccountExists(ctx, o.AccountID); err != nil {
				return explainAccount(o.AccountID, err)
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
	f, err := os.Open(name)
	if err != nil {
		return journal.Chart{}, err
	}
	defer f.Close()
	chart, err := journal.ReadChart(f)
	if err != nil {
		return chart, fmt.Errorf("--chart %s: %w", name, err)
	}
	return chart, nil
}
