package telemetry

import (
	"bytes"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestLevelsAndFormatsAreKeptOrRefused(t *testing.T) {
	var out bytes.Buffer
	l, err := NewLogger(&out, "warn", "json")
	if err != nil {
		t.Fatal(err)
	}
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

func TestMetricsNameTheBuild(t *testing.T) {
	rec := httptest.NewRecorder()
	NewMetrics("v9").Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{`letterhead_build_info{version="v9"} 1`, "go_goroutines"} {
		if !strings.Contains(rec.Body.String(), want) {
			t.Errorf("metrics lack %s", want)
		}
	}
}
