package usage_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"letterhead/domain/plan"
	"letterhead/domain/usage"
	"letterhead/eventschemas"
)

const account = "0a1b2c3d-0000-4000-8000-000000000001"

var november = usage.MonthOf(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))

type scenario struct {
	t       testing.TB
	counter *usage.Counter
	counted int64
	err     error
}

func given(t testing.TB, ticks ...eventschemas.UsageTicked) *scenario {
	t.Helper()
	s := &scenario{t: t, counter: usage.New(account, november)}
	for _, tick := range ticks {
		s.happened(tick)
	}
	return s
}

func (s *scenario) happened(ev eventschemas.Event) {
	s.t.Helper()
	encoded, err := eventschemas.Encode(ev)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := eventschemas.ValidateJSON(encoded.Type, encoded.SchemaVersion, encoded.Data); err != nil {
		s.t.Fatal(err)
	}
	s.counter.Apply(ev, s.counter.Events())
}

func (s *scenario) when(n, limit int64) *scenario {
	s.t.Helper()
	var events []eventschemas.Event
	s.counted, events, s.err = s.counter.Count(n, limit)
	if (len(events) > 0) != (s.counted > 0) {
		s.t.Fatalf("Count = %d with events %v", s.counted, events)
	}
	for _, ev := range events {
		s.happened(ev)
	}
	return s
}

func (s *scenario) then(counted, used int64) *scenario {
	s.t.Helper()
	if s.err != nil || s.counted != counted || s.counter.Searches() != used {
		s.t.Fatalf("counted %d, used %d, %v; want %d, %d", s.counted, s.counter.Searches(), s.err, counted, used)
	}
	return s
}

func (s *scenario) rejected(used, limit int64) *scenario {
	s.t.Helper()
	var quota *usage.QuotaExceededError
	if !errors.Is(s.err, usage.ErrQuotaExceeded) || !errors.As(s.err, &quota) {
		s.t.Fatalf("got %v", s.err)
	}
	if quota.Used != used || quota.Limit != limit || quota.Month != november || s.counted != 0 {
		s.t.Fatalf("quota = %+v, want %d of %d used", quota, used, limit)
	}
	return s
}

func tick(entries ...eventschemas.UsageEntry) eventschemas.UsageTicked {
	return eventschemas.UsageTicked{Entries: entries}
}

func searches(n int64) eventschemas.UsageTicked {
	return tick(eventschemas.UsageEntry{AccountID: account, Month: "2026-11", Searches: n})
}

func TestCount_UpToLimit(t *testing.T) {
	given(t, searches(7)).
		when(1, 10).then(1, 8).
		when(2, 10).then(2, 10).
		when(1, 10).rejected(10, 10)
}

func TestCount_Group_GetsRemainder(t *testing.T) {
	given(t, searches(8)).
		when(5, 10).then(2, 10).
		when(5, 10).rejected(10, 10)
}

func TestCount_RaisedLimit_AppliesImmediately(t *testing.T) {
	given(t, searches(10)).when(1, 10).rejected(10, 10).when(1, 20).then(1, 11)
}

func TestCount_LimitBelowCount_Rejects(t *testing.T) {
	given(t, searches(30)).when(1, 20).rejected(30, 20)
}

func TestCount_Unlimited_CountsAll(t *testing.T) {
	given(t, searches(1_000_000)).when(500, plan.Unlimited).then(500, 1_000_500)
}

func TestCount_Zero_CountsNothing(t *testing.T) {
	given(t).when(0, 10).then(0, 0).when(-3, 10).then(0, 0).when(1, 0).rejected(0, 0)
}

func allotted(n int64) eventschemas.LogosAllotted { return eventschemas.LogosAllotted{Requests: n} }

func (s *scenario) whenLogos(n, limit int64) *scenario {
	s.t.Helper()
	var events []eventschemas.Event
	s.counted, events, s.err = s.counter.AllotLogos(n, limit)
	if (len(events) > 0) != (s.counted > 0) {
		s.t.Fatalf("AllotLogos = %d with events %v", s.counted, events)
	}
	for _, ev := range events {
		s.happened(ev)
	}
	return s
}

func (s *scenario) thenLogos(counted, used int64) *scenario {
	s.t.Helper()
	if s.err != nil || s.counted != counted || s.counter.Logos() != used {
		s.t.Fatalf("allotted %d, used %d, %v; want %d, %d", s.counted, s.counter.Logos(), s.err, counted, used)
	}
	return s
}

func TestAllotLogos_UpToLimit(t *testing.T) {
	s := given(t, searches(100))
	s.happened(allotted(4))
	s.happened(allotted(3))
	s.whenLogos(1, 10).thenLogos(1, 8).
		whenLogos(5, 10).thenLogos(2, 10).
		whenLogos(1, 10).rejected(10, 10).
		whenLogos(1, 9).rejected(10, 9).
		whenLogos(3, 20).thenLogos(3, 13).
		whenLogos(500, plan.Unlimited).thenLogos(500, 513).
		whenLogos(0, 20).thenLogos(0, 513).
		when(1, 101).then(1, 101)
}

