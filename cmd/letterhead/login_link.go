package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"letterhead/adminapi"
	"letterhead/commands"
	"letterhead/domain/operator"
	"letterhead/domain/signin"
	"letterhead/node"
)

func accountLoginLink(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "login-link", Short: "Print a link to sign in to the dashboard of an account", Args: exactArgs(),
		Long: "Print a link with which a person signs in to the dashboard of an account (docs/dashboard.md). The link works once, and within 15 minutes. Only the link is printed to standard output."}
	accountID := c.Flags().String("account", "", "account id")
	person := c.Flags().String("person", signin.Owner, "id of the person, if several sign in to the account; not a name or an address, because events keep it forever")
	asJSON := jsonFlag(c)
	c.PreRunE = func(*cobra.Command, []string) error {
		if *accountID == "" {
			return usageError{fmt.Errorf("--account is needed; %q lists the accounts", "letterhead account list")}
		}
		if err := signin.CheckPerson(*person); err != nil {
			return usageError{err}
		}
		return nil
	}
	c.RunE = e.onFolder(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		link, err := n.IssueLoginLink(ctx, n.Operator(), *accountID, *person)
		if err != nil {
			return explainAccount(*accountID, err)
		}
		return printLink(e, link, signin.LinkLifetime, *asJSON)
	})
	return c
}

func accountSignOut(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "sign-out ID", Short: "Sign the people of an account out of its dashboard", Args: exactArgs("ID"),
		Long: "End all sessions of an account's people in its dashboard, and withdraw the sign-in links that were not used; with --person, only those of one person."}
	person := c.Flags().String("person", "", "id of the person (default: all people of the account)")
	c.RunE = e.onFolder(func(ctx context.Context, n *node.Node, _ *cobra.Command, args []string) error {
		if err := n.AccountExists(ctx, args[0]); err != nil {
			return explainAccount(args[0], err)
		}
		repeated, err := n.SignOutEverywhere(ctx, n.Operator(), args[0], *person)
		if errors.Is(err, signin.ErrInvalid) {
			return usageError{err}
		}
		if err != nil && !errors.Is(err, node.ErrNotSeen) {
			return explainAccount(args[0], err)
		}
		note := ""
		if repeated {
			note = ": there was no open session and no link that could be used"
		}
		_, printed := fmt.Fprintf(e.stdout, "account %s: %s signed out%s\n", args[0], cmp.Or(*person, "all people"), note)
		return errors.Join(err, printed)
	})
	return c
}

func accountSignInEmail(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "sign-in-email ID", Short: "Show or set the e-mail addresses for sign-in links of an account", Args: exactArgs("ID"),
		Long: "Show the e-mail addresses to which links of an account's people are sent when they are asked for on the sign-in page. With --email, set a person's address first; an empty one removes it. Whoever reads messages to an address can sign in to the account. Links are sent if LETTERHEAD_SMTP_URL is set."}
	address := c.Flags().String("email", "", "e-mail address of the person")
	person := c.Flags().String("person", signin.Owner, "id of the person whose address is set; not a name or an address, because events keep it forever")
	asJSON := jsonFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		set := cmd.Flags().Changed("email")
		run := e.looksAt
		if set {
			if err := cmp.Or(commands.CheckEmail(*address), signin.CheckPerson(*person)); err != nil {
				return usageError{err}
			}
			run = e.onFolder
		} else if cmd.Flags().Changed("person") {
			return usageError{errors.New("--person needs --email, the address to set for the person")}
		}
		return run(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
			id := args[0]
			if set {
				if _, err := n.SetSignInEmail(ctx, n.Operator(), signin.Person{AccountID: id, ID: *person}, *address); err != nil {
					return explainAccount(id, err)
				}
			}
			emails, err := n.SignInEmails(ctx, id)
			if err != nil {
				return explainAccount(id, err)
			}
			shown := newList(e.stdout, *asJSON, "PERSON\tEMAIL")
			for _, email := range emails {
				if err := shown.add(email, email.Person, email.Address); err != nil {
					return err
				}
			}
			return shown.end()
		})(cmd, args)
	}
	return c
}

func adminLoginLink(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "login-link", Short: "Print a link to sign in to the dashboard of operators", Args: exactArgs(),
		Long: "Print a link with which an operator signs in to the dashboard of operators for 12 hours (docs/admin.md). The link works once, and within 15 minutes. Only the link is printed to standard output. " + scopesHelp}
	name := c.Flags().String("operator", "", "name of the operator who signs in; it is shown with the operator's actions")
	scope := scopeFlag(c)
	asJSON := jsonFlag(c)
	c.PreRunE = func(*cobra.Command, []string) error {
		if err := checkName("--operator", *name); err != nil {
			return usageError{err}
		}
		return checkScope(*scope)
	}
	c.RunE = e.onFolder(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		link, err := n.IssueOperatorLink(ctx, n.Operator(), *name, operator.Scope(*scope))
		if err != nil {
			return err
		}
		return printLink(e, link, operator.LinkLifetime, *asJSON)
	})
	return c
}

// printLink prints only the link to standard output.
func printLink(e *environment, link adminapi.LoginLink, lifetime time.Duration, asJSON bool) error {
	if asJSON {
		return printJSON(e.stdout, link)
	}
	_, printed := fmt.Fprintln(e.stdout, link.URL)
	_, explained := fmt.Fprintf(e.stderr, "The link signs in once, and expires at %s, in %d minutes.\n", link.ExpiresAt.Format(time.RFC3339), lifetime/time.Minute)
	return errors.Join(printed, explained)
}
