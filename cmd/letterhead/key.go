package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/internal/apikey"
	"letterhead/node"
	"letterhead/projections/keys"
)

func keyCommand(e *environment) *cobra.Command {
	return group("key", "Issue, list and revoke API keys", keyIssue(e), keyList(e), keyRevoke(e))
}

func keyIssue(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "issue", Short: "Issue a key; it is shown once", Args: exactArgs()}
	accountID := c.Flags().String("account", "", "account id")
	kind := c.Flags().String("kind", "secret", "secret or publishable")
	name := c.Flags().String("name", "", "a name for the key, to recognize it")
	expires := c.Flags().String("expires", "", expiryUsage)
	scopes := c.Flags().StringSlice("scope", nil, "of a publishable key: "+strings.Join(account.KeyScopes, " or ")+"; may be repeated (default: both)")
	origins := c.Flags().StringSlice("origin", nil, "of a publishable key: a site whose pages may use it, such as https://acme.com or https://*.acme.com; may be repeated (default: all)")
	asJSON := jsonFlag(c)
	c.RunE = e.onFolder(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		if *accountID == "" {
			return usageError{fmt.Errorf("--account is needed; %q lists the accounts", "letterhead account list")}
		}
		k := apikey.Kind(*kind)
		if k != apikey.Secret && k != apikey.Publishable {
			return usageError{fmt.Errorf("--kind is secret or publishable, not %q", *kind)}
		}
		if *name != "" {
			if err := checkName("--name", *name); err != nil {
				return usageError{err}
			}
		}
		at, err := expiry(*expires, n.Now())
		if err != nil {
			return err
		}
		terms := account.KeyTerms{ExpiresAt: at, Scopes: *scopes, Origins: *origins}
		issued, err := n.IssueKey(ctx, n.Operator(), *accountID, node.NewKey{Kind: k, Name: *name, Terms: terms})
		if errors.Is(err, account.ErrInvalid) {
			return usageError{err}
		}
		if err != nil && !errors.Is(err, node.ErrNotSeen) {
			return explainAccount(*accountID, err)
		}
		// With ErrNotSeen the key is issued as well. It must be printed, because its text is stored nowhere.
		var printed error
		if *asJSON {
			printed = printJSON(e.stdout, issued)
		} else {
			_, printed = fmt.Fprintf(e.stdout, "%s key %s\n%s%s\nIt is shown only now; only its hash is stored.\n", issued.Kind, issued.ID, termLines(issued.KeyTerms), issued.Key)
		}
		return errors.Join(err, printed)
	})
	return c
}

// termLines returns a line for each term that a key has.
func termLines(t account.KeyTerms) string {
	var lines string
	if !t.ExpiresAt.IsZero() {
		lines += "expires  " + t.ExpiresAt.Format(time.RFC3339) + "\n"
	}
	if len(t.Scopes) > 0 {
		lines += "scopes   " + strings.Join(t.Scopes, ", ") + "\n"
	}
	if len(t.Origins) > 0 {
		lines += "origins  " + strings.Join(t.Origins, ", ") + "\n"
	}
	return lines
}

func keyList(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List the keys of an account", Args: exactArgs()}
	accountID := c.Flags().String("account", "", "account id")
	kind := c.Flags().String("kind", "", "only keys of this kind: secret or publishable")
	state := c.Flags().String("state", "", "only keys in this state: active, expired or revoked")
	order := addSortFlag(c, []string{"issued", "used", "kind", "state"})
	asOf := asOfFlag(c)
	asJSON := jsonFlag(c)
	c.RunE = e.looksAt(func(ctx context.Context, n *node.Node, _ *cobra.Command, _ []string) error {
		if *accountID == "" {
			return usageError{fmt.Errorf("--account is needed; %q lists the accounts", "letterhead account list")}
		}
		if err := n.AccountExists(ctx, *accountID); err != nil {
			return explainAccount(*accountID, err)
		}
		if !slices.Contains([]string{"", "secret", "publishable"}, *kind) {
			return usageError{fmt.Errorf("--kind is secret or publishable, not %q", *kind)}
		}
		if *state != "" && !slices.Contains(keys.States, *state) {
			return usageError{fmt.Errorf("--state is active, expired or revoked, not %q", *state)}
		}
		by, descending, err := order()
		if err != nil {
			return err
		}
		at, err := asOf(n.Now())
		if err != nil {
			return err
		}
		if !at.IsZero() {
			if err := n.CatchUp(ctx, keys.Name); err != nil {
				return err
			}
		}
		rows, err := n.Keys.List(ctx, *accountID)
		if err != nil {
			return err
		}
		stateAt := n.Now()
		if !at.IsZero() {
			stateAt = at.Time
			rows = pastKeys(rows, at.Time)
		}
		rows = slices.DeleteFunc(rows, func(k keys.Listed) bool {
			return *kind != "" && k.Kind != *kind || *state != "" && k.State(stateAt) != *state
		})
		sortKeys(rows, by, descending, at.Time, stateAt)
		ids := make([]string, len(rows))
		for i, r := range rows {
			ids[i] = r.ID
		}
		names, err := n.Names.Names(ctx, ids...)
		if err != nil {
			return err
		}
		if !*asJSON {
			at.printMark(e.stdout)
		}
		shown := newList(e.stdout, *asJSON, "ID\tKIND\tLAST FOUR\tNAME\tSTATE\tLAST USED\tEXPIRES\tSCOPES\tORIGINS")
		for _, r := range rows {
			state, used := r.State(stateAt), lastUsed(r, at.Time)
			expires, scopes, origins := termColumns(r)
			object := at.Mark(keyObject(r, names[r.ID], state, used))
			if err := shown.add(object, r.ID, r.Kind, "…"+r.Last4, names[r.ID], state, used, expires, scopes, origins); err != nil {
				return err
			}
		}
		return shown.end()
	})
	return c
}

