package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"letterhead/adminapi"
	"letterhead/domain/books"
	"letterhead/node"
	"letterhead/projections/accounts"
	"letterhead/projections/ledger"
	"letterhead/projections/usage"
)

// past is a past moment; the time is zero if none is given.
type past struct{ adminapi.Moment }

// asOfFlag adds the option of a past moment. The function that it returns parses its value at the present time.
func asOfFlag(c *cobra.Command) func(now time.Time) (past, error) {
	text := c.Flags().String("as-of", "", "at a past moment, or at the end of a month or a day: "+timeForms)
	return func(now time.Time) (past, error) { return parsePast(*text, now) }
}

// parsePast is adminapi.ParseMoment for the option.
func parsePast(text string, now time.Time) (past, error) {
	at, err := adminapi.ParseMoment(text, now)
	if err != nil {
		err = usageError{fmt.Errorf("--as-of %w", err)}
	}
	return past{at}, err
}

// printMark prints a line above a table if the moment is provisional.
func (p past) printMark(w io.Writer) {
	if p.Provisional {
		fmt.Fprintf(w, "as of %s (provisional)\n", p.Format(time.RFC3339Nano))
	}
}

// showPast prints an account as it was.
func (e *environment) showPast(ctx context.Context, n *node.Node, id string, at past, asJSON bool) error {
	if err := n.CatchUp(ctx, accounts.Name, ledger.Name, usage.Name); err != nil {
		return err
	}
	a, err := readPast(ctx, n, id, at)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(e.stdout, a.Object())
	}
	state := ""
	if at.Provisional {
		state = ", provisional"
	}
	fmt.Fprintf(e.stdout, "account  %s\nname     %s\nas of    %s (revision %d%s)\nplan     %s\nstatus   %s\nbalance  %d credits\nlookups  %d in %s\n",
		a.ID, a.Name, at.Format(time.RFC3339Nano), a.Last.Revision, state, a.State.Plan, a.State.Status, a.Last.Balance, a.Lookups, a.Used.Month)
	if a.Whole {
		fmt.Fprintf(e.stdout, "searches %d\nlogos    %d\n", a.Used.Searches, a.Used.Logos)
	}
	fmt.Fprintf(e.stdout, "opened   %s\n", a.Opened.Format(time.RFC3339))
	return printOpenLots(e.stdout, a.Lots)
}

func readPast(ctx context.Context, n *node.Node, id string, at past) (*adminapi.PastAccount, error) {
	sources := adminapi.Sources{Accounts: n.Accounts, Ledger: n.Ledger, Names: n.Names, Usage: n.Usage}
	a, err := sources.Past(ctx, id, at.Moment)
	return a, explainAccount(id, err)
}

// printOpenLots prints the lots that have unspent credits.
func printOpenLots(w io.Writer, lots *books.Account) error {
	table := newTable(w)
	fmt.Fprintln(table, "\nLOT\tAT\tKIND\tPAYMENT\tCREDITS\tUNSPENT\tMONEY\tDEFERRED")
	for i := range lots.Lots() {
		if l := &lots.Lots()[i]; l.Unspent() > 0 {
			fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%d\t%d\t%s\t%s\n", l.Revision, l.At.Format(time.RFC3339), l.Kind, l.PaymentID, l.Granted, l.Unspent(),
				formatMoney(l.Paid.Minor, l.Paid.Currency), formatMoney(l.Deferred(), l.Paid.Currency))
		}
	}
	return table.Flush()
}

// pastAccounts returns the accounts as they were, selected and sorted as accounts.Model.Select does.
func pastAccounts(ctx context.Context, n *node.Node, s accounts.Selection, at time.Time) ([]accounts.Account, error) {
	if err := n.CatchUp(ctx, accounts.Name, ledger.Name); err != nil {
		return nil, err
	}
	var all []accounts.Account
	for after := ""; ; {
		page, err := n.Accounts.List(ctx, after, accounts.MaxPage)
		if err != nil {
			return nil, err
		}
		for _, a := range page {
			after = a.ID
			past, err := n.Ledger.State(ctx, a.ID, at)
			if errors.Is(err, ledger.ErrNotFound) {
				continue // it was opened later
			}
			if err != nil {
				return nil, err
			}
			a.Plan, a.Status, a.Balance, a.Revision = past.Plan, past.Status, past.Last.Balance, past.Last.Revision
			if (s.Plan == "" || a.Plan == s.Plan) && (s.Status == "" || a.Status == s.Status) {
				all = append(all, a)
			}
		}
		if len(page) < accounts.MaxPage {
			break
		}
	}
	slices.SortFunc(all, func(a, b accounts.Account) int {
		by := 0
		switch s.Sort {
		case "balance":
			by = cmp.Compare(a.Balance, b.Balance)
		case "plan":
			by = cmp.Compare(a.Plan, b.Plan)
		case "status":
			by = cmp.Compare(a.Status, b.Status)
		case "opened":
			by = a.OpenedAt.Compare(b.OpenedAt)
		}
		return cmp.Or(by, strings.Compare(a.ID, b.ID))
	})
	if s.Descending {
		slices.Reverse(all)
	}
	return all, nil
}
