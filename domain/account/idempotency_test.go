package account

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

func TestIdempotencyKey_OneRequestForAllItems(t *testing.T) {
	s := given(t, opened, granted(5)).
		when(withKey("r1", itemOf(keyA, 1), requestA)).then(keyedCharge("r1", itemOf(keyA, 1), requestA)).
		when(withKey("r2", itemOf(keyA, 2), requestB)).rejected(ErrIdempotencyMismatch).
		when(withKey("r3", itemOf(keyA, 2), requestA)).then(keyedCharge("r3", itemOf(keyA, 2), requestA)).
		when(withKey("r4", itemOf(keyA, 1), requestA)).keeps("r4", keyedCharge("r1", itemOf(keyA, 1), requestA)).
		when(withKey("r5", itemOf(keyB, 1), requestB)).then(keyedCharge("r5", itemOf(keyB, 1), requestB)).balance(2, 0)
	// The key's first charge is a day old; the second still binds the key to its request.
	s.now = start.Add(3*time.Second + IdempotencyWindow)
	s.when(withKey("r6", itemOf(keyA, 1), requestB)).rejected(ErrIdempotencyMismatch).
		when(withKey("r6", itemOf(keyA, 1), requestA)).then(keyedCharge("r6", itemOf(keyA, 1), requestA))
	s.after(IdempotencyWindow).when(withKey("r7", itemOf(keyA, 2), requestB)).then(keyedCharge("r7", itemOf(keyA, 2), requestB))
}

func TestIdempotencyKey_AllChargesReversed_IsFree(t *testing.T) {
	first, second := keyedCharge("r1", itemOf(keyA, 1), requestA), keyedCharge("r2", itemOf(keyA, 2), requestA)
	given(t, opened, granted(5), first, second, reversed(first, ReasonClientGone)).
		when(withKey("r3", itemOf(keyA, 1), requestB)).rejected(ErrIdempotencyMismatch).
		and(reversed(second, ReasonOperator)).
		when(withKey("r3", itemOf(keyA, 1), requestB)).then(keyedCharge("r3", itemOf(keyA, 1), requestB)).
		when(withKey("r4", itemOf(keyA, 2), requestA)).rejected(ErrIdempotencyMismatch)
}

func TestIdempotencyKey_ItemsAreLimited(t *testing.T) {
	s := given(t, opened, granted(2*MaxKeyItems))
	for i := range MaxKeyItems {
		s.and(keyedCharge(fmt.Sprint("r", i), itemOf(keyA, i), requestA))
	}
	s.when(withKey("one more", itemOf(keyA, MaxKeyItems), requestA)).rejected(ErrInvalid).
		when(withKey("again", itemOf(keyA, 7), requestA)).keeps("again", keyedCharge("r7", itemOf(keyA, 7), requestA))
}

func TestRecall(t *testing.T) {
	first, second, third := keyedCharge("r1", itemOf(keyA, 1), requestA), keyedCharge("r2", itemOf(keyA, 2), requestA), keyedCharge("r3", itemOf(keyA, 3), requestA)
	var got []ChargeFact
	s := given(t, opened, granted(9)).
		when(recall("q0", keyA, requestA, &got)).then()
	if len(got) != 0 {
		t.Fatalf("Recall of an unused key = %+v", got)
	}
	s.and(first, keyedCharge("other", keyB, requestB), second, third, reversed(second, ReasonClientGone), suspended).
		when(recall("q1", keyA, requestB, &got)).rejected(ErrIdempotencyMismatch).
		when(recall("q1", keyA, requestA, &got)).keeps("q1", first, third)
	if len(got) != 2 || got[0].ChargeID != first.ChargeID || got[0].Revision != 2 || got[1].ChargeID != third.ChargeID || got[1].Revision != 5 ||
		!got[0].At.Equal(start.Add(3*time.Second)) || got[0].BrandID != "b" || got[0].Domain != "acme.com" || got[0].RecordRevision != 7 || got[0].Credits != 1 {
		t.Fatalf("recalled %+v", got)
	}
	s.when(recall("q2", itemOf(keyA, 9), requestA, &got)).isRepeated() // any item identifies the key; keeping once is enough
	if len(got) != 2 {
		t.Fatalf("recalled again %+v", got)
	}
	s.now = start.Add(5*time.Second + IdempotencyWindow) // the third charge is one second younger than the window
	if s.when(recall("q3", keyA, requestA, &got)); len(got) != 1 || got[0].ChargeID != third.ChargeID {
		t.Fatalf("after a day %+v", got)
	}
	s.after(time.Minute).when(recall("q4", keyA, requestB, &got)).then()
	s.and(closed).when(recall("q5", keyB, requestB, &got)).rejected(ErrClosed)
	given(t).when(recall("q6", keyA, requestA, &got)).rejected(ErrNotFound)
	for _, c := range []command{recall("", keyA, requestA, &got), recall("q", "a", requestA, &got), recall("q", keyA, "", &got)} {
		given(t, opened).when(c).rejected(ErrInvalid)
	}
}