// pastKeys returns the keys that were issued at or before a time, as they were then.
func pastKeys(rows []keys.Listed, at time.Time) []keys.Listed {
	rows = slices.DeleteFunc(rows, func(k keys.Listed) bool { return k.IssuedAt.After(at) })
	for i := range rows {
		if rows[i].RevokedAt.After(at) {
			rows[i].RevokedAt = time.Time{}
		}
	}
	return rows
}

// lastUsed returns when a key was last used, as of a time unless that is zero. Earlier uses than the last are not known.
func lastUsed(k keys.Listed, at time.Time) string {
	switch {
	case k.LastUsedAt.IsZero():
		return "never"
	case usedLater(k, at):
		return "unknown"
	}
	return k.LastUsedAt.UTC().Format(time.RFC3339)
}

func usedLater(k keys.Listed, at time.Time) bool { return !at.IsZero() && k.LastUsedAt.After(at) }

// keyObject returns a key as list --json prints it.
func keyObject(k keys.Listed, name, state, used string) map[string]any {
	object := map[string]any{"id": k.ID, "kind": k.Kind, "last4": k.Last4, "name": name, "state": state, "last_used": used}
	if !k.ExpiresAt.IsZero() {
		object["expires_at"] = k.ExpiresAt
	}
	if len(k.Scopes) > 0 {
		object["scopes"] = k.Scopes
	}
	if len(k.Origins) > 0 {
		object["origins"] = k.Origins
	}
	return object
}

// termColumns returns the terms of a key as list prints them.
func termColumns(k keys.Listed) (expires, scopes, origins string) {
	expires, scopes, origins = "never", "all", "all"
	if k.Kind != string(apikey.Publishable) {
		scopes, origins = "-", "-"
	}
	if !k.ExpiresAt.IsZero() {
		expires = k.ExpiresAt.Format(time.RFC3339)
	}
	if len(k.Scopes) > 0 {
		scopes = strings.Join(k.Scopes, ",")
	}
	if len(k.Origins) > 0 {
		origins = strings.Join(k.Origins, ",")
	}
	return expires, scopes, origins
}

// sortKeys sorts keys, which are in the order of their issue. Keys whose last use is unknown as of a time, unless that is
// zero, are last when they are sorted by it. Sorting by state uses the states at stateAt.
func sortKeys(rows []keys.Listed, by string, descending bool, at, stateAt time.Time) {
	sortLines(rows, func(a, b keys.Listed) int {
		switch by {
		case "used":
			return a.LastUsedAt.Compare(b.LastUsedAt)
		case "kind":
			return strings.Compare(a.Kind, b.Kind)
		case "state":
			return strings.Compare(a.State(stateAt), b.State(stateAt))
		}
		return 0
	}, descending)
	if by == "used" {
		slices.SortStableFunc(rows, func(a, b keys.Listed) int {
			switch later := usedLater(a, at); {
			case later == usedLater(b, at):
				return 0
			case later:
				return 1
			}
			return -1
		})
	}
}

func keyRevoke(e *environment) *cobra.Command {
	return &cobra.Command{Use: "revoke KEY_ID", Short: "Revoke a key; the next request with it is rejected", Args: exactArgs("KEY_ID"),
		RunE: e.onFolder(func(ctx context.Context, n *node.Node, _ *cobra.Command, args []string) error {
			key, found, err := n.Keys.Get(ctx, args[0])
			if err != nil {
				return err
			}
			if !found {
				return fmt.Errorf("there is no key %s; %q lists an account's keys", args[0], "letterhead key list --account ID")
			}
			done, err := n.AccountWriter.RevokeKey(ctx, commands.RevokeKey{Request: n.Operator(), AccountID: key.AccountID, KeyID: args[0]})
			return enforced(ctx, n, key.AccountID, done, err, e, "key "+args[0]+" revoked")
		})}
}
