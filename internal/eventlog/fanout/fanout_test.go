package fanout_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb"
	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/eventlog/eventlogtest"
	"letterhead/internal/eventlog/fanout"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
)

func TestContract(t *testing.T) {
	t.Run("a folder", func(t *testing.T) {
		eventlogtest.Run(t, func(t *testing.T) eventlog.Log { return wrap(t, folder(t), nil) })
	})
	t.Run("an event store", func(t *testing.T) {
		eventlogtest.Run(t, func(t *testing.T) eventlog.Log { return wrap(t, store(t, esdbtest.Start(t)), nil) })
		eventlogtest.RunNodes(t, func(t *testing.T) (_, _ eventlog.Log) {
			server := esdbtest.StartWith(t, esdbtest.Config{Noise: true})
			return wrap(t, store(t, server), nil), wrap(t, store(t, server), nil)
		})
	})
	t.Run("a used event store", func(t *testing.T) {
		server := esdbtest.Start(t)
		server.Noise()
		eventlogtest.Run(t, func(t *testing.T) eventlog.Log {
			return eventlogtest.Scope(t, wrap(t, store(t, server), nil), uuid.NewString()+"-")
		})
	})
}

func folder(t testing.TB) eventlog.Log {
	t.Helper()
	log := testmust.Get(sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "events.db")}))(t)
	return log
}

func store(t testing.TB, server *esdbtest.Server) eventlog.Log {
	t.Helper()
	log := testmust.Get(esdb.Open(t.Context(), esdb.Config{ConnectionString: server.ConnectionString()}))(t)
	return log
}

func wrap(t testing.TB, log eventlog.Log, metrics *prometheus.Registry) *fanout.Log {
	t.Helper()
	cfg := fanout.Config{}
	if metrics != nil {
		cfg.Registerer = metrics
	}
	l := testmust.Get(fanout.New(log, cfg))(t)
	t.Cleanup(func() { testmust.Succeed(t, l.Close()) })
	return l
}

// subscriptions returns the metric of open subscriptions.
func subscriptions(t testing.TB, metrics *prometheus.Registry) float64 {
	t.Helper()
	families := testmust.Get(metrics.Gather())(t)
	for _, f := range families {
		if f.GetName() == "letterhead_eventlog_subscriptions" {
			return first(f).GetGauge().GetValue()
		}
	}
	t.Fatal("there is no metric letterhead_eventlog_subscriptions")
	return 0
}

// timeout bounds every wait.
const timeout = time.Minute

func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	if _, ok := testwait.Until(timeout, so); !ok {
		t.Fatalf("not within %s: %s", timeout, what)
	}
}

func first(f *dto.MetricFamily) *dto.Metric { return f.GetMetric()[0] }

// role follows the log and records the delivered events.
type role struct {
	sub  eventlog.Subscription
	mu   sync.Mutex
	seen []string
	live bool
}

func follow(t testing.TB, log eventlog.Log, after eventlog.Position, filter eventlog.Filter) *role {
	t.Helper()
	sub := testmust.Get(log.Subscribe(t.Context(), after, filter))(t)
	t.Cleanup(func() { sub.Close() })
	return &role{sub: sub}
}

func (r *role) step(ctx context.Context) error {
	batch, err := r.sub.Next(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range batch.Events {
		r.seen = append(r.seen, fmt.Sprintf("%s@%d", e.Stream, e.Revision))
	}
	r.live = batch.Live
	return err
}

// run follows until ctx ends.
func (r *role) run(ctx context.Context, t testing.TB) {
	for {
		if err := r.step(ctx); err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			return
		}
	}
}

func (r *role) has(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen) == n && r.live
}

func grow(t testing.TB, log eventlog.Log, stream string, from, n, size int) {
	t.Helper()
	for i := from; i < from+n; {
		var events []eventlog.Proposed
		for ; i < from+n && len(events) < min(64, 500_000/size); i++ {
			events = append(events, eventlog.Proposed{ID: uuid.New(), Type: "Counted", SchemaVersion: 1, Data: fmt.Appendf(nil, `{"n":%d,"text":"%*d"}`, i, size, i)})
		}
		var err error
		eventually(t, "an append succeeds", func() bool { // repeated while the server is unavailable
			_, err = log.Append(t.Context(), stream, eventlog.After(uint64(i-len(events))), events)
			return !errors.Is(err, eventlog.ErrUnavailable) && !errors.Is(err, eventlog.ErrAmbiguous)
		})
		testmust.Succeed(t, err)
	}
}

