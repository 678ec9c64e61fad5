package account

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"letterhead/domain/plan"
	"letterhead/eventschemas"
)

// book is the simplest possible ledger, computed from the events alone.
type book struct {
	grants, charges, reversals, refunds int64
	open                                map[string]int64 // remainder of each open hold
	endedBy                             map[string]int   // number of events that ended each hold
	payments                            map[string]int64 // granted minus refunded
	keyed                               []keyedLine      // charges with an idempotency key
	kept, reversed                      map[string]bool  // by charge id
}

type keyedLine struct {
	charge eventschemas.CreditsCharged
	at     time.Time
}

func newBook() book {
	return book{
		open: map[string]int64{}, endedBy: map[string]int{}, payments: map[string]int64{},
		kept: map[string]bool{}, reversed: map[string]bool{},
	}
}

// under returns the charges under an idempotency key, of any item, that are unreversed at a given
// time.
func (b *book) under(keyHash string, at time.Time) (standing []eventschemas.CreditsCharged) {
	for _, l := range b.keyed {
		if l.charge.IdempotencyKeyHash[:32] == keyHash[:32] && at.Sub(l.at) < IdempotencyWindow && !b.reversed[l.charge.ChargeID] {
			standing = append(standing, l.charge)
		}
	}
	return standing
}

func (b *book) addKeyed(t *rapid.T, ev eventschemas.CreditsCharged, at time.Time) {
	for _, c := range b.under(ev.IdempotencyKeyHash, at) {
		if c.RequestHash != ev.RequestHash {
			t.Fatalf("charged %+v while %+v stands under its key", ev, c)
		}
		if c.IdempotencyKeyHash == ev.IdempotencyKeyHash {
			t.Fatalf("charged twice: %+v and %+v", c, ev)
		}
	}
	b.keyed = append(b.keyed, keyedLine{charge: ev, at: at})
}

func (b *book) add(t *rapid.T, ev eventschemas.Event, at time.Time) {
	switch ev := ev.(type) {
	case eventschemas.CreditsGranted:
		b.grants += ev.Credits
		b.payments[ev.PaymentID] += ev.Credits
	case eventschemas.CreditsCharged:
		b.charges += ev.Credits
		if ev.IdempotencyKeyHash != "" {
			b.addKeyed(t, ev, at)
		}
		if left, ok := b.open[ev.HoldID]; ok {
			if left -= min(left, ev.Credits); left == 0 {
				delete(b.open, ev.HoldID)
				b.endedBy[ev.HoldID]++
			} else {
				b.open[ev.HoldID] = left
			}
		}
	case eventschemas.ChargeReversed:
		b.reversals += ev.Credits
		if b.reversed[ev.ChargeID] || ev.Reason == ReasonClientGone && b.kept[ev.ChargeID] {
			t.Fatalf("%+v of a charge that was kept (%t) or handed back", ev, b.kept[ev.ChargeID])
		}
		b.reversed[ev.ChargeID] = true
	case eventschemas.ChargeKept:
		if b.reversed[ev.ChargeID] || b.kept[ev.ChargeID] {
			t.Fatalf("kept %s, which was reversed (%t) or is kept", ev.ChargeID, b.reversed[ev.ChargeID])
		}
		b.kept[ev.ChargeID] = true
	case eventschemas.PaymentRefunded:
		b.refunds += ev.Credits
		if b.payments[ev.PaymentID] -= ev.Credits; b.payments[ev.PaymentID] < 0 {
			t.Fatalf("payment %s gave back more than it granted", ev.PaymentID)
		}
	case eventschemas.CreditsHeld:
		if _, ok := b.open[ev.HoldID]; ok {
			t.Fatalf("hold %s was placed while it is open", ev.HoldID)
		}
		b.open[ev.HoldID] = ev.Credits
		delete(b.endedBy, ev.HoldID) // the walk reuses ids that are forgotten
	case eventschemas.HoldReleased:
		if b.open[ev.HoldID] != ev.Credits {
			t.Fatalf("hold %s: %d released, %d left", ev.HoldID, ev.Credits, b.open[ev.HoldID])
		}
		delete(b.open, ev.HoldID)
		b.endedBy[ev.HoldID]++
	}
}

func (b *book) balance() int64 { return b.grants - b.charges + b.reversals - b.refunds }

func (b *book) held() (sum int64) {
	for _, left := range b.open {
		sum += left
	}
	return sum
}

