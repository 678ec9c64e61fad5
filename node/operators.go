package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"letterhead/adminapi"
	"letterhead/internal/config"
	"letterhead/internal/repeats"
	"letterhead/internal/runs"
	"letterhead/readapi"
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
		Actions: n.Models.Actions, Failures: n.Models.Failures, Repeats: requests, Log: n.Stores.Log,
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