// TestRolesThatHaveCaughtUp_ShareOneSubscription starts roles in the past, with and without filters, and at the end.
// Rule 6.
func TestRolesThatHaveCaughtUp_ShareOneSubscription(t *testing.T) {
	server := esdbtest.Start(t)
	metrics := prometheus.NewRegistry()
	log := wrap(t, store(t, server), metrics)
	grow(t, log, "account-a", 0, 100, 10)
	grow(t, log, "brand-b", 0, 100, 10)
	head := testmust.Get(log.Head(t.Context()))(t)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	accounts := eventlog.Filter{StreamPrefixes: []string{"account-"}}
	roles := []*role{follow(t, log, 0, eventlog.Filter{}), follow(t, log, 0, accounts), follow(t, log, head, accounts),
		follow(t, log, head, eventlog.Filter{}), follow(t, log, 0, eventlog.Filter{EventTypes: []string{"Nothing"}})}
	for _, r := range roles {
		running.Go(func() { r.run(ctx, t) })
	}
	eventually(t, "one subscription", func() bool { return subscriptions(t, metrics) == 1 })
	grow(t, log, "account-a", 100, 50, 10)
	grow(t, log, "brand-b", 100, 50, 10)
	for i, want := range []int{300, 150, 50, 100, 0} {
		eventually(t, fmt.Sprintf("role %d has %d events", i, want), func() bool { return roles[i].has(want) })
	}
	if n := subscriptions(t, metrics); n != 1 {
		t.Errorf("%v subscriptions to the event store, want 1", n)
	}
}

// TestFanout_SlowRole_ReadsAloneThenRejoins blocks a role until the reader has dropped events that it needs.
// Rule 6.
func TestFanout_SlowRole_ReadsAloneThenRejoins(t *testing.T) {
	metrics := prometheus.NewRegistry()
	log := wrap(t, folder(t), metrics)
	slow, quick := follow(t, log, 0, eventlog.Filter{}), follow(t, log, 0, eventlog.Filter{})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { quick.run(ctx, t) })
	grow(t, log, "account-a", 0, 1, 10)
	for !slow.live {
		testmust.Succeed(t, slow.step(ctx))
	}
	const events, size = 300, 100_000 // more than the reader keeps
	grow(t, log, "account-a", 1, events, size)
	eventually(t, "the fast role has all events", func() bool { return quick.has(1 + events) })
	running.Go(func() { slow.run(ctx, t) })
	eventually(t, "the slow role has all events", func() bool { return slow.has(1 + events) })
	eventually(t, "one subscription", func() bool { return subscriptions(t, metrics) == 1 })
	for i := range quick.seen {
		if quick.seen[i] != slow.seen[i] {
			t.Fatalf("event %d is %s for one role and %s for the other", i, quick.seen[i], slow.seen[i])
		}
	}
}

