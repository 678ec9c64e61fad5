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

// matching returns at most maxOffered accounts that a text finds; all match if it is empty.
func (x *client) matching(text string) ([]adminapi.Account, error) {
	var found struct{ Accounts []adminapi.Account }
	err := x.call(http.MethodGet, withQuery("/admin/accounts", map[string]any{"q": text, "limit": maxOffered}), nil,
		&found)
	return found.Accounts, err
}

// accountID returns the id of the account that a command which changes nothing is about, by a name or the beginning of
// an id. It returns the text itself if that is an id, or finds nothing.
func (x *client) accountID(text string) (string, error) {
	if uuid.Validate(text) == nil || text == "" || !x.reads {
		return text, nil
	}
	found, err := x.matching(text)
	switch {
	case errors.As(err, new(usageError)) || err == nil && len(found) == 0:
		return text, nil
	case err != nil:
		return "", err
	case len(found) == 1:
		return found[0].Account.ID, nil
	}
	list := ""
	for _, a := range found {
		list += "\n  " + a.Account.ID + "  " + a.Account.Name
	}
	return "", usageError{fmt.Errorf("several accounts match %q; give the id of one:%s", text, list)}
}

// accountIn is client.accountID for a command that reads the data folder.
func accountIn(ctx context.Context, n *node.Node, cmd *cobra.Command, text string) (string, error) {
	api, err := n.CommandAPI(ctx)
	if err != nil {
		return "", err
	}
	return (&client{ctx: ctx, transport: inProcess{api}, reads: true, cmd: cmd}).accountID(text)
}

// completeAccounts makes the shell complete the account that a command takes as its argument or with --account.
func (e *environment) completeAccounts(c *cobra.Command, path string) {
	complete := func(cmd *cobra.Command, args []string, typed string) (offered []string, _ cobra.ShellCompDirective) {
		list := e.onAPI(node.ToRead, func(x *client) error {
			found, err := x.matching(typed)
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
