package account

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

var keyIssued = eventschemas.KeyIssued{KeyID: "k1", Hash: keyA, Last4: "aB3d", Kind: "secret"}

func limitSet(limit int64, period string) eventschemas.KeyLimitSet {
	return eventschemas.KeyLimitSet{KeyID: "k1", Limit: limit, Period: period}
}

func limitKey(id string, credits int64, period string) command {
	return func(s *scene) { s.out, s.err = s.account.LimitKey(id, credits, period, s.now) }
}

// spend charges for a request with the key.
func spend(request string) command { return charging(Charge{RequestID: request, KeyID: "k1"}) }

func holdForKey(id string) command {
	return func(s *scene) {
		in := Hold{HoldID: id, Credits: 1, Deadline: s.now.Add(time.Minute), RequestID: "r-" + id, Domain: "acme.com", KeyID: "k1"}
		s.out, s.err = s.account.Hold(in, s.reserved, s.now)
	}
}

// giveBack reverses the charge of a request with the key.
func giveBack(request string, chargedAt time.Time) command {
	return func(s *scene) {
		c := charged(request, "", "")
		s.out, s.err = s.account.Reverse(Reverse{ChargeID: c.ChargeID, Credits: c.Credits, ChargedAt: chargedAt, RequestID: request,
			KeyID: "k1", Reason: ReasonOperator}, s.now)
	}
}

// done applies the events of the last command.
func (s *scene) done() *scene {
	s.t.Helper()
	if s.err != nil {
		s.t.Fatalf("the command failed: %v", s.err)
	}
	for _, ev := range s.out.Events {
		s.account.Apply(ev, s.now)
	}
	return s
}

func (s *scene) used(want int64) *scene {
	s.t.Helper()
	l, ok := s.account.KeyLimits().Of("k1", s.now)
	if !ok || l.Used() != want {
		s.t.Fatalf("the key has used %d (limited: %t), want %d: %+v", l.Used(), ok, want, l)
	}
	return s
}

// refusedByLimit expects that the limit of the key is the cause.
func (s *scene) refusedByLimit(limit, used, available int64) *scene {
	s.t.Helper()
	var e *InsufficientCreditsError
	if !errors.As(s.err, &e) || e.KeyLimit != limit || e.KeyUsed != used || e.Available != available || !errors.Is(s.err, ErrInsufficientCredits) {
		s.t.Fatalf("error %+v, want the limit %d with %d used and %d credits of the account", s.err, limit, used, available)
	}
	return s
}

func TestKeyLimit_ChargesUpToIt(t *testing.T) {
	given(t, opened, granted(50), keyIssued).
		when(limitKey("k1", 2, "total")).then(limitSet(2, "total")).
		when(spend("r1")).done().when(spend("r2")).done().used(2).
		when(spend("r3")).refusedByLimit(2, 2, 48).
		when(charge("r4")).then(charged("r4", "", "")). // without the key
		when(limitKey("k1", 3, "total")).done().
		when(spend("r3")).done().used(3).
		when(limitKey("k1", 0, "")).then(eventschemas.KeyLimitSet{KeyID: "k1"}).
		when(spend("r5")).done().
		when(limitKey("k1", 0, "")).isRepeated()
}

// A lack of the account's own credits is reported without the key's limit.
func TestKeyLimit_AccountWithoutCredits_IsTheCause(t *testing.T) {
	given(t, opened, keyIssued, limitSet(1, "total")).when(spend("r1")).refusedByLimit(0, 0, 0)
}

func TestKeyLimit_SameAgain_IsRepeated(t *testing.T) {
	given(t, opened, keyIssued, limitSet(5, "day")).when(limitKey("k1", 5, "day")).isRepeated().
		when(limitKey("k1", 5, "month")).then(limitSet(5, "month"))
}

