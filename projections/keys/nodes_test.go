package keys_test

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/internal/testlink"
	"letterhead/internal/testmust"
	"letterhead/internal/testservices"
	"letterhead/internal/testwait"
	"letterhead/projections/engine"
	"letterhead/projections/keys"
	"letterhead/projections/projectionstest"
)

// hungTimeout is the deadline of a request in these tests.
const hungTimeout = 300 * time.Millisecond

// follower starts another node, which never folds, and remembers keys.
func follower(t *testing.T, e *projectionstest.Env) (*projectionstest.Env, *keys.Directory, *engine.Runner) {
	t.Helper()
	n := e.Node()
	d := setup(t, n)
	r, _ := n.Start(engine.Config{FollowOnly: true}, d)
	d.Open(0, r)
	n.CatchUp(r) // a node that has just started may not know yet how long the log is
	hold(t, d)
	return n, d, r
}

// hold keeps the lease of a node until the test ends.
func hold(t testing.TB, d *keys.Directory) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := d.Hold(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); running.Wait() })
}

// decided waits as a command does.
func decided(t *testing.T, e *projectionstest.Env, r *engine.Runner, at eventlog.Position) {
	t.Helper()
	folded := func(context.Context) error { wait(t, e, r, at); return nil }
	testmust.Succeed(t, keys.New(keys.Config{}, e.Store).AwaitNodes(e.Context(), folded))
}

// answered returns how many look-ups were answered from memory, or from rows.
func answered(t testing.TB, d *keys.Directory, from string) (n float64) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	testmust.Succeed(t, d.Register(registry))
	families := testmust.Get(registry.Gather())(t)
	for _, f := range families {
		for _, m := range f.Metric {
			if m.Label[0].GetValue() == from {
				n += m.Counter.GetValue()
			}
		}
	}
	return n
}

// remembering looks up a key until the node answers from memory.
func remembering(t testing.TB, e *projectionstest.Env, d *keys.Directory, key string) {
	t.Helper()
	before := answered(t, d, "memory")
	if _, ok := testwait.Until(testwait.Timeout, func() bool {
		if _, ok, err := d.Lookup(e.Context(), sum(key)); !ok || err != nil {
			t.Fatal(ok, err)
		}
		return answered(t, d, "memory") > before
	}); !ok {
		t.Fatalf("waited %s for a look-up from memory", testwait.Timeout)
	}
}

// A change that a command on one node waited for is effective for the next request on every node, even if that node has
// done nothing.
func TestAwait_ChangeIsInForceOnEveryNode(t *testing.T) {
	e := projectionstest.OpenPostgres(t)
	_, r, _ := open(t, e)
	var others []*keys.Directory
	for range 3 {
		_, d, _ := follower(t, e)
		others = append(others, d)
	}
	want := keys.Key{ID: "k1", AccountID: "a", Kind: "secret", Plan: "free", AccountStatus: "active"}
	everywhere := func(when string) {
		t.Helper()
		for i, d := range others {
			if got, ok, err := d.Lookup(t.Context(), sum("lh_sk_one")); err != nil || !ok || !reflect.DeepEqual(got, want) {
				t.Errorf("%s, node %d: %+v, %v, %v, want %+v", when, i, got, ok, err, want)
			}
		}
	}
	for i, d := range others {
		if _, ok, err := d.Lookup(t.Context(), sum("lh_sk_one")); ok || err != nil {
			t.Errorf("node %d before the first event: %v, %v, want no key", i, ok, err)
		}
	}
	decided(t, e, r, e.Events("account-a", at,
		eventschemas.AccountOpened{AccountID: "a", Holder: "h", Plan: "free"}, issued("k1", "lh_sk_one", "secret")))
	everywhere("issued")
	for _, s := range []struct {
		event  eventschemas.Event
		change func()
	}{
		{eventschemas.PlanChanged{From: "free", To: "growth"}, func() { want.Plan = "growth" }},
		{eventschemas.AccountSuspended{Reason: "r"}, func() { want.AccountStatus = "suspended" }},
		{eventschemas.AccountReinstated{}, func() { want.AccountStatus = "active" }},
		{eventschemas.KeyRevoked{KeyID: "k1"}, func() { want.Revoked = true }},
	} {
		for _, d := range others {
			remembering(t, e, d, "lh_sk_one")
		}
		decided(t, e, r, e.Events("account-a", at, s.event))
		s.change()
		everywhere(s.event.EventType())
	}
}

