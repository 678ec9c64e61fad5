package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"

	"letterhead/adminapi"
	"letterhead/internal/assets"
	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/internal/repeats"
	"letterhead/internal/runs"
	"letterhead/internal/safehttp"
	"letterhead/internal/stripeapi"
	"letterhead/operations"
	"letterhead/readapi"
	"letterhead/workers/checkpoint"
)

// serveAdmin serves the admin API at its address, if it has one. The server may be closed in any case. If the default
// address is taken, the system chooses a port. If that fails, too, the node starts without an admin API, and cfg is
// changed to serve metrics with the API, which is on a loopback address then.
func (f *front) serveAdmin(cfg *config.Config, failed chan<- error, logger *slog.Logger) (*http.Server, error) {
	server := readapi.NewServer(&f.admin)
	if cfg.AdminListen == "" {
		return server, nil
	}
	listener, err := net.Listen("tcp", cfg.AdminListen)
	if err != nil && cfg.AdminDefault {
		logger.Info("the default address of the admin API is taken, so it gets another port",
			"address", cfg.AdminListen)
		host, _, _ := net.SplitHostPort(cfg.AdminListen) // a constant
		if listener, err = net.Listen("tcp", net.JoinHostPort(host, "0")); err != nil {
			cfg.AdminListen = ""
			if cfg.MetricsListen == config.MetricsWithAdmin {
				cfg.MetricsListen = config.MetricsWithAPI
			}
			logger.Warn("the admin API is not served", "error", err, "metrics", cfg.MetricsListen)
			return server, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf(
			"listen on %s: %w; choose another address with LETTERHEAD_ADMIN_LISTEN, or set it to off",
			cfg.AdminListen, err)
	}
	f.adminURL = "http://" + reachable(listener.Addr().String())
	go func() {
		err := server.Serve(readapi.NewListener(listener, readapi.NewUnroutedAdmin(cfg.BaseURL, logger)))
		if !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve the admin API on %s: %w", listener.Addr(), err)
		}
	}()
	return server, nil
}

// reachable replaces an unspecified or missing host by localhost.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort("localhost", port)
	}
	return address
}

// operatorsAPI returns the admin API, with the pages for operators if it is served at an address.
func (n *Node) operatorsAPI(ctx context.Context) (*adminapi.API, error) {
	cfg, deps, err := n.AdminAPI(ctx)
	if err != nil {
		return nil, err
	}
	if cfg.URL != "" {
		cfg.Pages = n.Console
	}
	return adminapi.New(cfg, deps)
}

// CommandAPI returns the admin API for the command line.
func (n *Node) CommandAPI(ctx context.Context) (http.Handler, error) {
	if n.commandAPI == nil {
		api, err := n.operatorsAPI(ctx)
		if err != nil {
			return nil, err
		}
		n.commandAPI = api.Local()
	}
	return n.commandAPI, nil
}

// AdminAPI returns what adminapi.New needs.
func (n *Node) AdminAPI(ctx context.Context) (adminapi.Config, adminapi.Deps, error) {
	cfg := adminapi.Config{
		BaseURL: n.Config.BaseURL, URL: n.adminURL, Hosts: n.Config.AdminHosts, CrawlTimeout: n.Config.CrawlTimeout,
		Logger: n.logger, Registerer: n.metrics, Now: n.Stores.clock.Now,
		NewID: func() string { return runs.RequestID(n.run.id) }, Visitor: visitor(n.Config),
	}
	requests, err := repeats.New(ctx, n.Stores.Database)
	if err != nil {
		return cfg, adminapi.Deps{}, err
	}
	deps := adminapi.Deps{
		Operations: n.Operations, Ready: n.health.whyNotReady, Plans: n.Plans, Writer: n.Writers.Accounts,
		Reports: n.Writers.Billing, Brands: n.Writers.Brands, Names: n.Stores.Names, Accounts: n.Models.Accounts,
		Keys: n.Models.Keys, Ledger: n.Models.Ledger, Payments: n.Models.Payments, Inbox: n.Models.Inbox,
		Index: n.Models.Brands, Checkpoints: n.Models.Checkpoints, Operators: n.Models.Operators,
		Actions: n.Models.Actions, Failures: n.Models.Failures, Search: n.Search.Search, Repeats: requests, Log: n.Stores.Log,
		CountsEvents: !n.Config.Shared(),
	}
	if n.Config.MetricsListen == config.MetricsWithAdmin {
		deps.Metrics = n.metrics.Handler()
	}
	return cfg, deps, nil
}

// whyNotReady returns why the node does not serve everything; "" if it does.
func (h *health) whyNotReady() string {
	s := h.readiness()
	if s.Status == statusReady {
		return ""
	}
	return cmp.Or(s.Reason, s.Status)
}

// openOperations connects the use cases. A node that only reads has no commands, so they are nil there.
func (n *Node) openOperations(ctx context.Context) error {
	reads := &operations.Reads{
		Log: n.Stores.Log, Runner: n.Runner, Keys: n.Models.Keys, Alive: n.life.alive, Apart: n.Config.Shared(),
		Indexed: func(ctx context.Context, at eventlog.Position) error { return n.Search.now().WaitFor(ctx, at) },
	}
	signIns := &operations.SignIns{Reads: reads, Commands: n.Writers.SignIns, BaseURL: n.Config.BaseURL}
	outside := n.Config.AssetsURL()
	if !n.Config.Shared() { // beside the key that signs checkpoints
		outside = (&url.URL{Scheme: "file", Path: filepath.ToSlash(n.Config.Data)}).String()
	}
	kept, err := assets.Open(ctx, outside)
	if err != nil {
		return err
	}
	n.life.closing(kept.Close)
	client, err := safehttp.New(safehttp.Config{UserAgent: "Letterhead-Witness/1.0 (+" + n.Config.BaseURL + ")",
		Denied: n.Config.CrawlDeny})
	if err != nil {
		return err
	}
	n.life.closing(func() error { client.Close(); return nil })
	checkpoints := &operations.Checkpoints{
		Witness: func(name string) *checkpoint.Witness {
			return &checkpoint.Witness{Name: name, Client: client, Sent: n.Stores.Positions, Logger: n.logger}
		},
		Reads: reads, Log: n.Stores.Log, Accounts: n.Models.Accounts, Kept: kept,
		Keys: &operations.LedgerKeys{Config: n.Config}, Format: n.Runner.Format, Now: n.Now, Logger: n.logger,
	}
	for _, name := range n.Config.Witnesses {
		checkpoints.Witnesses = append(checkpoints.Witnesses, checkpoints.Witness(name))
	}
	audits := &operations.Audits{Ledger: checkpoints.Proofs(nil), Reads: reads, Log: n.Stores.Log, Model: n.Models.Accounts,
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
			Accounts: n.Models.Accounts, Audits: audits, Format: n.Runner.Format, Now: n.Now,
			Sums: &operations.Sums{Log: n.Stores.Log, Background: n.life.background}},
		Checkpoints: checkpoints,
		Models: &operations.Models{Runner: n.Runner, Index: n.Search, Background: n.life.background, Now: n.Now,
			Logger: n.logger},
		Audits:  audits,
		Warming: &operations.Warming{Table: n.Stores.warming, Now: n.Now},
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
