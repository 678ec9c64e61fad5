package node

import (
	"context"
	"net/http"

	"letterhead/commands"
	"letterhead/dashboard"
	"letterhead/internal/apikey"
)

// Dashboard returns the handler of the pages for customers, for readapi.Config.Dashboard.
func (n *Node) Dashboard(sessions dashboard.Sessions) (http.Handler, error) {
	d, err := dashboard.New(dashboard.Config{BaseURL: n.Config.BaseURL, Plans: n.Plans, Logger: n.logger, Now: n.clock.Now}, dashboard.Deps{
		Sessions: sessions, Operations: customers{n}, Writer: n.AccountWriter, Quotas: n.quotaWriter, Accounts: n.Accounts, Names: n.Names,
		Keys: n.Keys, Usage: n.usage, Ledger: n.Ledger,
	})
	if err != nil {
		return nil, err
	}
	return d.Handler(), nil
}

// customers are the use cases of customers.
type customers struct{ *Node }

// IssueKey implements dashboard.Operations.
func (c customers) IssueKey(ctx context.Context, by commands.Request, accountID string, kind apikey.Kind, name string) (dashboard.IssuedKey, error) {
	issued, err := c.Node.IssueKey(ctx, by, accountID, kind, name)
	return dashboard.IssuedKey(issued), err
}
