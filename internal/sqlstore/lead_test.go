package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/sqlstore"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/internal/testlink"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
)

// term is one term of a leader.
type term struct {
	node string
	ctx  context.Context // of do
	end  chan error      // do returns the received error
}

// candidates run Lead on several nodes and report each term.
type candidates struct {
	terms   chan *term
	leading atomic.Int64
	atOnce  atomic.Int64 // the maximum number of concurrent leaders
}

// run begins Lead on a node; the channel receives the result of Lead.
func (c *candidates) run(ctx context.Context, s *sqlstore.Store, node string) <-chan error {
	ended := make(chan error, 1)
	go func() {
		ended <- s.Lead(ctx, "projector", func(ctx context.Context) error {
			if n := c.leading.Add(1); n > c.atOnce.Load() {
				c.atOnce.Store(n)
			}
			defer c.leading.Add(-1)
			now := &term{node: node, ctx: ctx, end: make(chan error, 1)}
			c.terms <- now
			select {
			case err := <-now.end:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	return ended
}

// next waits up to a minute for the next term.
func (c *candidates) next(t *testing.T) *term {
	t.Helper()
	return testwait.Receive(t, c.terms, "a node to lead")
}

func newCandidates() *candidates { return &candidates{terms: make(chan *term, 100)} }

func TestLead_EndsWithContextOrWork(t *testing.T) {
	sqlstoretest.Each(t, func(t *testing.T, cfg sqlstore.Config) {
		registry := prometheus.NewRegistry()
		cfg.Registerer = registry
		s := sqlstoretest.Open(t, cfg)
		mine := errors.New("mine")
		for _, want := range []error{nil, mine} {
			err := s.Lead(t.Context(), "x", func(context.Context) error {
				if got := gauge(t, registry, "letterhead_leading"); got != 1 {
					t.Errorf("the gauge of a leader is %v", got)
				}
				return want
			})
			if !errors.Is(err, want) {
				t.Errorf("work that ended with %v: %v", want, err)
			}
			if got := gauge(t, registry, "letterhead_leading"); got != 0 {
				t.Errorf("the gauge of a node that no longer leads is %v", got)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		err := s.Lead(ctx, "x", func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		if err != nil {
			t.Errorf("context that ended: %v", err)
		}
	})
}

// gauge returns the value of a metric, a gauge or a counter, that has one.
func gauge(t *testing.T, from prometheus.Gatherer, name string) float64 {
	t.Helper()
	families := testmust.Get(from.Gather())(t)
	for _, family := range families {
		if family.GetName() == name && len(family.GetMetric()) == 1 {
			m := family.GetMetric()[0]
			return m.GetGauge().GetValue() + m.GetCounter().GetValue() // one is nil, and 0
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func TestLead_OneLeads_StandbyTakesOver(t *testing.T) {
	cfg := sqlstoretest.Postgres(t)
	application := fmt.Sprint("exactly_one_leads_", time.Now().UnixNano()) // other tests may run at the server
	behind := cfg
	behind.URL += "&application_name=" + application
	c := newCandidates()
	for i := range 4 {
		c.run(t.Context(), sqlstoretest.Open(t, behind), fmt.Sprint(i))
	}
	now := c.next(t)
	for range 5 {
		start := time.Now()
		terminate(t, cfg, application)
		<-now.ctx.Done()
		learnt := time.Since(start)
		now = c.next(t)
		t.Logf("connection killed: the leader knew after %s, another led after %s", learnt, time.Since(start))
	}
	if now.ctx.Err() != nil {
		t.Error("the last leader's context has ended")
	}
	// A leader whose connection was killed may still be ending while the next begins; there are never more than two.
	if n := c.atOnce.Load(); n > 2 {
		t.Errorf("%d led at the same time", n)
	}
}

// terminate ends the connection that holds the lock.
func terminate(t *testing.T, cfg sqlstore.Config, application string) {
	t.Helper()
	sqlstoretest.Exec(t, cfg.URL, fmt.Sprintf(`
SELECT pg_terminate_backend(l.pid, 10000) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'advisory' AND l.granted AND a.application_name = '%s'`, application))
}

func TestLead_LeaderLeaves_NextLeadsImmediately(t *testing.T) {
	cfg := sqlstoretest.Postgres(t)
	c := newCandidates()
	ctx, leave := context.WithCancel(t.Context())
	ended := c.run(ctx, sqlstoretest.Open(t, cfg), "a")
	if now := c.next(t); now.node != "a" {
		t.Fatal(now.node)
	}
	c.run(t.Context(), sqlstoretest.Open(t, cfg), "b")
	start := time.Now()
	leave()
	if err := <-ended; err != nil {
		t.Errorf("Lead of the node that left: %v", err)
	}
	if now := c.next(t); now.node != "b" {
		t.Error(now.node)
	}
	t.Logf("left: another led after %s", time.Since(start))
	if n := c.atOnce.Load(); n != 1 {
		t.Errorf("%d led at the same time, want 1", n)
	}
}

// The network cuts off a leader whose connection is open on both sides.
func TestLead_LeaderCutOff_StopsBeforeNextBegins(t *testing.T) {
	t.Parallel() // it waits for the time-outs of leadership
	cfg := sqlstoretest.Postgres(t)
	proxy, through := testlink.ThroughURL(t, cfg.URL)
	c := newCandidates()
	behind := cfg
	behind.URL = through
	c.run(t.Context(), sqlstoretest.Open(t, behind), "cut off")
	first := c.next(t)
	c.run(t.Context(), sqlstoretest.Open(t, cfg), "standby")
	start := time.Now()
	proxy.Hang()
	<-first.ctx.Done()
	learnt := time.Since(start)
	if now := c.next(t); now.node != "standby" {
		t.Error(now.node)
	}
	t.Logf("cut off: the leader knew after %s, another led after %s", learnt, time.Since(start))
	if n := c.atOnce.Load(); n != 1 {
		t.Errorf("%d led at the same time, want 1", n)
	}
}

func TestLead_HungServer_CandidateLeavesImmediately(t *testing.T) {
	cfg := sqlstoretest.Postgres(t)
	proxy, through := testlink.ThroughURL(t, cfg.URL)
	cfg.URL = through
	c := newCandidates()
	ctx, cancel := context.WithCancel(t.Context())
	var ended []<-chan error
	for i := range 2 { // one leads, one queues
		ended = append(ended, c.run(ctx, sqlstoretest.Open(t, cfg), fmt.Sprint(i)))
	}
	c.next(t)
	proxy.Hang()
	cancel()
	for _, e := range ended {
		if err := testwait.Receive(t, e, "the end of Lead while the server hangs"); err != nil {
			t.Error(err)
		}
	}
	proxy.Resume()
}

func TestLead_ServerLost_LeadsAgain(t *testing.T) {
	cfg := sqlstoretest.Postgres(t)
	proxy, through := testlink.ThroughURL(t, cfg.URL)
	cfg.URL = through
	c := newCandidates()
	c.run(t.Context(), sqlstoretest.Open(t, cfg), "a")
	first := c.next(t)
	proxy.Refuse()
	<-first.ctx.Done()
	proxy.Resume()
	if second := c.next(t); second.ctx.Err() != nil {
		t.Error("the second term had ended when it began")
	}
}

func TestLead_NamesAndSchemas_AreIndependent(t *testing.T) {
	a, b := sqlstoretest.Open(t, sqlstoretest.Postgres(t)), sqlstoretest.Open(t, sqlstoretest.Postgres(t))
	err := a.Lead(t.Context(), "x", func(ctx context.Context) error {
		return a.Lead(ctx, "y", func(ctx context.Context) error {
			return b.Lead(ctx, "x", func(context.Context) error { return nil })
		})
	})
	if err != nil {
		t.Error(err)
	}
}

func TestHold_NameInUse_FailsUntilReleased(t *testing.T) {
	t.Parallel() // it waits until a process without a connection loses its name
	cfg := sqlstoretest.Postgres(t)
	first, second := sqlstoretest.Open(t, cfg), sqlstoretest.Open(t, cfg)
	holding, leave := context.WithCancel(t.Context())
	held, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() { ended <- first.Hold(holding, "node a", func() { held <- struct{}{} }) }()
	<-held
	other, stop := context.WithCancel(t.Context())
	go func() { ended <- first.Hold(other, "node b", func() { held <- struct{}{} }) }() // another name is free
	<-held
	if err := second.Hold(t.Context(), "node a", func() { t.Error("a second process got the name of a live one") }); !errors.Is(err, sqlstore.ErrHeld) {
		t.Errorf("the second process: %v", err)
	}
	leave()
	stop()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	again, leaveAgain := context.WithCancel(t.Context())
	if err := second.Hold(again, "node a", leaveAgain); err != nil {
		t.Errorf("after the name was released: %v", err)
	}
}

// The connection that holds the name is lost, as after a restart of the server. The process takes its name again.
func TestHold_ConnectionLost_TakesNameAgain(t *testing.T) {
	cfg := sqlstoretest.Postgres(t)
	proxy, url := testlink.ThroughURL(t, cfg.URL)
	cfg.URL = url
	store := sqlstoretest.Open(t, cfg)
	ctx, leave := context.WithCancel(t.Context())
	held, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() { ended <- store.Hold(ctx, "node a", func() { held <- struct{}{} }) }()
	<-held
	proxy.Refuse()
	proxy.Resume()
	<-held
	leave()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
