package elastic_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/searchindex"
	"letterhead/internal/searchindex/elastic"
	"letterhead/internal/testmust"
	"letterhead/internal/testservices"
	"letterhead/internal/testwait"
)

// faulty is an index behind a proxy.
type faulty struct {
	*elastic.Index
	t     *testing.T
	proxy *proxy
	alias string
	real  string
}

func newFaulty(t *testing.T) *faulty {
	real := testservices.Elasticsearch(t)
	f := &faulty{t: t, proxy: newProxy(t, real), alias: newAlias(t, real), real: real}
	f.Index = open(t, f.proxy.URL, f.alias)
	t.Cleanup(func() {
		f.proxy.set(nil)
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func sites(n int) []searchindex.Document {
	var docs []searchindex.Document
	for i := range n {
		docs = append(docs, searchindex.Document{Domain: fmt.Sprintf("site%03d.com", i), Name: fmt.Sprintf("Site %03d", i), Version: uint64(i + 1)})
	}
	return docs
}

// holds checks the whole contents of the index and its checkpoint.
func (f *faulty) holds(docs int, checkpoint uint64) {
	f.t.Helper()
	held, err := f.Scan(f.t.Context(), "", searchindex.MaxScan)
	if err != nil || len(held) != docs {
		f.t.Errorf("holds %d documents, %v, want %d", len(held), err, docs)
	}
	if at, _, err := f.Checkpoint(f.t.Context()); err != nil || at != checkpoint {
		f.t.Errorf("checkpoint is %d, %v, want %d", at, err, checkpoint)
	}
}

func TestBulk_ResendsOnlyRejectedItems(t *testing.T) {
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			f := newFaulty(t)
			asked := map[string]int{}
			rejecting := f.proxy.rejectsItems(status, func(domain string) bool {
				asked[domain]++
				return strings.HasSuffix(domain, "7.com") && asked[domain] < 3
			})
			f.proxy.set(on("/_bulk", always, rejecting))
			testmust.Succeed(t, f.Apply(t.Context(), sites(30), 30))
			f.holds(30, 30)
			for _, d := range sites(30) {
				want := 1
				if strings.HasSuffix(d.Domain, "7.com") {
					want = 3
				}
				if asked[d.Domain] != want {
					t.Errorf("%s was sent %d times, want %d", d.Domain, asked[d.Domain], want)
				}
			}
		})
	}
}

func TestApply_RejectedItems_KeepCheckpointBack(t *testing.T) {
	f := newFaulty(t)
	testmust.Succeed(t, f.Apply(t.Context(), sites(3), 3))
	f.proxy.set(on("/_bulk", always, f.proxy.rejectsItems(429, func(domain string) bool { return domain == "site007.com" })))
	err := f.Apply(t.Context(), sites(10), 10)
	if !errors.Is(err, searchindex.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), "site007.com") {
		t.Errorf("apply: %v", err)
	}
	f.holds(9, 3)
	f.proxy.set(nil)
	if err := f.Apply(t.Context(), sites(10), 10); err != nil { // documents that are already stored give 409
		t.Fatal(err)
	}
	f.holds(10, 10)
}

func TestRequest_WholeRejection_IsRetriedUpToLimit(t *testing.T) {
	for _, status := range []int{429, 502, 503, 504} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			f := newFaulty(t)
			f.proxy.set(on("/_bulk", 2, answers(status)))
			testmust.Succeed(t, f.Apply(t.Context(), sites(3), 3))
			if n := f.proxy.count("/_bulk"); n != 3 {
				t.Errorf("%d requests, want 3", n)
			}
			f.proxy.set(on("/_msearch", 1, answers(status)))
			if hits, err := f.Search(t.Context(), "site 001", 1); err != nil || len(hits) != 1 {
				t.Errorf("search: %v, %v", hits, err)
			}
			f.proxy.set(on("/_bulk", always, answers(status)))
			if err := f.Apply(t.Context(), sites(5), 5); !errors.Is(err, searchindex.ErrUnavailable) {
				t.Errorf("apply: %v, want ErrUnavailable", err)
			}
			if n := f.proxy.count("/_bulk"); n != 5 {
				t.Errorf("%d requests, want 5", n)
			}
		})
	}
}

