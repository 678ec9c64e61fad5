package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"letterhead/adminapi"
	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/domain/text"
	"letterhead/node"
	"letterhead/projections/accounts"
)

// maxNameBytes is the maximum length of the name of an account holder or a key. Names are personal data.
const maxNameBytes = 200

func accountCommand(e *environment) *cobra.Command {
	return group("account", "Create, show, suspend and change accounts",
		accountCreate(e), accountShow(e), accountList(e), accountPlan(e), accountNotices(e), accountLoginLink(e), accountSignOut(e), accountSignInEmail(e), accountNote(e),
		accountChange(e, "suspend", "suspended", "Reject every request of an account", func(ctx context.Context, n *node.Node, id string) (commands.Done, error) {
			return n.AccountWriter.Suspend(ctx, commands.SuspendAccount{Request: n.Operator(), AccountID: id, Reason: "operator"})
		}),
		accountChange(e, "reinstate", "reinstated", "End a suspension", func(ctx context.Context, n *node.Node, id string) (commands.Done, error) {
			return n.AccountWriter.Reinstate(ctx, commands.ReinstateAccount{Request: n.Operator(), AccountID: id})
		}),
		accountChange(e, "close", "closed", "Close an account permanently and erase its names", func(ctx context.Context, n *node.Node, id string) (commands.Done, error) {
			return n.CloseAccount(ctx, n.Operator(), id)
		}),
	)
}

func accountCreate(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "create", Short: "Create an account with a secret and a publishable key", Args: exactArgs()}
	name := c.Flags().String("name", "", "name of the account's holder")
	planName := c.Flags().String("plan", string(plan.Free), "free, starter, growth or custom")
	asJSON := jsonFlag(c)
	c.PreRunE = func(*cobra.Command, []string) error {
		_, err := plan.Default().Get(plan.ID(*planName))
		if err := errors.Join(checkName("--name", *name), err); err != nil {
			return usageError{err}
		}
		return nil
	}
	c.RunE = e.onFolder(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		created, err := n.CreateAccount(ctx, n.Operator(), *name, plan.ID(*planName))
		if err != nil && !errors.Is(err, node.ErrNotSeen) {
			return err
		}
		if *asJSON {
			return errors.Join(err, printJSON(e.stdout, created))
		}
		fmt.Fprintf(e.stdout, "account %s (%s), plan %s, %d credits\n", created.Account.ID, created.Account.Name, created.Account.Plan, created.Credits.Balance)
		for _, k := range created.Keys {
			fmt.Fprintf(e.stdout, "%-11s key %s  %s\n", k.Kind, k.ID, k.Key)
		}
		fmt.Fprintln(e.stdout, "The keys are shown only now; only their hashes are stored.")
		return err
	})
	return c
}

func accountShow(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "show ID", Short: "Show an account", Args: exactArgs("ID"),
		Long: "Show an account. With --as-of, show its balance, plan, status, look-ups of the month and lots of credits as they were then, with its present name."}
	asOf := asOfFlag(c)
	asJSON := jsonFlag(c)
	c.RunE = e.looksAt(func(ctx context.Context, n *node.Node, _ *cobra.Command, args []string) error {
		at, err := asOf(n.Now())
		if err != nil {
			return err
		}
		if !at.IsZero() {
			return e.showPast(ctx, n, args[0], at, *asJSON)
		}
		standing, err := n.AccountWriter.Standing(ctx, args[0])
		if err != nil {
			return explainAccount(args[0], err)
		}
		row, err := n.Accounts.Get(ctx, args[0])
		if err != nil {
			return err
		}
		names, err := n.Names.Names(ctx, row.Holder)
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(e.stdout, map[string]any{
				"account": node.Account{ID: args[0], Name: names[row.Holder], Plan: string(standing.Plan), Status: standing.Status},
				"credits": map[string]int64{"balance": standing.Balance, "remaining": standing.Remaining, "available": standing.Available},
				"lookups": map[string]any{"month": standing.Month, "count": standing.Lookups}, "open_holds": standing.OpenHolds,
			})
		}
		fmt.Fprintf(e.stdout, "account  %s\nname     %s\nplan     %s\nstatus   %s\nbalance  %d credits (%d available, %d open holds)\nlookups  %d in %s\nopened   %s\n",
			args[0], names[row.Holder], standing.Plan, standing.Status, standing.Balance, standing.Available, standing.OpenHolds, standing.Lookups, standing.Month, row.OpenedAt.Format(time.RFC3339))
		return nil
	})
	return c
}

