package keys_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/projections"
	"letterhead/projections/engine"
	"letterhead/projections/keys"
	"letterhead/projections/projectionstest"
)

var at = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

func sum(key string) [32]byte { return sha256.Sum256([]byte(key)) }

func issued(id, key, kind string) eventschemas.Event {
	h := sum(key)
	return eventschemas.KeyIssued{KeyID: id, Hash: hex.EncodeToString(h[:]), Last4: key[len(key)-4:], Kind: kind}
}

func open(t *testing.T, e *projectionstest.Env) (*keys.Directory, *engine.Runner, func()) {
	t.Helper()
	d := setup(t, e)
	r, stop := e.Start(engine.Config{}, d)
	d.Open(0, r)
	return d, r, stop
}

func setup(t testing.TB, e *projectionstest.Env) *keys.Directory {
	t.Helper()
	d := keys.New(keys.Config{}, e.Store)
	testmust.Succeed(t, d.Setup(e.Context()))
	return d
}

func wait(t *testing.T, e *projectionstest.Env, r *engine.Runner, at eventlog.Position) {
	t.Helper()
	testmust.Succeed(t, r.WaitFor(e.Context(), keys.Name, at))
}

// A change is effective for the next request once the command has waited for it.
// Rule 9.
func TestLookup_AfterWaitFor_SeesChanges(t *testing.T) {
	projectionstest.Each(t, testLookup_AfterWaitFor_SeesChanges)
}

func testLookup_AfterWaitFor_SeesChanges(t *testing.T, e *projectionstest.Env) {
	d, r, _ := open(t, e)
	if _, ok, _ := d.Lookup(t.Context(), sum("lh_sk_one")); ok {
		t.Error("Lookup found a key in an empty directory")
	}
	want := keys.Key{ID: "k1", AccountID: "a", Kind: "secret", Plan: "free", AccountStatus: "active"}
	wait(t, e, r, e.Events("account-a", at,
		eventschemas.AccountOpened{AccountID: "a", Holder: "h", Plan: "free"}, issued("k1", "lh_sk_one", "secret"), issued("k2", "lh_pk_two", "publishable")))
	for _, s := range []struct {
		event  eventschemas.Event
		change func()
	}{
		{eventschemas.CreditsGranted{GrantID: "g", Kind: "free", Credits: 50}, func() {}},
		{eventschemas.PlanChanged{From: "free", To: "growth"}, func() { want.Plan = "growth" }},
		{eventschemas.AccountSuspended{Reason: "r"}, func() { want.AccountStatus = "suspended" }},
		{eventschemas.AccountReinstated{}, func() { want.AccountStatus = "active" }},
		{eventschemas.KeyRevoked{KeyID: "k1"}, func() { want.Revoked = true }},
		{eventschemas.AccountClosed{Reason: "r"}, func() { want.AccountStatus = "closed" }},
	} {
		wait(t, e, r, e.Events("account-a", at, s.event))
		s.change()
		if got, ok, err := d.Lookup(t.Context(), sum("lh_sk_one")); err != nil || !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("after %s: %+v, %v, want %+v", s.event.EventType(), got, err, want)
		}
	}
	if got, _, _ := d.Lookup(t.Context(), sum("lh_pk_two")); got.Revoked || got.Plan != "growth" || got.AccountStatus != "closed" || got.Kind != "publishable" {
		t.Errorf("Lookup of the account's other key = %+v", got)
	}
}

func TestLookup_AfterRestartAndRebuild_FindsKeys(t *testing.T) {
	projectionstest.Each(t, testLookup_AfterRestartAndRebuild_FindsKeys)
}

