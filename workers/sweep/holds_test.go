package sweep_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
	"letterhead/workers/sweep"
)

// Rule 4.
func TestOverdueHolds_IdleAccounts_AreReleasedOnce(t *testing.T) {
	w := newWorld(t)
	const accounts = 25
	var ids []string
	holds := map[string]string{}
	for range accounts {
		id := w.opened()
		ids, holds[id] = append(ids, id), w.held(id).ID
	}
	registry := prometheus.NewRegistry()
	w.sweeper(sweep.Config{Registerer: registry}, parts{})
	w.sweeper(sweep.Config{}, parts{}) // on another node, with its own account writer
	w.pass(work + account.HoldGrace + time.Microsecond)
	for _, id := range ids {
		w.releasedOf(id)
	}
	w.sweptOver()
	for _, id := range ids {
		released := w.releases(id)
		want := eventschemas.HoldReleased{HoldID: holds[id], Credits: 1, Cause: "expired"}
		if len(released) != 1 || released[0] != want {
			t.Errorf("account %s: %+v, want one %+v", id, released, want)
		}
		standing := testmust.Get(w.newAccountWriter().Standing(t.Context(), id))(t)
		if standing.Available != plan.FreeCredits || standing.OpenHolds != 0 {
			t.Errorf("account %s is %+v, want all credits available and no open hold", id, standing)
		}
	}
}

func TestHold_BeforeItsDeadline_IsKept(t *testing.T) {
	w := newWorld(t)
	id := w.opened()
	w.held(id)
	w.sweeper(sweep.Config{}, parts{})
	w.pass(work + account.HoldGrace) // at its deadline it is not yet overdue
	w.sweptOver()
	if released := w.releases(id); len(released) > 0 {
		t.Fatalf("released at its deadline: %+v, want none", released)
	}
	w.pass(time.Microsecond)
	w.releasedOf(id)
}

func TestHold_EndedInTime_IsNotSwept(t *testing.T) {
	w := newWorld(t)
	before, after, released := w.opened(), w.opened(), w.opened()
	w.capture(before, w.held(before).ID)
	watched := w.watched(nil)
	w.sweeper(sweep.Config{}, parts{accountWriter: watched})
	w.sweptOver()
	w.capture(after, w.held(after).ID)
	hold := w.held(released)
	testmust.Succeed(t, w.accountWriter.ReleaseHold(t.Context(), commands.ReleaseHold{Request: w.request(), AccountID: released, HoldID: hold.ID}))
	w.sweptOver() // everything was read
	w.pass(time.Hour)
	w.sweptOver()
	for name, id := range map[string]string{"captured before the start": before, "captured": after, "released": released} {
		if n := watched.times(id); n > 0 {
			t.Errorf("the account whose hold was %s was swept %d times", name, n)
		}
	}
	if got := w.releases(released); len(got) != 1 || got[0].Cause != "handed_back" {
		t.Errorf("released: %+v, want one release with cause handed_back", got)
	}
}

// Rule 4.
func TestHold_PartlyCaptured_RestIsReleased(t *testing.T) {
	w := newWorld(t)
	partly := w.holding(3, captured(1, "a"))
	whole := w.holding(3, captured(1, "a"), captured(2, "b"))
	tooMuch := w.holding(1, captured(2, "a"))
	watched := w.watched(nil)
	w.sweeper(sweep.Config{}, parts{accountWriter: watched})
	if released := w.releasedOf(partly); released.Credits != 2 || released.Cause != "expired" {
		t.Errorf("released %+v, want the two credits that are left", released)
	}
	w.sweptOver()
	if n := len(w.releases(partly)); n != 1 {
		t.Errorf("released %d times", n)
	}
	for _, id := range []string{whole, tooMuch} {
		if n := watched.times(id); n > 0 {
			t.Errorf("a completely captured hold was swept %d times", n)
		}
	}
}

func TestOverdueHolds_MoreThanOneCommandReleases_AllAreReleased(t *testing.T) {
	w := newWorld(t)
	events := []eventschemas.Event{}
	const holds = 300 // of one account; a command releases 128
	for i := range holds {
		events = append(events, eventschemas.CreditsHeld{
			HoldID: fmt.Sprint("h", i), Credits: 1, Deadline: w.clock().Add(-time.Hour), RequestID: "r", Domain: "acme.com",
		})
	}
	id := w.holding(1, append([]eventschemas.Event{eventschemas.CreditsGranted{GrantID: "g2", Kind: "adjustment", Credits: holds}}, events...)...)
	registry := prometheus.NewRegistry()
	w.sweeper(sweep.Config{Registerer: registry}, parts{})
	w.sweptOver()
	for range holds / 128 {
		w.sweptOver()
	}
	if n := len(w.releases(id)); n != holds+1 {
		t.Errorf("%d of %d holds are released", n, holds+1)
	}
	if n := metric(t, registry, "letterhead_sweep_open"); n > 1 {
		t.Errorf("%v holds are still remembered", n) // the last marker's may be
	}
}
