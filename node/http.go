package node

import (
	"context"
	"fmt"
	"net/http"
	"net/http/pprof"

	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/internal/ratelimit"
	"letterhead/internal/runs"
	"letterhead/operations"
	"letterhead/projections/brands"
	"letterhead/projections/ledger"
	"letterhead/readapi"
	"letterhead/readapi/logo"
	"letterhead/readapi/lookup"
	"letterhead/workers/signinmail"
)

// operators returns the operators' endpoints by path.
func (h *health) operators(metrics bool) map[string]http.Handler {
	endpoints := map[string]http.Handler{"/healthz": http.HandlerFunc(h.healthz), "/readyz": http.HandlerFunc(h.readyz)}
	if metrics {
		endpoints["/metrics"] = h.metrics.Handler()
	}
	return endpoints
}

func operatorsMux(endpoints map[string]http.Handler) *http.ServeMux {
	mux := http.NewServeMux()
	for path, h := range endpoints {
		mux.Handle("GET "+path, h)
	}
	return mux
}

// operatorsHandler returns what the node serves at LETTERHEAD_METRICS_LISTEN.
func (n *Node) operatorsHandler() http.Handler {
	endpoints := n.health.operators(true)
	if n.Config.Pprof {
		// The command line, which net/http/pprof also shows, may hold settings with passwords.
		endpoints["/debug/pprof/"] = http.HandlerFunc(pprof.Index)
		endpoints["/debug/pprof/profile"] = http.HandlerFunc(pprof.Profile)
		endpoints["/debug/pprof/trace"] = http.HandlerFunc(pprof.Trace)
		endpoints["/debug/pprof/symbol"] = http.HandlerFunc(pprof.Symbol)
	}
	return operatorsMux(endpoints)
}

// handler returns what the node serves at LETTERHEAD_LISTEN: the operators' endpoints, and the API with role api.
func (n *Node) handler(ctx context.Context) (http.Handler, error) {
	operators := n.health.operators(n.Config.MetricsListen == config.MetricsWithAPI)
	if !n.Config.Has(config.RoleAPI) {
		return operatorsMux(operators), nil
	}
	cfg, deps, err := n.API(ctx)
	if err != nil {
		return nil, err
	}
	cfg.Extra = operators
	cfg.Dashboard = n.Dashboard(n.People())
	api, err := readapi.New(cfg, deps)
	if err != nil {
		return nil, err
	}
	n.stopAPI = api.Stop
	return api.Handler(), nil
}

// API starts the parts that only the API uses, and returns what readapi.New needs. The parts run until the node closes.
func (n *Node) API(ctx context.Context) (readapi.Config, readapi.Deps, error) {
	logos, err := n.drawing.openLogos()
	if err != nil {
		return readapi.Config{}, readapi.Deps{}, err
	}
	counters, parts, err := openCounters(ctx, n)
	if err != nil {
		return readapi.Config{}, readapi.Deps{}, err
	}
	catalog, err := n.Operations.Billing.Catalog()
	if err != nil {
		return readapi.Config{}, readapi.Deps{}, err
	}
	if n.Config.SMTP.IsSet() {
		links := operations.Links{SignIns: n.Operations.SignIns, By: people{n}.by}
		mailer := signinmail.New(signinmail.Config{Server: n.Config.SMTP, From: n.Config.MailFrom,
			Service: n.Config.BaseURL, Links: links, Now: n.Stores.clock.Now, Logger: n.logger})
		n.mail = &operations.MailedLinks{SignIns: n.Operations.SignIns, Mailer: mailer, Counters: counters,
			Logger: n.logger}
		parts = append(parts, part{"sign-in mail", mailer.Run})
	}
	deps := readapi.Deps{
		Reports: n.Writers.Billing, Stripe: n.Operations.Billing.Stripe, Catalog: catalog,
		Parts: lookup.Parts{
			Credits: recordedCredits{n.Writers.Accounts, n.run.unrecorded},
			Brands:  n.Writers.Brands, Index: n.Models.Brands, Changes: n.brandWatch, Counters: counters,
		},
		Quotas: n.Writers.Quotas, Recorder: n.Writers.Usage, Keys: n.Models.Keys,
		Usage: n.Models.Usage, Ledger: n.Models.Ledger, Crawls: brandCrawls{n.Stores.Log}, Search: n.Search,
		Assets: n.Stores.Assets, Logos: logos,
		Checkpoints:    n.Models.Checkpoints,
		Filled:         n.health.filled,
		Answered:       n.run.charges.Answered,
		LedgerCaughtUp: func(ctx context.Context) error { return n.Operations.Reads.FoldedTo(ctx, ledger.Name) },
	}
	if n.Config.Shared() { // another node folds the tables that this node reads
		deps.CaughtUp = func(ctx context.Context) error { return n.Operations.Reads.FoldedTo(ctx, brands.Name) }
	}
	if n.Config.Shared() && n.Config.Starter {
		parts = append(parts, part{"starter index", func(ctx context.Context) error {
			n.awaitStarter(ctx, sharedMarker{n.Stores.Positions, n.Stores.Log})
			<-ctx.Done()
			return nil
		}})
	} else {
		n.health.starterSeen.Store(true) // begin loads it, if it is on
	}
	n.life.start(append(parts, part{"changes", n.brandWatch.Run}, part{"usage recorder", n.Writers.Usage.Run}))
	return n.apiConfig(), deps, nil
}

