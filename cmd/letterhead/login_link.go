package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"letterhead/adminapi"
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