func testLookup_AfterRestartAndRebuild_FindsKeys(t *testing.T, e *projectionstest.Env) {
	d, r, stop := open(t, e)
	for i := range 50 {
		id := fmt.Sprint("a", i)
		e.Events("account-"+id, at, eventschemas.AccountOpened{AccountID: id, Holder: "h", Plan: "free"},
			issued("k"+id, "lh_sk_"+id, "secret"))
		if i%3 == 0 {
			e.Events("account-"+id, at, eventschemas.KeyRevoked{KeyID: "k" + id})
		}
	}
	e.CatchUp(r)
	check := func(when string) {
		t.Helper()
		for i := range 50 {
			id := fmt.Sprint("a", i)
			want := keys.Key{ID: "k" + id, AccountID: id, Kind: "secret", Plan: "free", AccountStatus: "active", Revoked: i%3 == 0}
			if got, ok, err := d.Lookup(t.Context(), sum("lh_sk_"+id)); err != nil || !ok || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %+v, %v, want %+v", when, got, err, want)
			}
		}
	}
	check("live")
	testmust.Succeed(t, r.Rebuild(e.Context(), nil, nil))
	check("after a rebuild")
	stop()
	d = setup(t, e)
	r, _ = e.Start(engine.Config{}, d)
	head := testmust.Get(e.Log.Head(e.Context()))(t)
	d.Open(head, r)
	check("after a restart, before anything is waited for")
	wait(t, e, r, e.Events("account-a1", at, eventschemas.KeyRevoked{KeyID: "ka1"}))
	if got, _, _ := d.Lookup(t.Context(), sum("lh_sk_a1")); !got.Revoked {
		t.Error("a key revoked after the restart is valid")
	}
}

// An id that is issued again has another key. The old one must not be answered from memory.
// Rule 9.
func TestLookup_KeyIssuedAgain_ForgetsTheOldOne(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		d, r, _ := open(t, e)
		wait(t, e, r, e.Events("account-a", at, eventschemas.AccountOpened{AccountID: "a", Holder: "h", Plan: "free"}, issued("k1", "lh_sk_one", "secret")))
		for _, key := range []string{"lh_sk_one", "lh_sk_two"} {
			if _, found, err := d.Lookup(t.Context(), sum(key)); err != nil || found != (key == "lh_sk_one") {
				t.Errorf("%s: %v, %v", key, found, err)
			}
		}
		wait(t, e, r, e.Events("account-a", at, issued("k1", "lh_sk_two", "secret")))
		for _, key := range []string{"lh_sk_one", "lh_sk_two"} {
			if _, found, err := d.Lookup(t.Context(), sum(key)); err != nil || found != (key == "lh_sk_two") {
				t.Errorf("%s after it was issued again: %v, %v", key, found, err)
			}
		}
	})
}

// The index for look-ups is missing in a folder that release 0.1.0 wrote.
func TestLookup_FolderOfEarlierRelease_GetsIndex(t *testing.T) {
	e := projectionstest.Open(t)
	d, r, stop := open(t, e)
	e.Events("account-a", at, eventschemas.AccountOpened{AccountID: "a", Holder: "h", Plan: "free"}, issued("k1", "lh_sk_one", "secret"))
	e.CatchUp(r)
	damage(t, e, d, `DROP INDEX {keys}_by_hash`)
	stop()
	d, r, _ = open(t, e)
	e.CatchUp(r)
	if _, found, err := d.Lookup(t.Context(), sum("lh_sk_one")); err != nil || !found {
		t.Errorf("Lookup = %v, %v", found, err)
	}
	damage(t, e, d, `DROP INDEX {keys}_by_hash`) // which fails if it does not exist
}

// terms are those of limited.
var terms = account.KeyTerms{ExpiresAt: at.Add(time.Hour), Scopes: []string{"search"}, Origins: []string{"https://*.acme.com", "https://acme.com"}}

func limited(id, key string) eventschemas.Event {
	ev := issued(id, key, "publishable").(eventschemas.KeyIssued)
	ev.ExpiresAt, ev.Scopes, ev.Origins = &terms.ExpiresAt, terms.Scopes, terms.Origins
	return ev
}

func TestLookup_KeyWithTerms_ReportsThem(t *testing.T) {
	projectionstest.Each(t, testLookup_KeyWithTerms_ReportsThem)
}

