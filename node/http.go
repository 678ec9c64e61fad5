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
	"letterhead/projections/brands"
	"letterhead/projections/ledger"
	"letterhead/readapi"
	"letterhead/workers/signinmail"
)

// operators returns the operators' endpoints by path.
func (n *Node) operators(metrics bool) map[string]http.Handler {
	endpoints := map[string]http.Handler{"/healthz": http.HandlerFunc(n.healthz), "/readyz": http.HandlerFunc(n.readyz)}
	if metrics {
		endpoints["/metrics"] = n.metrics.Handler()
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
	endpoints := n.operators(true)
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
	operators := n.operators(n.Config.MetricsListen == config.MetricsWithAPI)
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
	logos, err := n.openLogos()
	if err != nil {
		return readapi.Config{}, readapi.Deps{}, err
	}
	counters, parts, err := n.openCounters(ctx)
	if err != nil {
		return readapi.Config{}, readapi.Deps{}, err
	}
	catalog, err := n.Catalog()
	if err != nil {
		return readapi.Config{}, readapi.Deps{}, err
	}
	if n.Config.SMTP.IsSet() {
		n.mailer = signinmail.New(signinmail.Config{Server: n.Config.SMTP, From: n.Config.MailFrom, Service: n.Config.BaseURL, Links: mailedLinks{n}, Now: n.clock.Now, Logger: n.logger})
		parts = append(parts, part{"sign-in mail", n.mailer.Run})
	}
	n.counters = counters
	deps := readapi.Deps{
		Reports: n.Billing, Stripe: n.Stripe, Catalog: catalog,
		Credits: recordedCredits{n.AccountWriter, n.unrecorded}, Quotas: n.quotaWriter, Recorder: n.usageRecorder,
		Brands: n.Brands, Index: n.BrandReader, Keys: n.Keys,
		Usage: n.usage, Ledger: n.Ledger, Crawls: brandCrawls{n.Log}, Search: n.search, Assets: n.Assets, Logos: logos, Changes: n.brandWatch, Counters: counters, Checkpoints: n.Checkpoints,
		Filled:         n.filled,
		Answered:       n.charges.Answered,
		LedgerCaughtUp: func(ctx context.Context) error { return n.FoldedTo(ctx, ledger.Name) },
	}
	if n.Config.Shared() { // another node folds the tables that this node reads
		deps.CaughtUp = func(ctx context.Context) error { return n.FoldedTo(ctx, brands.Name) }
	}
	if n.Config.Shared() && n.Config.Starter {
		parts = append(parts, part{"starter index", func(ctx context.Context) error {
			n.awaitStarter(ctx, sharedMarker{n.Positions, n.Log})
			<-ctx.Done()
			return nil
		}})
	} else {
		n.starterSeen.Store(true) // begin loads it, if it is on
	}
	n.start(append(parts, part{"changes", n.brandWatch.Run}, part{"usage recorder", n.usageRecorder.Run}))
	return n.apiConfig(), deps, nil
}

// brandCrawls are the crawls of brands.
type brandCrawls struct{ log eventlog.Log }

// Crawls implements readapi.Crawls.
func (b brandCrawls) Crawls(ctx context.Context, waits []brands.Wait) ([]brands.Crawl, error) {
	return brands.Crawls(ctx, b.log, waits)
}

// openCounters opens the counters of the minute windows. Nodes that share a database share the windows.
func (n *Node) openCounters(ctx context.Context) (ratelimit.Counters, []part, error) {
	if !n.Store.Shared() {
		counters, err := ratelimit.NewMemory(ratelimit.Config{Now: n.clock.Now})
		return counters, nil, err
	}
	counters, err := ratelimit.NewShared(ctx, ratelimit.SharedConfig{Logger: n.logger, Registerer: n.metrics}, n.Store)
	if err != nil {
		return nil, nil, err
	}
	n.closing(func() error { counters.Close(); return nil })
	return counters, []part{{"counters", counters.Run}, {"key leases", n.Keys.Hold}}, nil
}

func (n *Node) apiConfig() readapi.Config {
	return readapi.Config{
		BaseURL: n.Config.BaseURL, BillingURL: n.Config.BillingURL, UserAgent: n.Config.UserAgent, Plans: n.Plans,
		LogoHost: n.Config.LogoHost, LogoTimeout: n.Config.LogoTimeout, TrustedProxies: n.Config.TrustedProxies,
		CrawlTimeout: n.Config.CrawlTimeout, BatchTimeout: n.Config.BatchTimeout, CrawlsPerMinute: n.Config.CrawlsPerMinute,
		Logger: n.logger, Registerer: n.metrics, Now: n.clock.Now,
		NewID: func() string { return runs.RequestID(n.runID) },
	}
}

// healthz reports that the process answers.
func (n *Node) healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, "ok")
}

// readyz reports what the node can do.
func (n *Node) readyz(w http.ResponseWriter, r *http.Request) { n.readiness().ServeHTTP(w, r) }

// begun reports whether the node serves everything that was stored at its start. That includes the starter index only in
// a single process; in a cluster, one node loads the starter index while the others serve.
func (n *Node) begun() bool { return n.ready.Load() && n.Runner.Ready() == nil }

// filled is begun, including the starter index in every case.
func (n *Node) filled() bool { return n.starterSeen.Load() && n.begun() }