// walk is one run of random commands.
type walk struct {
	account *Account
	book    book
	events  []eventschemas.Event
	times   []time.Time
	charges []madeCharge
	now     time.Time
	holds   int
	n       int
}

type madeCharge struct {
	in   Charge
	fact ChargeFact
	at   time.Time
}

func newWalk() *walk {
	return &walk{account: New(testID), now: start, book: newBook()}
}

// run decides once, checks that the repeat is a no-op or refused, and applies the events.
func (w *walk) run(t *rapid.T, name string, decide func() (Outcome, error)) {
	before := w.account.Balance()
	out, err := decide()
	if err != nil && len(out.Events) != 0 {
		t.Fatalf("%s was refused with events", name)
	}
	w.apply(t, out.Events)
	w.check(t, name, before, out.Events)
	if err != nil || name == "charge" || name == "overdue" {
		return
	}
	again, err := decide()
	if err != nil || len(again.Events) != 0 || !again.Repeated {
		t.Fatalf("%s again: %+v, %v", name, again, err)
	}
}

func (w *walk) apply(t *rapid.T, events []eventschemas.Event) {
	for _, ev := range events {
		w.account.Apply(ev, w.now)
		w.account.Link(eventschemas.Hash{byte(len(w.events)), 1})
		w.book.add(t, ev, w.now)
		w.events = append(w.events, ev)
		w.times = append(w.times, w.now)
	}
}

func (w *walk) check(t *rapid.T, name string, before int64, events []eventschemas.Event) {
	a := w.account
	if a.Balance() != w.book.balance() {
		t.Fatalf("%s: balance %d, the events say %d", name, a.Balance(), w.book.balance())
	}
	if a.Held() != w.book.held() || a.OpenHolds() != len(w.book.open) {
		t.Fatalf("%s: held %d in %d holds, the events say %d in %d", name, a.Held(), a.OpenHolds(), w.book.held(), len(w.book.open))
	}
	for _, ev := range events {
		_, isRefund := ev.(eventschemas.PaymentRefunded)
		if a.Balance() < 0 && a.Balance() < before && !isRefund {
			t.Fatalf("%s (%s) took the balance from %d to %d", name, ev.EventType(), before, a.Balance())
		}
	}
	if a.Revisions() != uint64(len(w.events)) {
		t.Fatalf("%s: %d revisions, %d events", name, a.Revisions(), len(w.events))
	}
	for id, n := range w.book.endedBy {
		if n != 1 {
			t.Fatalf("hold %s ended by %d events", id, n)
		}
	}
}

func (w *walk) id(t *rapid.T, prefix string, n int) string {
	return fmt.Sprint(prefix, rapid.IntRange(0, n).Draw(t, prefix))
}

// charge draws a new charge, sometimes of a hold, sometimes with an idempotency key.
func (w *walk) charge(t *rapid.T) {
	w.n++
	in := Charge{
		RequestID: fmt.Sprint("r", w.n), Credits: rapid.Int64Range(1, 3).Draw(t, "credits"), BrandID: "b", Domain: "acme.com",
	}
	if rapid.Bool().Draw(t, "of a hold") {
		in.HoldID = w.id(t, "h", 6)
		if open := w.account.openByDeadline(); len(open) > 0 && rapid.Bool().Draw(t, "open") {
			in.HoldID = rapid.SampledFrom(open).Draw(t, "hold")
		}
	}
	if rapid.Bool().Draw(t, "with a key") {
		in.IdempotencyKeyHash, in.RequestHash = drawKey(t)
	}
	reserved := rapid.Int64Range(0, 2).Draw(t, "reserved")
	var fact ChargeFact
	availableBefore, held := w.account.Unheld()-reserved, w.account.Held()
	w.run(t, "charge", func() (out Outcome, err error) {
		out, fact, err = w.account.Charge(in, reserved, w.now)
		if err == nil && !out.Repeated {
			w.charges = append(w.charges, madeCharge{in: in, fact: fact, at: w.now})
		}
		return out, err
	})
	spentFromAvailable := availableBefore - (w.account.Unheld() - reserved)
	if spentFromAvailable > 0 && w.account.Unheld()-reserved < 0 {
		t.Fatalf("an ordinary charge left %d available (held before: %d)", w.account.Unheld()-reserved, held)
	}
	w.repeatCharge(t, in)
}