func TestRequest_PermanentRejection_IsNotRetried(t *testing.T) {
	f := newFaulty(t)
	f.proxy.set(on("/_bulk", always, answers(http.StatusUnauthorized)))
	if err := f.Apply(t.Context(), sites(1), 1); !errors.Is(err, searchindex.ErrUnavailable) {
		t.Errorf("apply: %v, want ErrUnavailable", err)
	}
	if n := f.proxy.count("/_bulk"); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

// calls returns the methods of an index that send requests.
func (f *faulty) calls() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Apply":      func(ctx context.Context) error { return f.Apply(ctx, sites(1), 1) },
		"Checkpoint": func(ctx context.Context) error { _, _, err := f.Checkpoint(ctx); return err },
		"Search":     func(ctx context.Context) error { _, err := f.Search(ctx, "site", 1); return err },
		"Scan":       func(ctx context.Context) error { _, err := f.Scan(ctx, "", 1); return err },
		"Rebuild":    func(ctx context.Context) error { _, err := f.Rebuild(ctx); return err },
	}
}

func TestHungCluster_IsUnavailableInTime(t *testing.T) {
	f := newFaulty(t)
	f.proxy.set(hangs)
	for name, call := range f.calls() {
		err := call(within(t, 100*time.Millisecond))
		if !errors.Is(err, searchindex.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want ErrUnavailable and DeadlineExceeded", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	f.proxy.set(func(w http.ResponseWriter, r *http.Request) bool { cancel(); return hangs(w, r) })
	if _, err := f.Search(ctx, "site", 1); !errors.Is(err, context.Canceled) || errors.Is(err, searchindex.ErrUnavailable) {
		t.Errorf("search with a canceled context: %v", err)
	}
}

func TestRequest_HostDownOrHanging_UsesAnother(t *testing.T) {
	real := testservices.Elasticsearch(t)
	alias := newAlias(t, real)
	hung := newProxy(t, real)
	hung.set(hangs)
	for _, first := range []string{deadAddress(t), hung.URL} {
		url := first + "," + strings.TrimPrefix(real, "http://")
		x := testmust.Get(elastic.Open(within(t, time.Minute), configOf(url, alias)))(t)
		defer x.Close()
		for range 4 {
			if _, err := x.Search(within(t, 10*time.Second), "site", 1); err != nil { // half of it for the host that hangs
				t.Errorf("search: %v", err)
			}
		}
	}
}

func TestRequest_TruncatedResponse_IsRetried(t *testing.T) {
	f := newFaulty(t)
	for _, path := range []string{"/_bulk", "/~checkpoint", "/_msearch", "/_search", "/_aliases", "/_refresh"} {
		f.proxy.set(on(path, 1, f.proxy.cuts))
		if err := f.Apply(t.Context(), sites(5), 5); err != nil {
			t.Errorf("%s: apply: %v", path, err)
		}
		if hits, err := f.Search(t.Context(), "site 001", 1); err != nil || len(hits) != 1 {
			t.Errorf("%s: search: %v, %v", path, hits, err)
		}
		f.holds(5, 5)
		g, err := f.Rebuild(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if _, err := g.Freeze(t.Context()); err != nil {
			t.Errorf("%s: freeze: %v", path, err)
		}
		if err := errors.Join(g.Apply(t.Context(), sites(5), 5), g.Publish(t.Context())); err != nil {
			t.Errorf("%s: publish: %v", path, err)
		}
		f.holds(5, 5)
	}
}

func TestPublish_LostSwapResponse_Succeeds(t *testing.T) {
	f := newFaulty(t)
	g := testmust.Get(f.Rebuild(t.Context()))(t)
	testmust.Succeed(t, g.Apply(t.Context(), sites(5), 5))
	testmust.Succeed(t, testmust.Err(g.Freeze(t.Context())))
	f.proxy.set(on("/_aliases", 1, f.proxy.cuts))
	if err := g.Publish(t.Context()); err != nil {
		t.Errorf("publish: %v", err)
	}
	if n := f.proxy.count("/_aliases"); n != 2 {
		t.Errorf("%d requests, want the lost one and its repeat", n)
	}
	f.holds(5, 5)
	if err := f.Apply(t.Context(), sites(6), 6); err != nil {
		t.Errorf("apply: %v", err)
	}
}

func TestConnections_AreReused(t *testing.T) {
	f := newFaulty(t)
	seen := map[string]bool{}
	f.proxy.set(func(_ http.ResponseWriter, r *http.Request) bool { seen[r.RemoteAddr] = true; return false })
	for range 20 { // also after errors whose response bodies are not used
		testmust.Succeed(t, testmust.Err(f.Search(t.Context(), "site", 1)))
		testmust.Succeed(t, f.Apply(t.Context(), sites(2), 2))
	}
	if len(seen) != 1 {
		t.Errorf("%d connections for one request at a time, want 1", len(seen))
	}
}

func TestOpen_PermanentError_Fails(t *testing.T) {
	real := testservices.Elasticsearch(t)
	p := newProxy(t, real)
	for name, c := range map[string]struct {
		fault fault
		says  string
	}{
		"another product": {func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("X-Elastic-Product", "SomethingElse")
			fmt.Fprint(w, `{"acknowledged":true}`)
			return true
		}, "not Elasticsearch"},
		"wrong credentials": {answers(http.StatusUnauthorized), "401"},
	} {
		p.set(c.fault)
		url := strings.Replace(p.URL, "http://", "http://someone:secret-word@", 1)
		_, err := elastic.Open(t.Context(), configOf(url, newAlias(t, real)))
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret-word") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRequest_ForeignServerLater_IsReported(t *testing.T) {
	f := newFaulty(t)
	f.proxy.set(func(w http.ResponseWriter, _ *http.Request) bool {
		fmt.Fprint(w, `{"responses":[]}`)
		return true
	})
	if _, err := f.Search(t.Context(), "site", 1); !errors.Is(err, searchindex.ErrUnavailable) || !strings.Contains(err.Error(), "not Elasticsearch") {
		t.Errorf("search: %v, want ErrUnavailable with %q", err, "not Elasticsearch")
	}
}

func TestOpen_ClusterDown_Succeeds(t *testing.T) {
	real := testservices.Elasticsearch(t)
	p := newProxy(t, real)
	p.set(answers(http.StatusServiceUnavailable))
	x := open(t, p.URL, newAlias(t, real))
	defer x.Close()
	if _, err := x.Search(within(t, 200*time.Millisecond), "site", 1); !errors.Is(err, searchindex.ErrUnavailable) {
		t.Errorf("search: %v, want ErrUnavailable", err)
	}
	p.set(nil)
	testmust.Succeed(t, x.Apply(t.Context(), sites(3), 3))
	if hits, err := x.Search(t.Context(), "site 001", 1); err != nil || len(hits) != 1 {
		t.Errorf("search: %v, %v", hits, err)
	}
}

// The alias of an index that another node has just created exists before its shard answers.
func TestOpen_NewIndexWithoutShard_Waits(t *testing.T) {
	real := testservices.Elasticsearch(t)
	alias, p := newAlias(t, real), newProxy(t, real)
	p.set(on("/~log", 8, func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("X-Elastic-Product", "Elasticsearch")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"error":{"type":"no_shard_available_action_exception","reason":"fault of the test"},"status":503}`)
		return true
	}))
	cfg, lines := configOf(p.URL, alias), testwait.NewLines()
	cfg.Logger = lines.Logger()
	x := testmust.Get(elastic.Open(t.Context(), cfg))(t)
	testmust.Succeed(t, errors.Join(x.Apply(t.Context(), sites(1), 1), x.Close()))
	if len(lines) > 0 {
		t.Errorf("logged %q, want nothing", <-lines)
	}
}

// Another node may publish a new generation, and drop the old one, between two requests of Open.
func TestOpen_IndexSwappedMeanwhile_Succeeds(t *testing.T) {
	real := testservices.Elasticsearch(t)
	for _, request := range []string{"/_mapping", "/~log"} {
		alias, p := newAlias(t, real), newProxy(t, real)
		p.set(on(request, 1, func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("X-Elastic-Product", "Elasticsearch")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error":{"type":"index_not_found_exception","reason":"fault of the test"},"status":404}`)
			return true
		}))
		x, err := elastic.Open(t.Context(), configOf(p.URL, alias))
		if err != nil {
			t.Errorf("the index is gone at %s: %v", request, err)
			continue
		}
		if err := errors.Join(x.Apply(t.Context(), sites(1), 1), x.Close()); err != nil {
			t.Errorf("after the index was gone at %s: %v", request, err)
		}
	}
}

