package main

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
func (s *service) operators(metrics bool) map[string]http.Handler {
	endpoints := map[string]http.Handler{"/healthz": http.HandlerFunc(s.healthz), "/readyz": http.HandlerFunc(s.readyz)}
	if metrics {
		endpoints["/metrics"] = s.metrics.Handler()
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
func (s *service) operatorsHandler() http.Handler {
	endpoints := s.operators(true)
	if s.config.Pprof {
		// The command line, which net/http/pprof also shows, may hold settings with passwords.
		endpoints["/debug/pprof/"] = http.HandlerFunc(pprof.Index)
		endpoints["/debug/pprof/profile"] = http.HandlerFunc(pprof.Profile)
		endpoints["/debug/pprof/trace"] = http.HandlerFunc(pprof.Trace)
		endpoints["/debug/pprof/symbol"] = http.HandlerFunc(pprof.Symbol)
	}
	return operatorsMux(endpoints)
}

// handler returns what the node serves at LETTERHEAD_LISTEN: the operators' endpoints, and the API with role api.
func (s *service) handler() (http.Handler, error) {
	operators := s.operators(s.config.MetricsListen == config.MetricsWithAPI)
	if !s.config.Has(config.RoleAPI) {
		return operatorsMux(operators), nil
	}
	deps := readapi.Deps{
		Credits: s.desk, Quotas: s.usageDesk, Recorder: s.recorder, Brands: s.brands, Index: s.brandReader, Keys: s.keys,
		Usage: s.usage, Search: s.search, Assets: s.assets, Logos: s.logos, Changes: s.changes, Counters: s.counters,
		Filled: s.filled,
	}
	if s.config.Shared() { // another node folds what this one answers from
		deps.CaughtUp = func(ctx context.Context) error { return s.foldedTo(ctx, brands.Name) }
	}
	cfg := s.apiConfig()
	cfg.Extra = operators
	api, err := readapi.New(cfg, deps)
	if err != nil {
		return nil, err
	}
	s.stopAPI = api.Stop
	return api.Handler(), nil
}

func (s *service) apiConfig() readapi.Config {
	return readapi.Config{
		BaseURL: s.config.BaseURL, BillingURL: s.config.BillingURL, UserAgent: s.config.UserAgent, Plans: s.plans,
		LogoHost: s.config.LogoHost, LogoTimeout: s.config.LogoTimeout, TrustedProxies: s.config.TrustedProxies,
		CrawlTimeout: s.config.CrawlTimeout, BatchTimeout: s.config.BatchTimeout, CrawlsPerMinute: s.config.CrawlsPerMinute,
		Logger: s.logger, Registerer: s.metrics, Now: s.clock.Now,
		NewID: func() string { return runs.RequestID(s.runID) },
	}
}

// healthz says that the process answers.
func (s *service) healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, "ok")
}

// begun says whether what was there at the start is served; the starter index with it, but on a node of several,
// which serves while another loads that.
func (s *service) begun() bool { return s.ready.Load() && s.runner.Ready() == nil }

// filled is begun with the starter index wherever it is loaded.
func (s *service) filled() bool { return s.starterSeen.Load() && s.begun() }

// readyz says whether everything that was there at the start is served (read models caught up, the starter
// index searchable), and whether what the node cannot do without still answers.
func (s *service) readyz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if lost := s.lost.Load(); lost != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, *lost)
		return
	}
	if !s.begun() {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, "starting")
		return
	}
	if name := s.pulse.missing(); name != "" {
		w.Header().Set("Retry-After", "5")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, "the "+name+" does not answer")
		return
	}
	fmt.Fprintln(w, "ready")
}