func drawKey(t *rapid.T) (keyHash, requestHash string) {
	keyHash = rapid.SampledFrom([]string{keyA, keyB, itemOf(keyA, 1), itemOf(keyA, 2), itemOf(keyB, 1)}).Draw(t, "key")
	return keyHash, rapid.SampledFrom([]string{requestA, requestA, requestB}).Draw(t, "request hash")
}

// recall checks that Recall returns and keeps the unreversed charges under the key.
func (w *walk) recall(t *rapid.T) {
	w.n++
	in := Recall{RequestID: fmt.Sprint("r", w.n)}
	in.IdempotencyKeyHash, in.RequestHash = drawKey(t)
	out, facts, err := w.account.Recall(in, w.now)
	want := w.book.under(in.IdempotencyKeyHash, w.now)
	switch {
	case w.account.Status() == Closed:
		if !errors.Is(err, ErrClosed) {
			t.Fatalf("recalled from a closed account: %v", err)
		}
		return
	case len(want) > 0 && want[0].RequestHash != in.RequestHash:
		if !errors.Is(err, ErrIdempotencyMismatch) || len(facts) != 0 {
			t.Fatalf("recalled another request's: %+v, %v", facts, err)
		}
		return
	case err != nil || len(facts) != len(want) || out.Repeated != (len(want) > 0):
		t.Fatalf("recalled %+v (%v), want %+v", facts, err, want)
	}
	w.apply(t, out.Events)
	w.check(t, "recall", w.account.Balance(), out.Events)
	for i, c := range want {
		if facts[i].ChargeID != c.ChargeID || facts[i].Credits != c.Credits || facts[i].Domain != c.Domain {
			t.Fatalf("fact %d = %+v, want %+v", i, facts[i], c)
		}
		if !w.book.kept[c.ChargeID] && w.now.Sub(facts[i].At) < HoldMemory {
			t.Fatalf("recalled %s without keeping it", c.ChargeID)
		}
	}
}

// handBack reverses an earlier charge, in any state.
func (w *walk) handBack(t *rapid.T, reason string) {
	if len(w.charges) == 0 {
		return
	}
	c := w.charges[len(w.charges)-1]
	if !rapid.Bool().Draw(t, "the last") {
		c = rapid.SampledFrom(w.charges).Draw(t, "charge")
	}
	in := Reverse{ChargeID: c.fact.ChargeID, Credits: c.fact.Credits, ChargedAt: c.at, RequestID: c.in.RequestID, Reason: reason}
	w.run(t, "reverse", func() (Outcome, error) { return w.account.Reverse(in, w.now) })
}

// repeatCharge checks that repeating a charge returns and keeps the first one while its hold or key is
// known.
func (w *walk) repeatCharge(t *rapid.T, in Charge) {
	if len(w.charges) == 0 {
		return
	}
	last := w.charges[len(w.charges)-1]
	if last.in != in || in.HoldID == "" && in.IdempotencyKeyHash == "" {
		return
	}
	out, fact, err := w.account.Charge(in, 0, w.now)
	if err != nil || !out.Repeated || fact.ChargeID != last.fact.ChargeID || fact.Revision != last.fact.Revision {
		t.Fatalf("charge again: %+v %+v %v", out, fact, err)
	}
	if !rapid.Bool().Draw(t, "repeated") {
		return // otherwise every charge would be kept
	}
	w.apply(t, out.Events)
	if !w.book.kept[fact.ChargeID] {
		t.Fatalf("a repeat did not keep %+v", fact)
	}
}

