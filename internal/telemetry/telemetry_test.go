package telemetry

import (
	"bytes"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/testmust"
)

func TestNewLogger_LevelsAndFormats(t *testing.T) {
	var out bytes.Buffer
	l := testmust.Get(NewLogger(&out, "warn", "json"))(t)
	l.Info("quiet")
	l.Warn("loud", "n", 1)
	if got := out.String(); strings.Contains(got, "quiet") || !strings.Contains(got, `"msg":"loud","n":1`) {
		t.Fatalf("logged %q", got)
	}
	if _, err := NewLogger(&out, "chatty", "json"); err == nil {
		t.Error("an unknown level was accepted")
	}
	if _, err := NewLogger(&out, "info", "xml"); err == nil {
		t.Error("an unknown format was accepted")
	}
}

func TestMetrics_ContainBuildInfo(t *testing.T) {
	rec := httptest.NewRecorder()
	NewMetrics("v9").Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{`letterhead_build_info{version="v9"} 1`, "go_goroutines"} {
		if !strings.Contains(rec.Body.String(), want) {
			t.Errorf("metrics lack %s", want)
		}
	}
}

func TestRegister_AllCollectorsOrNone(t *testing.T) {
	counter := func(name string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: "For the test."})
	}
	r := prometheus.NewRegistry()
	others := counter("taken")
	testmust.Succeed(t, Register(r, others))
	first, clash := counter("first"), counter("taken")
	if err := Register(r, first, clash, counter("last")); err == nil {
		t.Error("a name was registered twice")
	}
	held := func() (names []string) {
		families := testmust.Get(r.Gather())(t)
		for _, f := range families {
			names = append(names, f.GetName())
		}
		return names
	}
	if names := held(); !slices.Equal(names, []string{"taken"}) {
		t.Errorf("after the failed call the registry has %v, want [taken]", names)
	}
	Unregister(r, others)
	if err := Register(r, first, clash); err != nil {
		t.Error(err)
	}
	if names := held(); !slices.Equal(names, []string{"first", "taken"}) {
		t.Errorf("the registry has %v, want [first taken]", names)
	}
	Unregister(nil, first)
	if err := Register(nil, first); err != nil {
		t.Error(err)
	}
}
