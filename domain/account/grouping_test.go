package account

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"letterhead/eventschemas"
)

type timed struct {
	event eventschemas.Event
	at    time.Time
}

// tale draws events of one account in any order, including orders that no decision produces.
type tale struct {
	charges []eventschemas.CreditsCharged
	holds   int
	now     time.Time
}

func (w *tale) next(t *rapid.T) timed {
	w.now = w.now.Add(rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Second, HoldMemory - time.Second, HoldMemory, IdempotencyWindow}).Draw(t, "after"))
	kind := rapid.SampledFrom([]string{"keyed", "keyed", "keyed", "charge", "capture", "hold", "release", "reverse", "keep", "keep"}).Draw(t, "event")
	if kind == "reverse" || kind == "keep" {
		if len(w.charges) == 0 {
			kind = "keyed"
		}
	}
	var ev eventschemas.Event
	request := fmt.Sprint("r", len(w.charges))
	switch kind {
	case "keyed":
		ev = keyedCharge(request, itemOf(rapid.SampledFrom([]string{keyA, keyB}).Draw(t, "key"), rapid.IntRange(0, 6).Draw(t, "item")), requestA)
	case "charge":
		ev = charged(request, "", "")
	case "capture":
		ev = charged(request, fmt.Sprint("h", rapid.IntRange(0, w.holds).Draw(t, "hold")), "a")
	case "hold":
		w.holds++
		ev = held(fmt.Sprint("h", w.holds), 2)
	case "release":
		ev = released(fmt.Sprint("h", rapid.IntRange(0, w.holds).Draw(t, "hold")), 2, causeExpired)
	case "reverse":
		ev = reversed(rapid.SampledFrom(w.charges).Draw(t, "charge"), ReasonOperator)
	case "keep":
		ev = eventschemas.ChargeKept{ChargeID: rapid.SampledFrom(w.charges).Draw(t, "charge").ChargeID, RequestID: request}
	}
	if c, ok := ev.(eventschemas.CreditsCharged); ok {
		w.charges = append(w.charges, c)
	}
	return timed{ev, w.now}
}

// Snapshots are verified by folding the events again and comparing the bytes. So the same events must give
// the same bytes however they were grouped, even if groups were rolled back in between.
// Rule 1.
func TestSnapshot_IndependentOfGrouping(t *testing.T) {
	few := bounds{keys: 4, kept: 3}
	rapid.Check(t, func(t *rapid.T) {
		single, grouped := New(testID), New(testID)
		single.most, grouped.most = few, few
		w := &tale{now: start}
		draw := rapid.Custom(w.next)
		for range rapid.IntRange(1, 8).Draw(t, "groups") {
			if rapid.Bool().Draw(t, "lost") { // another node's events come first
				before := *w
				grouped.Begin()
				for i := range rapid.IntRange(1, 8).Draw(t, "lost events") {
					e := draw.Draw(t, fmt.Sprint("lost ", i))
					grouped.Apply(e.event, e.at)
				}
				grouped.Rollback()
				*w = tale{charges: slices.Clone(before.charges), holds: before.holds, now: before.now}
			}
			grouped.Begin()
			for i := range rapid.IntRange(1, 12).Draw(t, "events") {
				e := draw.Draw(t, fmt.Sprint("event ", i))
				single.Apply(e.event, e.at)
				grouped.Apply(e.event, e.at)
			}
			grouped.Commit()
			a, b := marshal(t, single), marshal(t, grouped)
			if !bytes.Equal(a, b) {
				t.Fatalf("events applied singly give\n%s\nin groups\n%s", a, b)
			}
			if n := grouped.KeysRemembered(); n > few.keys || len(grouped.keptOrder) > few.kept {
				t.Fatalf("%d keys and %d marks are remembered", n, len(grouped.keptOrder))
			}
		}
	})
}

// The same must hold at the limit, with the groups of a busy account writer: more charges than the limit, and
// reversals that make room in the same group.
func TestSnapshot_AtKeyLimit_IndependentOfGrouping(t *testing.T) {
	single, grouped := New(testID), New(testID)
	both := func(i int, ev eventschemas.Event) {
		at := start.Add(time.Duration(i) * time.Millisecond)
		single.Apply(ev, at)
		grouped.Apply(ev, at)
	}
	nth := func(i int) eventschemas.CreditsCharged {
		return keyedCharge(fmt.Sprint("r", i), fmt.Sprintf("%064x", i), requestA)
	}
	both(0, opened)
	both(0, granted(2*MaxIdempotencyKeys))
	for i := range MaxIdempotencyKeys {
		both(i, nth(i))
	}
	for n, i := 0, MaxIdempotencyKeys; n < 20; n++ {
		grouped.Begin()
		for range 10 {
			both(i, nth(i))
			i++
		}
		for j := range 5 {
			both(i, reversed(nth(i-1-j), ReasonOperator))
		}
		grouped.Commit()
	}
	if !bytes.Equal(marshal(t, single), marshal(t, grouped)) {
		t.Fatalf("%d keys after single events, %d after groups", single.KeysRemembered(), grouped.KeysRemembered())
	}
}
