package main

import (
	"strings"
	"testing"

	"letterhead/internal/config"
	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/node"
)

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
