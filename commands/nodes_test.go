package commands

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb"
	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/testmust"
)

// slowCommit is a log whose commits take time, one after the other, before they are visible, like
// those of a store that flushes to disk. An append that has already lost is rejected immediately.
type slowCommit struct {
	eventlog.Log
	disk *disk
}

type disk struct {
	takes time.Duration
	mu    sync.Mutex
	next  map[string]uint64 // by stream, as far as this disk wrote it
}

func (l slowCommit) Append(ctx context.Context, stream string, expected eventlog.Expected, events []eventlog.Proposed) (eventlog.Appended, error) {
	l.disk.mu.Lock()
	defer l.disk.mu.Unlock()
	if expected.Next() == l.disk.next[stream] {
		_ = delay.For(ctx, l.disk.takes) // the append returns the canceled context
	}
	done, err := l.Log.Append(ctx, stream, expected, events)
	if err == nil {
		l.disk.next[stream] = done.LastRevision + 1
	}
	return done, err
}

// retryingLog retries the test's own reads of a store with faults. The store resets its connections
// several times a second, so that on a busy machine a long read would never end: it reads short pages.
type retryingLog struct{ eventlog.Log }

const shortPage = 64

// retry repeats a call that fails temporarily. A call that never succeeds ends at the time limit of the test binary.
func retry[T any](call func() (T, error)) (T, error) {
	for {
		out, err := call()
		if !errors.Is(err, eventlog.ErrUnavailable) && !errors.Is(err, eventlog.ErrAmbiguous) && !errors.Is(err, ErrBusy) {
			return out, err
		}
	}
}

func (l retryingLog) ReadStream(ctx context.Context, stream string, from uint64, direction eventlog.Direction, limit int) ([]eventlog.Recorded, error) {
	if direction != eventlog.Forward {
		return retry(func() ([]eventlog.Recorded, error) { return l.Log.ReadStream(ctx, stream, from, direction, limit) })
	}
	var all []eventlog.Recorded
	for len(all) < limit {
		next, most := from+uint64(len(all)), min(limit-len(all), shortPage)
		page, err := retry(func() ([]eventlog.Recorded, error) { return l.Log.ReadStream(ctx, stream, next, direction, most) })
		all = append(all, page...)
		if err != nil || len(page) < most {
			return all, err
		}
	}
	return all, nil
}

func (l retryingLog) ReadAll(ctx context.Context, after eventlog.Position, filter eventlog.Filter, limit int) (eventlog.Page, error) {
	return retry(func() (eventlog.Page, error) { return l.Log.ReadAll(ctx, after, filter, min(limit, shortPage)) })
}

// nodes are writers of several nodes on one store, each with its own connection.
type nodes struct {
	*world
	logs    []*faults
	writers []*AccountWriter
}

func newNodes(t testing.TB, n int, commit time.Duration, cfg esdbtest.Config) *nodes {
	t.Helper()
	server := esdbtest.StartWith(t, cfg)
	out := &nodes{world: &world{TB: t}}
	shared := &disk{takes: commit, next: map[string]uint64{}}
	for range n {
		log := testmust.Get(esdb.Open(context.Background(), esdb.Config{ConnectionString: server.ConnectionString()}))(t)
		t.Cleanup(func() {
			if err := log.Close(); err != nil {
				t.Error(err)
			}
		})
		f := &faults{Log: log}
		if commit > 0 {
			f.Log = slowCommit{Log: log, disk: shared}
		}
		if out.log == nil {
			out.log = &faults{Log: retryingLog{log}}
			t.Cleanup(func() { checkLog(t, retryingLog{log}) })
		}
		d := testmust.Get(NewAccountWriter(AccountWriterConfig{Config: streamwriter.Config{Shared: true}}, f, nil))(t)
		t.Cleanup(func() { out.drain(d) })
		out.logs, out.writers = append(out.logs, f), append(out.writers, d)
	}
	return out
}

func (n *nodes) calls() (appends, reads int64) {
	for _, l := range n.logs {
		appends += l.appends.Load()
		reads += l.reads.Load()
	}
	return appends, reads
}

