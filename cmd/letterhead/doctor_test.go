package main

import (
	"strings"
	"testing"

	"letterhead/internal/config"
	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/testcert"
	"letterhead/internal/testmust"
	"letterhead/node"
)

// A check that fails names the cause, not only that it took too long.
func TestDoctor_ServiceUnreachable_NamesCause(t *testing.T) {
	authority := testmust.Get(testcert.NewAuthority())(t)
	certificate := testmust.Get(authority.Issue(nil, "127.0.0.1"))(t)
	encrypted := func(address string) string { return strings.Replace(address, "tls=false", "tls=true", 1) }
	plain, secure := esdbtest.Start(t), esdbtest.StartWith(t, esdbtest.Config{Certificate: &certificate})
	for name, c := range map[string]struct {
		check int
		cfg   config.Config
		want  string
	}{
		"event store down":         {0, config.Config{EventStore: "esdb://127.0.0.1:1?tls=false"}, "connection refused"},
		"unknown authority":        {0, config.Config{EventStore: secure.ConnectionString()}, "x509"},
		"TLS against a plain port": {0, config.Config{EventStore: encrypted(plain.ConnectionString())}, "tls:"},
		"database down":            {1, config.Config{Database: "postgres://a:b@127.0.0.1:1/c"}, "connection refused"},
		"search down":              {2, config.Config{Search: "http://127.0.0.1:1"}, "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check := node.Reachable(c.cfg)[c.check]
			if _, err := check.Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want text with %q", check.Name, err, c.want)
			}
		})
	}
}

func TestDoctor_EventStore_ShowsVersion(t *testing.T) {
	for version, want := range map[string]string{
		"24.10.0": "EventStoreDB 24.10.0 is reached", "22.10.5": "the server is 22.10.5, and Letterhead needs 23.10 or newer",
	} {
		server := esdbtest.StartWith(t, esdbtest.Config{Version: version})
		store := node.Reachable(config.Config{EventStore: server.ConnectionString()})[0]
		detail, err := store.Run(t.Context())
		if err != nil {
			detail = err.Error()
		}
		if !strings.Contains(detail, want) {
			t.Errorf("%s reports %q, want it to contain %q", store.Name, detail, want)
		}
	}
}