// The terms of a key are part of what a node remembers.
// Rule 9.
func TestLookup_FromMemory_ReportsTerms(t *testing.T) {
	e := projectionstest.OpenPostgres(t)
	_, r, _ := open(t, e)
	_, d, _ := follower(t, e)
	decided(t, e, r, e.Events("account-a", at,
		eventschemas.AccountOpened{AccountID: "a", Holder: "h", Plan: "free"}, limited("k1", "lh_pk_one")))
	if took, ok := testwait.Until(testwait.Timeout, func() bool {
		before := answered(t, d, "memory")
		k, ok, err := d.Lookup(t.Context(), sum("lh_pk_one"))
		if err != nil || !ok || !reflect.DeepEqual(k.KeyTerms, terms) {
			t.Fatalf("%+v, %v, %v, want the terms %+v", k, ok, err, terms)
		}
		return answered(t, d, "memory") > before
	}); !ok {
		t.Errorf("waited %s for a look-up from memory", took)
	}
}

// A crash of the server, or a fail-over, deletes the leases while nodes continue to use theirs.
// Rule 9.
func TestAwait_ServerCrashed_ChangeIsInForceOnEveryNode(t *testing.T) {
	e := projectionstest.OpenPostgres(t)
	_, r, _ := open(t, e)
	wait(t, e, r, e.Events("account-a", at,
		eventschemas.AccountOpened{AccountID: "a", Holder: "h", Plan: "free"}, issued("k1", "lh_sk_one", "secret")))
	_, d, _ := follower(t, e)
	for i, event := range []eventschemas.Event{eventschemas.AccountSuspended{Reason: "r"}, eventschemas.AccountReinstated{}} {
		remembering(t, e, d, "lh_sk_one")
		e.Exec(`TRUNCATE key_fence, key_leases`)
		decided(t, e, r, e.Events("account-a", at, event))
		if k, ok, err := d.Lookup(t.Context(), sum("lh_sk_one")); err != nil || !ok || k.AccountStatus != []string{"suspended", "active"}[i] {
			t.Errorf("after a crash and %s: %+v, %v, %v", event.EventType(), k, ok, err)
		}
	}
	for _, table := range []string{"key_fence", "key_leases"} {
		var kind string
		if err := e.Store.One(t.Context(), `SELECT relpersistence::text FROM pg_class WHERE oid = $1::text::regclass`, []any{table}, &kind); err != nil || kind != "u" {
			t.Errorf("%s has persistence %q, %v, so a crash would not empty it", table, kind, err)
		}
	}
}

// A command waits once for all killed nodes together, and a running node keeps its lease.
func TestLeases_OfKilledNodes_AreDeleted(t *testing.T) {
	e := projectionstest.OpenPostgres(t)
	_, r, _ := open(t, e)
	wait(t, e, r, e.Events("account-a", at,
		eventschemas.AccountOpened{AccountID: "a", Holder: "h", Plan: "free"}, issued("k1", "lh_sk_one", "secret")))
	_, d, _ := follower(t, e)
	remembering(t, e, d, "lh_sk_one")
	e.Exec(`INSERT INTO key_leases (holder, epoch, seen, number) SELECT 'killed ' || i, epoch, fence, i FROM key_fence, generate_series(1, 3) AS i`)
	decided(t, e, r, e.Events("account-a", at, eventschemas.KeyRevoked{KeyID: "k1"}))
	var killed, all int64
	if err := e.Store.One(t.Context(), `SELECT count(*) FILTER (WHERE holder LIKE 'killed %'), count(*) FROM key_leases`, nil, &killed, &all); err != nil || killed != 0 || all != 1 {
		t.Errorf("%d leases of killed nodes are left, %d in all; %v", killed, all, err)
	}
}