// Either a repeat keeps the charge first, or the charge is reversed first and the key charges again.
func TestReverse_KeptCharge_IsRejected(t *testing.T) {
	for name, again := range map[string]command{
		"same request": charge("r1"), "key": withKey("r2", keyA, requestA), "capture": capturing("r1", "h1", "i"),
		"recall": recall("r2", keyA, requestA, new([]ChargeFact)),
	} {
		t.Run(name, func(t *testing.T) {
			c := map[string]eventschemas.CreditsCharged{
				"same request": charged("r1", "", ""), "capture": charged("r1", "h1", "i"),
			}[name]
			if c.ChargeID == "" {
				c = keyedCharge("r1", keyA, requestA)
			}
			s := given(t, opened, granted(5), held("h1", 2), c)
			at := s.now
			s.when(again)
			s.keeps(s.out.Events[0].(eventschemas.ChargeKept).RequestID, c).
				when(reversing(c, at, ReasonClientGone)).rejected(ErrChargeKept).
				when(again).isRepeated().
				when(reversing(c, at, ReasonOperator)).then(reversed(c, ReasonOperator)).
				when(reversing(c, at, ReasonClientGone)).isRepeated()
		})
	}
	c := keyedCharge("r1", keyA, requestA)
	s := given(t, opened, granted(5), c)
	s.when(reversing(c, s.now, ReasonClientGone)).then(reversed(c, ReasonClientGone)).balance(5, 0)
	s.when(withKey("r2", keyA, requestA)).then(keyedCharge("r2", keyA, requestA)).balance(4, 0)
}

// A charge that is too old to be reversed need not be kept. The limits overlap because clocks differ.
func TestCharge_OldRepeat_IsNotMarkedKept(t *testing.T) {
	c := keyedCharge("r1", keyA, requestA)
	s := given(t, opened, granted(5), c)
	at := s.now
	s.now = at.Add(HoldMemory)
	s.when(withKey("r2", keyA, requestA)).isRepeated()
	s.now = at.Add(UndeliveredWindow)
	s.when(reversing(c, at, ReasonClientGone)).rejected(ErrTooLate).
		when(withKey("r2", keyA, requestA)).keeps("r2", c)
	if UndeliveredWindow+time.Minute > HoldMemory {
		t.Fatal("a repeat would use a charge without keeping it while another node may still reverse it")
	}
}

// The number of remembered kept charges is limited. A charge that may have been kept and forgotten is not
// reversed, before and after a snapshot.
func TestKeptCharges_AreLimited(t *testing.T) {
	a := New(testID)
	a.Apply(opened, start)
	a.Apply(granted(2*MaxKeptCharges), start)
	at := func(i int) time.Time { return start.Add(time.Duration(i) * time.Millisecond) }
	id := func(i int) string { return fmt.Sprint("c", i) }
	for i := range MaxKeptCharges + 10 {
		a.Apply(eventschemas.CreditsCharged{ChargeID: id(i), Credits: 1, Domain: "acme.com"}, at(i))
		a.Apply(eventschemas.ChargeKept{ChargeID: id(i), RequestID: "r"}, at(i))
		a.Apply(eventschemas.ChargeKept{ChargeID: id(i), RequestID: "r"}, at(i)) // no decision produces this event
	}
	if len(a.kept) != MaxKeptCharges || len(a.keptOrder) != MaxKeptCharges {
		t.Fatalf("%d kept charges, %d in order, want %d", len(a.kept), len(a.keptOrder), MaxKeptCharges)
	}
	after := New(testID)
	testmust.Succeed(t, after.UnmarshalBinary(marshal(t, a)))
	now := at(MaxKeptCharges + 20)
	for _, a := range []*Account{a, after} {
		for i, want := range map[int]error{0: ErrChargeKept, 9: ErrChargeKept, 10: ErrChargeKept, MaxKeptCharges: ErrChargeKept, MaxKeptCharges + 11: nil} {
			out, err := a.Reverse(Reverse{ChargeID: id(i), Credits: 1, ChargedAt: at(i), RequestID: "r", Reason: ReasonClientGone}, now)
			if !errors.Is(err, want) || (want != nil) != (len(out.Events) == 0) {
				t.Errorf("charge %d: %+v, %v", i, out, err)
			}
		}
		a.Apply(suspended, now.Add(HoldMemory))
		if len(a.kept) != 0 || len(a.keptOrder) != 0 {
			t.Errorf("%d kept charges are still remembered after their time", len(a.kept))
		}
	}
}

