package node

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"letterhead/internal/config"
	"letterhead/internal/telemetry"
	"letterhead/internal/testmust"
)

func TestPprof_MetricsAddress_OnlyIfSet(t *testing.T) {
	node := func(settings map[string]string) *Node {
		t.Helper()
		cfg := testmust.Get(config.Load(func(string) (string, bool) { return "", false }, settings))(t)
		metrics := telemetry.NewMetrics(release)
		return &Node{Config: cfg, metrics: metrics, health: &health{metrics: metrics}}
	}
	status := func(h http.Handler, path string) int {
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return answer.Code
	}
	off := node(map[string]string{"LETTERHEAD_METRICS_LISTEN": "127.0.0.1:9091"})
	on := node(map[string]string{"LETTERHEAD_METRICS_LISTEN": "127.0.0.1:9091", "LETTERHEAD_PPROF": "on"})
	for path, want := range map[string]int{
		"/metrics": http.StatusOK, "/debug/pprof/": http.StatusOK, "/debug/pprof/heap": http.StatusOK,
		"/debug/pprof/goroutine?debug=1": http.StatusOK, "/debug/pprof/cmdline": http.StatusNotFound,
	} {
		if got := status(on.operatorsHandler(), path); got != want {
			t.Errorf("on: %s is %d, want %d", path, got, want)
		}
		if got := status(operatorsMux(on.health.operators(true)), path); path != "/metrics" && got != http.StatusNotFound {
			t.Errorf("where clients are: %s is %d", path, got)
		}
		if got := status(off.operatorsHandler(), path); path != "/metrics" && got != http.StatusNotFound {
			t.Errorf("off: %s is %d", path, got)
		}
	}
	for _, listen := range []string{"api", "off", ""} {
		cfg := node(map[string]string{"LETTERHEAD_METRICS_LISTEN": listen, "LETTERHEAD_PPROF": "on"}).Config
		if err := cfg.CheckServe(); err == nil || !strings.Contains(err.Error(), "LETTERHEAD_PPROF: ") {
			t.Errorf("metrics at %q: %v, want an error", listen, err)
		}
	}
	if err := on.Config.CheckServe(); err != nil {
		t.Error(err)
	}
}