type brandCrawls struct{ log eventlog.Log }

func (b brandCrawls) Crawls(ctx context.Context, waits []brands.Wait) ([]brands.Crawl, error) {
	return brands.Crawls(ctx, b.log, waits)
}

// openCounters opens the counters of the minute windows. Nodes that share a database share the windows.
func openCounters(ctx context.Context, n *Node) (ratelimit.Counters, []part, error) {
	if !n.Stores.Database.Shared() {
		return ratelimit.NewMemory(ratelimit.Config{Now: n.Stores.clock.Now}), nil, nil
	}
	counters, err := ratelimit.NewShared(ctx, ratelimit.SharedConfig{Logger: n.logger, Registerer: n.metrics},
		n.Stores.Database)
	if err != nil {
		return nil, nil, err
	}
	n.life.closing(func() error { counters.Close(); return nil })
	return counters, []part{{"counters", counters.Run}, {"key leases", n.Models.Keys.Hold}}, nil
}

func logoHosts(c config.Config) (hosts []readapi.LogoHost) {
	for _, h := range c.LogoHosts {
		hosts = append(hosts, readapi.LogoHost{Host: h.Host, Profile: logo.Profile(h.Profile), Key: h.Key})
	}
	return hosts
}

func (n *Node) apiConfig() readapi.Config {
	operator := readapi.Operator{Name: n.Config.Name, Accent: n.Config.Accent, Contact: n.Config.Contact}
	if n.Config.IsLocal() { // visitors reach the operators' pages
		operator.Console = n.adminURL
	}
	return readapi.Config{
		BaseURL: n.Config.BaseURL, BillingURL: n.Config.BillingURL, UserAgent: n.Config.UserAgent, Plans: n.Plans,
		Operator: operator,
		LogoHost: n.Config.LogoHost, LogoHosts: logoHosts(n.Config), LogosPerAddress: int64(n.Config.LogosPerAddress),
		UnlimitedLogos: n.Config.UnlimitedLogos, KeylessCrawls: int64(n.Config.KeylessCrawls), LogoTimeout: n.Config.LogoTimeout, TrustedProxies: n.Config.TrustedProxies,
		CrawlTimeout: n.Config.CrawlTimeout,
		BatchTimeout: n.Config.BatchTimeout, CrawlsPerMinute: n.Config.CrawlsPerMinute,
		Logger: n.logger, Registerer: n.metrics, Now: n.Stores.clock.Now,
		NewID: func() string { return runs.RequestID(n.run.id) },
	}
}

// healthz reports that the process answers.
func (h *health) healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, "ok")
}

// readyz reports what the node can do.
func (h *health) readyz(w http.ResponseWriter, r *http.Request) { h.readiness().ServeHTTP(w, r) }

// begun reports whether the node serves everything that was stored at its start. That includes the starter index only
// in a single process; in a cluster, one node loads the starter index while the others serve.
func (h *health) begun() bool { return h.ready.Load() && h.runner.Ready() == nil }

// filled is begun, including the starter index in every case.
func (h *health) filled() bool { return h.starterSeen.Load() && h.begun() }
