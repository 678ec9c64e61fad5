package usage_test

import (
	"testing"
	"time"

	"letterhead/eventschemas"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
	"letterhead/projections/usage"
)

func open(t *testing.T, e *projectionstest.Env) (*usage.Model, *engine.Runner) {
	t.Helper()
	m := usage.New(e.Store, e.Log)
	r, _ := e.Start(engine.Config{}, m)
	return m, r
}

func charged(id string) eventschemas.Event {
	return eventschemas.CreditsCharged{ChargeID: id, Credits: 1, RequestID: "r" + id}
}

func reversed(id string) eventschemas.Event {
	return eventschemas.ChargeReversed{ChargeID: id, Credits: 1, RequestID: "r" + id, Reason: "client_gone"}
}

func want(t *testing.T, m *usage.Model, account string, counts usage.Counts) {
	t.Helper()
	got, err := m.Get(t.Context(), account, counts.Month)
	if err != nil || got != counts {
		t.Errorf("%s: %+v, %v, want %+v", account, got, err, counts)
	}
}

// A reversed charge is subtracted from the month in which it was made.
func TestReversal_CountsInMonthOfCharge(t *testing.T) {
	projectionstest.Each(t, testReversal_CountsInMonthOfCharge)
}

func testReversal_CountsInMonthOfCharge(t *testing.T, e *projectionstest.Env) {
	m, r := open(t, e)
	lastDay := time.Date(2026, 10, 31, 23, 59, 59, 0, time.UTC)
	firstDay := lastDay.Add(2 * time.Second)
	for i := range 700 { // more than one page of the search for the charge
		e.Events("account-a", lastDay.Add(-time.Hour), charged("before"), eventschemas.CreditsGranted{GrantID: "g", Kind: "topup", Credits: int64(i)})
	}
	e.Events("account-a", lastDay, charged("1"), charged("2"), charged("3"))
	e.Events("account-a", lastDay, reversed("1"))
	e.Events("account-b", firstDay, charged("2")) // a charge of another account with the same id
	e.Events("account-a", firstDay, charged("4"))
	e.Events("account-a", firstDay, reversed("2"), reversed("4"))
	e.Events("account-a", firstDay, reversed("nobody's"))
	e.Events("account-a", firstDay.AddDate(0, 0, 20), charged("5"), reversed("5"), charged("6"))
	e.CatchUp(r)
	want(t, m, "a", usage.Counts{Month: "2026-10", Lookups: 700 + 3 - 2})
	want(t, m, "a", usage.Counts{Month: "2026-11", Lookups: 0}) // two charges, two reversals
	want(t, m, "b", usage.Counts{Month: "2026-11", Lookups: 1})
	want(t, m, "a", usage.Counts{Month: "2026-12"})
	list, err := m.List(t.Context(), "a")
	if err != nil || len(list) != 2 || list[0].Month != "2026-11" || list[1].Month != "2026-10" {
		t.Errorf("months: %+v, %v, want 2026-11 and 2026-10", list, err)
	}
}

// Reversals near the start of a month find only charges of the last day. A reversal of an older charge counts in its
// own month.
func TestReversal_ChargeOlderThanDay_CountsInOwnMonth(t *testing.T) {
	projectionstest.Each(t, testReversal_ChargeOlderThanDay_CountsInOwnMonth)
}

func testReversal_ChargeOlderThanDay_CountsInOwnMonth(t *testing.T, e *projectionstest.Env) {
	m, r := open(t, e)
	e.Events("account-a", time.Date(2026, 10, 30, 12, 0, 0, 0, time.UTC), charged("1"))
	e.Events("account-a", time.Date(2026, 11, 1, 0, 0, 1, 0, time.UTC), reversed("1"))
	e.CatchUp(r)
	want(t, m, "a", usage.Counts{Month: "2026-10", Lookups: 1})
	want(t, m, "a", usage.Counts{Month: "2026-11", Lookups: -1})
}

func TestTicks_OfAllStreams_AddUp(t *testing.T) {
	projectionstest.Each(t, testTicks_OfAllStreams_AddUp)
}

func testTicks_OfAllStreams_AddUp(t *testing.T, e *projectionstest.Env) {
	m, r := open(t, e)
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	tick := func(stream string, entries ...eventschemas.UsageEntry) {
		e.Events(stream, at, eventschemas.UsageTicked{Entries: entries})
	}
	tick("usage-a-202611", eventschemas.UsageEntry{AccountID: "a", Month: "2026-11", Searches: 3})
	tick("usage-a-202611", eventschemas.UsageEntry{AccountID: "a", Month: "2026-11", Searches: 4})
	tick("usage-node-1", eventschemas.UsageEntry{AccountID: "a", Month: "2026-10", Logos: 5}, // recorded a second late
		eventschemas.UsageEntry{AccountID: "a", Month: "2026-11", Logos: 6, Searches: 1},
		eventschemas.UsageEntry{AccountID: "b", Month: "2026-11", Logos: 7},
		eventschemas.UsageEntry{AccountID: "c", Month: "2026-11", KeysUsed: []eventschemas.KeyUsed{{KeyID: "k", At: at}}})
	e.CatchUp(r)
	want(t, m, "a", usage.Counts{Month: "2026-11", Searches: 8, Logos: 6})
	want(t, m, "a", usage.Counts{Month: "2026-10", Logos: 5})
	want(t, m, "b", usage.Counts{Month: "2026-11", Logos: 7})
	if list, err := m.List(t.Context(), "c"); err != nil || len(list) != 0 {
		t.Errorf("an account that only used a key: %+v, %v, want none", list, err)
	}
}
