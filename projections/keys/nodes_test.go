package keys_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/sqlstore"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/internal/testlink"
	"letterhead/internal/testservices"
	"letterhead/projections"
	"letterhead/projections/keys"
	"letterhead/projections/projectionstest"
)

// patienceWithAHungDatabase is the deadline of a request in these tests.
const patienceWithAHungDatabase = 300 * time.Millisecond

// follower is another node, which never folds.
func follower(t *testing.T, e *projectionstest.Env) (*projectionstest.Env, *keys.Directory, *projections.Runner) {
	t.Helper()
	n := e.Node()
	d := keys.New(n.Store)
	r, _ := n.Start(projections.Config{FollowOnly: true}, d)
	d.Open(0, r)
	n.CatchUp(r) // a node that has just started may not know yet that there is anything to read
	return n, d, r
}

// What the command on one node waited for is in force with the next request on every node, without that node
// having done anything.
func TestChangesAreInForceOnEveryNode(t *testing.T) {
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
			if got, ok, err := d.Lookup(t.Context(), sum("lh_sk_one")); err != nil || !ok || got != want {
				t.Errorf("%s, node %d: %+v, %v, %v, want %+v", when, i, got, ok, err, want)
			}
		}
	}
	for i, d := range others {
		if _, ok, err := d.Lookup(t.Context(), sum("lh_sk_one")); ok || err != nil {
			t.Errorf("node %d before anything: %v, %v", i, ok, err)
		}
	}
	wait(t, e, r, e.Events("account-a", at,
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
		wait(t, e, r, e.Events("account-a", at, s.event))
		s.change()
		everywhere(s.event.EventType())
	}
}

// A key that was seen revoked on one node is never seen valid on another, and never unknown, whatever rebuilds
// and swaps the leader makes.
func TestRevocationStaysOnEveryNodeOverRebuilds(t *testing.T) {
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
		wait(t, e, r, e.Events("account-"+id, at, eventschemas.KeyRevoked{KeyID: "k" + id}))
		for j := range accounts {
			got, ok, err := d.Lookup(e.Context(), sum(fmt.Sprint("lh_sk_a", j)))
			if err != nil || !ok || got.Revoked != (j <= i) {
				t.Errorf("after revoking %d, key %d: %+v, %v, %v", i, j, got, ok, err)
			}
		}
	}
	running.Wait()
}

// A database that is away, or hangs, is an error inside the request's deadline, and never an unknown key.
func TestADatabaseThatIsAwayIsNoUnknownKey(t *testing.T) {
	proxy, url := testlink.ThroughURL(t, testservices.Postgres(t))
	url = sqlstoretest.Schema(t, url)
	e := projectionstest.OpenOn(t, sqlstore.Config{URL: url})
	d, r, _ := open(t, e)
	wait(t, e, r, e.Events("account-a", at, eventschemas.AccountOpened{AccountID: "a", Holder: "h", Plan: "free"}, issued("k1", "lh_sk_one", "secret")))
	look := func() (bool, error) {
		ctx, cancel := context.WithTimeout(t.Context(), patienceWithAHungDatabase)
		defer cancel()
		_, ok, err := d.Lookup(ctx, sum("lh_sk_one"))
		return ok, err
	}
	if ok, err := look(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	proxy.Hang()
	if ok, err := look(); ok || err == nil {
		t.Errorf("hung: %v, %v", ok, err)
	}
	proxy.Refuse()
	if ok, err := look(); ok || err == nil {
		t.Errorf("refused: %v, %v", ok, err)
	}
	proxy.Resume()
	for {
		ok, err := look()
		if err == nil {
			if !ok {
				t.Error("the key is unknown afterwards")
			}
			return
		}
		if e.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}
