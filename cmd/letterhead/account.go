package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"letterhead/adminapi"
	"letterhead/domain/plan"
	"letterhead/node"
	"letterhead/operations"
	"letterhead/projections/accounts"
)

func accountCommand(e *environment) *cobra.Command {
	return group("account", "Create, show, suspend and change accounts",
		accountCreate(e), accountShow(e), accountList(e), accountPlan(e), accountNotices(e), accountLoginLink(e),
		accountSignOut(e), accountSignInEmail(e), accountNote(e),
		accountChange(e, "suspend", "suspended", "Reject every request of an account"),
		accountChange(e, "reinstate", "reinstated", "End a suspension"),
		accountChange(e, "close", "closed", "Close an account permanently and erase its names"),
	)
}

func accountCreate(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "create", Short: "Create an account with a secret and a publishable key",
		Args: exactArgs()}
	c.Flags().String("name", "", "name of the account's holder")
	c.Flags().String("plan", string(plan.Free), "free, starter, growth or custom")
	show(e, c, "POST", "/admin/accounts", func(_ *client, created operations.NewAccount) error {
		if created.Account.Name == "" { // it is a repeat
			fmt.Fprintf(e.stdout, "account %s\n", created.Account.ID)
			for _, k := range created.Keys {
				fmt.Fprint(e.stdout, lost("key", k.ID, "key"))
			}
			return nil
		}
		fmt.Fprintf(e.stdout, "account %s (%s), plan %s, %d credits\n", created.Account.ID, created.Account.Name,
			created.Account.Plan, created.Credits.Balance)
		for _, k := range created.Keys {
			fmt.Fprintf(e.stdout, "%-11s key %s  %s\n", k.Kind, k.ID, k.Key)
		}
		_, err := fmt.Fprintln(e.stdout, "The keys are shown only now; only their hashes are stored.")
		return err
	})
	return c
}

func accountShow(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "show ID", Short: "Show an account", Args: exactArgs("ID")}
	asOfFlag(c)
	asJSON := jsonFlag(c)
	act(e, c, "GET", "/admin/accounts/{ID}", func(x *client, a adminapi.Account) error {
		switch {
		case *asJSON:
			return printJSON(e.stdout, row[adminapi.Account]{text: x.answer}.without("opened_at"))
		case !a.AsOf.IsZero():
			return e.printPast(&a)
		}
		_, err := fmt.Fprintf(e.stdout, "account  %s\nname     %s\nplan     %s\nstatus   %s\nbalance  %d credits (%d "+
			"available, %d open holds)\nlookups  %d in %s\nopened   %s\n",
			a.Account.ID, a.Account.Name, a.Account.Plan, a.Account.Status, a.Credits.Balance,
			a.Credits.Available, a.OpenHolds,
			a.Lookups.Count, a.Lookups.Month, a.OpenedAt.Format(time.RFC3339))
		return err
	})
	return c
}

func (e *environment) printPast(a *adminapi.Account) error {
	state := ""
	if a.Provisional {
		state = ", provisional"
	}
	fmt.Fprintf(e.stdout,
		"account  %s\nname     %s\nas of    %s (revision %d%s)\nplan     %s\nstatus   %s\nbalance  %d "+
			"credits\nlookups  %d in %s\n",
		a.Account.ID, a.Account.Name, a.AsOf.Format(time.RFC3339Nano), a.Revision, state,
		a.Account.Plan, a.Account.Status,
		a.Credits.Balance, a.Lookups.Count, a.Lookups.Month)
	if a.Searches != nil {
		fmt.Fprintf(e.stdout, "searches %d\nlogos    %d\n", a.Searches.Count, a.Logos.Count)
	}
	fmt.Fprintf(e.stdout, "opened   %s\n", a.OpenedAt.Format(time.RFC3339))
	table := newTable(e.stdout)
	fmt.Fprintln(table, "\nLOT\tAT\tKIND\tPAYMENT\tCREDITS\tUNSPENT\tMONEY\tDEFERRED")
	for _, l := range a.Lots {
		if l.Unspent > 0 {
			fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%d\t%d\t%s\t%s\n", l.Revision, l.At.Format(time.RFC3339),
				l.Kind, l.PaymentID,
				l.Credits, l.Unspent, formatMoney(l.Money, l.Currency), formatMoney(l.Deferred, l.Currency))
		}
	}
	return table.Flush()
}

func accountList(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List accounts", Args: exactArgs()}
	c.Flags().String("plan", "", "only accounts on this plan: free, starter, growth or custom")
	c.Flags().String("status", "", "only accounts with this status: active, suspended or closed")
	sortFlag(c, accounts.Sorts)
	asOf := asOfFlag(c)
	asJSON := jsonFlag(c)
	l := listing[adminapi.Account]{path: "/admin/accounts", field: "accounts", page: somePages,
		titles: "ID\tNAME\tPLAN\tSTATUS\tBALANCE"}
	l.object = func(r row[adminapi.Account]) any { return r.without("opened_at") }
	l.cells = func(a *adminapi.Account) []any {
		cells := []any{a.Account.ID, a.Account.Name, a.Account.Plan, a.Account.Status, a.Credits.Balance}
		if *asOf == "" {
			cells = append(cells, spent(a), used(a))
		}
		return cells
	}
	c.RunE = e.onAPI(node.ToRead, func(x *client) error {
		if *asOf == "" {
			l.titles += "\tSPENT\tUSED"
		} else {
			l.page = wholePage
		}
		return l.list(x, e, *asJSON, nil)
	})
	return c
}

// spent returns the spend of an account for people.
func spent(a *adminapi.Account) string {
	if a.Spent == nil {
		return "-"
	}
	return fmt.Sprintf("%d in %s", a.Spent.Credits, a.Spent.Month)
}

// used returns the last use of an account for people.
func used(a *adminapi.Account) string {
	if a.LastUsedAt.IsZero() {
		return "never"
	}
	return a.LastUsedAt.Format(time.RFC3339)
}

func accountPlan(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "plan ID PLAN", Short: "Move an account to another plan immediately",
		Args: exactArgs("ID", "PLAN")}
	act(e, c, "PUT", "/admin/accounts/{ID}/plan", func(x *client, done decided) error {
		return done.print(e, "plan "+x.args[1])
	})
	return c
}

func accountChange(e *environment, verb, outcome, short string) *cobra.Command {
	c := &cobra.Command{Use: verb + " ID", Short: short, Args: exactArgs("ID")}
	act(e, c, "POST", "/admin/accounts/{ID}/"+verb,
		func(_ *client, done decided) error { return done.print(e, outcome) })
	return c
}

func accountNote(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "note ID TEXT", Short: "Add a note for operators to an account",
		Args: exactArgs("ID", "TEXT")}
	act(e, c, "POST", "/admin/accounts/{ID}/notes", func(_ *client, done decided) error {
		_, err := fmt.Fprintf(e.stdout, "account %s: note added\n", done.Account)
		return err
	})
	return c
}

// decided is a decision about an account as the admin API answers it.
type decided struct {
	Account  string
	Repeated bool
}

func (d decided) print(e *environment, what string) error {
	if d.Repeated {
		what += " (nothing to change)"
	}
	_, err := fmt.Fprintf(e.stdout, "account %s: %s\n", d.Account, what)
	return err
}