// Only a generation that a rebuild has just created is written to before its log is known.
func TestOpen_IndexOfAnotherLog_ChangesNothing(t *testing.T) {
	f := newFaulty(t)
	f.Use(searchindex.Origin{Log: "log"})
	g := testmust.Get(f.Rebuild(t.Context()))(t)
	testmust.Succeed(t, errors.Join(g.Apply(t.Context(), sites(3), 3), g.Publish(t.Context())))
	f.frozenByAnother()
	testmust.Succeed(t, f.Close())
	f.proxy.set(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut || r.Method == http.MethodDelete || strings.HasSuffix(r.URL.Path, "/_aliases") ||
			strings.HasSuffix(r.URL.Path, "/_bulk") {
			t.Errorf("%s %s on the index of another log", r.Method, r.URL.Path)
		}
		return false
	})
	f.Index = open(t, f.proxy.URL, f.alias)
	f.Use(searchindex.Origin{Log: "another log"})
	if err := f.Apply(t.Context(), sites(4), 4); !errors.Is(err, searchindex.ErrOtherLog) {
		t.Errorf("apply: %v, want ErrOtherLog", err)
	}
	if _, err := f.Search(t.Context(), "site", 1); !errors.Is(err, searchindex.ErrOtherLog) {
		t.Errorf("search: %v, want ErrOtherLog", err)
	}
}