func TestKeyLimit_BadInput_SaysWhatToDo(t *testing.T) {
	other := eventschemas.KeyIssued{KeyID: "k2", Hash: keyB, Last4: "aB3d", Kind: "publishable"}
	given(t).when(limitKey("k1", 1, "day")).rejected(ErrNotFound)
	given(t, opened, closed).when(limitKey("k1", 1, "day")).rejected(ErrClosed)
	given(t, opened).when(limitKey("k1", 1, "day")).rejected(ErrUnknownKey)
	for _, c := range []struct {
		events []eventschemas.Event
		do     command
		says   string
	}{
		{nil, limitKey("k1", -1, "day"), "must be from 1 to"},
		{nil, limitKey("k1", MaxCredits+1, "day"), "must be from 1 to"},
		{nil, limitKey("k1", 1, "week"), `must be total, day, month, not "week"`},
		{nil, limitKey("k2", 1, "day"), "must be a valid secret key"},
		{[]eventschemas.Event{eventschemas.KeyRevoked{KeyID: "k1"}}, limitKey("k1", 1, "day"), "must be a valid secret key"},
	} {
		s := given(t, append([]eventschemas.Event{opened, granted(9), keyIssued, other}, c.events...)...).when(c.do).rejected(ErrInvalid)
		if !strings.Contains(s.err.Error(), c.says) {
			t.Errorf("%v, want %q", s.err, c.says)
		}
	}
}

// A limit below what is used is refused, names what is used, and changes nothing.
func TestKeyLimit_BelowUse_IsRefused(t *testing.T) {
	s := given(t, opened, granted(50), keyIssued, limitSet(10, "month")).
		when(spend("r1")).done().when(spend("r2")).done().when(holdForKey("h1")).done().
		when(limitKey("k1", 2, "month")).rejected(ErrInvalid)
	if want := "the field limit must be at least 3, which the key has used"; !strings.Contains(s.err.Error(), want) {
		t.Errorf("%v, want %q", s.err, want)
	}
	s.used(3).when(limitKey("k1", 3, "month")).done().when(spend("r3")).refusedByLimit(3, 3, 47)
}

func TestKeyLimit_ByDayAndMonth_BeginAgainInUTC(t *testing.T) {
	for period, next := range map[string]time.Time{
		"day":   time.Date(start.Year(), start.Month(), start.Day()+1, 0, 0, 0, 0, time.UTC),
		"month": time.Date(start.Year(), start.Month()+1, 1, 0, 0, 0, 0, time.UTC),
	} {
		s := given(t, opened, granted(50), keyIssued, limitSet(1, period)).when(spend("r1")).done()
		s.after(next.Sub(s.now)-time.Microsecond).when(spend("r2")).refusedByLimit(1, 1, 49)
		s.after(time.Microsecond).used(0).when(spend("r2")).done().used(1).when(spend("r3")).refusedByLimit(1, 1, 48)
	}
}

// An open hold counts against the limit, its capture does not count again, and a release frees its credits.
func TestKeyLimit_Holds_CountWhileOpen(t *testing.T) {
	capture := func(hold string) command { return charging(Charge{RequestID: "r-" + hold, HoldID: hold, KeyID: "k1"}) }
	given(t, opened, granted(50), keyIssued, limitSet(2, "total")).
		when(holdForKey("h1")).done().when(holdForKey("h2")).done().used(2).
		when(holdForKey("h3")).refusedByLimit(2, 2, 48).
		when(spend("r1")).refusedByLimit(2, 2, 48).
		when(capture("h1")).done().used(2).
		when(release("h2")).done().used(1).
		when(spend("r1")).done().used(2).
		when(capture("h2")).refusedByLimit(2, 2, 48) // it was released, so this is an ordinary charge
}

// The hold of a limit that was removed counts against the next limit.
func TestKeyLimit_SetAgain_CountsOpenHolds(t *testing.T) {
	given(t, opened, granted(50), keyIssued, limitSet(5, "total")).when(holdForKey("h1")).done().
		and(eventschemas.KeyLimitSet{KeyID: "k1"}, limitSet(1, "total")).used(1).when(spend("r1")).refusedByLimit(1, 1, 49)
}

// A hold that is placed before the limit does not count, but its capture does.
func TestKeyLimit_HoldBeforeIt_CountsWhenCaptured(t *testing.T) {
	s := given(t, opened, granted(50), keyIssued).when(holdForKey("h1")).done().and(limitSet(1, "total")).used(0)
	s.when(spend("r1")).done()
	s.when(charging(Charge{RequestID: "r-h1", HoldID: "h1", KeyID: "k1"})).refusedByLimit(1, 1, 48)
}

