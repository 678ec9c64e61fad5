package roles_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/eventlogtest"
	"letterhead/internal/eventlog/roles"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/testmust"
)

func open(t *testing.T) eventlog.Log {
	t.Helper()
	log := testmust.Get(sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "events.db")}))(t)
	t.Cleanup(func() { log.Close() })
	return log
}

func meter(t *testing.T, log eventlog.Log, cfg roles.Config) *roles.Meter {
	t.Helper()
	m := testmust.Get(roles.New(log, cfg))(t)
	return m
}

func TestContract(t *testing.T) {
	eventlogtest.Run(t, func(t *testing.T) eventlog.Log { return meter(t, open(t), roles.Config{}).Log("role") })
}

// gauges returns the gauges of a metric by role.
func gauges(t *testing.T, from *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	families := testmust.Get(from.Gather())(t)
	found := make(map[string]float64)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			found[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
		}
	}
	return found
}

// TestLag_EachRole_IsItsOwn has a role that processes everything, one that processes nothing, one that
// stops in between, and one that ends.
// Rule 6.
func TestLag_EachRole_IsItsOwn(t *testing.T) {
	metrics, log := prometheus.NewRegistry(), open(t)
	at := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	m := meter(t, log, roles.Config{Registerer: metrics, Now: func() time.Time { return at.Add(time.Minute) }})
	write := func(n int) {
		for i := range n {
			e := eventlog.Proposed{ID: uuid.New(), Type: "Counted", SchemaVersion: 1, OccurredAt: at.Add(time.Duration(i) * time.Second), Data: []byte(`{}`)}
			testmust.Succeed(t, testmust.Err(log.Append(t.Context(), "s", eventlogtest.End(t, log, "s"), []eventlog.Proposed{e})))
		}
	}
	write(10)
	follow := func(role string) eventlog.Subscription {
		sub := testmust.Get(m.Log(role).Subscribe(t.Context(), 0, eventlog.Filter{}))(t)
		return sub
	}
	next := func(s eventlog.Subscription) {
		for batch, err := s.Next(t.Context()); ; batch, err = s.Next(t.Context()) {
			testmust.Succeed(t, err)
			if batch.Live {
				return
			}
		}
	}
	quick, slow, idle, gone := follow("quick"), follow("slow"), follow("idle"), follow("gone")
	defer quick.Close()
	defer slow.Close()
	defer idle.Close()
	m.Watch("watched", func() (eventlog.Position, bool) { return 4, true })
	m.Watch("elsewhere", func() (eventlog.Position, bool) { return 0, false })
	next(gone)
	testmust.Succeed(t, gone.Close())
	next(slow) // and requests no more
	next(quick)
	write(1)
	next(quick)
	asking := make(chan error, 1)
	go func() { // the request for more means that the previous batch was processed
		_, err := quick.Next(t.Context())
		asking <- err
	}()
	for gauges(t, metrics, "letterhead_role_lag_positions")["quick"] != 0 {
		if t.Context().Err() != nil {
			t.Fatal("the fast role never catches up")
		}
	}
	got := gauges(t, metrics, "letterhead_role_lag_positions")
	want := map[string]float64{"quick": 0, "slow": 11, "idle": 11, "watched": 7}
	if len(got) != len(want) {
		t.Errorf("there are lags for %v", got)
	}
	for role, lag := range want {
		if got[role] != lag {
			t.Errorf("%s lags %v positions, want %v", role, got[role], lag)
		}
	}
	ages := gauges(t, metrics, "letterhead_role_lag_seconds")
	for role, age := range map[string]float64{"quick": 0, "slow": 60, "idle": 60, "watched": 56} {
		if ages[role] != age {
			t.Errorf("%s lags %v s, want %v", role, ages[role], age)
		}
	}
	testmust.Succeed(t, log.Close())
	if err := <-asking; !errors.Is(err, eventlog.ErrClosed) {
		t.Errorf("a role that waits while the log closes got %v", err)
	}
	if got := gauges(t, metrics, "letterhead_role_lag_positions"); len(got) != 0 {
		t.Errorf("an unreadable log has lags %v", got)
	}
}
