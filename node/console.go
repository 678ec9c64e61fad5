package node

import (
	"context"
	"errors"
	"net/http"
	"time"

	"letterhead/commands"
	"letterhead/console"
	"letterhead/internal/disk"
	"letterhead/internal/runs"
)

// Console returns the pages for operators, for adminapi.Config.Pages.
func (n *Node) Console(api http.Handler) (http.Handler, error) {
	auditor, err := n.auditor()
	if err != nil {
		return nil, err
	}
	// The pages need not wait until every node follows.
	signIn := func(ctx context.Context, link string) (token string, expires time.Time, err error) {
		token, issued, err := n.Operations.Tokens.Enter(ctx, link)
		if token != "" && errors.Is(err, commands.ErrNotSeen) {
			n.logger.Warn("an operator has signed in, and not every node was seen to follow",
				"token", issued.ID, "error", err)
			err = nil
		}
		return token, issued.ExpiresAt, err
	}
	return console.New(console.Config{
		BaseURL: n.Config.BaseURL, SignIn: signIn, API: api, Audit: auditor, Figures: n.figures,
		Space: func() (disk.Space, error) { return disk.At(n.Config.Data) }, Logger: n.logger, Now: n.Stores.clock.Now,
		NewID: func() string { return runs.RequestID(n.run.id) }, Visitor: visitor(n.Config),
	})
}
