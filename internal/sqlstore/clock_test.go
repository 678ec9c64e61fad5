package sqlstore_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"letterhead/internal/sqlstore"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/internal/testlink"
	"letterhead/internal/testmust"
)

// machine is the clock of a test's machine.
type machine struct{ at atomic.Int64 }

func (m *machine) now() time.Time      { return time.Unix(0, m.at.Load()) }
func (m *machine) add(d time.Duration) { m.at.Add(int64(d)) }

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func newClock(t *testing.T, s *sqlstore.Store, local func() time.Time) *sqlstore.Clock {
	t.Helper()
	c := testmust.Get(sqlstore.NewClock(t.Context(), s, sqlstore.ClockConfig{Local: local}))(t)
	return c
}

func TestClock_WrongLocalClocks_ReturnDatabaseTime(t *testing.T) {
	s := sqlstoretest.Open(t, sqlstoretest.WithClock(t, sqlstoretest.Postgres(t)))
	sqlstoretest.SetClock(t, s, noon)
	for _, wrong := range []time.Duration{0, 5 * time.Second, -5 * time.Second, -365 * 24 * time.Hour} {
		m := &machine{}
		m.at.Store(noon.Add(wrong).UnixNano())
		c := newClock(t, s, m.now)
		if now := c.Now(); !now.Equal(noon) || now.Location() != time.UTC {
			t.Errorf("on a machine whose clock is off by %s, Now = %s", wrong, now)
		}
		m.add(90 * time.Second)
		if now := c.Now(); !now.Equal(noon.Add(90 * time.Second)) {
			t.Errorf("90 s later, on a machine whose clock is off by %s, Now = %s", wrong, now)
		}
		if offset, bound := c.Offset(); offset != -wrong || bound != 0 {
			t.Errorf("a machine whose clock is off by %s: offset %s ± %s", wrong, offset, bound)
		}
	}
}

func TestClock_RealServer_IsWithinBound(t *testing.T) {
	s := sqlstoretest.Open(t, sqlstoretest.Postgres(t))
	skew := func() time.Time { return time.Now().Add(5 * time.Second) }
	c := newClock(t, s, skew)
	_, bound := c.Offset()
	var before, after time.Time
	testmust.Succeed(t, s.Read().QueryRow(`SELECT clock_timestamp()`).Scan(&before))
	now := c.Now()
	testmust.Succeed(t, s.Read().QueryRow(`SELECT clock_timestamp()`).Scan(&after))
	const drift = 10 * time.Millisecond // a generous limit for the two clocks since the measurement
	if now.Before(before.Add(-bound-drift)) || now.After(after.Add(bound+drift)) {
		t.Errorf("%s is not between %s and %s, give or take %s", now, before, after, bound)
	}
}

func TestClock_SQLite_IsLocalClock(t *testing.T) {
	s := sqlstoretest.Open(t, sqlstoretest.SQLite(t))
	m := &machine{}
	m.at.Store(noon.UnixNano())
	c := newClock(t, s, m.now)
	m.add(time.Second)
	if now := c.Now(); !now.Equal(noon.Add(time.Second)) {
		t.Error(now)
	}
	m.add(-10 * time.Second)
	if now := c.Now(); !now.Equal(noon.Add(time.Second)) {
		t.Errorf("Now stepped back with the machine's clock: %s", now)
	}
}

func TestClock_MeasuredAgain_NeverStepsBack(t *testing.T) {
	s := sqlstoretest.Open(t, sqlstoretest.WithClock(t, sqlstoretest.Postgres(t)))
	rapid.Check(t, func(rt *rapid.T) {
		at := noon
		sqlstoretest.SetClock(t, s, at)
		m := &machine{}
		m.at.Store(noon.UnixNano())
		c := newClock(t, s, m.now)
		last := c.Now()
		for range rapid.IntRange(1, 6).Draw(rt, "steps") {
			passed := time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(rt, "passed")).Truncate(time.Microsecond)
			jump := time.Duration(rapid.Int64Range(int64(-10*time.Second), int64(10*time.Second)).Draw(rt, "jump")).Truncate(time.Microsecond)
			m.add(passed)
			at = at.Add(passed + jump)
			sqlstoretest.SetClock(t, s, at)
			testmust.Succeed(rt, c.Measure(t.Context()))
			now := c.Now()
			if now.Before(last) {
				rt.Fatalf("%s after %s", now, last)
			}
			if now.Before(at) {
				rt.Fatalf("Now = %s, before the database's %s", now, at)
			}
			last = now
		}
		// A clock that is ahead by any amount slows down until it shows the database's time, and stays there.
		ahead := last.Sub(at)
		m.add(2 * ahead)
		if now, want := c.Now(), at.Add(2*ahead); !now.Equal(want) {
			rt.Fatalf("%s ahead: after twice that time Now = %s, want the database's %s", ahead, now, want)
		}
	})
}

func TestClock_DatabaseUnavailable_KeepsOffset(t *testing.T) {
	cfg := sqlstoretest.WithClock(t, sqlstoretest.Postgres(t))
	direct := sqlstoretest.Open(t, cfg)
	proxy, url := testlink.ThroughURL(t, cfg.URL)
	cfg.URL = url
	s := sqlstoretest.Open(t, cfg)
	sqlstoretest.SetClock(t, direct, noon)
	m := &machine{}
	c := newClock(t, s, m.now)
	proxy.Hang()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := c.Measure(ctx); err == nil {
		t.Error("the clock was measured on a hung server")
	}
	m.add(time.Hour)
	if now := c.Now(); !now.Equal(noon.Add(time.Hour)) {
		t.Error(now)
	}
	proxy.Resume()
}

// lines receives a value when something was logged.
type lines chan struct{}

func (l lines) Write(p []byte) (int, error) {
	select {
	case l <- struct{}{}:
	default: // the previous value was not received yet
	}
	return len(p), nil
}

func TestClock_FailedMeasurements_AreCounted(t *testing.T) {
	cfg := sqlstoretest.Postgres(t)
	proxy, url := testlink.ThroughURL(t, cfg.URL)
	registry := prometheus.NewRegistry()
	cfg.URL, cfg.Registerer = url, registry
	s := sqlstoretest.Open(t, cfg)
	said := make(lines)
	c, err := sqlstore.NewClock(t.Context(), s, sqlstore.ClockConfig{
		Interval: 100 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(said, nil)),
	})
	testmust.Succeed(t, err)
	failures := func() float64 { return gauge(t, registry, "letterhead_clock_failures_total") }
	if n := failures(); n != 0 {
		t.Errorf("before: %v", n)
	}
	proxy.Refuse()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	<-said
	<-said
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := failures(); n < 2 {
		t.Errorf("%v after two", n)
	}
	if err := c.Measure(t.Context()); !errors.Is(err, sqlstore.ErrUnavailable) {
		t.Error(err)
	}
	proxy.Resume()
	if err := c.Measure(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestClock_Run_MeasuresPeriodically(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // on SQLite, because a server cannot run in the bubble
		s := testmust.Get(sqlstore.Open(t.Context(), sqlstoretest.SQLite(t)))(t)
		defer s.Close()
		var asked atomic.Int64
		c := newClock(t, s, func() time.Time { asked.Add(1); return time.Now() })
		ctx, cancel := context.WithTimeout(t.Context(), 3*sqlstore.DefaultClockInterval+time.Second)
		defer cancel()
		asked.Store(0)
		if err := c.Run(ctx); err != nil || asked.Load() != 3 {
			t.Errorf("measured %d times in three intervals, %v, want 3", asked.Load(), err)
		}
	})
}