func TestKeyLimit_Reversal_GivesBackInThePeriodOfTheCharge(t *testing.T) {
	s := given(t, opened, granted(50), keyIssued, limitSet(1, "day")).after(time.Second).when(spend("r1")).done()
	at := s.now
	s.when(giveBack("r1", at)).done().used(0).when(giveBack("r1", at)).isRepeated().used(0).
		when(spend("r2")).done().used(1)
	at = s.now
	tomorrow := at.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	s.after(tomorrow.Sub(at)).when(spend("r3")).done().used(1).
		when(giveBack("r2", at)).done().used(1).when(spend("r4")).refusedByLimit(1, 1, 49)
}

// What the key spent before its limit does not count, so that its reversal gives nothing back.
func TestKeyLimit_ReversalOfEarlierCharge_GivesNothingBack(t *testing.T) {
	s := given(t, opened, granted(50), keyIssued).when(spend("r1")).done()
	at := s.now
	s.and(limitSet(1, "total")).used(0).when(spend("r2")).done().used(1).when(giveBack("r1", at)).done().used(1)
}

func TestKeyLimit_IdempotentRepeat_CountsOnce(t *testing.T) {
	keyed := func(request string) command {
		return charging(Charge{RequestID: request, KeyID: "k1", IdempotencyKeyHash: keyA, RequestHash: requestA})
	}
	given(t, opened, granted(50), keyIssued, limitSet(1, "total")).
		when(keyed("r1")).done().when(keyed("r2")).done().when(spend("r1")).used(1)
}

func TestKeyLimit_RevokedKey_StaysUntilAnotherIsSet(t *testing.T) {
	other := keyIssued
	other.KeyID = "k2"
	past := []eventschemas.Event{opened, keyIssued, other, limitSet(1, "total"), eventschemas.KeyRevoked{KeyID: "k1"}}
	s := given(t, past...)
	if all := s.account.KeyLimits(); len(all) != 1 || all[0].KeyID != "k1" {
		t.Errorf("after the revocation, when requests may still run, the limits are %+v", all)
	}
	s = given(t, append(past, eventschemas.KeyLimitSet{KeyID: "k2", Limit: 5, Period: "total"})...)
	if all := s.account.KeyLimits(); len(all) != 1 || all[0].KeyID != "k2" {
		t.Errorf("after the next limit the limits are %+v", all)
	}
}

// keyModel is the simplest account of a limit: all charges and holds of a key, and when its count began.
type keyModel struct {
	limit   int64
	period  string
	since   time.Time
	charges map[string]madeCharge // that are not reversed
}

func (m *keyModel) used(a *Account, key string, now time.Time) (sum int64) {
	layout := map[string]string{"total": "", "day": time.DateOnly, "month": "2006-01"}[m.period]
	for _, c := range m.charges {
		if c.at.After(m.since) && c.at.Format(layout) == now.Format(layout) {
			sum += c.in.Credits
		}
	}
	for _, h := range a.open {
		if h.KeyID == key {
			sum += h.Left
		}
	}
	return sum
}