func accountList(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List accounts", Args: exactArgs(),
		Long: `List accounts. SPENT are the credits charged in the latest month (UTC) in which an account was charged, less those
that were returned since it began. USED is the time of its latest look-up that held or cost credits, or of the latest use
of a key. Sorted by spend, the latest month counts first.

With --as-of, list the accounts that existed then, with the balance, plan and status of that time and their present names.`}
	planName := c.Flags().String("plan", "", "only accounts on this plan: free, starter, growth or custom")
	status := c.Flags().String("status", "", "only accounts with this status: active, suspended or closed")
	order := addSortFlag(c, accounts.Sorts)
	asOf := asOfFlag(c)
	asJSON := jsonFlag(c)
	c.RunE = e.looksAt(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		s := accounts.Selection{Plan: plan.ID(*planName), Status: account.Status(*status)}
		var err error
		if s.Sort, s.Descending, err = order(); err != nil {
			return err
		}
		if s.Plan != "" {
			if _, err := n.Plans.Get(s.Plan); err != nil {
				return usageError{err}
			}
		}
		if !slices.Contains([]account.Status{"", account.Active, account.Suspended, account.Closed}, s.Status) {
			return usageError{fmt.Errorf("--status is active, suspended or closed, not %q", *status)}
		}
		at, err := asOf(n.Now())
		if err != nil {
			return err
		}
		if !at.IsZero() && accounts.PresentOnly(s.Sort) {
			return usageError{fmt.Errorf("--sort %s is of the present; leave out --as-of", s.Sort)}
		}
		if !*asJSON {
			at.printMark(e.stdout)
		}
		titles := "ID\tNAME\tPLAN\tSTATUS\tBALANCE"
		if at.IsZero() {
			titles += "\tSPENT\tUSED"
		}
		shown := newList(e.stdout, *asJSON, titles)
		if !at.IsZero() {
			all, err := pastAccounts(ctx, n, s, at.Time)
			if err == nil {
				err = printAccounts(ctx, n, all, at, shown)
			}
			return errors.Join(err, shown.end())
		}
		for last := (*accounts.Account)(nil); ; {
			page, err := n.Accounts.Select(ctx, s, last, accounts.MaxPage)
			if err != nil {
				return err
			}
			if err := printAccounts(ctx, n, page, past{}, shown); err != nil {
				return err
			}
			if len(page) < accounts.MaxPage {
				return shown.end()
			}
			last = &page[len(page)-1]
		}
	})
	return c
}

func printAccounts(ctx context.Context, n *node.Node, all []accounts.Account, at past, shown list) error {
	for i := range all {
		r := &all[i]
		names, err := n.Names.Names(ctx, r.Holder)
		if err != nil {
			return err
		}
		a := node.Account{ID: r.ID, Name: names[r.Holder], Plan: string(r.Plan), Status: string(r.Status)}
		object := at.Mark(map[string]any{"account": a, "credits": map[string]int64{"balance": r.Balance}})
		cells := []any{a.ID, a.Name, a.Plan, a.Status, r.Balance}
		if at.IsZero() {
			object, cells = adminapi.MarkUse(object, r), append(cells, spent(r), used(r))
		}
		if err := shown.add(object, cells...); err != nil {
			return err
		}
	}
	return nil
}