func TestOpen_AliasIsIndex_IsReported(t *testing.T) {
	real := testservices.Elasticsearch(t)
	alias := newAlias(t, real)
	must(t, "PUT", real+"/"+alias+version, "")
	_, err := elastic.Open(t.Context(), configOf(real, alias))
	if err == nil || !strings.Contains(err.Error(), "DELETE /"+alias+version) {
		t.Errorf("error = %v, want an error that names the request which removes the index", err)
	}
}

func TestWrites_NeverCreateIndex(t *testing.T) {
	f := newFaulty(t)
	for _, i := range indices(t, f.real, f.alias) {
		must(t, "DELETE", f.real+"/"+i.Name, "")
	}
	if err := f.Apply(t.Context(), sites(3), 3); !errors.Is(err, searchindex.ErrReplaced) {
		t.Errorf("apply to a deleted index: %v, want ErrReplaced", err)
	}
	f.holds(0, 0)
	testmust.Succeed(t, f.Apply(t.Context(), sites(3), 3))
	f.holds(3, 3)
	all := indices(t, f.real, f.alias)
	if len(all) != 1 || all[0].Name != f.alias+version+"_g000001" || len(all[0].Aliases) != 2 {
		t.Errorf("the cluster has %v", all)
	}
}

func TestOpen_ForeignMapping_IsReported(t *testing.T) {
	real := testservices.Elasticsearch(t)
	alias := newAlias(t, real)
	name := alias + version + "_g000001"
	must(t, "PUT", real+"/"+name, fmt.Sprintf(`{"aliases":{"%s":{},"%s_w_1":{}},"mappings":{"dynamic":"strict","properties":{"domain":{"type":"keyword"}}}}`, alias+version, name))
	_, err := elastic.Open(t.Context(), configOf(real, alias))
	if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "mapping") {
		t.Errorf("error = %v, want an error that contains %q and %q", err, name, "mapping")
	}
}

