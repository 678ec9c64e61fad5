package node

import (
	"context"
	"errors"
	"net/http"
	"time"

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
	return console.New(console.Config{
		BaseURL: n.Config.BaseURL, SignIn: n.signInOperator, API: api, Audit: auditor, Metrics: n.metrics, Space: func() (disk.Space, error) { return disk.At(n.Config.Data) }, Logger: n.logger, Now: n.clock.Now,
		NewID: func() string { return runs.RequestID(n.runID) }, Visitor: n.visitor,
	})
}

// signInOperator is EnterOperator for the pages.
func (n *Node) signInOperator(ctx context.Context, link string) (token string, expires time.Time, err error) {
	token, issued, err := n.EnterOperator(ctx, link)
	if token != "" && errors.Is(err, ErrNotSeen) {
		n.logger.Warn("an operator has signed in, and not every node was seen to follow", "token", issued.ID, "error", err)
		err = nil
	}
	return token, issued.ExpiresAt, err
}
