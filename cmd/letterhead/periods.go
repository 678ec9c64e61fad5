package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"letterhead/internal/eventlog"
	"letterhead/operations"
)

func booksClose(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "close MONTH", Short: "Close a month", Args: exactArgs("MONTH")}
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
		_, err := fmt.Fprintf(e.stdout, "%s %s: %d transaction(s), digest %s\n", closed.Month.Month, state,
			*closed.Transactions, closed.Digest)
		return err
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
	c := &cobra.Command{Use: "status", Short: "Show which months are closed", Args: exactArgs()}
	listing[operations.Month]{
		path: "/admin/books/months", field: "months", titles: "MONTH\tSTATE\tCLOSED\tTRANSACTIONS\tDIGEST",
		cells: func(m *operations.Month) []any {
			if m.Transactions == nil {
				return []any{m.Month, m.State, "", "", ""}
			}
			return []any{m.Month, m.State, m.ClosedAt.Format(time.RFC3339), *m.Transactions, m.Digest}
		},
		object: monthObject,
	}.command(e, c)
	return c
}
