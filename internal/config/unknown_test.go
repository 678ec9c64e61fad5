package config

import (
	"slices"
	"testing"
)

func TestUnknownSettings_NamesTheNearest(t *testing.T) {
	got := UnknownSettings([]string{
		"PATH=/bin", "LETTERHEAD_DATA=./data", "LETTERHEAD_BASEURL=https://x", "LETTERHEAD_CRAWL_WORKER=4", "LETTERHEAD_FROBNICATE=1", "LETTERHEAD_PORT=8080",
		// variables of tests, and those that Kubernetes sets for Services named letterhead and letterhead-api
		"LETTERHEAD_STRIPE_KEY_FILE=/run/secrets/x", "LETTERHEAD_BILLING_FILE_FILE=/x", "LETTERHEAD_FROBNICATE_FILE=/x", "LETTERHEAD_TEST_POSTGRES=x", "LETTERHEAD_MIGRATE_TO=x", "LETTERHEAD_SERVICE_HOST=10.0.0.1", "LETTERHEAD_SERVICE_PORT=80", "LETTERHEAD_SERVICE_PORT_HTTP=80",
		"LETTERHEAD_PORT=tcp://10.0.0.1:80", "LETTERHEAD_API_PORT_80_TCP=tcp://10.0.0.1:80", "LETTERHEAD_API_PORT_80_TCP_PROTO=tcp", "LETTERHEAD_API_PORT_80_TCP_ADDR=10.0.0.1",
	})
	want := []Unknown{
		{"LETTERHEAD_BASEURL", "LETTERHEAD_BASE_URL"}, {"LETTERHEAD_CRAWL_WORKER", "LETTERHEAD_CRAWL_WORKERS"},
		{"LETTERHEAD_FROBNICATE", ""}, {"LETTERHEAD_PORT", ""}, {"LETTERHEAD_FROBNICATE_FILE", ""},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestUnknownSettings_EverySettingIsKnown(t *testing.T) {
	var environ []string
	for _, s := range Settings() {
		environ = append(environ, s.Name+"="+s.Default)
	}
	if got := UnknownSettings(environ); len(got) > 0 {
		t.Errorf("unknown: %v", got)
	}
}
