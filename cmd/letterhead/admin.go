package main

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/spf13/cobra"

	"letterhead/domain/operator"
	"letterhead/operations"
)

func adminCommand(e *environment) *cobra.Command {
	return group("admin", "Manage access to the admin API and the operators' console", adminLoginLink(e),
		group("token", "Issue, list and revoke tokens of operators", tokenIssue(e), tokenList(e), tokenRevoke(e)))
}

func scopeFlag(c *cobra.Command) {
	c.Flags().String("scope", "", "read, support, finance or admin")
}

func adminLoginLink(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "login-link", Short: "Print a link to sign in to the operators' console",
		Args: exactArgs(), Annotations: map[string]string{ifUnanswered: anotherLink}}
	c.Flags().String("operator", "", "name of the operator who signs in; it is shown with the operator's actions")
	scopeFlag(c)
	show(e, c, "POST", "/admin/login-links", func(_ *client, link operations.LoginLink) error {
		return printLink(e, link, operator.LinkLifetime)
	})
	return c
}

func tokenIssue(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "issue", Short: "Issue a token; it is shown once", Args: exactArgs()}
	c.Flags().String("name", "", "a name for the token, to recognize it")
	scopeFlag(c)
	expiresFlag(c)
	show(e, c, "POST", "/admin/tokens", func(x *client, issued operations.Token) error {
		if issued.Token == "" {
			_, err := io.WriteString(e.stdout, lost("token", issued.ID, "admin token"))
			return err
		}
		where := ""
		if url := x.header.Get("X-Admin-Url"); url != "" {
			where = fmt.Sprintf("Try it: curl -H 'Authorization: Bearer TOKEN' %s/admin/accounts\n", url)
		}
		_, err := fmt.Fprintf(e.stdout, "token %s, scope %s\n%s\nIt is shown only now; only its hash is stored.\n%s",
			issued.ID, issued.Scope, issued.Token, where)
		return err
	})
	return c
}

func tokenList(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List tokens, the newest first", Args: exactArgs()}
	c.Flags().String("state", "",
		"only tokens that are active, expired, revoked, or ended, which is expired or revoked")
	c.Flags().String("scope", "", "only tokens with this scope: read, support, finance or admin")
	listing[operations.Token]{
		path: "/admin/tokens", field: "tokens", page: wholePage,
		titles: "ID\tNAME\tSCOPE\tLAST FOUR\tSTATE\tISSUED\tEXPIRES",
		cells: func(t *operations.Token) []any {
			expires := "never"
			if !t.ExpiresAt.IsZero() {
				expires = t.ExpiresAt.Format(time.RFC3339)
			}
			return []any{t.ID, t.Name, t.Scope, "…" + t.Last4, t.State, t.IssuedAt.Format(time.RFC3339), expires}
		},
		orders: []order[operations.Token]{
			by("name", func(t *operations.Token) string { return t.Name }),
			by("scope", func(t *operations.Token) string { return string(t.Scope) }),
			by("state", func(t *operations.Token) string { return string(t.State) }),
			by("issued", func(t *operations.Token) int64 { return t.IssuedAt.UnixMicro() }),
			by("expires", func(t *operations.Token) int64 {
				if t.ExpiresAt.IsZero() {
					return math.MaxInt64
				}
				return t.ExpiresAt.UnixMicro()
			}),
		},
	}.command(e, c)
	return c
}

func tokenRevoke(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "revoke ID", Short: "Revoke a token; the next request with it is rejected",
		Args: exactArgs("ID")}
	c.Flags().Bool("erase-name", false, "also erase the name of the token")
	act(e, c, "DELETE", "/admin/tokens/{ID}", func(_ *client, done struct {
		ID       string
		Repeated bool
	}) error {
		note := ""
		if done.Repeated {
			note = " (it was before)"
		}
		_, err := fmt.Fprintf(e.stdout, "token %s revoked%s\n", done.ID, note)
		return err
	})
	return c
}