// The index by key matches the remembered charges after reversals, a rollback, a snapshot and expiry.
func TestKeyGroups_MatchRememberedCharges(t *testing.T) {
	s := given(t, opened, granted(50))
	check := func(what string, a *Account) {
		t.Helper()
		n := 0
		for name, hashes := range a.keyGroups {
			n += len(hashes)
			for i, h := range hashes {
				k, ok := a.charged[h]
				if !ok || KeyGroup(h) != name || a.chargeKey[k.ChargeID] != h || i > 0 && a.charged[hashes[i-1]].Revision >= k.Revision {
					t.Fatalf("%s: %s of %s is %+v", what, h, name, k)
				}
			}
			if len(hashes) == 0 {
				t.Fatalf("%s: %s has no charges", what, name)
			}
		}
		if n != len(a.charged) || n != len(a.chargeKey) {
			t.Fatalf("%s: %d in groups, %d charges by key, %d keys by charge", what, n, len(a.charged), len(a.chargeKey))
		}
	}
	for i := range 6 {
		s.and(keyedCharge(fmt.Sprint("r", i), itemOf(keyA, i%4), requestA))
	}
	s.and(keyedCharge("s", keyB, requestB), reversed(keyedCharge("r2", itemOf(keyA, 2), requestA), ReasonClientGone))
	check("folded", s.account)
	before := marshal(t, s.account)
	s.account.Begin()
	s.and(keyedCharge("v", itemOf(keyA, 8), requestA), reversed(keyedCharge("r4", itemOf(keyA, 0), requestA), ReasonOperator), keyedCharge("t", itemOf(keyA, 0), requestA),
		keyedCharge("u", itemOf(keyA, 9), requestA), reversed(keyedCharge("s", keyB, requestB), ReasonOperator))
	check("tentative", s.account)
	s.account.Rollback()
	check("undone", s.account)
	if !bytes.Equal(before, marshal(t, s.account)) {
		t.Fatal("the rolled-back group changed the account")
	}
	restored := New(testID)
	testmust.Succeed(t, restored.UnmarshalBinary(before))
	check("restored", restored)
	restored.forgetKeysPast(2)
	check("forgotten past the bound", restored)
	if len(restored.charged) != 2 {
		t.Fatalf("%d keys are remembered, want 2", len(restored.charged))
	}
	s.after(IdempotencyWindow).and(suspended)
	if check("forgotten after a day", s.account); len(s.account.charged) != 0 {
		t.Fatalf("%d keys are remembered after a day, want none", len(s.account.charged))
	}
}

// indexed returns a charge as an index of the log reports it.
func indexed(ev eventschemas.CreditsCharged, revision uint64, at time.Time) KeyedCharge {
	return KeyedCharge{KeyHash: ev.IdempotencyKeyHash, RequestHash: ev.RequestHash, ChargeFact: ChargeFact{
		ChargeID: ev.ChargeID, Credits: ev.Credits, BrandID: ev.BrandID, Domain: ev.Domain,
		RecordRevision: ev.RecordRevision, Revision: revision, At: at,
	}}
}