// spent returns the spend of an account for people.
func spent(a *accounts.Account) string {
	if a.SpentMonth.IsZero() {
		return "-"
	}
	return fmt.Sprintf("%d in %s", a.Spent, a.SpentMonth.Format("2006-01"))
}

// used returns the last use of an account for people.
func used(a *accounts.Account) string {
	if a.UsedAt.IsZero() {
		return "never"
	}
	return a.UsedAt.Format(time.RFC3339)
}

func accountPlan(e *environment) *cobra.Command {
	return &cobra.Command{Use: "plan ID PLAN", Short: "Move an account to another plan immediately", Args: exactArgs("ID", "PLAN"),
		RunE: e.onFolder(func(ctx context.Context, n *node.Node, _ *cobra.Command, args []string) error {
			if _, err := n.Plans.Get(plan.ID(args[1])); err != nil {
				return usageError{err}
			}
			done, err := n.AccountWriter.ChangePlan(ctx, commands.ChangePlan{Request: n.Operator(), AccountID: args[0], Plan: plan.ID(args[1])})
			return enforced(ctx, n, args[0], done, err, e, "plan "+args[1])
		})}
}

func accountChange(e *environment, verb, outcome, short string, do func(context.Context, *node.Node, string) (commands.Done, error)) *cobra.Command {
	return &cobra.Command{Use: verb + " ID", Short: short, Args: exactArgs("ID"),
		RunE: e.onFolder(func(ctx context.Context, n *node.Node, _ *cobra.Command, args []string) error {
			done, err := do(ctx, n, args[0])
			return enforced(ctx, n, args[0], done, err, e, outcome)
		})}
}

func accountNote(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "note ID TEXT", Short: "Add a note for operators to an account", Args: exactArgs("ID", "TEXT"),
		Long: fmt.Sprintf(`Add a note of at most %d bytes to an account, also to a closed one. A note is an event: it cannot be changed or deleted, so
it must have no personal data. The customer can read it: it is in every proof of the account.

"ledger show --account ID --type AccountNoted --json" lists the notes.`, account.MaxNoteBytes)}
	c.RunE = e.onFolder(func(ctx context.Context, n *node.Node, _ *cobra.Command, args []string) error {
		_, err := n.AccountWriter.Note(ctx, commands.NoteAccount{Request: n.Operator(), AccountID: args[0], Text: args[1]})
		if invalid := (*account.InvalidError)(nil); errors.As(err, &invalid) {
			return usageError{fmt.Errorf("TEXT %s; it takes 1 to %d bytes of text", invalid.Reason, account.MaxNoteBytes)}
		}
		if err != nil {
			return explainAccount(args[0], err)
		}
		_, err = fmt.Fprintf(e.stdout, "account %s: note added\n", args[0])
		return err
	})
	return c
}

// enforced waits until API requests follow a decision about an account, and prints a confirmation.
func enforced(ctx context.Context, n *node.Node, accountID string, done commands.Done, err error, e *environment, what string) error {
	if err != nil {
		return explainAccount(accountID, err)
	}
	if err := n.AwaitKeys(ctx, done.Position); err != nil {
		return fmt.Errorf("account %s: %s, but %w: %w", accountID, what, node.ErrNotSeen, err)
	}
	if done.Repeated {
		_, err = fmt.Fprintf(e.stdout, "account %s: %s (nothing to change)\n", accountID, what)
	} else {
		_, err = fmt.Fprintf(e.stdout, "account %s: %s\n", accountID, what)
	}
	return err
}

func checkName(flag, name string) error {
	if strings.TrimSpace(name) == "" || len(name) > maxNameBytes {
		return fmt.Errorf("%s takes 1 to %d bytes with a character other than a space", flag, maxNameBytes)
	}
	if err := text.CheckShown(name); err != nil {
		return fmt.Errorf("%s %w", flag, err)
	}
	return nil
}
