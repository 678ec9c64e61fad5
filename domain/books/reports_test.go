package books

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// revenueOf shows each row as its group, currency, and opening and change of deferred revenue.
func revenueOf(f *Flows, now time.Time) string {
	var rows []string
	for _, r := range f.Revenue(now) {
		rows = append(rows, fmt.Sprintf("%s %s %d+%d", r.Group, r.Currency, r.Opening, r.Closing-r.Opening))
	}
	return strings.Join(rows, ", ")
}

func TestRevenue_ByMonth_EveryMonthOpensWithTheCloseBefore(t *testing.T) {
	month := func(n int) time.Time { return time.Date(2026, time.Month(n), 15, 0, 0, 0, 0, time.UTC) }
	f := NewFlows(ByMonth, month(3), time.Time{})
	h := &Holder{ID: "a", Plan: "free"}
	f.Add(month(1), h, "USD", Movement{Received: 7})
	f.Add(month(2), h, "EUR", Movement{Received: 100})
	f.Add(month(3), h, "EUR", Movement{Received: 50, Recognized: 30})
	f.Add(month(6), h, "EUR", Movement{Refunded: 20})
	f.Add(month(6), h, "EUR", Movement{Recognized: 40})
	want := "2026-03 EUR 100+20, 2026-03 USD 7+0, 2026-04 EUR 120+0, 2026-04 USD 7+0, 2026-05 EUR 120+0, 2026-05 USD 7+0, 2026-06 EUR 120+-60, 2026-06 USD 7+0, 2026-07 EUR 60+0, 2026-07 USD 7+0"
	for range 2 { // the first report changes nothing
		if got := revenueOf(f, month(7)); got != want {
			t.Errorf("the rows are %s, want %s", got, want)
		}
	}
	rows := f.Revenue(month(7))
	if running := slices.IndexFunc(rows, func(r RevenueRow) bool { return r.Running }); running != len(rows)-2 || rows[running].Group != "2026-07" {
		t.Errorf("the first row of the running month is %d of %d", running, len(rows))
	}
}

func TestReports_ByPlanOrAccount_AreRunningUnlessTheyEndBeforeNow(t *testing.T) {
	now := time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC)
	for _, by := range []string{ByPlan, ByAccount} {
		for _, c := range []struct {
			until time.Time
			want  bool
		}{
			{time.Time{}, true},
			{time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), true},
			{now, false},
			{time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), false},
		} {
			f := NewFlows(by, time.Time{}, c.until)
			f.Add(time.Date(2026, 10, 5, 0, 0, 0, 0, time.UTC), &Holder{ID: "a", Plan: "free"}, "EUR", Movement{Received: 100})
			if r, u := f.Revenue(now), f.Usage(now); len(r) != 1 || r[0].Running != c.want || len(u) != 1 || u[0].Running != c.want {
				t.Errorf("by %s until %s: %+v and %+v, want running %v", by, c.until, r, u, c.want)
			}
		}
	}
}

func TestRevenue_ByMonth_RowsFromStartToEnd(t *testing.T) {
	month := func(n int) time.Time { return time.Date(2026, time.Month(n), 1, 0, 0, 0, 0, time.UTC) }
	for _, c := range []struct {
		from, until time.Time
		want        string // months and opening balances
	}{
		{month(3), time.Time{}, "2026-03 100, 2026-04 100, 2026-05 100"},
		{month(3), month(5), "2026-03 100, 2026-04 100"},
		{month(1), time.Time{}, "2026-01 0, 2026-02 0, 2026-03 100, 2026-04 100, 2026-05 100"},
		{time.Time{}, month(12), "2026-02 0, 2026-03 100, 2026-04 100, 2026-05 100"},
		{month(6), time.Time{}, ""},
	} {
		f := NewFlows(ByMonth, c.from, c.until)
		f.Add(month(2), &Holder{ID: "a"}, "EUR", Movement{Received: 100})
		var got []string
		for _, r := range f.Revenue(month(5).Add(time.Hour)) {
			got = append(got, fmt.Sprintf("%s %d", r.Group, r.Opening))
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("from %s to %s: %s, want %s", c.from, c.until, strings.Join(got, ", "), c.want)
		}
	}
}

func TestFlows_ByPlanAndAccount_SumTheirRows(t *testing.T) {
	at := time.Date(2026, 3, 15, 0, 0, 0, 0, time.UTC)
	for by, want := range map[string]string{
		ByPlan:    "free EUR 4+3, growth EUR 0+8, growth USD 0+16",
		ByAccount: "a EUR 4+1, b EUR 0+2, c EUR 0+8, c USD 0+16",
	} {
		f := NewFlows(by, at, time.Time{})
		f.Add(at.Add(-time.Hour), &Holder{ID: "a", Plan: "free"}, "EUR", Movement{Received: 4})
		f.Add(at, &Holder{ID: "a", Plan: "free"}, "EUR", Movement{Received: 1})
		f.Add(at, &Holder{ID: "b", Plan: "free"}, "EUR", Movement{Received: 2})
		f.Add(at, &Holder{ID: "c", Plan: "growth"}, "EUR", Movement{Received: 8, CreditsGranted: 80})
		f.Add(at, &Holder{ID: "c", Plan: "growth"}, "USD", Movement{Received: 16, CreditsGranted: 160})
		f.Add(at, &Holder{ID: "c", Plan: "growth"}, "", Movement{CreditsGranted: 5})
		if got := revenueOf(f, at); got != want {
			t.Errorf("by %s: %s, want %s", by, got, want)
		}
		usage := f.Usage(at)
		if last := usage[len(usage)-1]; last.Paid.CreditsGranted != 240 || last.Promotional.CreditsGranted != 5 || !last.Running {
			t.Errorf("by %s: the last group used %+v", by, last)
		}
	}
}