func TestLogosAhead_ShrinksNearLimit(t *testing.T) {
	for _, c := range []struct{ used, n, limit, want int64 }{
		{0, 1, plan.Unlimited, usage.MaxLogosAhead},
		{0, 1, 500_000, usage.MaxLogosAhead},
		{495_000, 1, 500_000, 49}, {499_899, 1, 500_000, 1}, {499_900, 1, 500_000, 0}, {500_000, 1, 500_000, 0},
		{0, 1, 101, 1}, {0, 2, 101, 0}, {0, 1, 5, 0}, {9, 1, 5, 0}, {0, 1, 0, 0},
	} {
		s := given(t)
		if c.used > 0 {
			s.happened(allotted(c.used))
		}
		if got := s.counter.LogosAhead(c.n, c.limit); got != c.want {
			t.Errorf("%d requests wait and %d of %d are used: took %d ahead, want %d", c.n, c.used, c.limit, got, c.want)
		}
	}
}

func TestCounter_IgnoresOtherAccountsAndMonths(t *testing.T) {
	const other = "0a1b2c3d-0000-4000-8000-000000000002"
	s := given(t, tick(
		eventschemas.UsageEntry{AccountID: account, Month: "2026-10", Searches: 1},
		eventschemas.UsageEntry{AccountID: account, Month: "2026-11", Searches: 2, Logos: 50},
		eventschemas.UsageEntry{AccountID: other, Month: "2026-11", Searches: 4},
	))
	s.happened(eventschemas.BrandClaimed{})
	if s.counter.Searches() != 2 || s.counter.Events() != 2 || s.counter.Month() != november {
		t.Fatalf("%d searches after %d events", s.counter.Searches(), s.counter.Events())
	}
}

func TestApply_SameRevision_FoldsOnce(t *testing.T) {
	s := given(t, searches(3))
	s.counter.Apply(searches(3), 0)
	if s.counter.Searches() != 3 {
		t.Fatal(s.counter.Searches())
	}
}

func TestStreamNames(t *testing.T) {
	if got := usage.Stream(account, november); got != "usage-"+account+"-202611" {
		t.Error(got)
	}
	if got := usage.NodeStream("n1"); got != "usage-node-n1" {
		t.Error(got)
	}
}

func TestUnmarshal_DamagedState_ChangesNothing(t *testing.T) {
	s := given(t, searches(3))
	for _, state := range []string{``, `null`, `[]`, `{"searches":-1}`, `{"searches":"x"}`, `{"logos":-1}`} {
		if err := s.counter.UnmarshalJSON([]byte(state)); err == nil {
			t.Errorf("UnmarshalJSON accepted %q", state)
		}
	}
	if s.counter.Searches() != 3 {
		t.Fatal("the count was lost")
	}
}

func TestCounter_RandomSequence_StaysWithinLimit(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := given(t)
		limit := rapid.Int64Range(-1, 50).Draw(r, "limit")
		var counted, logos int64
		for range rapid.IntRange(0, 30).Draw(r, "groups") {
			s.when(rapid.Int64Range(-1, 10).Draw(r, "searches"), limit)
			counted += s.counted
			s.whenLogos(rapid.Int64Range(-1, 10).Draw(r, "logos"), limit)
			logos += s.counted
			state, err := json.Marshal(s.counter)
			if err != nil {
				r.Fatal(err)
			}
			back := usage.New(account, november)
			if err := json.Unmarshal(state, back); err != nil || *back != *s.counter {
				r.Fatalf("%s decodes as %+v, %v", state, back, err)
			}
			s.counter = back
		}
		if got := s.counter.Logos(); got != logos || (limit >= 0 && got > limit) {
			r.Fatalf("Logos = %d, AllotLogos returned %d in total, limit %d", got, logos, limit)
		}
		if got := s.counter.Searches(); got != counted || (limit >= 0 && got > limit) {
			r.Fatalf("Searches = %d, Count returned %d in total, limit %d", got, counted, limit)
		}
	})
}

func TestMonths(t *testing.T) {
	zone := time.FixedZone("UTC+2", 2*60*60)
	for _, c := range []struct {
		at         time.Time
		month, end string
	}{
		{time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC), "2026-11", "2026-12-01T00:00:00Z"},
		{time.Date(2026, 12, 31, 23, 59, 59, 999999999, time.UTC), "2026-12", "2027-01-01T00:00:00Z"},
		{time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), "2027-01", "2027-02-01T00:00:00Z"},
		{time.Date(2028, 2, 29, 12, 0, 0, 0, time.UTC), "2028-02", "2028-03-01T00:00:00Z"},
		{time.Date(2026, 12, 1, 1, 30, 0, 0, zone), "2026-11", "2026-12-01T00:00:00Z"},
	} {
		m := usage.MonthOf(c.at)
		if m.String() != c.month || m.End().Format(time.RFC3339) != c.end || usage.MonthOf(m.End()) == m || usage.MonthOf(m.Start()) != m {
			t.Errorf("MonthOf(%s) = %s, which ends %s", c.at, m, m.End())
		}
		if back, err := usage.ParseMonth(c.month); err != nil || back != m {
			t.Errorf("ParseMonth(%s) = %v, %v", c.month, back, err)
		}
	}
}

func FuzzParseMonth(f *testing.F) {
	for _, s := range []string{"2026-11", "2026-13", "2026-1", "", "0000-01", "9999-12", "2026-11-01", " 2026-11", "２０２６-11"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := usage.ParseMonth(s)
		if err != nil {
			if !errors.Is(err, usage.ErrInvalidMonth) {
				t.Fatal(err)
			}
			return
		}
		if m.String() != s || !m.End().After(m.Start()) {
			t.Fatalf("ParseMonth(%q) = %s", s, m)
		}
	})
}
