package elastic_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"letterhead/internal/searchindex"
	"letterhead/internal/searchindex/elastic"
	"letterhead/internal/searchindex/searchindextest"
	"letterhead/internal/testservices"
)

func TestContract(t *testing.T) {
	searchindextest.Run(t, opener(t))
}

// opener opens indices of a cluster, with a separate alias per test and name.
func opener(t *testing.T) searchindextest.Opener {
	server := testservices.Elasticsearch(t)
	aliases := map[string]string{}
	return func(t *testing.T, name string) searchindex.Index {
		key := t.Name() + name
		if aliases[key] == "" {
			aliases[key] = newAlias(t, server)
		}
		return open(t, server, aliases[key])
	}
}

func open(t testing.TB, server, alias string) *elastic.Index {
	t.Helper()
	x, err := elastic.Open(context.Background(), configOf(server, alias))
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return x
}

func configOf(server, alias string) elastic.Config {
	return elastic.Config{URL: server + "?replicas=0&alias=" + alias} // a cluster of one node
}

// newAlias returns a unique alias; everything created under it is removed when the test ends.
func newAlias(t testing.TB, server string) string {
	alias := fmt.Sprintf("test-%016x", rand.Uint64())
	t.Cleanup(func() { wipe(t, server, alias) })
	return alias
}

func TestSharedContract(t *testing.T) {
	searchindextest.RunShared(t, opener(t))
}
