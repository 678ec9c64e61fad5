package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"letterhead/adminapi"
	"letterhead/commands"
	"letterhead/domain/plan"
	"letterhead/domain/signin"
	"letterhead/internal/webhook"
	"letterhead/node"
	"letterhead/operations"
	"letterhead/projections/accounts"
)

func accountCreate(e *environment) *cobra.Command {
	c := command("create", "Create an account with a secret and a publishable key")
	c.Flags().String("name", "", "name of the account's holder")
	c.Flags().String("plan", string(plan.Free), "free, starter, growth or custom")
	return show(e, c, "POST", "/admin/accounts", func(_ *client, created operations.NewAccount) error {
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
		return e.printf("The keys are shown only now; only their hashes are stored.\n")
	})
}

func accountShow(e *environment) *cobra.Command {
	c := command("show ID", "Show an account")
	asOfFlag(c)
	asJSON := jsonFlag(c)
	return act(e, c, "GET", "/admin/accounts/{ID}", func(x *client, a adminapi.Account) error {
		if *asJSON {
			return printJSON(e.stdout, row[adminapi.Account]{text: x.answer}.without("opened_at"))
		}
		return e.printAccount(&a)
	})
}

func (e *environment) printAccount(a *adminapi.Account) error {
	asOf, rest := "", fmt.Sprintf(" (%d available, %d open holds)", a.Credits.Available, a.OpenHolds)
	if !a.AsOf.IsZero() {
		asOf, rest = fmt.Sprintf("as of    %s (revision %d%s)\n", a.AsOf.Format(time.RFC3339Nano), a.Revision,
			noteIf(a.Provisional, ", provisional")), ""
	}
	fmt.Fprintf(e.stdout,
		"account  %s\nname     %s\n%splan     %s\nstatus   %s\nbalance  %d credits%s\nlookups  %d in %s\n",
		a.Account.ID, a.Account.Name, asOf, a.Account.Plan, a.Account.Status, a.Credits.Balance, rest,
		a.Lookups.Count, a.Lookups.Month)
	if a.Searches != nil {
		fmt.Fprintf(e.stdout, "searches %d\nlogos    %d\n", a.Searches.Count, a.Logos.Count)
	}
	err := e.printf("opened   %s\n", a.OpenedAt.Format(time.RFC3339))
	if err != nil || asOf == "" {
		return err
	}
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
	c := command("list", "List accounts")
	c.Flags().String("name", "", "only accounts whose name has words that begin with these, or by the beginning of an id")
	named(c, "name", "q")
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
			cells = append(cells, spent(a), timeOr(a.LastUsedAt, "never"))
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

func accountPlan(e *environment) *cobra.Command {
	c := command("plan ID PLAN", "Move an account to another plan immediately")
	return act(e, c, "PUT", "/admin/accounts/{ID}/plan", func(x *client, done adminapi.Change) error {
		return e.printDecision(done, "plan "+x.args[1])
	})
}

func accountChange(e *environment, verb, outcome, short string) *cobra.Command {
	c := command(verb+" ID", short)
	if verb == "suspend" {
		c.Flags().String("reason", "", "why; kept forever, so name no person")
	}
	return act(e, c, "POST", "/admin/accounts/{ID}/"+verb,
		func(_ *client, done adminapi.Change) error { return e.printDecision(done, outcome) })
}

func accountNote(e *environment) *cobra.Command {
	c := command("note ID TEXT", "Add a note for operators to an account")
	return act(e, c, "POST", "/admin/accounts/{ID}/notes", func(_ *client, done adminapi.Change) error {
		return e.printf("account %s: note added\n", done.Account)
	})
}

// printDecision prints what was decided about an account.
func (e *environment) printDecision(done adminapi.Change, what string) error {
	return e.printf("account %s: %s%s\n", done.Account, what, noteIf(done.Repeated, " (nothing to change)"))
}

func accountLoginLink(e *environment) *cobra.Command {
	c := command("login-link", "Print a link to sign in to the dashboard of an account")
	c.Annotations = map[string]string{ifUnanswered: anotherLink}
	c.Flags().String("account", "", "account id")
	c.Flags().String("person", signin.Owner, "id of the person, if several sign in to the account; not a name or an "+
		"address, because events keep it forever")
	return show(e, c, "POST", "/admin/accounts/{account}/login-link", func(_ *client, link operations.LoginLink) error {
		return printLink(e, link, signin.LinkLifetime)
	})
}

const anotherLink = "; run it again (each run issues another link)"

// printLink prints only the link to standard output.
func printLink(e *environment, link operations.LoginLink, lifetime time.Duration) error {
	_, printed := fmt.Fprintln(e.stdout, link.URL)
	_, explained := fmt.Fprintf(e.stderr, "The link signs in once, and expires at %s, in %d minutes.\n",
		link.ExpiresAt.Format(time.RFC3339), lifetime/time.Minute)
	return errors.Join(printed, explained)
}

func accountSignOut(e *environment) *cobra.Command {
	c := command("sign-out ID", "Sign the people of an account out of its dashboard")
	person := c.Flags().String("person", "", "id of the person (default: all people of the account)")
	return act(e, c, "POST", "/admin/accounts/{ID}/sign-out", func(_ *client, done adminapi.Change) error {
		return e.printf("account %s: %s signed out%s\n", done.Account, cmp.Or(*person, "all people"),
			noteIf(done.Repeated, ": there was no open session and no link that could be used"))
	})
}

func accountSignInEmail(e *environment) *cobra.Command {
	c := command("sign-in-email ID", "Show or set the e-mail addresses for sign-in links of an account")
	address := c.Flags().String("email", "", "e-mail address of the person")
	c.Flags().String("person", signin.Owner,
		"id of the person whose address is set; not a name or an address, because "+
			"events keep it forever")
	notSent(c, "email", "person")
	asJSON := jsonFlag(c)
	all := listing[commands.Email]{path: "/admin/accounts/{ID}/sign-in-emails", field: "sign_in_emails",
		titles: "PERSON\tEMAIL",
		cells:  func(m *commands.Email) []any { return []any{m.Person, m.Address} }}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed("email") {
			if cmd.Flags().Changed("person") {
				return misuse("--person needs --email, the address to set for the person")
			}
			return e.onAPI(node.ToRead, func(x *client) error { return all.list(x, e, *asJSON, nil) })(cmd, args)
		}
		return e.onAPI(node.ToWrite, func(x *client) error {
			path, _, err := x.fill("/admin/accounts/{ID}/sign-in-emails/{person}")
			if err == nil {
				err = x.call("PUT", path, map[string]any{"email": *address}, &commands.Email{})
			}
			if err != nil {
				return err
			}
			return all.list(x, e, *asJSON, nil)
		})(cmd, args)
	}
	return c
}