// Three nodes each have their own connection to a store that loses requests and replies, delivers twice, delays and
// breaks connections. An account's credits are spent to the last one, each by a request that was answered with a
// receipt, and every other request pays nothing in the end.
// Rule 1.
func TestNodes_Storm_SpendExactlyTheCredits(t *testing.T) {
	const credits, callers = 1000, 64
	seed := *stormSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with -storm.seed=%d", seed)
	n := newNodes(t, 3, 0, esdbtest.Config{Chaos: esdbtest.Chaos{
		Seed: seed, LoseReply: 0.05, LoseRequest: 0.05, Duplicate: 0.05,
		Delay: 2 * time.Millisecond, Delayed: 0.2, ResetEvery: 300 * time.Millisecond,
	}})
	id, ctx := uuid.NewString(), context.Background()
	_, err := retry(func() (Done, error) {
		return n.writers[0].OpenAccount(ctx, OpenAccount{Request: n.request(), AccountID: id, Holder: "holder", Plan: plan.Free})
	})
	testmust.Succeed(t, err)
	_, err = retry(func() (Done, error) {
		return n.writers[1].GrantCredits(ctx, GrantCredits{Request: n.request(), AccountID: id, Kind: account.KindTopup, Credits: credits - plan.FreeCredits, PaymentID: "p"})
	})
	testmust.Succeed(t, err)
	seen := &stormer{paid: map[string]bool{}, notPaid: map[string]bool{}}
	spend := func(d *AccountWriter) error {
		in := n.lookup(id)
		_, err := d.ChargeLookup(ctx, in)
		seen.mu.Lock()
		defer seen.mu.Unlock()
		if err == nil {
			seen.paid[in.Request.ID] = true
		} else {
			seen.notPaid[in.Request.ID] = true
		}
		return err
	}
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for {
				err := spend(n.writers[i%len(n.writers)])
				switch {
				case errors.Is(err, account.ErrInsufficientCredits):
					return
				case err != nil && !expectedInStorm(err):
					t.Errorf("charge: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	for _, d := range n.writers {
		n.drain(d) // and finish pending compensations
	}
	// A new writer spends a credit that was freed after its last caller had been rejected.
	last := testmust.Get(NewAccountWriter(AccountWriterConfig{Config: streamwriter.Config{Shared: true}}, n.log, nil))(t)
	defer n.drain(last)
	var rejected error
	for rejected == nil {
		_, rejected = retry(func() (Done, error) { return Done{}, spend(last) })
	}
	if !errors.Is(rejected, account.ErrInsufficientCredits) {
		t.Fatal(rejected)
	}
	l := n.ledger(id)
	if l.balance != 0 || l.minimum < 0 || l.available < 0 || len(seen.paid) != credits {
		t.Errorf("%d requests paid, balance %d, lowest balance %d, lowest available %d", len(seen.paid), l.balance, l.minimum, l.available)
	}
	n.checkStorm(id, seen)
}

// A grant on one node is immediately spendable on another that has just rejected a charge.
func TestNodes_GrantAfterRefusal_IsSpendableEverywhere(t *testing.T) {
	n := newNodes(t, 3, 0, esdbtest.Config{})
	id := n.openedWith(n.writers[0], 0)
	for round := range 20 {
		from, to := n.writers[round%3], n.writers[(round+1)%3]
		r, err := to.Reserve(t.Context(), id, "")
		if err == nil { // of a credit that the other node has spent in the meantime
			err = to.Confirm(t.Context(), r)
			r.Drop()
		}
		if !errors.Is(err, account.ErrInsufficientCredits) {
			t.Fatalf("round %d: reserve without credits: %v", round, err)
		}
		n.grant(from, id, 1)
		in := n.lookup(id)
		in.Reservation = n.reserve(to, id)
		if receipt, err := to.ChargeLookup(t.Context(), in); err != nil || receipt.Balance != 0 {
			t.Fatalf("round %d: %+v, %v", round, receipt, err)
		}
	}
}

// One append per charge and no read while an account stays on one node; one read on a node that takes over.
// Rule 3.
func TestNodes_Charge_RoundTrips(t *testing.T) {
	n := newNodes(t, 2, 0, esdbtest.Config{})
	id := n.opened(n.writers[0], 1000)
	count := func(what string, appends, reads int64, run func()) {
		t.Helper()
		a, r := n.calls()
		run()
		a2, r2 := n.calls()
		if a2-a != appends || r2-r != reads {
			t.Errorf("%s: %d appends and %d reads, want %d and %d", what, a2-a, r2-r, appends, reads)
		}
	}
	charge := func(d *AccountWriter) func() {
		return func() {
			in := n.lookup(id)
			in.Reservation = n.reserve(d, id)
			testmust.Succeed(t, testmust.Err(d.ChargeLookup(t.Context(), in)))
		}
	}
	count("the first on another node", 1, 1, charge(n.writers[1]))
	for range 50 {
		count("the next ones there", 1, 0, charge(n.writers[1]))
	}
	count("back on the first node", 2, 1, charge(n.writers[0])) // it had not seen the other node's append
	count("and again", 1, 0, charge(n.writers[0]))
}

// A node whose table of brands lags must not sell an account a record older than the one it was answered before.
// Rule 7.
func TestNodes_OlderRecordThanAnswered_IsRejected(t *testing.T) {
	w := newWorld(t)
	a, b := w.writer(AccountWriterConfig{Config: streamwriter.Config{Shared: true}}), w.writer(AccountWriterConfig{Config: streamwriter.Config{Shared: true}})
	id := w.opened(a, 0)
	at := func(revision uint64) ChargeLookup {
		in := w.lookup(id)
		in.RecordRevision = revision
		return in
	}
	must := func(_ Receipt, err error) {
		t.Helper()
		testmust.Succeed(t, err)
	}
	older := func(in ChargeLookup) {
		t.Helper()
		before := w.standing(b, id).Available
		in.Reservation = w.reserve(b, id)
		if _, err := b.ChargeLookup(t.Context(), in); !errors.Is(err, ErrOlderRecord) {
			t.Fatalf("charge at revision %d: %v", in.RecordRevision, err)
		}
		if now := w.standing(b, id).Available; now != before {
			t.Fatalf("%d credits can be spent, %d before the rejection", now, before)
		}
	}
	must(b.ChargeLookup(t.Context(), at(5)))
	must(a.ChargeLookup(t.Context(), at(7)))
	older(at(5))
	must(b.ChargeLookup(t.Context(), at(7)))
	// Revisions of another domain do not matter.
	other := at(1)
	other.Domain = "acme.org"
	must(b.ChargeLookup(t.Context(), other))
	// A crawl whose answer was free is not on the account's stream, but its request is.
	held := w.hold(a, id, time.Minute)
	w.must(a.ReleaseHold(t.Context(), ReleaseHold{Request: w.request(), AccountID: id, HoldID: held.ID}))
	older(at(7))
	read := at(7)
	read.FromStream = true
	must(b.ChargeLookup(t.Context(), read))
	must(b.ChargeLookup(t.Context(), at(7)))
}