func testLookup_KeyWithTerms_ReportsThem(t *testing.T, e *projectionstest.Env) {
	d, r, stop := open(t, e)
	last := e.Events("account-a", at, eventschemas.AccountOpened{AccountID: "a", Holder: "h", Plan: "free"}, limited("k1", "lh_pk_one"))
	wait(t, e, r, last)
	check := func(when string) {
		t.Helper()
		want := keys.Key{ID: "k1", AccountID: "a", Kind: "publishable", Plan: "free", AccountStatus: "active", KeyTerms: terms}
		if got, ok, err := d.Lookup(t.Context(), sum("lh_pk_one")); err != nil || !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", when, got, err, want)
		}
		listed, found, err := d.Get(t.Context(), "k1")
		if err != nil || !found || !reflect.DeepEqual(listed.KeyTerms, terms) {
			t.Errorf("%s: listed with %+v, %v", when, listed, err)
		}
		if before, after := listed.State(terms.ExpiresAt.Add(-time.Second)), listed.State(terms.ExpiresAt); before != keys.Active || after != keys.Expired {
			t.Errorf("%s: %s, and %s at its expiry", when, before, after)
		}
	}
	check("live")
	testmust.Succeed(t, r.Rebuild(e.Context(), nil, nil))
	check("after a rebuild")
	stop()
	d = setup(t, e)
	r, _ = e.Start(engine.Config{}, d)
	d.Open(last, r)
	check("after a restart")
	wait(t, e, r, e.Events("account-a", at, eventschemas.KeyRevoked{KeyID: "k1"}))
	if listed, _, err := d.Get(t.Context(), "k1"); err != nil || listed.State(terms.ExpiresAt) != keys.Revoked {
		t.Errorf("state of a key that was revoked and expired: %+v, %v", listed, err)
	}
}

// A key that was once reported as revoked is never valid again, even during rebuilds.
func TestRevocation_SurvivesRebuilds(t *testing.T) {
	projectionstest.Each(t, testRevocation_SurvivesRebuilds)
}

func testRevocation_SurvivesRebuilds(t *testing.T, e *projectionstest.Env) {
	d, r, _ := open(t, e)
	const n = 40
	for i := range n {
		id := fmt.Sprint("a", i)
		e.Events("account-"+id, at, eventschemas.AccountOpened{AccountID: id, Holder: "h", Plan: "free"}, issued("k"+id, "lh_sk_"+id, "secret"))
	}
	e.CatchUp(r)
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if err := r.Rebuild(e.Context(), nil, nil); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for i := range n {
		id := fmt.Sprint("a", i)
		wait(t, e, r, e.Events("account-"+id, at, eventschemas.KeyRevoked{KeyID: "k" + id}))
		for j := range n {
			if got, ok, err := d.Lookup(t.Context(), sum(fmt.Sprint("lh_sk_a", j))); err != nil || !ok || got.Revoked != (j <= i) {
				t.Fatalf("after %d revocations, key %d: %+v, %v, %v", i+1, j, got, ok, err)
			}
		}
	}
	close(done)
	group.Wait()
}

// A Directory that has not caught up with the log since its start answers no look-up: it might reject an issued key or
// accept a revoked one.
// Rule 9.
func TestLookup_BeforeCatchUp_IsNotReady(t *testing.T) {
	projectionstest.Each(t, testLookup_BeforeCatchUp_IsNotReady)
}

