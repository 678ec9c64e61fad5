package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"letterhead/node"
	"letterhead/operations"
)

func booksBreakage(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "breakage", Short: "Recognize the remaining credits of closed accounts as revenue",
		Args: exactArgs()}
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
			return usageError{
				errors.New("--policy is needed: why the credits will not be used, such as a clause of your terms"),
			}
		case (*accountID == "") == (*before == ""):
			return usageError{errors.New("either --account or --closed-before is needed")}
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
