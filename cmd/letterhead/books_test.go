package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"letterhead/domain/books"
)

func TestGrouping_ByMonth_EveryMonthOpensWithTheCloseBefore(t *testing.T) {
	month := func(n int) time.Time { return time.Date(2026, time.Month(n), 15, 0, 0, 0, 0, time.UTC) }
	g := &grouping{by: "month", from: month(3), flows: map[flowKey]*flow{}}
	h := &books.Holder{ID: "a", Plan: "free"}
	g.add(month(1), h, "USD", books.Movement{Received: 7})
	g.add(month(2), h, "EUR", books.Movement{Received: 100})
	g.add(month(3), h, "EUR", books.Movement{Received: 50, Recognized: 30})
	g.add(month(6), h, "EUR", books.Movement{Refunded: 20})
	g.add(month(6), h, "EUR", books.Movement{Recognized: 40})
	var got []string
	for _, k := range g.keys(month(7)) {
		f := g.flows[k]
		got = append(got, fmt.Sprintf("%s %s %d+%d", k.group, k.currency, f.before.Deferred(), f.in.Deferred()))
	}
	want := "2026-03 EUR 100+20, 2026-03 USD 7+0, 2026-04 EUR 120+0, 2026-04 USD 7+0, 2026-05 EUR 120+0, 2026-05 USD 7+0, 2026-06 EUR 120+-60, 2026-06 USD 7+0, 2026-07 EUR 60+0, 2026-07 USD 7+0"
	if strings.Join(got, ", ") != want {
		t.Errorf("rows = %s, want %s", strings.Join(got, ", "), want)
	}
}

func TestGrouping_ByMonth_RowsFromStartToEnd(t *testing.T) {
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
		g := &grouping{by: "month", from: c.from, until: c.until, flows: map[flowKey]*flow{}}
		g.add(month(2), &books.Holder{ID: "a"}, "EUR", books.Movement{Received: 100})
		var got []string
		for _, k := range g.keys(month(5).Add(time.Hour)) {
			got = append(got, fmt.Sprintf("%s %d", k.group, g.flows[k].before.Deferred()))
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("from %s to %s: %s, want %s", c.from, c.until, strings.Join(got, ", "), c.want)
		}
	}
}