// forgetful returns an account that has forgotten the first of its keys because it had one key too many. It
// also returns the charge of that key as an index of the log reports it.
func forgetful(t *testing.T) (*scene, KeyedCharge) {
	t.Helper()
	first := keyedCharge("r0", keyA, requestA)
	s := given(t, opened, granted(2*MaxIdempotencyKeys), first)
	older := indexed(first, s.account.Revisions()-1, s.account.LastAt())
	for i := range MaxIdempotencyKeys {
		key := fmt.Sprintf("%032x%032x", i+1, 0)
		s.account.Apply(keyedCharge(fmt.Sprint("r", i+1), key, requestB), s.account.LastAt())
	}
	s.now = s.account.LastAt().Add(time.Hour)
	return s, older
}

func TestForgottenKey_NeedsTheIndex(t *testing.T) {
	s, older := forgetful(t)
	if !s.now.Before(s.account.ForgotKeysUntil()) {
		t.Fatal("the account remembers all keys")
	}
	again := Charge{RequestID: "r", Credits: 1, BrandID: "b", Domain: "acme.com", RecordRevision: 7, IdempotencyKeyHash: keyA, RequestHash: requestA}
	for name, known := range map[string]*Older{"no index": nil, "an index that is behind": {Through: older.Revision, Charges: []KeyedCharge{older}}} {
		again.Older = known
		if _, _, err := s.account.Charge(again, 0, s.now); !errors.Is(err, ErrKeysForgotten) {
			t.Errorf("%s: Charge = %v, want ErrKeysForgotten", name, err)
		}
		recall := Recall{RequestID: "r", IdempotencyKeyHash: keyA, RequestHash: requestA, Older: known}
		if _, _, err := s.account.Recall(recall, s.now); !errors.Is(err, ErrKeysForgotten) {
			t.Errorf("%s: Recall = %v, want ErrKeysForgotten", name, err)
		}
	}
	again.Older = &Older{Through: older.Revision + 1, Charges: []KeyedCharge{older}}
	if out, fact, err := s.account.Charge(again, 0, s.now); err != nil || !out.Repeated || fact != older.ChargeFact {
		t.Errorf("with the index: %+v %+v %v", out, fact, err)
	}
	recall := Recall{RequestID: "r", IdempotencyKeyHash: keyA, RequestHash: requestA, Older: again.Older}
	if _, facts, err := s.account.Recall(recall, s.now); err != nil || len(facts) != 1 || facts[0] != older.ChargeFact {
		t.Errorf("Recall = %+v, %v", facts, err)
	}
	again.RequestHash = requestB
	if _, _, err := s.account.Charge(again, 0, s.now); !errors.Is(err, ErrIdempotencyMismatch) {
		t.Errorf("another request under the key: %v", err)
	}
	again.RequestHash, again.RequestID = requestA, "a day later"
	if _, fact, err := s.account.Charge(again, 0, older.At.Add(IdempotencyWindow)); err != nil || fact.ChargeID == older.ChargeID {
		t.Errorf("after a day: %+v %v", fact, err)
	}
}

// The index may lag behind, so a reversal that only the account knows must count.
func TestForgottenKey_ReversedCharge_IsFree(t *testing.T) {
	s, older := forgetful(t)
	s.account.Apply(eventschemas.ChargeReversed{ChargeID: older.ChargeID, Credits: 1, RequestID: "r0", Reason: ReasonOperator}, s.now)
	again := Charge{RequestID: "r", Credits: 1, BrandID: "b", Domain: "acme.com", IdempotencyKeyHash: keyA, RequestHash: requestB,
		Older: &Older{Through: older.Revision + 1, Charges: []KeyedCharge{older}}}
	if _, fact, err := s.account.Charge(again, 0, s.now); err != nil || fact.ChargeID == older.ChargeID {
		t.Errorf("%+v %v", fact, err)
	}
}

func TestForgottenKeys_SurviveASnapshot(t *testing.T) {
	s, _ := forgetful(t)
	b := New(testID)
	testmust.Succeed(t, b.UnmarshalBinary(marshal(t, s.account)))
	if b.core.keysPast != s.account.core.keysPast || !b.core.keysAt.Equal(s.account.core.keysAt) {
		t.Errorf("the restored account has keysPast %d, keysAt %s", b.core.keysPast, b.core.keysAt)
	}
}
