package main

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"letterhead/commands"
	"letterhead/domain/signin"
	"letterhead/node"
	"letterhead/operations"
)

func accountLoginLink(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "login-link", Short: "Print a link to sign in to the dashboard of an account",
		Args: exactArgs(), Annotations: map[string]string{ifUnanswered: anotherLink}}
	c.Flags().String("account", "", "account id")
	c.Flags().String("person", signin.Owner, "id of the person, if several sign in to the account; not a name or an "+
		"address, because events keep it forever")
	show(e, c, "POST", "/admin/accounts/{account}/login-link", func(_ *client, link operations.LoginLink) error {
		return printLink(e, link, signin.LinkLifetime)
	})
	return c
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
	c := &cobra.Command{Use: "sign-out ID", Short: "Sign the people of an account out of its dashboard",
		Args: exactArgs("ID")}
	person := c.Flags().String("person", "", "id of the person (default: all people of the account)")
	act(e, c, "POST", "/admin/accounts/{ID}/sign-out", func(_ *client, done decided) error {
		note := ""
		if done.Repeated {
			note = ": there was no open session and no link that could be used"
		}
		_, err := fmt.Fprintf(e.stdout, "account %s: %s signed out%s\n", done.Account,
			cmp.Or(*person, "all people"), note)
		return err
	})
	return c
}

func accountSignInEmail(e *environment) *cobra.Command {
	c := &cobra.Command{
		Use: "sign-in-email ID", Short: "Show or set the e-mail addresses for sign-in links of an account",
		Args: exactArgs("ID"),
	}
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
				return usageError{errors.New("--person needs --email, the address to set for the person")}
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