func (w *walk) actions() map[string]func(*rapid.T) {
	refund := func(t *rapid.T) {
		w.n++
		in := Refund{RefundID: fmt.Sprint("f", w.n%40), PaymentID: w.id(t, "p", 3), Credits: rapid.Int64Range(0, 3).Draw(t, "credits")}
		w.run(t, "refund", func() (Outcome, error) { return w.account.RefundPayment(in) })
	}
	return map[string]func(*rapid.T){
		"refund": refund, "refund, as often again": refund, // weighted so that balances below zero are common
		"charge, as often again": w.charge,
		"hold all there is": func(t *rapid.T) {
			w.holds++
			in := Hold{HoldID: fmt.Sprint("h", w.holds%7), Credits: max(w.account.Unheld(), 1), Deadline: w.now.Add(time.Minute), RequestID: fmt.Sprint("hr", w.holds), Domain: "acme.com"}
			w.run(t, "hold", func() (Outcome, error) { return w.account.Hold(in, 0, w.now) })
		},
		"pass time": func(t *rapid.T) {
			d := rapid.SampledFrom([]time.Duration{time.Microsecond, time.Minute, HoldMemory, time.Hour, 23 * time.Hour, 24 * time.Hour})
			w.now = w.now.Add(d.Draw(t, "for"))
		},
		"charge": w.charge,
		"hold": func(t *rapid.T) {
			w.holds++
			in := Hold{HoldID: fmt.Sprint("h", w.holds%7), Credits: rapid.Int64Range(1, 4).Draw(t, "credits"),
				Deadline: w.now.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "seconds")) * time.Second), RequestID: fmt.Sprint("hr", w.holds), Domain: "acme.com"}
			reserved := rapid.Int64Range(0, 2).Draw(t, "reserved")
			w.run(t, "hold", func() (Outcome, error) {
				out, err := w.account.Hold(in, reserved, w.now)
				if len(out.Events) > 0 && w.account.Unheld()-reserved < in.Credits {
					t.Fatalf("held %d of %d available", in.Credits, w.account.Unheld()-reserved)
				}
				return out, err
			})
		},
		"release": func(t *rapid.T) {
			id := w.id(t, "h", 6)
			w.run(t, "release", func() (Outcome, error) { return w.account.Release(id, w.now) })
		},
		"overdue": func(t *rapid.T) {
			w.run(t, "overdue", func() (Outcome, error) { return w.account.ReleaseOverdue(w.now), nil })
		},
		"grant": func(t *rapid.T) {
			in := Grant{Kind: KindTopup, Credits: rapid.Int64Range(1, 3).Draw(t, "credits"), PaymentID: w.id(t, "p", 3)}
			w.run(t, "grant", func() (Outcome, error) { return w.account.Grant(in) })
		},
		"reverse":   func(t *rapid.T) { w.handBack(t, ReasonOperator) },
		"hand back": func(t *rapid.T) { w.handBack(t, ReasonClientGone) },
		"recall":    w.recall,
		"suspend":   func(t *rapid.T) { w.run(t, "suspend", func() (Outcome, error) { return w.account.Suspend("x") }) },
		"reinstate": func(t *rapid.T) { w.run(t, "reinstate", w.account.Reinstate) },
		"change plan": func(t *rapid.T) {
			to := rapid.SampledFrom([]plan.ID{plan.Free, plan.Growth}).Draw(t, "plan")
			w.run(t, "change plan", func() (Outcome, error) { return w.account.ChangePlan(to) })
		},
		"issue key": func(t *rapid.T) {
			id := w.id(t, "k", 5)
			w.run(t, "issue key", func() (Outcome, error) {
				return w.account.IssueKey(IssueKey{KeyID: id, Hash: keyA, Last4: "abcd", Kind: "secret"})
			})
		},
		"revoke key": func(t *rapid.T) {
			id := w.id(t, "k", 5)
			w.run(t, "revoke key", func() (Outcome, error) { return w.account.RevokeKey(id) })
		},
		"close": func(t *rapid.T) {
			if rapid.IntRange(0, 30).Draw(t, "close") == 0 {
				w.run(t, "close", func() (Outcome, error) { return w.account.Close("bye") })
			}
		},
		"a group that is undone": func(t *rapid.T) { w.undone(t) },
	}
}

// undone applies a random group of events tentatively, rolls it back and checks that nothing is left
// of it.
func (w *walk) undone(t *rapid.T) {
	before, groups := marshal(t, w.account), keyGroupsOf(w.account)
	keep, book := *w, w.book
	w.book = newWalk().book
	w.account.Begin()
	w.now = w.now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "hours")) * time.Hour)
	for range rapid.IntRange(1, 12).Draw(t, "group") {
		w.account.Apply(randomEvent(t), w.now)
		sum := int64(0)
		for _, h := range w.account.open {
			sum += h.left
		}
		if sum != w.account.Held() {
			t.Fatalf("held %d, but %d is left of the open holds", w.account.Held(), sum)
		}
	}
	w.account.Rollback()
	w.now, w.book = keep.now, book
	if after := marshal(t, w.account); !bytes.Equal(before, after) {
		t.Fatalf("rollback left\n%s\nof\n%s", after, before)
	}
	if after := keyGroupsOf(w.account); after != groups {
		t.Fatalf("rollback left the groups %s of %s", after, groups)
	}
	w.check(t, "rollback", w.account.Balance(), nil)
}