// TestRoles_SameEvent_IsDecodedOnce counts the decodings of events that reach four roles.
// Rule 6.
func TestRoles_SameEvent_IsDecodedOnce(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) eventlog.Log{
		"a folder":       func(t *testing.T) eventlog.Log { log := folder(t); t.Cleanup(func() { log.Close() }); return log },
		"an event store": func(t *testing.T) eventlog.Log { return wrap(t, store(t, esdbtest.Start(t)), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			log := open(t)
			all := eventlog.Filter{}
			accounts := eventlog.Filter{StreamPrefixes: []string{"account-"}}
			roles := []*role{follow(t, log, 0, all), follow(t, log, 0, accounts), follow(t, log, 0, all), follow(t, log, 0, accounts)}
			for _, r := range roles {
				for !r.live {
					testmust.Succeed(t, r.step(t.Context()))
				}
			}
			// Each role joins the shared reader when it asks for the first event.
			grow(t, log, "account-a", 0, 1, 10)
			for _, r := range roles {
				for !r.has(1) {
					testmust.Succeed(t, r.step(t.Context()))
				}
			}
			var decodings atomic.Int64
			decode := func(eventType string, version int, data []byte) (string, error) {
				decodings.Add(1)
				return fmt.Sprint(eventType, version, string(data)), nil
			}
			const events = 50
			grow(t, log, "account-a", 1, events, 10)
			var running sync.WaitGroup
			for _, r := range roles {
				running.Go(func() {
					for n := 0; n < events; {
						batch, err := r.sub.Next(t.Context())
						if err != nil {
							t.Error(err)
							return
						}
						for i := range batch.Events {
							e := &batch.Events[i]
							got, err := eventlog.Decode(e, decode)
							if want := fmt.Sprint(e.Type, e.SchemaVersion, string(e.Data)); err != nil || got != want {
								t.Errorf("decoded %q, want %q: %v", got, want, err)
							}
						}
						n += len(batch.Events)
					}
				})
			}
			running.Wait()
			if n := decodings.Load(); n != events {
				t.Errorf("%d events were decoded %d times", events, n)
			}
		})
	}
}

// TestFanout_RolePanics_OtherRolesContinue has a role that panics in the middle of a batch and restarts there, and a role
// that never asks for more; a third role gets all events meanwhile.
// Rule 6.
func TestFanout_RolePanics_OtherRolesContinue(t *testing.T) {
	const events = 400
	metrics := prometheus.NewRegistry()
	log := wrap(t, store(t, esdbtest.Start(t)), metrics)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	steady, asleep := follow(t, log, 0, eventlog.Filter{}), follow(t, log, 0, eventlog.Filter{})
	running.Go(func() { steady.run(ctx, t) })
	testmust.Succeed(t, asleep.step(ctx))
	crashes, dealt := 0, eventlog.Position(0)
	var seen []uint64
	crashing := func() (ended bool) { // one life of the role
		defer func() { ended = recover() == nil }()
		sub, err := log.Subscribe(ctx, dealt, eventlog.Filter{})
		if err != nil {
			return true
		}
		defer sub.Close()
		for {
			batch, err := sub.Next(ctx)
			if err != nil {
				return true
			}
			for _, e := range batch.Events {
				if len(seen)%50 == 49 && crashes <= len(seen)/50 {
					crashes++
					panic("a bug of the role")
				}
				seen, dealt = append(seen, e.Revision), e.Position
				if len(seen) == events {
					return true
				}
			}
		}
	}
	lives := make(chan struct{})
	running.Go(func() {
		defer close(lives)
		for !crashing() {
		}
	})
	grow(t, log, "account-a", 0, events, 10)
	eventually(t, "the steady role has all events", func() bool { return steady.has(events) })
	<-lives
	for i, revision := range seen {
		if revision != uint64(i) {
			t.Fatalf("event %d of the crashed role has revision %d", i, revision)
		}
	}
	if len(seen) != events || crashes != events/50 {
		t.Errorf("the crashed role has %d of %d events after %d crashes", len(seen), events, crashes)
	}
	running.Go(func() { asleep.run(ctx, t) })
	eventually(t, "the waiting role has all events", func() bool { return asleep.has(events) })
	eventually(t, "one subscription", func() bool { return subscriptions(t, metrics) == 1 })
}

// unreadable is a log with one unreadable stream.
type unreadable struct {
	eventlog.Log
	stream string
}

func (u unreadable) Subscribe(ctx context.Context, after eventlog.Position, filter eventlog.Filter) (eventlog.Subscription, error) {
	sub, err := u.Log.Subscribe(ctx, after, filter)
	return unreadableSubscription{sub, u.stream}, err
}

type unreadableSubscription struct {
	eventlog.Subscription
	stream string
}

func (s unreadableSubscription) Next(ctx context.Context) (eventlog.Batch, error) {
	batch, err := s.Subscription.Next(ctx)
	for _, e := range batch.Events {
		if e.Stream == s.stream {
			return eventlog.Batch{}, fmt.Errorf("%s: %w", e.Stream, eventlog.ErrCorrupt)
		}
	}
	return batch, err
}

