package node

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"letterhead/internal/sqlstore"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/internal/testmust"
	"letterhead/internal/testservices"
)

// A restore would take the read models away from the nodes that are connected.
func TestRestore_NodesAreConnected_Fails(t *testing.T) {
	cfg := ownDatabase(t)
	open := func(node string) *sqlstore.Store {
		t.Helper()
		cfg.Format, cfg.Node = 2, node
		store := testmust.Get(sqlstore.Open(t.Context(), cfg))(t)
		return store
	}
	own := open("restore-abc")
	defer own.Close()
	if err := checkNotServed(t.Context(), own, "restore-abc"); err != nil {
		t.Errorf("checkNotServed without a node = %v", err)
	}
	node := open("api-1")
	if err := checkNotServed(t.Context(), own, "restore-abc"); err == nil || !strings.Contains(err.Error(), "api-1") {
		t.Errorf("checkNotServed with a node = %v, want an error that names it", err)
	}
	testmust.Succeed(t, node.Close())
}

// ownDatabase is a new database on the server: connections of other tests, to the one that they share, would count.
func ownDatabase(t *testing.T) sqlstore.Config {
	t.Helper()
	server := testservices.Postgres(t)
	at, err := url.Parse(server)
	if err != nil {
		t.Fatal("the URL of the test's PostgreSQL is not well formed")
	}
	name := "test_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	sqlstoretest.Exec(t, server, "CREATE DATABASE "+name)
	t.Cleanup(func() { sqlstoretest.Exec(t, server, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") })
	at.Path = "/" + name
	return sqlstore.Config{URL: at.String()}
}