// keyGroupsOf formats the state that a snapshot derives.
func keyGroupsOf(a *Account) string { return fmt.Sprint(a.keyGroups) }

// randomEvent draws any account event, including events that no decision produces.
func randomEvent(t *rapid.T) eventschemas.Event {
	hold := fmt.Sprint("h", rapid.IntRange(0, 6).Draw(t, "hold"))
	n := rapid.Int64Range(1, 5).Draw(t, "n")
	request := fmt.Sprint("r", rapid.IntRange(1, 40).Draw(t, "request"))
	chargeID := New(testID).ChargeID(Charge{RequestID: request, Domain: "acme.com"})
	return rapid.SampledFrom([]eventschemas.Event{
		opened, suspended, closed, eventschemas.AccountReinstated{}, eventschemas.PlanChanged{From: "free", To: "growth"},
		granted(n), paid(fmt.Sprint("p", n), n), held(hold, n), released(hold, n, causeExpired),
		eventschemas.CreditsCharged{ChargeID: chargeID, Credits: n, RequestID: request, HoldID: hold},
		eventschemas.CreditsCharged{ChargeID: chargeID, Credits: n, RequestID: request, IdempotencyKeyHash: keyA, RequestHash: requestA},
		eventschemas.CreditsCharged{ChargeID: chargeID, Credits: n, RequestID: request, IdempotencyKeyHash: itemOf(keyA, int(n)), RequestHash: requestA},
		eventschemas.ChargeReversed{ChargeID: chargeID, Credits: n, RequestID: request},
		eventschemas.ChargeKept{ChargeID: chargeID, RequestID: request},
		eventschemas.PaymentRefunded{RefundID: fmt.Sprint("f", n), PaymentID: fmt.Sprint("p", n), Credits: n},
		eventschemas.KeyIssued{KeyID: fmt.Sprint("k", n), Hash: keyB, Last4: "wxyz", Kind: "secret"},
		eventschemas.KeyRevoked{KeyID: fmt.Sprint("k", n)},
	}).Draw(t, "event")
}

func marshal(t interface{ Fatal(...any) }, a *Account) []byte {
	data, err := a.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// For any sequence of commands: the balance is grants − charges + reversals − refunds, only a refund
// takes it below zero, no spend takes the available credits below zero, a repeat is a no-op, every
// hold ends by one event, rollback restores exactly, and snapshot plus tail equals the whole fold.
func TestAccount_RandomCommands_KeepInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWalk()
		w.run(t, "open", func() (Outcome, error) {
			return w.account.Open(Open{Holder: "holder-1", Plan: plan.Free, Free: 5})
		})
		t.Repeat(w.actions())
		w.endHolds(t)
		w.foldAgain(t)
	})
}

// The same walk with fewer commands, so that refunds under open holds, the only way below zero, are
// common.
func TestAccount_RandomRefundsUnderHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWalk()
		w.run(t, "open", func() (Outcome, error) {
			return w.account.Open(Open{Holder: "holder-1", Plan: plan.Free, Free: 1})
		})
		all := w.actions()
		some := map[string]func(*rapid.T){}
		for _, name := range []string{"grant", "hold all there is", "refund", "refund, as often again", "charge", "release"} {
			some[name] = all[name]
		}
		t.Repeat(some)
		w.endHolds(t)
		w.foldAgain(t)
	})
}

// Keys, repeats, items, reversals and keeps in any order. The book checks after every event that no
// key and item are charged twice within 24 h, that no key serves two requests, and that no kept charge
// is reversed.
func TestIdempotencyKey_NeverChargesTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWalk()
		w.run(t, "open", func() (Outcome, error) {
			return w.account.Open(Open{Holder: "holder-1", Plan: plan.Free, Free: 100})
		})
		all := w.actions()
		some := map[string]func(*rapid.T){"pass a little time": func(t *rapid.T) {
			w.now = w.now.Add(time.Duration(rapid.IntRange(1, 8).Draw(t, "minutes")) * time.Minute)
		}}
		for _, name := range []string{"charge", "charge, as often again", "recall", "hand back", "reverse", "pass time", "a group that is undone"} {
			some[name] = all[name]
		}
		t.Repeat(some)
		w.foldAgain(t)
	})
}

