package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"letterhead/adminapi"
	"letterhead/node"
)

// maxOffered limits the accounts that a message or a completion has.
const maxOffered = 20

// matching returns at most limit accounts that a text finds, and whether there are more; all match if it is empty.
func (x *client) matching(text string, limit int) ([]adminapi.Account, bool, error) {
	var found struct {
		Accounts []adminapi.Account
		More     bool
		Next     string `json:"next_cursor"`
	}
	err := x.call(http.MethodGet, withQuery("/admin/accounts", map[string]any{"q": text, "limit": limit}), nil, &found)
	return found.Accounts, found.More || found.Next != "", err
}

// accountID returns the id of the account that a command which changes nothing is about, by its whole name, a whole
// address for sign-in links or the beginning of its id. It returns the text itself if that is an id, or finds nothing.
func (x *client) accountID(text string) (string, error) {
	if uuid.Validate(text) == nil || text == "" || !x.reads {
		return text, nil
	}
	found, more, err := x.matching(text, somePages)
	switch {
	case errors.As(err, new(usageError)) || err == nil && len(found) == 0 && !more:
		return text, nil
	case err != nil:
		return "", err
	case len(found) == 0 && more:
		return "", misuse("%q: not all names are indexed; the server indexes them after its start; give the id", text)
	}
	var meant []adminapi.Account
	for _, a := range found {
		if strings.EqualFold(a.Account.Name, text) || strings.HasPrefix(a.Account.ID, strings.ToLower(text)) ||
			strings.Contains(text, "@") {
			meant = append(meant, a)
		}
	}
	problem := "several accounts match %q"
	switch len(meant) {
	case 1:
		return meant[0].Account.ID, nil
	case 0:
		problem = "%q is not the whole name or address of an account, or the beginning of its id"
	default:
		found = meant
	}
	problem = fmt.Sprintf(problem+"; give the id of one:", text)
	for _, a := range found[:min(len(found), maxOffered)] {
		problem += "\n  " + a.Account.ID + "  " + a.Account.Name
	}
	if more || len(found) > maxOffered {
		problem += "\n  and maybe more"
	}
	return "", usageError{Err: errors.New(problem)}
}

// accountIn is client.accountID for a command that reads the data folder. The account must exist.
func accountIn(ctx context.Context, n *node.Node, cmd *cobra.Command, text string) (id string, err error) {
	if id = text; uuid.Validate(text) != nil {
		api, err := n.CommandAPI(ctx)
		if err != nil {
			return "", err
		}
		x := &client{ctx: ctx, transport: inProcess{api}, reads: true, cmd: cmd}
		if id, err = x.accountID(text); err != nil {
			return "", err
		}
	}
	if err := n.Operations.Reads.AccountExists(ctx, id); err != nil {
		return "", explainAccount(id, err)
	}
	return id, nil
}

// completeAccounts makes the shell complete the account that a command takes as its argument or with --account.
func (e *environment) completeAccounts(c *cobra.Command, path string) {
	complete := func(cmd *cobra.Command, args []string, typed string) (offered []string, _ cobra.ShellCompDirective) {
		list := e.onAPI(node.ToRead, func(x *client) error {
			found, _, err := x.matching(typed, maxOffered)
			for _, a := range found {
				if strings.HasPrefix(a.Account.ID, typed) {
					offered = append(offered, a.Account.ID+"\t"+a.Account.Name)
				} else {
					offered = append(offered, a.Account.Name+"\t"+a.Account.ID)
				}
			}
			return err
		})
		_ = list(cmd, args) // after an error, nothing is offered
		return offered, cobra.ShellCompDirectiveNoFileComp
	}
	if strings.HasPrefix(path, "/admin/accounts/{ID}") {
		c.ValidArgsFunction = complete
	}
	if c.Flags().Lookup("account") != nil {
		_ = c.RegisterFlagCompletionFunc("account", complete) // fails only for a flag that does not exist
	}
}
