package account

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

func TestCharge_SameRequest_ChargesOnce(t *testing.T) {
	s := given(t, opened, granted(9)).when(charge("r1")).then(charged("r1", "", "")).
		when(charge("r1")).keeps("r1", charged("r1", "", ""))
	if want := (ChargeFact{ChargeID: charged("r1", "", "").ChargeID, Credits: 1, BrandID: "b", Domain: "acme.com", RecordRevision: 7, Revision: 2, At: start.Add(3 * time.Second)}); s.fact != want {
		t.Fatalf("fact %+v, want %+v", s.fact, want)
	}
	s.when(charging(Charge{RequestID: "r1", Item: "another"})).then(charged("r1", "", "another"))
	s.when(charge("r2")).then(charged("r2", "", "")).
		when(reverse("r2", s.now), charge("r2")).rejected(ErrChargeReversed)
	// A repeat does not capture its hold, even if the first charge had none.
	s.when(hold1("h1"), capturing("r1", "h1", "")).isRepeated().balance(7, 1)
}

func TestCharge_RememberedForHoldMemory(t *testing.T) {
	s := given(t, opened, granted(9)).when(charge("r1")).then(charged("r1", "", ""))
	at := s.now
	s.when(charge("r1")).keeps("r1", charged("r1", "", ""))
	s.now = at.Add(HoldMemory - time.Microsecond)
	s.when(charge("r1")).isRepeated()
	s.after(time.Microsecond).when(charge("r1")).then(charged("r1", "", "")).balance(7, 0)
	s.when(charge("r1")).keeps("r1", charged("r1", "", ""))
	if s.fact.Revision != 4 {
		t.Fatalf("the repeat is of revision %d, want 4", s.fact.Revision)
	}
}

// The limit must have the same effect whether events are applied singly, in one tentative group, or after a snapshot.
func TestRecentCharges_OldestForgottenFirst(t *testing.T) {
	const more = 5
	event := func(i int) eventschemas.Event {
		return eventschemas.CreditsCharged{ChargeID: fmt.Sprint("c", i), Credits: 1, Domain: "acme.com"}
	}
	single, grouped := New(testID), New(testID)
	single.Apply(opened, start)
	grouped.Apply(opened, start)
	for i := range MaxRecentCharges + more {
		if i == 3 {
			restored := New(testID)
			testmust.Succeed(t, restored.UnmarshalBinary(marshal(t, grouped)))
			grouped = restored
			grouped.Begin()
		}
		single.Apply(event(i), start)
		grouped.Apply(event(i), start)
	}
	for name, a := range map[string]*Account{"one by one": single, "in a group": grouped} {
		for i, want := range map[int]bool{0: false, more - 1: false, more: true, MaxRecentCharges + more - 1: true} {
			c, ok := a.recentCharge(fmt.Sprint("c", i), start)
			if ok != want || ok && c.Revision != uint64(i+1) {
				t.Errorf("%s: charge %d remembered: %t at revision %d, want %t", name, i, ok, c.Revision, want)
			}
		}
	}
	grouped.Commit()
	if len(single.recentAt) != MaxRecentCharges || !bytes.Equal(marshal(t, single), marshal(t, grouped)) {
		t.Fatalf("%d and %d charges are remembered", len(single.recentAt), len(grouped.recentAt))
	}
	single.Apply(opened, start.Add(HoldMemory))
	if len(single.recentAt) != 0 || len(single.recent) != 0 {
		t.Fatalf("%d charges are still remembered after their time", len(single.recentAt))
	}
}

// If a rolled-back group left a charge behind, its retry would be answered without a charge.
func TestRollback_ForgetsCharge(t *testing.T) {
	s := given(t, opened, granted(9), charged("r0", "", ""))
	before := marshal(t, s.account)
	s.account.Begin()
	s.and(charged("r1", "", ""), charged("r1", "", ""), charged("r0", "", ""))
	s.account.Rollback()
	if !bytes.Equal(before, marshal(t, s.account)) {
		t.Fatal("the rolled-back group changed the account")
	}
	s.when(charge("r0")).keeps("r0", charged("r0", "", ""))
	s.when(charge("r1")).then(charged("r1", "", "")).balance(7, 0)
}

// A reversal lowers the count of the month in which its charge was made, never that of a later month.
func TestLookups_ReversalInLaterMonth(t *testing.T) {
	december := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		charged, reversed time.Duration // since the beginning of December
		want              int64         // including one other charge of December
	}{
		"charged in November, remembered":    {-time.Minute, time.Minute, 1},
		"charged in November, long ago":      {-10 * time.Hour, 10 * time.Hour, 1},
		"charged in December, remembered":    {time.Minute, 5 * time.Minute, 1},
		"charged in December, long ago":      {time.Minute, 10 * time.Hour, 2}, // 1 too high, because the charge is forgotten
		"charged in December, past a day":    {time.Minute, ReversalWindow, 1},
		"in November, before any December's": {-time.Minute, time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			a := New(testID)
			a.Apply(opened, start)
			mine := charged("r1", "", "")
			at := december.Add(c.charged)
			other := december.Add(2 * time.Second)
			steps := []struct {
				at time.Time
				ev eventschemas.Event
			}{{at, mine}, {other, charged("r2", "", "")}, {december.Add(c.reversed), eventschemas.ChargeReversed{ChargeID: mine.ChargeID, Credits: 1}}}
			if other.After(steps[2].at) {
				steps[1], steps[2] = steps[2], steps[1]
			}
			if at.After(other) {
				steps[0], steps[1] = steps[1], steps[0]
			}
			for _, s := range steps {
				a.Apply(s.ev, s.at)
			}
			if n := a.Lookups(a.LastAt()); n != c.want {
				t.Fatalf("%d look-ups, want %d", n, c.want)
			}
		})
	}
}