// However charges, holds, reversals, limits and days follow each other, a key uses no more than its limit, exactly that
// is refused which would exceed it, and a snapshot has the whole state.
func TestKeyLimit_RandomHistory_IsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, now, n := New(testID), start, 0
		var events []eventschemas.Event
		var times []time.Time
		apply := func(more ...eventschemas.Event) {
			for _, ev := range more {
				a.Apply(ev, now)
				events, times = append(events, ev), append(times, now)
			}
		}
		apply(opened, granted(1000))
		models := map[string]*keyModel{}
		for _, id := range []string{"k1", "k2"} {
			apply(eventschemas.KeyIssued{KeyID: id, Hash: keyA, Last4: "aB3d", Kind: "secret"})
			models[id] = &keyModel{charges: map[string]madeCharge{}}
		}
		// refused checks that a command for credits of a key was refused exactly if they exceed its limit.
		refused := func(what, id string, credits int64, err error) bool {
			m := models[id]
			over := m.limit > 0 && m.used(a, id, now)+credits > m.limit
			var lack *InsufficientCreditsError
			if errors.As(err, &lack) != over || err != nil && lack == nil {
				t.Fatalf("%s of %d credits of %s with %d used of %d: %v", what, credits, id, m.used(a, id, now), m.limit, err)
			}
			return over
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			n++
			now = now.Add(rapid.SampledFrom([]time.Duration{time.Microsecond, time.Minute, 5 * time.Hour, 20 * 24 * time.Hour}).Draw(t, "pause"))
			id := rapid.SampledFrom([]string{"k1", "k2"}).Draw(t, "key")
			m, request := models[id], fmt.Sprint("r", n)
			apply(a.ReleaseOverdue(now).Events...)
			switch rapid.SampledFrom([]string{"charge", "charge", "hold", "capture", "reverse", "limit", "limit", "release"}).Draw(t, "step") {
			case "charge":
				in := Charge{RequestID: request, Credits: rapid.Int64Range(1, 3).Draw(t, "credits"), BrandID: "b", Domain: "acme.com", KeyID: id}
				out, fact, err := a.Charge(in, 0, now)
				if !refused("charge", id, in.Credits, err) {
					apply(out.Events...)
					m.charges[fact.ChargeID] = madeCharge{in, fact, now}
				}
			case "hold":
				in := Hold{HoldID: request, Credits: 2, Deadline: now.Add(10 * time.Minute), RequestID: request, Domain: "acme.com", KeyID: id}
				out, err := a.Hold(in, 0, now)
				if !refused("hold", id, 2, err) {
					apply(out.Events...)
				}
			case "capture":
				if open := a.openByDeadline(); len(open) > 0 {
					h := a.open[open[0]]
					in := Charge{RequestID: h.RequestID, Credits: 1, BrandID: "b", Domain: "acme.com", HoldID: open[0], Item: request, KeyID: id}
					more := int64(1)
					if h.KeyID == id {
						more = 0
					}
					out, fact, err := a.Charge(in, 0, now)
					if !refused("capture", id, more, err) {
						apply(out.Events...)
						m.charges[fact.ChargeID] = madeCharge{in, fact, now}
					}
				}
			case "release":
				if open := a.openByDeadline(); len(open) > 0 {
					out, err := a.Release(open[0], now)
					testmust.Succeed(t, err)
					apply(out.Events...)
				}
			case "reverse":
				for _, chargeID := range slices.Sorted(maps.Keys(m.charges)) {
					c := m.charges[chargeID]
					out, err := a.Reverse(Reverse{ChargeID: chargeID, Credits: c.in.Credits, ChargedAt: c.at, RequestID: c.in.RequestID, KeyID: id,
						Reason: ReasonOperator}, now)
					if err == nil {
						apply(out.Events...)
						delete(m.charges, chargeID)
						break
					}
					if !errors.Is(err, ErrTooLate) {
						t.Fatal(err)
					}
				}
			case "limit":
				credits, period := rapid.Int64Range(0, 8).Draw(t, "limit"), rapid.SampledFrom(KeyPeriods).Draw(t, "period")
				next := keyModel{credits, period, m.since, m.charges}
				if m.period != period || m.limit == 0 {
					next.since = now
				}
				out, err := a.LimitKey(id, credits, period, now)
				if used := next.used(a, id, now); (err == nil) != (credits == 0 || used <= credits) {
					t.Fatalf("limit %d by %s with %d used: %v", credits, period, used, err)
				}
				if err == nil {
					apply(out.Events...)
					*m = next
				}
			}
			for id, m := range models {
				l, limited := a.KeyLimits().Of(id, now)
				if want := m.used(a, id, now); limited != (m.limit > 0) || limited && (l.Used() != want || want > m.limit || l.Credits != m.limit) {
					t.Fatalf("%s: %+v (%t), want %d used of %d", id, l, limited, want, m.limit)
				}
			}
		}
		// Folded from the beginning, from a snapshot in the middle and in groups, some undone, the state is the same.
		cut := rapid.IntRange(0, len(events)).Draw(t, "cut")
		again := New(testID)
		for i, ev := range events {
			if i == cut {
				restored := New(testID)
				testmust.Succeed(t, restored.UnmarshalBinary(marshal(t, again)))
				again = restored
			}
			again.Begin()
			again.Apply(ev, times[i])
			again.Rollback()
			again.Apply(ev, times[i])
		}
		if got, want := marshal(t, again), marshal(t, a); !bytes.Equal(got, want) {
			t.Fatalf("folded again:\n%s\nwant\n%s", got, want)
		}
	})
}
