package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"letterhead/domain/plan"
	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/internal/resvg/resvgtest"
	"letterhead/internal/searchindex"
	"letterhead/internal/searchindex/elastic"
	"letterhead/internal/testmust"
	"letterhead/internal/testservices"
	"letterhead/internal/testwait"
	"letterhead/node/datafolder"
)

// doctorOnSearch runs the check of the search index.
func doctorOnSearch(ctx context.Context, n *Node) (string, error) {
	for _, c := range n.Checks() {
		if c.Name == "search" {
			return c.Run(ctx)
		}
	}
	return "", errors.New("there is no check of the search index")
}

func TestSearch_TwoInstallations_OneElasticsearch(t *testing.T) {
	alias := fmt.Sprintf("test-%016x", rand.Uint64())
	url := testservices.Elasticsearch(t) + "?replicas=0&alias=" + alias
	t.Cleanup(func() {
		for _, path := range []string{"/" + alias + "_v*", "/_index_template/" + alias + "_v*"} {
			req := testmust.Get(http.NewRequest(http.MethodDelete, testservices.Elasticsearch(t)+path, nil))(t)
			testmust.Get(http.DefaultClient.Do(req))(t).Body.Close()
		}
	})
	t.Setenv("LETTERHEAD_STARTER", "off")
	t.Setenv("LETTERHEAD_SEARCH", url)
	open := func() (*Node, error) {
		folder := filepath.Join(t.TempDir(), "data")
		resvgtest.Link(t, folder)
		cfg := testmust.Get(config.FromEnvironment(map[string]string{"LETTERHEAD_DATA": folder}))(t)
		lock := testmust.Get(datafolder.Acquire(cfg.Data, datafolder.MayBeNew, release))(t)
		return Open(context.Background(), cfg, lock, Options{Release: release, Logs: io.Discard, LogLevel: "error"})
	}
	first := testmust.Get(open())(t)
	t.Cleanup(func() { testmust.Succeed(t, first.Close()) })
	testmust.Succeed(t, testmust.Err(first.Operations.Accounts.Create(t.Context(), first.Operator(), "Jane Doe", plan.Free)))
	x := testmust.Get(elastic.Open(t.Context(), elastic.Config{URL: url}))(t)
	t.Cleanup(func() { x.Close() })
	named := func() bool {
		_, of, err := x.Checkpoint(t.Context())
		return err == nil && of.Log != ""
	}
	if _, ok := testwait.Until(testwait.Timeout, named); !ok {
		t.Fatal("the index names no log")
	}
	if detail, err := doctorOnSearch(t.Context(), first); err != nil {
		t.Errorf("the first installation: %s, %v", detail, err)
	}
	event, _, err := eventlog.Probe(first.Stores.Log).First(t.Context())
	testmust.Succeed(t, err)
	if n, err := open(); !errors.Is(err, searchindex.ErrOtherLog) || isUnavailable(err) || !strings.Contains(err.Error(), event.ID.String()) {
		t.Errorf("the second installation: %v, %v, want an error that names the log of the first, %s", n, err, event.ID)
	}
	// Another process replaces the index underneath.
	x.Use(searchindex.Origin{Log: "another"})
	g := testmust.Get(x.Rebuild(t.Context()))(t)
	testmust.Succeed(t, g.Publish(t.Context()))
	if _, err := first.Search.Search(t.Context(), "acme", 5); !errors.Is(err, searchindex.ErrUnavailable) {
		t.Errorf("search: %v, want ErrUnavailable", err)
	}
	if detail, err := doctorOnSearch(t.Context(), first); err == nil || !strings.Contains(err.Error(), "another log") {
		t.Errorf("the check of the replaced index: %q, %v, want an error", detail, err)
	}
}
