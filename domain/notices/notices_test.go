package notices_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"letterhead/domain/notices"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

func granted(n int64) eventschemas.Event  { return eventschemas.CreditsGranted{Credits: n} }
func charged(n int64) eventschemas.Event  { return eventschemas.CreditsCharged{Credits: n} }
func reversed(n int64) eventschemas.Event { return eventschemas.ChargeReversed{Credits: n} }
func refunded(n int64) eventschemas.Event { return eventschemas.PaymentRefunded{Credits: n} }
func won(n int64) eventschemas.Event      { return eventschemas.RefundReversed{Credits: n} }
func failed(id string) eventschemas.Event { return eventschemas.PaymentFailed{PaymentID: id} }
func paid(id string, n int64) eventschemas.Event {
	return eventschemas.CreditsGranted{PaymentID: id, Credits: n}
}
func set(n int64) eventschemas.Event { return eventschemas.NoticesSet{LowBalance: n, Webhook: true} }

func TestWatch_RaisesOncePerCrossing(t *testing.T) {
	const none, raises, ends = notices.None, notices.RaisesLow, notices.EndsLow
	const fails, pays = notices.EndsFailed | notices.RaisesFailed, notices.EndsFailed
	type step struct {
		event eventschemas.Event
		want  notices.Effect
	}
	for name, steps := range map[string][]step{
		"a charge crosses the threshold":          {{granted(50), none}, {set(50), ends}, {charged(1), raises}, {charged(1), none}},
		"the threshold itself is not low":         {{granted(51), none}, {set(50), ends}, {charged(1), none}, {charged(1), raises}},
		"a reversed charge does not arm":          {{granted(50), none}, {set(50), ends}, {charged(1), raises}, {reversed(1), none}, {charged(1), none}},
		"a grant arms":                            {{granted(50), none}, {set(50), ends}, {charged(1), raises}, {granted(1), ends}, {charged(1), raises}},
		"a grant that is too small does not arm":  {{granted(50), none}, {set(50), ends}, {charged(3), raises}, {granted(1), none}, {granted(1), none}, {granted(1), ends}},
		"a refund crosses, a won dispute arms":    {{granted(50), none}, {set(10), ends}, {refunded(50), raises}, {won(50), ends}, {refunded(50), raises}},
		"a balance that is low already is silent": {{granted(5), none}, {set(50), none}, {charged(1), none}, {granted(60), ends}, {charged(15), raises}},
		"a lower threshold arms":                  {{granted(50), none}, {set(50), ends}, {charged(10), raises}, {set(20), ends}, {charged(21), raises}},
		"the same threshold arms nothing":         {{granted(50), none}, {set(50), ends}, {charged(1), raises}, {set(50), none}, {reversed(1), none}, {charged(1), none}},
		"no threshold, no notice":                 {{granted(50), none}, {set(50), ends}, {set(0), ends}, {charged(50), none}},
		"a closed account is silent":              {{granted(50), none}, {set(50), ends}, {eventschemas.AccountClosed{}, ends}, {eventschemas.BreakageRecognized{Credits: 50}, none}, {set(60), none}, {granted(90), none}, {refunded(90), none}, {failed("p1"), none}},
		"each failed attempt raises":              {{failed("p1"), fails}, {failed("p1"), fails}, {failed("p2"), fails}},
		"a payment ends its notice":               {{failed("p1"), fails}, {granted(5), none}, {paid("p1", 5), pays}},
		"a payment ends its notice and arms":      {{granted(50), none}, {set(50), ends}, {charged(1), raises}, {failed("p1"), fails}, {paid("p1", 1), pays | ends}, {charged(1), raises}},
	} {
		t.Run(name, func(t *testing.T) {
			var w notices.Watch
			for i, s := range steps {
				if got := w.Apply(s.event); got != s.want {
					t.Fatalf("step %d, %s: effect %d, want %d", i, s.event.EventType(), got, s.want)
				}
			}
		})
	}
}