// A sign-up changes no row that a node may remember, so it invalidates no node's memory.
func TestNewAccount_MemoryOfNodes_IsKept(t *testing.T) {
	e := projectionstest.OpenPostgres(t)
	_, r, _ := open(t, e)
	open := func(id string) {
		decided(t, e, r, e.Events("account-"+id, at,
			eventschemas.AccountOpened{AccountID: id, Holder: "h", Plan: "free"}, issued("k"+id, "lh_sk_"+id, "secret")))
	}
	open("a")
	fence := func() (n int64) {
		testmust.Succeed(t, e.Store.One(t.Context(), `SELECT fence FROM key_fence`, nil, &n))
		return n
	}
	before := fence()
	open("b")
	if fence() != before {
		t.Error("a new account raised the fence")
	}
	testmust.Succeed(t, r.Rebuild(e.Context(), nil, nil))
	if after := fence(); after != before+1 {
		t.Errorf("a rebuild raised the fence by %d, want 1", after-before)
	}
	before = fence()
	decided(t, e, r, e.Events("account-a", at, eventschemas.KeyRevoked{KeyID: "ka"}))
	if fence() == before {
		t.Error("a revocation did not raise the fence")
	}
}

// A key that one node reports as revoked is never valid or unknown on another node, even while the leader rebuilds and
// swaps tables.
// Rule 9.
func TestRevocation_RebuildsOnSeveralNodes_Stays(t *testing.T) {
	const accounts, rebuilds = 40, 6
	e := projectionstest.OpenPostgres(t)
	_, r, _ := open(t, e)
	for i := range accounts {
		id := fmt.Sprint("a", i)
		wait(t, e, r, e.Events("account-"+id, at, eventschemas.AccountOpened{AccountID: id, Holder: "h", Plan: "free"}, issued("k"+id, "lh_sk_"+id, "secret")))
	}
	_, d, _ := follower(t, e)
	ctx, stop := context.WithCancel(e.Context())
	var running sync.WaitGroup
	running.Go(func() {
		defer stop()
		for range rebuilds {
			if err := r.Rebuild(e.Context(), nil, nil); err != nil {
				t.Error(err)
			}
		}
	})
	for i := 0; i < accounts && (i == 0 || ctx.Err() == nil); i++ {
		id := fmt.Sprint("a", i)
		decided(t, e, r, e.Events("account-"+id, at, eventschemas.KeyRevoked{KeyID: "k" + id}))
		for j := range accounts {
			got, ok, err := d.Lookup(e.Context(), sum(fmt.Sprint("lh_sk_a", j)))
			if err != nil || !ok || got.Revoked != (j <= i) {
				t.Errorf("after revoking %d, key %d: %+v, %v, %v", i, j, got, ok, err)
			}
		}
	}
	running.Wait()
}

// If the database is unavailable or hangs, Lookup returns an error within the request's deadline, and never reports the
// key as unknown.
func TestLookup_DatabaseUnavailable_IsNotUnknownKey(t *testing.T) {
	proxy, url := testlink.ThroughURL(t, testservices.Postgres(t))
	url = sqlstoretest.Schema(t, url)
	e := projectionstest.OpenOn(t, sqlstore.Config{URL: url})
	d, r, _ := open(t, e)
	wait(t, e, r, e.Events("account-a", at, eventschemas.AccountOpened{AccountID: "a", Holder: "h", Plan: "free"}, issued("k1", "lh_sk_one", "secret")))
	look := func() (bool, error) {
		ctx, cancel := context.WithTimeout(t.Context(), hungTimeout)
		defer cancel()
		_, ok, err := d.Lookup(ctx, sum("lh_sk_one"))
		return ok, err
	}
	if _, ok, err := d.Lookup(t.Context(), sum("lh_sk_one")); !ok || err != nil {
		t.Fatal(ok, err)
	}
	proxy.Hang()
	if ok, err := look(); ok || err == nil {
		t.Errorf("look-up while the database hangs = %v, %v, want an error", ok, err)
	}
	proxy.Refuse()
	if ok, err := look(); ok || err == nil {
		t.Errorf("look-up while connections are refused = %v, %v, want an error", ok, err)
	}
	proxy.Resume()
	if _, again := testwait.Until(testwait.Timeout, func() bool {
		_, ok, err := d.Lookup(e.Context(), sum("lh_sk_one"))
		if err == nil && !ok {
			t.Error("the key is unknown afterwards")
		}
		return err == nil
	}); !again {
		t.Errorf("waited %s for the database", testwait.Timeout)
	}
}
