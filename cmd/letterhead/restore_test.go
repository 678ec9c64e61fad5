package main

import (
	"strings"
	"testing"

	"letterhead/internal/sqlstore"
	"letterhead/internal/sqlstore/sqlstoretest"
)

// A restore would take the read models away from the nodes that are connected.
func TestRestore_NodesAreConnected_IsRefused(t *testing.T) {
	cfg := sqlstoretest.Postgres(t)
	open := func(node string) *sqlstore.Store {
		t.Helper()
		cfg.Format, cfg.Node = 2, node
		store, err := sqlstore.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	own := open("restore-abc")
	defer own.Close()
	if err := refuseServed(t.Context(), own, "restore-abc"); err != nil {
		t.Errorf("alone: %v", err)
	}
	node := open("api-1")
	if err := refuseServed(t.Context(), own, "restore-abc"); err == nil || !strings.Contains(err.Error(), "api-1") {
		t.Errorf("beside a node: %v", err)
	}
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}
}
