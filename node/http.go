package node

import (
	"context"
	"fmt"
	"net/http"
	"net/http/pprof"

	"letterhead/internal/config"
	"letterhead/internal/runs"
	"letterhead/projections/brands"
	"letterhead/readapi"
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
func (n *Node) handler() (http.Handler, error) {
	operators := n.operators(n.Config.MetricsListen == config.MetricsWithAPI)
	if !n.Config.Has(config.RoleAPI) {
		return operatorsMux(operators), nil
	}
	deps := readapi.Deps{
		Credits: n.AccountWriter, Quotas: n.quotaWriter, Recorder: n.usageRecorder, Brands: n.Brands, Index: n.BrandReader, Keys: n.Keys,
		Usage: n.usage, Search: n.search, Assets: n.Assets, Logos: n.logos, Changes: n.brandWatch, Counters: n.counters,
		Filled: n.filled,
	}
	if n.Config.Shared() { // another node folds the tables that this node reads
		deps.CaughtUp = func(ctx context.Context) error { return n.FoldedTo(ctx, brands.Name) }
	}
	cfg := n.apiConfig()
	cfg.Extra = operators
	api, err := readapi.New(cfg, deps)
	if err != nil {
		return nil, err
	}
	n.stopAPI = api.Stop
	return api.Handler(), nil
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

// begun reports whether the node serves everything that was stored at its start. That includes the starter index only
// with a log of its own: a node of several serves while another loads the starter index.
func (n *Node) begun() bool { return n.ready.Load() && n.Runner.Ready() == nil }

// filled is begun, including the starter index in every case.
func (n *Node) filled() bool { return n.starterSeen.Load() && n.begun() }

// readyz reports whether the node serves everything that was stored at its start (see begun), and whether the services
// that it cannot do without still answer.
func (n *Node) readyz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if lost := n.lost.Load(); lost != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, *lost)
		return
	}
	if !n.begun() {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, "starting")
		return
	}
	if name := n.probe.missing(); name != "" {
		w.Header().Set("Retry-After", "5")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, "the "+name+" does not answer")
		return
	}
	fmt.Fprintln(w, "ready")
}
