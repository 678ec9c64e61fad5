package main

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTimeSpan_MonthDayAndMoment_EndIsInclusive(t *testing.T) {
	for text, want := range map[string][2]string{
		"":                            {"0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"},
		"2026-11":                     {"2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"},
		"2026-12":                     {"2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		"2028-02-29":                  {"2028-02-29T00:00:00Z", "2028-03-01T00:00:00Z"},
		"2026-11-30T15:04:05Z":        {"2026-11-30T15:04:05Z", "2026-11-30T15:04:05.000001Z"},
		"2026-11-30T15:04:05.0000019": {}, // without a zone
		"2026-11-30T16:04:05+01:00":   {"2026-11-30T15:04:05Z", "2026-11-30T15:04:05.000001Z"},
		"2026-13":                     {},
		"2026-02-30":                  {},
		"yesterday":                   {},
	} {
		start, end, err := timeSpan("--from", text)
		if want[0] == "" {
			if err == nil {
				t.Errorf("timeSpan(%q) = %s, %s, want an error", text, start, end)
			}
			continue
		}
		if got := [2]string{start.Format(time.RFC3339Nano), end.Format(time.RFC3339Nano)}; err != nil || got != want {
			t.Errorf("timeSpan(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestTimeSpan_AnyText_NeverPanics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if start, end, err := timeSpan("--to", rapid.String().Draw(t, "text")); err == nil && end.Before(start) {
			t.Fatalf("the end %s is before the start %s", end, start)
		}
	})
}