func TestApply_MappingConflict_IsNotRetried(t *testing.T) {
	f := newFaulty(t)
	f.proxy.set(on("/_bulk", always, f.proxy.rejectsItems(http.StatusBadRequest, func(domain string) bool { return domain == "site001.com" })))
	err := f.Apply(t.Context(), sites(3), 3)
	if !errors.Is(err, searchindex.ErrUnavailable) || !strings.Contains(err.Error(), "site001.com") {
		t.Errorf("apply: %v, want ErrUnavailable with %q", err, "site001.com")
	}
	if n := f.proxy.count("/_bulk"); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
	f.proxy.set(nil)
	f.holds(2, 0)
}

func TestSearch_MissingShard_IsUnavailable(t *testing.T) {
	f := newFaulty(t)
	f.proxy.set(on("/_msearch", always, func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("X-Elastic-Product", "Elasticsearch")
		fmt.Fprint(w, `{"responses":[{"status":200,"timed_out":true,"hits":{"hits":[]}},{"status":503,"error":{"type":"search_phase_execution_exception","reason":"all shards failed"}},{"status":200,"hits":{"hits":[]}},{"status":200,"hits":{"hits":[]}}]}`)
		return true
	}))
	if hits, err := f.Search(t.Context(), "site", 1); !errors.Is(err, searchindex.ErrUnavailable) {
		t.Errorf("found %v, %v, want ErrUnavailable", hits, err)
	}
}

func TestRebuild_DropsLeftoverGenerations(t *testing.T) {
	f := newFaulty(t)
	must(t, "PUT", f.real+"/"+f.alias+version+"_g000005", "")
	must(t, "PUT", f.real+"/"+f.alias+version+"_g000007", "")
	g := testmust.Get(f.Rebuild(t.Context()))(t)
	testmust.Succeed(t, g.Publish(t.Context()))
	must(t, "PUT", f.real+"/"+f.alias+version+"_g000003", "") // as left by a failed delete
	g = testmust.Get(f.Rebuild(t.Context()))(t)
	testmust.Succeed(t, g.Publish(t.Context()))
	if all := indices(t, f.real, f.alias); len(all) != 1 || !strings.HasPrefix(all[0].Name, f.alias+version+"_g000009_") {
		t.Errorf("the cluster has %v, want generation 9 alone", all)
	}
}

func TestApply_LeftoverWriteBlock_IsRemoved(t *testing.T) {
	f := newFaulty(t)
	must(t, "PUT", f.real+"/"+f.alias+version+"_g000001/_block/write", "")
	testmust.Succeed(t, f.Apply(t.Context(), sites(3), 3))
	f.holds(3, 3)
}

// frozenByAnother freezes an index through a separate handle, like a process that then dies.
func (f *faulty) frozenByAnother() searchindex.Generation {
	f.t.Helper()
	other := open(f.t, f.real, f.alias)
	f.t.Cleanup(func() { other.Close() })
	g := testmust.Get(other.Rebuild(f.t.Context()))(f.t)
	testmust.Succeed(f.t, testmust.Err(g.Freeze(f.t.Context())))
	return g
}

func TestApply_FrozenByDeadRebuild_Thaws(t *testing.T) {
	f := newFaulty(t)
	g := f.frozenByAnother()
	for limit := 300 * time.Millisecond; !f.HasSeenFreeze(); limit *= 2 { // on a busy machine it may end before that
		if err := f.Apply(within(t, limit), sites(3), 3); !errors.Is(err, searchindex.ErrUnavailable) {
			t.Fatalf("apply: %v, want ErrUnavailable", err)
		}
	}
	f.SeenFrozenFor(elastic.MaxFrozen)
	err := f.Apply(t.Context(), sites(3), 3)
	if errors.Is(err, searchindex.ErrReplaced) { // the alias differs, so the index assumes another generation
		err = f.Apply(t.Context(), sites(3), 3)
	}
	testmust.Succeed(t, err)
	f.holds(3, 3)
	if err := g.Publish(t.Context()); !errors.Is(err, searchindex.ErrReplaced) {
		t.Errorf("publish of the rebuild that was considered dead: %v, want ErrReplaced", err)
	}
	f.holds(3, 3)
}

