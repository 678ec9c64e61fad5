package usage

import (
	"testing"
	"time"
)

func TestBurn_SpentAndAge_GiveRateAndEnd(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name     string
		spent    int64
		age      time.Duration
		credits  int64
		perDay   float64
		end      time.Duration // from now
		isWithin bool
	}{
		{"an old account", 300, 400 * day, 100, 10, 10 * day, true},
		{"a young account", 30, 3 * day, 5, 10, 12 * time.Hour, true},
		{"an account of today", 4, time.Minute, 46, 4, 276 * time.Hour, true},
		{"nothing left", 300, 400 * day, 0, 10, 0, true},
		{"a debt", 300, 400 * day, -20, 10, 0, true},
		{"nothing used", 0, 400 * day, 100, 0, 0, false},
		{"nothing used and nothing left", 0, 400 * day, 0, 0, 0, false},
		{"more returned than charged", -5, 400 * day, 100, 0, 0, false},
		{"ten years", 30, 400 * day, 3650, 1, 3650 * day, true},
		{"more than ten years", 30, 400 * day, 3651, 1, 0, false},
		{"opened by a clock that is ahead", 4, -time.Minute, 8, 4, 48 * time.Hour, true},
	} {
		b := BurnOf(c.spent, now.Add(-c.age), now)
		end, within := b.RunsOut(c.credits, now)
		if b.PerDay() != c.perDay || within != c.isWithin || within && !end.Equal(now.Add(c.end)) {
			t.Errorf("%s: %v credits a day until %s, %t; want %v until %s, %t", c.name, b.PerDay(), end, within, c.perDay, now.Add(c.end), c.isWithin)
		}
	}
	if since := BurnSince(now); !since.Equal(now.AddDate(0, 0, -30)) {
		t.Errorf("the rate is measured since %s", since)
	}
}
