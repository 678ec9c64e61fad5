package usage_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/testmust"
	"letterhead/projections/projectionstest"
	"letterhead/projections/usage"
)

func day(text string) time.Time {
	at, err := time.Parse(time.DateOnly, text)
	if err != nil {
		panic(err)
	}
	return at
}

func TestPeriod_Days_HaveCreditsAndUsageOfEach(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m, r := open(t, e)
		first := day("2026-10-31")
		late := first.Add(24*time.Hour - time.Microsecond)
		charge := func(id, key, hold string) eventschemas.Event {
			return eventschemas.CreditsCharged{ChargeID: id, Credits: 2, RequestID: "r" + id, KeyID: key, HoldID: hold}
		}
		e.Events("account-a", first.Add(-time.Microsecond), eventschemas.CreditsGranted{GrantID: "g1", Kind: "topup", Credits: 100})
		e.Events("account-a", first, charge("1", "k1", ""), charge("2", "k2", ""), charge("3", "", ""))
		e.Events("account-b", first, charge("1", "k3", ""))
		e.Events("account-a", late, charge("4", "k1", "h4"), eventschemas.HoldReleased{HoldID: "h5", Credits: 2})
		e.Events("account-a", late.Add(time.Microsecond), eventschemas.ChargeReversed{ChargeID: "4", Credits: 2}, charge("5", "k1", ""),
			eventschemas.CreditsGranted{GrantID: "g2", Kind: "topup", Credits: 7}, eventschemas.PaymentRefunded{RefundID: "re", Credits: 30},
			eventschemas.RefundReversed{RefundID: "re", Credits: 10}, eventschemas.BreakageRecognized{Credits: 1})
		e.Events("usage-node-1", late.Add(time.Second), eventschemas.UsageTicked{Entries: []eventschemas.UsageEntry{
			{AccountID: "a", Month: "2026-10", Logos: 5}, // recorded a second late
			{AccountID: "a", Month: "2026-11", Logos: 6, Searches: 1},
			{AccountID: "c", Month: "2026-11", KeysUsed: []eventschemas.KeyUsed{{KeyID: "k", At: late}}},
		}})
		e.Events("usage-a-202611", late.Add(time.Minute), eventschemas.UsageTicked{Entries: []eventschemas.UsageEntry{{AccountID: "a", Month: "2026-11", Searches: 2}}})
		e.CatchUp(r)

		p, err := m.Period(t.Context(), "a", first.Add(5*time.Hour), day("2026-11-02"))
		testmust.Succeed(t, err)
		wantDays := []usage.Day{
			{Start: first, Hits: 3, Crawls: 1, Charged: 8, Net: -8, Logos: 5},
			{Start: day("2026-11-01"), Hits: 1, Charged: 2, Returned: 2, Granted: 7, Net: -14, Searches: 3, Logos: 6},
		}
		if !slices.Equal(p.Days, wantDays) {
			t.Errorf("days %+v, want %+v", p.Days, wantDays)
		}
		wantKeys := []usage.Key{{ID: "k1", Hits: 2, Crawls: 1, Charged: 6}, {Hits: 1, Charged: 2}, {ID: "k2", Hits: 1, Charged: 2}}
		if !slices.Equal(p.Keys, wantKeys) || p.More {
			t.Errorf("keys %+v (more: %v), want %+v", p.Keys, p.More, wantKeys)
		}

		if p, err = m.Period(t.Context(), "a", day("2026-10-30"), first); err != nil || len(p.Days) != 1 || p.Days[0].Net != 100 || len(p.Keys) != 0 {
			t.Errorf("the day before: %+v, %v", p, err)
		}
		if p, err = m.Period(t.Context(), "c", first, day("2026-12-01")); err != nil || len(p.Days)+len(p.Keys) != 0 {
			t.Errorf("an account that only used a key: %+v, %v", p, err)
		}
	})
}

func TestPeriod_ManyKeys_HasThoseChargedMost(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m, r := open(t, e)
		at := day("2026-11-01")
		var charges []eventschemas.Event
		for i := range usage.MaxKeys + 5 {
			charges = append(charges, eventschemas.CreditsCharged{ChargeID: fmt.Sprint(i), Credits: int64(i + 1), KeyID: fmt.Sprintf("k%03d", i)})
		}
		e.Events("account-a", at, charges...)
		e.CatchUp(r)
		p, err := m.Period(t.Context(), "a", at, at.AddDate(0, 0, usage.MaxDays))
		if err != nil || !p.More || len(p.Keys) != usage.MaxKeys || p.Keys[0].ID != "k104" || p.Keys[usage.MaxKeys-1].ID != "k005" {
			t.Errorf("%d keys (more: %v), %v", len(p.Keys), p.More, err)
		}
		for _, until := range []time.Time{at, at.AddDate(0, 0, -1), at.AddDate(0, 0, usage.MaxDays+1)} {
			if _, err := m.Period(t.Context(), "a", at, until); !errors.Is(err, usage.ErrPeriod) {
				t.Errorf("until %s: %v, want ErrPeriod", until, err)
			}
		}
	})
}