func accountNotices(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "notices ID", Short: "Show, set or retry the notices of an account"}
	c.Flags().Int64("low-balance", 0, "credits below which the balance is low; 0 for no notice of it")
	c.Flags().String("webhook", "", "https URL to which notices are sent")
	c.Flags().String("email", "", "e-mail address to which notices are sent")
	retry := c.Flags().String("retry", "", "id of a notice to attempt again")
	public := c.Flags().Bool("public-key", false, "print the public key of webhooks")
	fresh := c.Flags().Bool("new-key", false, "print a new private key of webhooks")
	asJSON := jsonFlag(c)
	c.MarkFlagsMutuallyExclusive("public-key", "new-key", "retry")
	c.Args = func(cmd *cobra.Command, args []string) error {
		if !*public && !*fresh {
			return exactArgs("ID")(cmd, args)
		}
		return exactArgs()(cmd, args)
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if *fresh {
			key, err := webhook.NewKey(rand.Reader)
			if err != nil {
				return err
			}
			return e.printf("%s\n", key.Private())
		}
		if *public {
			return e.onFolder(node.ToWrite, func(_ context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
				key, err := n.Operations.Notices.Key()
				if err != nil {
					return err
				}
				return e.printf("%s\n", key.Public())
			})(cmd, args)
		}
		use := node.ToRead
		set := slices.ContainsFunc([]string{"low-balance", "webhook", "email"}, cmd.Flags().Changed)
		if set && *retry != "" {
			return misuse("--retry cannot be combined with settings; run the command twice")
		}
		if set || *retry != "" {
			use = node.ToWrite
		}
		return e.onAPI(use, func(x *client) error {
			var shown operations.NoticeSettings
			var err error
			switch {
			case set:
				err = x.request("PATCH", "/admin/accounts/{ID}/notices", &shown)
			case *retry != "":
				err = x.request("POST", "/admin/accounts/{ID}/notices/{retry}/retry", &shown)
			default:
				err = x.request("GET", "/admin/accounts/{ID}/notices", &shown)
			}
			if err != nil {
				return err
			}
			if *asJSON {
				return e.printf("%s", x.answer)
			}
			return e.printNotices(&shown)
		})(cmd, args)
	}
	return c
}

// printNotices prints the settings and the last notices of an account.
func (e *environment) printNotices(shown *operations.NoticeSettings) error {
	threshold := "no notice"
	if shown.LowBalance > 0 {
		threshold = fmt.Sprintf("below %d credits", shown.LowBalance)
	}
	fmt.Fprintf(e.stdout, "low balance  %s\nwebhook      %s\ne-mail       %s\n",
		threshold, cmp.Or(shown.Webhook, "none"),
		cmp.Or(shown.Email, "none"))
	if len(shown.Notices) == 0 {
		return nil
	}
	table := newTable(e.stdout)
	fmt.Fprintln(table, "NOTICE\tKIND\tRAISED\tABOUT\tDESTINATION\tSTATE\tATTEMPTS\tNEXT\tREASON")
	for _, d := range shown.Notices {
		about := fmt.Sprintf("%d of %d credits", d.Balance, d.Threshold)
		if d.Payment != nil {
			about = d.Payment.ID
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", d.NoticeID, d.Kind,
			d.RaisedAt.Format(time.RFC3339), about,
			d.Destination, d.State, d.Attempts, timeOr(d.NextAt, "-"), cmp.Or(d.Reason, "-"))
	}
	return table.Flush()
}