func testLookup_BeforeCatchUp_IsNotReady(t *testing.T, e *projectionstest.Env) {
	e.Events("account-a", at, eventschemas.AccountOpened{AccountID: "a", Holder: "h", Plan: "free"}, issued("k1", "lh_sk_one", "secret"))
	begin := func(d *keys.Directory) *engine.Runner {
		t.Helper()
		r := testmust.Get(engine.New(projectionstest.Config(engine.Config{}), e.Log, e.Store, d))(t)
		testmust.Succeed(t, r.Start(e.Context()))
		return r
	}
	run := func(r *engine.Runner) (stop func()) {
		ctx, cancel := context.WithCancel(e.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		return sync.OnceFunc(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	notYet := func(d *keys.Directory, when string) {
		t.Helper()
		for _, key := range []string{"lh_sk_one", "lh_sk_two"} {
			if k, ok, err := d.Lookup(t.Context(), sum(key)); !errors.Is(err, projections.ErrNotReady) || ok || !reflect.DeepEqual(k, keys.Key{}) {
				t.Errorf("%s: %s is %+v, %v, %v", when, key, k, ok, err)
			}
		}
		if err := d.Ready(); !errors.Is(err, projections.ErrNotReady) {
			t.Errorf("%s: ready: %v, want %v", when, err, projections.ErrNotReady)
		}
	}
	head := func() eventlog.Position {
		at := testmust.Get(e.Log.Head(e.Context()))(t)
		return at
	}

	d := setup(t, e)
	notYet(d, "not started")
	r := begin(d)
	notYet(d, "not opened")
	d.Open(head(), r)
	notYet(d, "without tables")
	stop := run(r)
	defer stop()
	e.CatchUp(r)
	if _, ok, err := d.Lookup(t.Context(), sum("lh_sk_one")); !ok || err != nil {
		t.Errorf("Lookup after CatchUp = %v, %v", ok, err)
	}
	if _, ok, err := d.Lookup(t.Context(), sum("lh_sk_two")); ok || err != nil {
		t.Errorf("Lookup of an unknown key = %v, %v", ok, err)
	}
	stop()

	// The process died after appends that the tables do not include.
	e.Events("account-a", at, eventschemas.KeyRevoked{KeyID: "k1"}, issued("k2", "lh_sk_two", "secret"))
	d = setup(t, e)
	r = begin(d)
	d.Open(head(), r)
	notYet(d, "with old tables")
	stop = run(r)
	defer stop()
	e.CatchUp(r)
	if k, ok, err := d.Lookup(t.Context(), sum("lh_sk_one")); err != nil || !ok || !k.Revoked {
		t.Errorf("the revoked key: %+v, %v, %v, want a revoked key", k, ok, err)
	}
	if k, ok, err := d.Lookup(t.Context(), sum("lh_sk_two")); err != nil || !ok || k.ID != "k2" {
		t.Errorf("the new key: %+v, %v, %v, want k2", k, ok, err)
	}
}

func TestList_ReportsLastUse(t *testing.T) { projectionstest.Each(t, testList_ReportsLastUse) }

func testList_ReportsLastUse(t *testing.T, e *projectionstest.Env) {
	d, r, _ := open(t, e)
	e.Events("account-a", at, eventschemas.AccountOpened{AccountID: "a", Holder: "h", Plan: "free"}, issued("k1", "lh_sk_one1", "secret"))
	e.Events("account-a", at.Add(time.Second), issued("k2", "lh_pk_two2", "publishable"))
	used := func(key string, when time.Time) eventschemas.UsageEntry {
		return eventschemas.UsageEntry{AccountID: "a", Month: "2026-11", KeysUsed: []eventschemas.KeyUsed{{KeyID: key, At: when}}}
	}
	e.Events("usage-node-1", at, eventschemas.UsageTicked{Entries: []eventschemas.UsageEntry{used("k1", at.Add(5*time.Second))}})
	e.Events("usage-node-2", at, eventschemas.UsageTicked{Entries: []eventschemas.UsageEntry{used("k1", at.Add(4*time.Second)), used("nobody", at)}})
	e.Events("account-a", at.Add(time.Minute), eventschemas.KeyRevoked{KeyID: "k2"})
	e.CatchUp(r)
	got, err := d.List(t.Context(), "a")
	want := []keys.Listed{
		{ID: "k1", AccountID: "a", Kind: "secret", Last4: "one1", IssuedAt: at, LastUsedAt: at.Add(5 * time.Second)},
		{ID: "k2", AccountID: "a", Kind: "publishable", Last4: "two2", IssuedAt: at.Add(time.Second), RevokedAt: at.Add(time.Minute)},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if k, found, err := d.Get(t.Context(), "k2"); err != nil || !found || !reflect.DeepEqual(k, want[1]) {
		t.Errorf("key by id: %+v, %v, %v", k, found, err)
	}
	if _, found, err := d.Get(t.Context(), "nobody"); err != nil || found {
		t.Errorf("unknown key: %v, %v, want no key", found, err)
	}
	if got, err := d.List(t.Context(), "nobody"); err != nil || len(got) != 0 {
		t.Errorf("List of an unknown account = %v, %v", got, err)
	}
}

func TestFold_BadHash_QuarantinesModel(t *testing.T) {
	for _, hash := range []string{"", "zz", strings.Repeat("ab", 31), strings.Repeat("ab", 33), strings.Repeat("zz", 32)} {
		projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) { testHashThatIsNoHash(t, e, hash) })
	}
}

func testHashThatIsNoHash(t *testing.T, e *projectionstest.Env, hash string) {
	d, r, _ := open(t, e)
	wait(t, e, r, 0)
	last := e.Events("account-a", at, eventschemas.KeyIssued{KeyID: "k", Hash: hash, Last4: "1234", Kind: "secret"})
	if err := r.WaitFor(e.Context(), keys.Name, last); err == nil || !strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("hash %q: %v", hash, err)
	}
	// A directory that starts now never reaches the end of the log, and reports the reason.
	d.Open(last, r)
	var aside *engine.QuarantinedError
	if _, _, err := d.Lookup(t.Context(), sum("lh_sk_one")); !errors.Is(err, projections.ErrNotReady) || !errors.As(err, &aside) {
		t.Errorf("hash %q: Lookup = %v", hash, err)
	}
}
