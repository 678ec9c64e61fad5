package node

import (
	"context"

	"letterhead/internal/eventlog"
	"letterhead/internal/stripeapi"
	"letterhead/operations"
)

// openOperations connects the use cases. A node that only reads has no commands, so they are nil there.
func (n *Node) openOperations(context.Context) error {
	reads := &operations.Reads{
		Log: n.Stores.Log, Runner: n.Runner, Keys: n.Models.Keys, Alive: n.life.alive, Apart: n.Config.Shared(),
		Indexed: func(ctx context.Context, at eventlog.Position) error { return n.Search.now().WaitFor(ctx, at) },
	}
	signIns := &operations.SignIns{Reads: reads, Commands: n.Writers.SignIns, BaseURL: n.Config.BaseURL}
	audits := &operations.Audits{Reads: reads, Log: n.Stores.Log, Model: n.Models.Accounts,
		Snapshots: n.Stores.snapshots, VerifyLog: n.Stores.log.Verify, Reading: n.reading}
	stripe := stripeapi.New(stripeapi.Config{Secrets: n.Config.StripeSecrets, Key: n.Config.StripeKey,
		URL: n.Config.StripeURL})
	n.Operations = &operations.Operations{
		Reads: reads,
		Accounts: &operations.Accounts{
			Reads: reads, Writer: n.Writers.Accounts, Names: n.Stores.Names, Model: n.Models.Accounts,
			Keys: n.Models.Keys, Counts: n.Models.Usage, SignIns: signIns, Notices: n.Writers.Notices, Now: n.Now,
		},
		Tokens: &operations.Tokens{
			Reads: reads, Commands: n.Writers.Operators, Names: n.Stores.Names, Model: n.Models.Operators,
			Dashboard: n.operatorDashboard, RunID: n.run.id, Now: n.Now, Logger: n.logger,
		},
		SignIns: signIns,
		Notices: &operations.Notices{Reads: reads, Commands: n.Writers.Notices, Model: n.Models.Notices,
			Config: n.Config, Logger: n.logger},
		Billing: &operations.Billing{
			Reads: reads, Commands: n.Writers.Billing, Writer: n.Writers.Accounts, Stripe: stripe,
			Payments: n.Models.Payments, Inbox: n.Models.Inbox, BaseURL: n.Config.BaseURL, File: n.Config.BillingFile,
			Sells: n.Config.StripeKey != "",
		},
		Charges: &operations.Charges{Reads: reads, Writer: n.Writers.Accounts, Ledger: n.Models.Ledger,
			Runs: n.Stores.runs, RunID: n.run.id, Now: n.Now},
		Books: &operations.Books{Reads: reads, Log: n.Stores.Log, Writer: n.Writers.Accounts, Ledger: n.Models.Ledger,
			Accounts: n.Models.Accounts, Audits: audits, Format: n.Runner.Format, Now: n.Now},
		Checkpoints: &operations.Checkpoints{
			Reads: reads, Log: n.Stores.Log, Accounts: n.Models.Accounts,
			Keys: &operations.LedgerKeys{Config: n.Config}, Format: n.Runner.Format, Background: n.life.background,
			Now: n.Now, Logger: n.logger,
		},
		Models: &operations.Models{Runner: n.Runner, Index: n.Search, Background: n.life.background, Now: n.Now,
			Logger: n.logger},
		Audits: audits,
		Upgrades: &operations.Upgrades{Reads: reads, Log: n.Stores.Log, Runner: n.Runner, Database: n.Stores.Database,
			Next: n.Search.next},
	}
	return nil
}

// operatorDashboard returns where the operators' console is; "" if it is off.
func (n *Node) operatorDashboard() string {
	if n.adminURL == "" && n.Config.AdminListen != "" { // another process serves it
		return "http://" + reachable(n.Config.AdminListen)
	}
	return n.adminURL
}
