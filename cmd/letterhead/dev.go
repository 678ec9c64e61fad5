package main

import (
	"time"

	"github.com/spf13/cobra"

	"letterhead/domain/books"
	"letterhead/node"
	"letterhead/workers/backup"
	"letterhead/workers/generate"
)

func devGenerate(e *environment) *cobra.Command {
	c := command("generate", "Fill an empty data folder with a generated history of accounts")
	history := generate.Defaults()
	flags := c.Flags()
	flags.IntVar(&history.Accounts, "accounts", history.Accounts, "number of accounts")
	flags.IntVar(&history.Events, "events", history.Events, "number of events")
	flags.Uint64Var(&history.Seed, "seed", history.Seed, "another number gives another history")
	flags.IntVar(&history.Months, "months", history.Months, "length of the history")
	until := flags.String("until", history.Until.AddDate(0, -1, 0).Format(books.MonthLayout),
		"end of the history, inclusive: "+timeForms)
	flags.Float64Var(&history.Hot, "hot", history.Hot,
		"share of the first account in the use of the service, from 0 to 1")
	asJSON := jsonFlag(c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if e.node != nil {
			return misuse("cannot generate a history in a running server: name an empty folder with --data")
		}
		settings, err := e.config()
		if err != nil {
			return err
		}
		if history.Until, err = endOf("--until", *until); err != nil {
			return err
		}
		began, show := time.Now(), stages(e.stderr, "generate")
		sum, err := node.Generate(cmd.Context(), settings, e.options(node.ToWrite), history, func(events int) {
			show(backup.Progress{Stage: backup.StageEvents, Done: uint64(events), Total: uint64(history.Events)})
		})
		if err != nil {
			return err
		}
		return e.print(*asJSON, sum, "generated %d events of %d accounts, from %s to %s, in %s\n",
			sum.Events, sum.Accounts,
			sum.First.Format(time.DateOnly), sum.Last.Format(time.DateOnly), time.Since(began).Round(time.Millisecond))
	}
	return c
}
