package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"letterhead/adminapi"
	"letterhead/domain/operator"
	"letterhead/node"
	"letterhead/projections/operators"
)

func adminCommand(e *environment) *cobra.Command {
	return group("admin", "Manage access to the admin API and the dashboard of operators", adminLoginLink(e), group("token", "Issue, list and revoke tokens of operators", tokenIssue(e), tokenList(e), tokenRevoke(e)))
}

func tokenIssue(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "issue", Short: "Issue a token; it is shown once", Args: exactArgs(),
		Long: "Issue a token for the admin API (docs/admin.md). " + scopesHelp}
	name := c.Flags().String("name", "", "a name for the token, to recognize it")
	scope := scopeFlag(c)
	expires := c.Flags().String("expires", "", expiryUsage)
	asJSON := jsonFlag(c)
	c.RunE = e.onFolder(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		if err := checkScope(*scope); err != nil {
			return err
		}
		if err := checkName("--name", *name); err != nil {
			return usageError{err}
		}
		at, err := expiry(*expires, n.Now())
		if err != nil {
			return err
		}
		issued, err := n.IssueToken(ctx, n.Operator(), *name, operator.Scope(*scope), at)
		if errors.Is(err, operator.ErrInvalid) {
			return usageError{err}
		}
		if err != nil && !errors.Is(err, node.ErrNotSeen) {
			return err
		}
		// With ErrNotSeen the token is issued as well. It must be printed, because its text is stored nowhere.
		if *asJSON {
			return errors.Join(err, printJSON(e.stdout, issued))
		}
		where := ""
		if url := n.AdminURL(); url != "" {
			where = fmt.Sprintf("Try it: curl -H 'Authorization: Bearer TOKEN' %s/admin/accounts\n", url)
		}
		_, printed := fmt.Fprintf(e.stdout, "token %s, scope %s\n%s\nIt is shown only now; only its hash is stored.\n%s", issued.ID, issued.Scope, issued.Token, where)
		return errors.Join(err, printed)
	})
	return c
}

const scopesHelp = "The scope read allows to read; support also keys, suspensions, crawls and overrides; finance also grants, refunds, payments and plans; admin everything."

func scopeFlag(c *cobra.Command) *string {
	return c.Flags().String("scope", "", "read, support, finance or admin")
}

func checkScope(scope string) error {
	if !slices.Contains(operator.Scopes, operator.Scope(scope)) {
		return usageError{fmt.Errorf("--scope is read, support, finance or admin, not %q", scope)}
	}
	return nil
}

const expiryUsage = "when it expires: after a time such as 90d or 720h, at the end of a day or a month, or at a moment: " + timeForms + " (default: never)"

// expiry returns the end of a duration, of a month or of a day, or a moment; zero for an empty text.
func expiry(text string, now time.Time) (time.Time, error) {
	if n, inDays := strings.CutSuffix(text, "d"); inDays {
		days, err := strconv.ParseUint(n, 10, 16)
		if err != nil {
			return time.Time{}, usageError{fmt.Errorf("--expires takes a number of days such as 90d, not %q", text)}
		}
		return now.AddDate(0, 0, int(days)), nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(d), nil
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, nil // endOf returns the first moment after it
	}
	return endOf("--expires", text)
}

func tokenList(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List tokens, the newest first", Args: exactArgs()}
	state := c.Flags().String("state", "", "only tokens that are active, expired, revoked, or ended, which is expired or revoked")
	scope := c.Flags().String("scope", "", "only tokens with this scope: read, support, finance or admin")
	order := addOrders(c, by("name", func(t adminapi.Token) string { return t.Name }), by("scope", func(t adminapi.Token) string { return string(t.Scope) }),
		by("state", func(t adminapi.Token) string { return string(t.State) }), by("issued", func(t adminapi.Token) int64 { return t.IssuedAt.UnixMicro() }),
		by("expires", func(t adminapi.Token) int64 {
			if t.ExpiresAt.IsZero() {
				return math.MaxInt64
			}
			return t.ExpiresAt.UnixMicro()
		}))
	asJSON := jsonFlag(c)
	c.RunE = e.looksAt(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		sort, err := order()
		if err != nil {
			return err
		}
		if *scope != "" {
			if err := checkScope(*scope); err != nil {
				return err
			}
		}
		if known := []operators.State{operators.Active, operators.Expired, operators.Revoked, operators.Ended}; *state != "" && !slices.Contains(known, operators.State(*state)) {
			return usageError{fmt.Errorf("--state is active, expired, revoked or ended, not %q", *state)}
		}
		all, err := n.Tokens(ctx, operators.Selection{State: operators.State(*state)}, math.MaxInt)
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(t adminapi.Token) bool { return *scope != "" && string(t.Scope) != *scope })
		sort(all)
		shown := newList(e.stdout, *asJSON, "ID\tNAME\tSCOPE\tLAST FOUR\tSTATE\tISSUED\tEXPIRES")
		for _, t := range all {
			expires := "never"
			if !t.ExpiresAt.IsZero() {
				expires = t.ExpiresAt.Format(time.RFC3339)
			}
			if err := shown.add(t, t.ID, t.Name, t.Scope, "…"+t.Last4, t.State, t.IssuedAt.Format(time.RFC3339), expires); err != nil {
				return err
			}
		}
		return shown.end()
	})
	return c
}

func tokenRevoke(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "revoke ID", Short: "Revoke a token; the next request with it is rejected", Args: exactArgs("ID"),
		Long: "Revoke a token; the next request with it is rejected. Its name stays, so that its actions can be attributed, unless --erase-name is set, which also works later."}
	eraseName := c.Flags().Bool("erase-name", false, "also erase the name of the token")
	c.RunE = e.onFolder(func(ctx context.Context, n *node.Node, _ *cobra.Command, args []string) error {
		repeated, err := n.RevokeToken(ctx, n.Operator(), args[0])
		if errors.Is(err, operator.ErrUnknownToken) {
			return fmt.Errorf("there is no token %s; %q lists the tokens", args[0], "letterhead admin token list")
		}
		if err == nil && *eraseName {
			err = n.Names.Erase(ctx, args[0])
		}
		if err != nil {
			return err
		}
		note := ""
		if repeated {
			note = " (it was before)"
		}
		_, err = fmt.Fprintf(e.stdout, "token %s revoked%s\n", args[0], note)
		return err
	})
	return c
}