func TestRebuild_ReplacesDeadRebuild(t *testing.T) {
	f := newFaulty(t)
	testmust.Succeed(t, f.Apply(t.Context(), sites(3), 3))
	void := f.frozenByAnother()
	g := testmust.Get(f.Rebuild(t.Context()))(t)
	if at, err := g.Freeze(t.Context()); err != nil || at != 3 {
		t.Fatalf("frozen at %d, %v, want 3", at, err)
	}
	if err := void.Discard(); err != nil { // it must not remove the freeze of the other
		t.Error(err)
	}
	if err := f.Apply(within(t, 300*time.Millisecond), sites(4), 4); !errors.Is(err, searchindex.ErrUnavailable) {
		t.Errorf("apply: %v, want ErrUnavailable", err)
	}
	testmust.Succeed(t, errors.Join(g.Apply(t.Context(), sites(3), 3), g.Publish(t.Context())))
	f.holds(3, 3)
}

func TestApply_LargeBatch_UsesSeveralRequests(t *testing.T) {
	f := newFaulty(t)
	docs := sites(12)
	for i := range docs {
		docs[i].Name = strings.Repeat("Long name ", 100_000) // 1 MB
	}
	f.proxy.set(nil)
	testmust.Succeed(t, f.Apply(t.Context(), docs, 12))
	if n := f.proxy.count("/_bulk"); n != 3 {
		t.Errorf("%d requests, want 3 of four documents each", n)
	}
	f.holds(12, 12)
}

func TestMetrics_AreRegisteredOnce(t *testing.T) {
	real := testservices.Elasticsearch(t)
	cfg := configOf(real, newAlias(t, real))
	cfg.Registerer = prometheus.NewRegistry()
	x := testmust.Get(elastic.Open(t.Context(), cfg))(t)
	defer x.Close()
	if _, err := elastic.Open(t.Context(), cfg); err == nil {
		t.Error("the same metrics were registered twice")
	}
}

func TestOpen_Failed_LeavesMetricsUnregistered(t *testing.T) {
	real := testservices.Elasticsearch(t)
	p := newProxy(t, real)
	p.set(answers(http.StatusUnauthorized))
	cfg := configOf(p.URL, newAlias(t, real))
	cfg.Registerer = prometheus.NewRegistry()
	if _, err := elastic.Open(t.Context(), cfg); err == nil {
		t.Fatal("Open succeeded without credentials")
	}
	p.set(nil)
	x, err := elastic.Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("the second Open: %v", err)
	}
	defer x.Close()
}

// TestBulk_PartialAndWholeRejections_ShareLimit rejects a request alternately as a whole and in parts.
func TestBulk_PartialAndWholeRejections_ShareLimit(t *testing.T) {
	for _, c := range []struct {
		path  string
		parts string
		call  func(f *faulty) error
	}{
		{"/_msearch", `{"responses":[{"status":200,"hits":{"hits":[]}},{"status":503,"error":{"type":"search_phase_execution_exception","reason":"all shards failed"}},{"status":200,"hits":{"hits":[]}},{"status":200,"hits":{"hits":[]}}]}`,
			func(f *faulty) error { _, err := f.Search(f.t.Context(), "site", 1); return err }},
		{"/_bulk", `{"items":[{"index":{"status":429,"error":{"type":"es_rejected_execution_exception","reason":"fault of the test"}}}]}`,
			func(f *faulty) error { return f.Apply(f.t.Context(), sites(1), 1) }},
	} {
		t.Run(c.path, func(t *testing.T) {
			f := newFaulty(t)
			n := 0
			f.proxy.set(on(c.path, always, func(w http.ResponseWriter, r *http.Request) bool {
				if n++; n%2 == 1 {
					return answers(http.StatusServiceUnavailable)(w, r)
				}
				w.Header().Set("X-Elastic-Product", "Elasticsearch")
				fmt.Fprint(w, c.parts)
				return true
			}))
			if err := c.call(f); !errors.Is(err, searchindex.ErrUnavailable) {
				t.Errorf("%v, want ErrUnavailable", err)
			}
			if n := f.proxy.count(c.path); n != 5 {
				t.Errorf("%d requests, want 5", n)
			}
		})
	}
}