// endHolds checks that every hold can be ended by an event, in any status.
func (w *walk) endHolds(t *rapid.T) {
	w.now = w.now.Add(time.Hour)
	w.run(t, "overdue", func() (Outcome, error) { return w.account.ReleaseOverdue(w.now), nil })
	if w.account.OpenHolds() != 0 || w.account.Held() != 0 {
		t.Fatalf("%d holds never ended", w.account.OpenHolds())
	}
}

func (w *walk) foldAgain(t *rapid.T) {
	want := marshal(t, w.account)
	cut := rapid.IntRange(0, len(w.events)).Draw(t, "snapshot after")
	head := New(testID)
	for i, ev := range w.events[:cut] {
		head.Apply(ev, w.times[i])
		head.Link(eventschemas.Hash{byte(i), 1})
	}
	restored := New(testID)
	if err := restored.UnmarshalBinary(marshal(t, head)); err != nil {
		t.Fatalf("restore: %v", err)
	}
	// Apply the tail as one tentative group, as the account writer does.
	restored.Begin()
	for i := cut; i < len(w.events); i++ {
		restored.Apply(w.events[i], w.times[i])
		restored.Link(eventschemas.Hash{byte(i), 1})
	}
	restored.Commit()
	if got := marshal(t, restored); !bytes.Equal(got, want) {
		t.Fatalf("snapshot after %d of %d events, then the tail:\n%s\nwhole fold:\n%s", cut, len(w.events), got, want)
	}
}

// All decided events conform to their schemas, so they can always be stored.
func TestDecidedEvents_FollowSchemas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWalk()
		w.run(t, "open", func() (Outcome, error) {
			return w.account.Open(Open{Holder: "holder-1", Plan: plan.Free, Free: 5})
		})
		t.Repeat(w.actions())
		for _, ev := range w.events {
			if charge, ok := ev.(eventschemas.CreditsCharged); ok {
				charge.BrandID = testID // the walk's brand id is short, but the schema requires a UUID
				ev = charge
			}
			enc, err := eventschemas.Encode(ev)
			if err != nil {
				t.Fatal(err)
			}
			if err := eventschemas.ValidateJSON(enc.Type, enc.SchemaVersion, enc.Data); err != nil {
				t.Fatalf("%s: %v", enc.Data, err)
			}
			back, err := eventschemas.Decode(enc.Type, enc.SchemaVersion, enc.Data)
			if err != nil || fmt.Sprintf("%+v", back) != fmt.Sprintf("%+v", ev) {
				t.Fatalf("came back as %+v, %v", back, err)
			}
		}
	})
}

func TestRollback_OutsideGroup_DoesNothing(t *testing.T) {
	s := given(t, opened, granted(3))
	before := marshal(t, s.account)
	s.account.Rollback()
	if !bytes.Equal(before, marshal(t, s.account)) {
		t.Fatal("rollback without a group changed the account")
	}
	s.account.Begin()
	if _, err := s.account.MarshalBinary(); err == nil {
		t.Fatal("a tentative state was written as a snapshot")
	}
}

func TestIdempotencyKeys_OldestForgottenFirst(t *testing.T) {
	a := New(testID)
	a.Apply(opened, start)
	charge := func(i int) {
		a.Apply(eventschemas.CreditsCharged{ChargeID: fmt.Sprint("c", i), Credits: 1, IdempotencyKeyHash: fmt.Sprint("k", i%110)}, start)
	}
	for i := range 115 { // the first five keys are charged again, so they are the most recent
		charge(i)
	}
	a.forgetKeysPast(100)
	if len(a.charged) != 100 || len(a.chargeKey) != 100 {
		t.Fatalf("%d keys and %d charges are remembered", len(a.charged), len(a.chargeKey))
	}
	for key, want := range map[string]bool{"k0": true, "k4": true, "k5": false, "k14": false, "k15": true, "k109": true} {
		if _, ok := a.charged[key]; ok != want {
			t.Errorf("%s remembered: %t, want %t", key, ok, want)
		}
	}
}

func TestUnmarshal_SnapshotOfOtherAccount_Fails(t *testing.T) {
	s := given(t, opened, granted(3))
	other := New("9b1f0c52-3a43-4f06-9a35-3c1f2a5b7d10")
	if err := other.UnmarshalBinary(marshal(t, s.account)); !errors.Is(err, ErrSnapshot) {
		t.Fatalf("error = %v", err)
	}
	if other.Status() != "" {
		t.Fatal("a refused snapshot changed the account")
	}
}
