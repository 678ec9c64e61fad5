package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"letterhead/commands"
	"letterhead/eventschemas"
	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/internal/resvg/resvgtest"
	"letterhead/internal/searchindex"
	"letterhead/internal/searchindex/elastic"
	"letterhead/internal/testmust"
	"letterhead/internal/testservices"
	"letterhead/internal/testwait"
	"letterhead/node/datafolder"
	"letterhead/workers/backup"
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

// ownSearch lets the nodes of a test share an alias of a real Elasticsearch, and returns its URL.
func ownSearch(t *testing.T) string {
	t.Helper()
	server, alias := testservices.Elasticsearch(t), fmt.Sprintf("test-%016x", rand.Uint64())
	t.Cleanup(func() {
		x := testmust.Get(http.Get(server + "/_resolve/index/" + alias + "*"))(t)
		defer x.Body.Close()
		var found struct{ Indices []struct{ Name string } }
		testmust.Succeed(t, json.NewDecoder(x.Body).Decode(&found))
		paths := []string{"/_index_template/" + alias + "_v*"}
		for _, i := range found.Indices {
			paths = append(paths, "/"+i.Name)
		}
		for _, path := range paths {
			req := testmust.Get(http.NewRequest(http.MethodDelete, server+path, nil))(t)
			testmust.Get(http.DefaultClient.Do(req))(t).Body.Close()
		}
	})
	url := server + "?replicas=0&alias=" + alias
	t.Setenv("LETTERHEAD_STARTER", "off")
	t.Setenv("LETTERHEAD_SEARCH", url)
	return url
}

// openFolder opens a node whose search index is shared; see ownSearch.
func openFolder(t *testing.T, folder string) (*Node, error) {
	t.Helper()
	if _, err := os.Stat(folder); err != nil {
		resvgtest.Link(t, folder)
	}
	cfg := testmust.Get(config.FromEnvironment(map[string]string{"LETTERHEAD_DATA": folder}))(t)
	lock := testmust.Get(datafolder.Acquire(cfg.Data, datafolder.MayBeNew, release))(t)
	return Open(context.Background(), cfg, lock, Options{Release: release, Logs: io.Discard, LogLevel: "error"})
}

// imports imports a brand and waits until it is searchable.
func imports(t *testing.T, n *Node, domain, name string) {
	t.Helper()
	in := commands.ImportBrand{Request: n.Operator(), Domain: domain, Source: "set@1",
		Record: eventschemas.Record{Name: &name}}
	testmust.Succeed(t, testmust.Err(n.Writers.Brands.ImportBrand(t.Context(), in)))
	head := testmust.Get(n.Stores.Log.Head(t.Context()))(t)
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Timeout)
	defer cancel()
	testmust.Succeed(t, n.Search.now().WaitFor(ctx, head))
}

// named returns the names of the brands that a search finds.
func named(t *testing.T, n *Node, q string) string {
	t.Helper()
	var names []string
	for _, h := range testmust.Get(n.Search.Search(t.Context(), q, 5))(t) {
		names = append(names, h.Name)
	}
	return strings.Join(names, ", ")
}

// The backup is older than the index, and the restored log has other events at its positions afterwards.
func TestRestore_SurvivingElasticsearch_IsFilledAgain(t *testing.T) {
	ownSearch(t)
	place, folder := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "restored")
	old := testmust.Get(openFolder(t, filepath.Join(t.TempDir(), "data")))(t)
	imports(t, old, "acme.com", "Acme")
	testmust.Succeed(t, testmust.Err(old.Stores.Backup(t.Context(), backup.Config{}, place)))
	imports(t, old, "later.com", "Later")
	testmust.Succeed(t, old.Close())

	cfg := testmust.Get(config.FromEnvironment(map[string]string{"LETTERHEAD_DATA": folder}))(t)
	testmust.Succeed(t, testmust.Err(Restore(t.Context(), cfg, Options{Release: release, Logs: io.Discard}, backup.RestoreConfig{}, place)))
	n := testmust.Get(openFolder(t, folder))(t)
	t.Cleanup(func() { testmust.Succeed(t, n.Close()) })
	imports(t, n, "new.com", "New")
	for q, want := range map[string]string{"acme": "Acme", "new": "New", "later": ""} {
		if got := named(t, n, q); got != want {
			t.Errorf("search %q found %q, want %q", q, got, want)
		}
	}
	if v, err := n.Search.Verify(t.Context()); err != nil || !v.OK() || v.Rows != 2 {
		t.Errorf("Verify = %+v, %v, want two equal rows", v, err)
	}
	if detail, err := doctorOnSearch(t.Context(), n); err != nil || !strings.HasSuffix(detail, "up to date") {
		t.Errorf("the check of the search index: %q, %v", detail, err)
	}
}

func TestSearch_TwoInstallations_OneElasticsearch(t *testing.T) {
	url := ownSearch(t)
	first := testmust.Get(openFolder(t, filepath.Join(t.TempDir(), "data")))(t)
	t.Cleanup(func() { testmust.Succeed(t, first.Close()) })
	imports(t, first, "acme.com", "Acme")
	if detail, err := doctorOnSearch(t.Context(), first); err != nil {
		t.Errorf("the first installation: %s, %v", detail, err)
	}
	event, _, err := eventlog.Probe(first.Stores.Log).First(t.Context())
	testmust.Succeed(t, err)
	n, err := openFolder(t, filepath.Join(t.TempDir(), "data"))
	if !errors.Is(err, searchindex.ErrOtherLog) || isUnavailable(err) || !strings.Contains(err.Error(), event.ID.String()) {
		t.Errorf("the second installation: %v, %v, want an error that names the log of the first, %s", n, err, event.ID)
	}
	if got := named(t, first, "acme"); got != "Acme" {
		t.Errorf("the first installation found %q, want Acme", got)
	}
	// Another process replaces the index underneath.
	x := testmust.Get(elastic.Open(t.Context(), elastic.Config{URL: url}))(t)
	t.Cleanup(func() { x.Close() })
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

func TestArchive_Elasticsearch_IsFilledAgain(t *testing.T) {
	ownSearch(t)
	folder := filepath.Join(t.TempDir(), "data")
	n := testmust.Get(openFolder(t, folder))(t)
	imports(t, n, "acme.com", "Acme")
	testmust.Succeed(t, n.Close())

	cfg := testmust.Get(config.FromEnvironment(map[string]string{"LETTERHEAD_DATA": folder}))(t)
	lock := testmust.Get(datafolder.Acquire(cfg.Data, datafolder.MustExist, release))(t)
	n = testmust.Get(OpenStores(t.Context(), cfg, lock, Options{Release: release, Logs: io.Discard}))(t)
	none, err := n.Stores.OldFailures(t.Context(), backup.Config{}, "--before", n.Now())
	testmust.Succeed(t, err)
	_, err = n.Stores.Archive(t.Context(), none, filepath.Join(t.TempDir(), "archive"))
	testmust.Succeed(t, errors.Join(err, n.Close()))

	n = testmust.Get(openFolder(t, folder))(t)
	t.Cleanup(func() { testmust.Succeed(t, n.Close()) })
	imports(t, n, "new.com", "New")
	if v, err := n.Search.Verify(t.Context()); err != nil || !v.OK() || v.Rows != 2 {
		t.Errorf("Verify = %+v, %v, want two equal rows", v, err)
	}
}