// TestWatch_AnyHistory_NoticesAreCrossings compares with a model that keeps the whole history of the balance: a notice is
// raised where the balance falls below the threshold, unless one was raised since credits were last added up to it.
func TestWatch_AnyHistory_NoticesAreCrossings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w notices.Watch
		var balance, threshold int64
		var sinceAdded []int64 // balances from the last time that credits reached the threshold; nil if they never did
		raised := false
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			n := rapid.Int64Range(1, 8).Draw(t, "credits")
			var ev eventschemas.Event
			before, added := balance, false
			switch rapid.IntRange(0, 6).Draw(t, "event") {
			case 0, 1:
				ev, balance, added = granted(n), balance+n, true
			case 2:
				ev, balance, added = won(n), balance+n, true
			case 3:
				ev, balance = reversed(n), balance+n
			case 4:
				ev, balance = refunded(n), balance-n
			case 5:
				if n--; n != threshold { // a new threshold, or none
					threshold, sinceAdded, raised = n, nil, false
					if balance >= threshold && threshold > 0 {
						sinceAdded = []int64{balance}
					}
				}
				if got := w.Apply(set(n)); got == notices.RaisesLow {
					t.Fatal("a threshold raises a notice")
				}
				continue
			default:
				ev, balance = charged(n), balance-n
			}
			want := threshold > 0 && sinceAdded != nil && !raised && balance < threshold && slices.Min(sinceAdded) >= threshold
			if added && threshold > 0 && balance >= threshold && (sinceAdded == nil || raised) {
				sinceAdded, raised = nil, false
			}
			if sinceAdded != nil || added && threshold > 0 && balance >= threshold {
				sinceAdded = append(sinceAdded, balance)
			}
			raised = raised || want
			if got := w.Apply(ev) == notices.RaisesLow; got != want {
				t.Fatalf("%s from %d to %d at the threshold %d raises a notice: %v, want %v", ev.EventType(), before, balance, threshold, got, want)
			}
			if w.Balance != balance {
				t.Fatalf("the balance is %d, want %d", w.Balance, balance)
			}
		}
	})
}

// TestDelivery_NeverAnswered_IsAttemptedOnSchedule checks the pauses that Standard Webhooks recommend.
func TestDelivery_NeverAnswered_IsAttemptedOnSchedule(t *testing.T) {
	w := notices.Watch{Balance: 9, Settings: eventschemas.NoticesSet{LowBalance: 10, Webhook: true}}
	d := w.Raise(charged(1), "n", notices.Webhook, start)
	if d.Balance != 9 || d.Threshold != 10 || !d.NextAt.Equal(start) {
		t.Errorf("a raised notice: %+v", d)
	}
	at := start
	for i, pause := range []string{"5s", "5m", "30m", "2h", "5h", "10h", "14h", "20h", "24h", "24h"} {
		want := testmust.Get(time.ParseDuration(pause))(t)
		if d.Exhausted() {
			t.Fatalf("no attempt is left after %d", i)
		}
		attempt := int64(i + 1)
		d.Apply(eventschemas.NoticeAttempted{NoticeID: "n", Attempt: attempt}, at)
		if got := d.NextAt.Sub(at); got != notices.AttemptTime+want {
			t.Errorf("attempt %d without an outcome is repeated after %s, want %s", attempt, got, notices.AttemptTime+want)
		}
		at = at.Add(time.Second)
		d.Apply(eventschemas.NoticeSettled{NoticeID: "n", Attempt: attempt, Outcome: notices.Failed, Reason: "timeout"}, at)
		if got := d.NextAt.Sub(at); got != want || d.State != notices.Open || d.Reason != "timeout" {
			t.Errorf("attempt %d is repeated after %s, want %s; %+v", attempt, got, want, d)
		}
		at = d.NextAt
	}
	if !d.Exhausted() {
		t.Errorf("attempts are left after %d", d.Attempts)
	}
	d.Apply(eventschemas.NoticeSettled{NoticeID: "n", Attempt: notices.MaxAttempts, Outcome: notices.DeadLettered, Reason: "timeout"}, at)
	if d.State != notices.DeadLettered || !d.NextAt.IsZero() {
		t.Errorf("after the last attempt: %+v", d)
	}
	d.Apply(eventschemas.NoticeReopened{NoticeID: "n"}, at)
	if d.State != notices.Open || d.Exhausted() || !d.NextAt.Equal(at) || d.Reason != "" {
		t.Errorf("after it was reopened: %+v", d)
	}
}

func TestDelivery_LateOutcome_CountsOnlyIfDelivered(t *testing.T) {
	late := func(outcome string) notices.Delivery {
		d := notices.Delivery{State: notices.Open}
		d.Apply(eventschemas.NoticeAttempted{Attempt: 1}, start)
		d.Apply(eventschemas.NoticeAttempted{Attempt: 2}, start.Add(time.Minute))
		d.Apply(eventschemas.NoticeSettled{Attempt: 1, Outcome: outcome}, start.Add(2*time.Minute))
		return d
	}
	if d := late(notices.DeadLettered); d.State != notices.Open || !d.NextAt.After(start.Add(time.Minute)) {
		t.Errorf("after the failure of an earlier attempt: %+v", d)
	}
	if d := late(notices.Delivered); d.State != notices.Delivered {
		t.Errorf("after the delivery by an earlier attempt: %+v", d)
	}
}

func TestEnd_OnlyOpenDeliveries(t *testing.T) {
	for state, want := range map[string]string{notices.Open: notices.Outdated, notices.Delivered: notices.Delivered, notices.DeadLettered: notices.DeadLettered} {
		d := notices.Delivery{State: state}
		if d.End(); d.State != want {
			t.Errorf("a delivery that is %s becomes %s, want %s", state, d.State, want)
		}
	}
}