// TestFanout_UnreadableEvent_StopsOnlyRolesThatSelectIt appends an unreadable event.
// Rule 6.
func TestFanout_UnreadableEvent_StopsOnlyRolesThatSelectIt(t *testing.T) {
	metrics := prometheus.NewRegistry()
	log := wrap(t, unreadable{folder(t), "brand-bad"}, metrics)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	others := follow(t, log, 0, eventlog.Filter{StreamPrefixes: []string{"account-"}})
	chooses := follow(t, log, 0, eventlog.Filter{StreamPrefixes: []string{"brand-"}})
	running.Go(func() { others.run(ctx, t) })
	ended := make(chan error, 1)
	running.Go(func() {
		for {
			if err := chooses.step(ctx); err != nil {
				ended <- err
				return
			}
		}
	})
	grow(t, log, "account-a", 0, 10, 10)
	eventually(t, "one subscription", func() bool { return subscriptions(t, metrics) == 1 })
	grow(t, log, "brand-bad", 0, 1, 10)
	if err := <-ended; !errors.Is(err, eventlog.ErrCorrupt) {
		t.Errorf("the role that selects the event ended with %v", err)
	}
	grow(t, log, "account-a", 10, 10, 10)
	eventually(t, "the other role has all its events", func() bool { return others.has(20) })
}

// TestRoles_ServerFails_MissAndRepeatNothing drops subscriptions, connections and the server itself between
// appends, while roles join, leave and return.
// Rule 6.
func TestRoles_ServerFails_MissAndRepeatNothing(t *testing.T) {
	server := esdbtest.Start(t)
	metrics := prometheus.NewRegistry()
	log := wrap(t, store(t, server), metrics)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	const rounds, each = 12, 20
	var roles []*role
	for round := range rounds {
		for _, filter := range []eventlog.Filter{{}, {StreamPrefixes: []string{"account-"}}} {
			r := follow(t, log, 0, filter)
			roles = append(roles, r)
			running.Go(func() { r.run(ctx, t) })
		}
		grow(t, log, "account-a", round*each, each, 10)
		switch round % 3 {
		case 0:
			server.DropSubscriptions()
		case 1:
			server.BreakConnections()
		case 2:
			server.Stop()
			testmust.Succeed(t, server.Restart())
		}
	}
	for i, r := range roles {
		eventually(t, fmt.Sprintf("role %d has all events", i), func() bool { return r.has(rounds * each) })
		for n, seen := range r.seen {
			if want := fmt.Sprintf("account-a@%d", n); seen != want {
				t.Fatalf("event %d of role %d is %s, want %s", n, i, seen, want)
			}
		}
	}
	eventually(t, "one subscription", func() bool { return subscriptions(t, metrics) == 1 })
}

// BenchmarkAppendBesideRoles measures appends to a server in the same process while the six roles of an
// idle node follow the log, with separate subscriptions and with a shared one.
func BenchmarkAppendBesideRoles(b *testing.B) {
	for _, version := range []string{"23.10.8", "24.2.0"} {
		for _, shared := range []bool{false, true} {
			b.Run(fmt.Sprintf("server=%s/shared=%t", version, shared), func(b *testing.B) {
				server := esdbtest.Start(b)
				server.SetVersion(version)
				log := store(b, server)
				defer log.Close()
				followed := log
				if shared {
					followed = wrap(b, store(b, server), nil)
				}
				ctx, stop := context.WithCancel(b.Context())
				var running sync.WaitGroup
				defer running.Wait()
				defer stop()
				var roles []*role
				for _, prefix := range []string{"account-", "brand-", "usage-", "key-", "crawl-", "log"} {
					r := follow(b, followed, 0, eventlog.Filter{StreamPrefixes: []string{prefix}})
					roles = append(roles, r)
					running.Go(func() { r.run(ctx, b) })
				}
				for _, r := range roles {
					eventually(b, "a role is live", func() bool { return r.has(0) })
				}
				const writers = 16
				var next atomic.Int64
				var writing sync.WaitGroup
				b.ResetTimer()
				for w := range writers {
					writing.Go(func() {
						for at := 0; next.Add(1) <= int64(b.N); at++ {
							grow(b, log, fmt.Sprintf("account-%d", w), at, 1, 200)
						}
					})
				}
				writing.Wait()
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}
