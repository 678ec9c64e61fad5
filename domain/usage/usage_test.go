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
	"letterhead/internal/testmust"
)

const account = "0a1b2c3d-0000-4000-8000-000000000001"

var november = usage.MonthOf(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))

type scenario struct {
	t       testing.TB
	counter *usage.Counter
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
	encoded := testmust.Get(eventschemas.Encode(ev))(s.t)
	testmust.Succeed(s.t, eventschemas.ValidateJSON(encoded.Type, encoded.SchemaVersion, encoded.Data))
	s.counter.Apply(ev, s.counter.Events())
}

func tick(entries ...eventschemas.UsageEntry) eventschemas.UsageTicked {
	return eventschemas.UsageTicked{Entries: entries}
}

func searches(n int64) eventschemas.UsageTicked {
	return tick(eventschemas.UsageEntry{AccountID: account, Month: "2026-11", Searches: n})
}

func allotted(n int64) eventschemas.LogosAllotted { return eventschemas.LogosAllotted{Requests: n} }

func TestCheck_AnyLimit_AllowsOneMoreBelowIt(t *testing.T) {
	for _, c := range []struct {
		counted, pending, limit int64
		exceeded                bool
	}{
		{7, 0, 10, false}, {7, 2, 10, false}, {7, 3, 10, true}, {10, 0, 10, true},
		{10, 0, 20, false}, {30, 0, 20, true}, {0, 0, 1, false}, {0, 1, 1, true}, {0, 0, 0, true},
		{1_000_000, 500, plan.Unlimited, false}, {1_000_000, 500, -7, false},
	} {
		s := given(t)
		if c.counted > 0 {
			s.happened(searches(c.counted))
			s.happened(allotted(c.counted))
		}
		for what, err := range map[string]error{
			"searches": s.counter.CheckSearch(c.pending, c.limit), "logos": s.counter.CheckLogo(c.pending, c.limit),
		} {
			var quota *usage.QuotaExceededError
			switch {
			case !c.exceeded && err != nil:
				t.Errorf("%+v: %v", c, err)
			case c.exceeded && (!errors.Is(err, usage.ErrQuotaExceeded) || !errors.As(err, &quota)):
				t.Errorf("%+v: %v, want ErrQuotaExceeded", c, err)
			case c.exceeded && *quota != usage.QuotaExceededError{What: what, Month: november, Used: c.counted + c.pending, Limit: c.limit}:
				t.Errorf("%+v: %+v", c, *quota)
			}
		}
	}
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

func TestCounter_AnyEvents_StateIsRestored(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := given(t)
		for range rapid.IntRange(0, 30).Draw(r, "events") {
			s.happened(searches(rapid.Int64Range(1, 10).Draw(r, "searches")))
			s.happened(allotted(rapid.Int64Range(1, 10).Draw(r, "logos")))
			state := testmust.Get(json.Marshal(s.counter))(r)
			back := usage.New(account, november)
			if err := json.Unmarshal(state, back); err != nil || *back != *s.counter {
				r.Fatalf("%s decodes as %+v, %v", state, back, err)
			}
			s.counter = back
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
