package account

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"letterhead/domain/plan"
	"letterhead/eventschemas"
)

func TestOpen_GrantsFreeCreditsOnce(t *testing.T) {
	given(t).
		when(open("holder-1")).
		then(opened, eventschemas.CreditsGranted{GrantID: "free", Kind: "free", Credits: 50}).
		balance(50, 0).
		when(open("holder-1")).isRepeated().
		when(open("holder-2")).rejected(ErrExists)
}

func TestUnopenedAccount_RefusesEverything(t *testing.T) {
	for name, c := range map[string]command{
		"charge": charge("r1"), "hold": hold1("h1"), "release": release("h1"), "grant": grant("p1", 5),
		"refund": refundOf("f1", "p1", 1), "plan": changePlan(plan.Growth), "suspend": suspend, "reinstate": reinstate,
		"close": closeAccount, "fee": feeOf("e1", "p1", *euros(1)), "breakage": breakage("terms"), "issue": issueKey("k1", keyA), "revoke": revokeKey("k1"), "reverse": reverse("r1", start),
	} {
		t.Run(name, func(t *testing.T) { given(t).when(c).rejected(ErrNotFound) })
	}
}

func TestCharge_SpendsOneCredit(t *testing.T) {
	s := given(t, opened, granted(2)).
		when(charge("r1")).then(charged("r1", "", "")).balance(1, 0)
	want := ChargeFact{ChargeID: charged("r1", "", "").ChargeID, Credits: 1, BrandID: "b", Domain: "acme.com", RecordRevision: 7, Revision: 2, At: start.Add(2 * time.Second)}
	if s.fact != want {
		t.Fatalf("fact = %+v, want %+v", s.fact, want)
	}
}

func TestChargeID_DiffersByItem(t *testing.T) {
	a := New(testID)
	ids := map[string]bool{}
	for _, in := range []Charge{
		{RequestID: "r1", Domain: "acme.com"}, {RequestID: "r1", Domain: "acme.org"}, {RequestID: "r2", Domain: "acme.com"},
		{RequestID: "r1", Domain: "acme.com", Item: "2"},
	} {
		ids[a.ChargeID(in)] = true
	}
	if len(ids) != 4 || !ids[a.ChargeID(Charge{RequestID: "r1", Domain: "other.com", Item: "acme.com"})] {
		t.Fatalf("charge ids: %v", ids)
	}
}

func TestHold_CountsAgainstAvailable(t *testing.T) {
	given(t, opened, granted(1), held("h1", 1)).
		when(charge("r2")).rejected(ErrInsufficientCredits).
		when(hold1("h2")).rejected(ErrInsufficientCredits)
}

func TestReservations_CountAgainstAvailable(t *testing.T) {
	given(t, opened, granted(2)).reserving(2).
		when(charge("r1")).rejected(ErrInsufficientCredits).
		reserving(1).
		when(charge("r1")).then(charged("r1", "", ""))
}

func TestInsufficientCredits_ReportsAvailable(t *testing.T) {
	for _, c := range []struct {
		name               string
		events             []eventschemas.Event
		reserved           int64
		balance, available int64
	}{
		{"nothing left", []eventschemas.Event{opened}, 0, 0, 0},
		{"all held", []eventschemas.Event{opened, granted(3), held("h", 3)}, 0, 3, 0},
		{"all reserved", []eventschemas.Event{opened, granted(3)}, 3, 3, 0},
		{"reserved more than there is", []eventschemas.Event{opened, granted(3)}, 5, 3, 0},
		{"below zero", []eventschemas.Event{opened, paid("p", 1), charged("r", "", ""), eventschemas.PaymentRefunded{RefundID: "f", PaymentID: "p", Credits: 1}}, 0, -1, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := given(t, c.events...).reserving(c.reserved).when(charge("r9")).rejected(ErrInsufficientCredits)
			var e *InsufficientCreditsError
			if !errors.As(s.err, &e) || *e != (InsufficientCreditsError{Balance: c.balance, Available: c.available, Required: 1}) {
				t.Fatalf("error = %+v", s.err)
			}
		})
	}
}

func TestCharge_WithHold_CapturesIt(t *testing.T) {
	given(t, opened, granted(1), held("h1", 1)).
		when(capturing("r1", "h1", "")).then(charged("r1", "h1", "")).balance(0, 0).
		when(release("h1")).isRepeated()
}

func TestPartialCaptures(t *testing.T) {
	given(t, opened, granted(3), held("h1", 3)).
		when(capturing("r1", "h1", "a")).then(charged("r1", "h1", "a")).balance(2, 2).
		when(capturing("r1", "h1", "b")).then(charged("r1", "h1", "b")).balance(1, 1).
		when(capturing("r1", "h1", "a")).keeps("r1", charged("r1", "h1", "a")).
		when(release("h1")).then(released("h1", 1, "handed_back")).balance(1, 0)
}

func TestCharge_RepeatedCapture_ReturnsFirst(t *testing.T) {
	s := given(t, opened, granted(2), held("h1", 1), charged("r1", "h1", "")).
		when(capturing("r1", "h1", "")).keeps("r1", charged("r1", "h1", ""))
	if s.fact.Revision != 3 || s.fact.Credits != 1 || s.fact.ChargeID != charged("r1", "h1", "").ChargeID {
		t.Fatalf("fact = %+v", s.fact)
	}
	// When the hold is forgotten, so is its charge. The repeat must not charge a second time.
	s.after(HoldMemory).when(capturing("r1", "h1", "")).rejected(ErrUnknownHold)
}

func TestCharge_RepeatOfReversedCapture_IsRejected(t *testing.T) {
	given(t, opened, granted(2), held("h1", 1), charged("r1", "h1", ""),
		reversed(charged("r1", "h1", ""), ReasonClientGone)).
		when(capturing("r1", "h1", "")).rejected(ErrChargeReversed)
}

func TestCharge_ReleasedHold_IsOrdinaryCharge(t *testing.T) {
	given(t, opened, granted(1), held("h1", 1), released("h1", 1, "expired")).
		when(capturing("r1", "h1", "")).then(charged("r1", "h1", "")).balance(0, 0)
	given(t, opened, granted(1), held("h1", 1), released("h1", 1, "expired"), held("h2", 1)).
		when(capturing("r1", "h1", "")).rejected(ErrInsufficientCredits)
}

func TestCharge_RemainderBeyondHold_MustBeAvailable(t *testing.T) {
	three := charging(Charge{RequestID: "r1", Credits: 3, HoldID: "h1"})
	given(t, opened, granted(3), held("h1", 2)).reserving(1).when(three).rejected(ErrInsufficientCredits)
	given(t, opened, granted(3), held("h1", 2)).when(three)
	s := given(t, opened, granted(3), held("h1", 2)).when(three)
	if s.err != nil {
		t.Fatal(s.err)
	}
	s.and(s.out.Events...).balance(0, 0)
}

func TestUnknownHold_CannotBeCapturedOrReleased(t *testing.T) {
	given(t, opened, granted(5)).
		when(capturing("r1", "h9", "")).rejected(ErrUnknownHold).
		when(release("h9")).rejected(ErrUnknownHold)
}

func TestCharge_Capture_NeverBelowZero(t *testing.T) {
	// Both holds were funded by a refunded payment: one credit is left for two captures.
	given(t, opened, granted(1), paid("p1", 1), held("h1", 1), held("h2", 1),
		eventschemas.PaymentRefunded{RefundID: "f1", PaymentID: "p1", Credits: 1}).
		when(capturing("r1", "h1", "")).then(charged("r1", "h1", "")).balance(0, 1).
		when(capturing("r2", "h2", "")).rejected(ErrInsufficientCredits).
		when(release("h2")).then(released("h2", 1, "handed_back")).balance(0, 0)
}

func TestHold_PlacedOnce(t *testing.T) {
	given(t, opened, granted(5)).
		when(hold1("h1")).then(held("h1", 1)).
		when(hold1("h1")).isRepeated().
		when(holding("h1", 2)).rejected(ErrHoldMismatch).
		when(release("h1")).then(released("h1", 1, "handed_back")).
		when(hold1("h1")).isRepeated()
}

func TestOverdueHold_NeedsReleaseEvent(t *testing.T) {
	s := given(t, opened, granted(3), held("b", 1), held("a", 1)).
		after(time.Hour).
		when(charge("r1"))
	s.and(s.out.Events...).
		when(charge("r2")).rejected(ErrInsufficientCredits). // the hold is overdue, but no event has released it
		when(releaseOverdue).then(released("a", 1, "expired"), released("b", 1, "expired")).
		when(charge("r2")).then(charged("r2", "", "")).
		when(releaseOverdue)
	if len(s.out.Events) != 0 {
		t.Fatalf("released twice: %+v", s.out.Events)
	}
}

func TestReleaseOverdue_AtDeadline_ReleasesNothing(t *testing.T) {
	s := given(t, opened, granted(1), held("h1", 1))
	s.now = start.Add(time.Minute)
	if s.when(releaseOverdue); len(s.out.Events) != 0 {
		t.Fatalf("a hold was released at its deadline, want after it: %+v", s.out.Events)
	}
	s.after(time.Microsecond).when(releaseOverdue).then(released("h1", 1, "expired"))
}

func TestReleaseOverdue_IsLimited(t *testing.T) {
	s := given(t, opened, granted(1000))
	for i := range MaxReleases + 5 {
		s.and(held(fmt.Sprintf("h%03d", i), 1))
	}
	s.after(time.Hour).when(releaseOverdue)
	if len(s.out.Events) != MaxReleases {
		t.Fatalf("%d releases in one decision", len(s.out.Events))
	}
	s.and(s.out.Events...).when(releaseOverdue)
	if len(s.out.Events) != 5 {
		t.Fatalf("%d releases in the second decision, want 5", len(s.out.Events))
	}
	s.and(s.out.Events...).balance(1000, 0)
}

func TestOpenHolds_AreLimited(t *testing.T) {
	s := given(t, opened, granted(2*MaxOpenHolds))
	for i := range MaxOpenHolds {
		s.and(held(fmt.Sprint("h", i), 1))
	}
	s.when(hold1("one more")).rejected(ErrTooManyHolds)
}

func TestReverse_ReturnsCreditsOnce(t *testing.T) {
	s := given(t, opened, granted(1), charged("r1", "", ""))
	at := s.now
	s.when(reverse("r1", at)).
		then(reversed(charged("r1", "", ""), ReasonOperator)).
		balance(1, 0).
		when(reverse("r1", at)).isRepeated()
	s.now = at.Add(ReversalWindow - time.Microsecond)
	s.when(reverse("r1", at)).isRepeated()
	s.now = at.Add(ReversalWindow)
	s.and(granted(1)).when(reverse("r1", at)).rejected(ErrTooLate)
}

func TestReverse_OnlyWithinWindow(t *testing.T) {
	s := given(t, opened, granted(1), charged("r1", "", ""))
	at := s.now
	s.now = at.Add(UndeliveredWindow - time.Microsecond)
	if s.when(clientGone("r1", at)); s.err != nil {
		t.Fatal(s.err)
	}
	s.now = at.Add(UndeliveredWindow)
	s.when(clientGone("r1", at)).rejected(ErrTooLate)
	s.now = at.Add(ReversalWindow - time.Microsecond)
	if s.when(reverse("r1", at)); s.err != nil {
		t.Fatal(s.err)
	}
	s.now = at.Add(ReversalWindow)
	s.when(reverse("r1", at)).rejected(ErrTooLate)
}

func TestIdempotencyKey(t *testing.T) {
	first := keyedCharge("r1", keyA, requestA)
	s := given(t, opened, granted(5)).
		when(withKey("r1", keyA, requestA)).then(first).
		when(withKey("r2", keyA, requestA)).keeps("r2", first)
	if s.fact.ChargeID != first.ChargeID || s.fact.RecordRevision != 7 || s.fact.Revision != 2 || !s.fact.At.Equal(start.Add(3*time.Second)) {
		t.Fatalf("fact = %+v", s.fact)
	}
	at := s.fact.At
	s.when(withKey("r2", keyA, requestB)).rejected(ErrIdempotencyMismatch).
		when(withKey("r2", keyB, requestB)).then(keyedCharge("r2", keyB, requestB))
	s.now = at.Add(IdempotencyWindow - time.Microsecond)
	s.when(withKey("r3", keyA, requestA)).isRepeated()
	s.now = at.Add(IdempotencyWindow)
	s.when(withKey("r3", keyA, requestB)).then(keyedCharge("r3", keyA, requestB)).balance(2, 0)
}

func TestIdempotencyKey_ReversedCharge_ChargesAgain(t *testing.T) {
	s := given(t, opened, granted(5), keyedCharge("r1", keyA, requestA))
	s.when(reverse("r1", s.now))
	s.and(s.out.Events...).
		when(withKey("r2", keyA, requestA)).then(keyedCharge("r2", keyA, requestA)).balance(4, 0).
		when(withKey("r3", keyA, requestA)).keeps("r3", keyedCharge("r2", keyA, requestA))
	if want := keyedCharge("r2", keyA, requestA).ChargeID; s.fact.ChargeID != want {
		t.Fatalf("the repeat returned charge %s, want the second charge %s", s.fact.ChargeID, want)
	}
	// Reversing the first charge again must not affect the key of the second.
	s.when(reverse("r1", s.now)).isRepeated().
		when(withKey("r4", keyA, requestB)).rejected(ErrIdempotencyMismatch)
}

func TestSuspendedAccount_SettlesOnly(t *testing.T) {
	base := func() *scene { return given(t, opened, paid("p1", 5), held("h1", 1), charged("r0", "", ""), suspended) }
	base().when(charge("r1")).rejected(ErrSuspended)
	base().when(hold1("h2")).rejected(ErrSuspended)
	base().when(capturing("r1", "h1", "")).then(charged("r1", "h1", "")) // its work was accepted before
	base().when(release("h1")).then(released("h1", 1, "handed_back")).when(capturing("r1", "h1", "")).rejected(ErrSuspended)
	base().when(charging(Charge{RequestID: "r1", Credits: 2, HoldID: "h1"})).rejected(ErrSuspended)
	base().when(grant("p2", 1)).then(paid("p2", 1))
	base().when(refundOf("f1", "p1", 1)).then(eventschemas.PaymentRefunded{RefundID: "f1", PaymentID: "p1", Credits: 1})
	s := base()
	s.when(reverse("r0", s.now))
	if s.err != nil {
		t.Fatal(s.err)
	}
	base().when(suspend).isRepeated()
	base().when(reinstate).then(eventschemas.AccountReinstated{}).when(charge("r1")).then(charged("r1", "", "")).when(reinstate).isRepeated()
}

func TestClosedAccount_OnlySettles(t *testing.T) {
	base := func() *scene { return given(t, opened, paid("p1", 5), held("h1", 1), charged("r0", "", ""), closed) }
	for name, c := range map[string]command{
		"charge": charge("r1"), "capture": capturing("r1", "h1", ""), "hold": hold1("h2"), "grant": grant("p2", 1),
		"plan": changePlan(plan.Growth), "suspend": suspend, "reinstate": reinstate, "issue": issueKey("k1", keyA),
	} {
		t.Run(name, func(t *testing.T) { base().when(c).rejected(ErrClosed) })
	}
	base().when(release("h1")).then(released("h1", 1, "handed_back"))
	base().after(time.Hour).when(releaseOverdue).then(released("h1", 1, "expired"))
	base().when(refundOf("f1", "p1", 0)).then(eventschemas.PaymentRefunded{RefundID: "f1", PaymentID: "p1", Credits: 5})
	base().when(closeAccount).isRepeated()
}

func TestRecognizeBreakage_ClosedAccount_RemovesAllCredits(t *testing.T) {
	gone := eventschemas.BreakageRecognized{Credits: 4, Policy: "terms"}
	given(t, opened, paid("p1", 5), charged("r1", "", ""), closed).
		when(breakage("terms")).then(gone).balance(0, 0).
		when(breakage("terms")).isRepeated().
		when(reverse("r1", start.Add(3*time.Second))).then(reversed(charged("r1", "", ""), ReasonOperator)).balance(1, 0).
		when(breakage("other terms")).then(eventschemas.BreakageRecognized{Credits: 1, Policy: "other terms"}).balance(0, 0)
	given(t, opened, paid("p1", 5)).when(breakage("terms")).rejected(ErrNotClosed)
	given(t, opened, paid("p1", 5), suspended).when(breakage("terms")).rejected(ErrNotClosed)
	given(t, opened, paid("p1", 5), held("h1", 1), closed).
		when(breakage("terms")).rejected(ErrOpenHolds).
		when(release("h1")).then(released("h1", 1, "handed_back")).
		when(breakage("terms")).then(eventschemas.BreakageRecognized{Credits: 5, Policy: "terms"})
	given(t, opened, paid("p1", 1), charged("r1", "", ""), eventschemas.PaymentRefunded{RefundID: "f", PaymentID: "p1", Credits: 1}, closed).
		when(breakage("terms")).isRepeated().balance(-1, 0)
}

func TestClose_EndsEveryHold(t *testing.T) {
	given(t, opened, granted(3), held("h2", 1), held("h1", 2)).
		when(closeAccount).
		then(released("h1", 2, "handed_back"), released("h2", 1, "handed_back"), closed).
		balance(3, 0)
}

func TestPlans(t *testing.T) {
	s := given(t, opened, granted(3)).
		when(changePlan(plan.Growth)).then(eventschemas.PlanChanged{From: "free", To: "growth"}).
		balance(3, 0).
		when(changePlan(plan.Growth)).isRepeated().
		when(changePlan("gold")).rejected(ErrInvalid)
	if s.account.Plan() != plan.Growth {
		t.Fatalf("plan = %s", s.account.Plan())
	}
}

func TestAmounts_BeyondLimit_AreRejected(t *testing.T) {
	given(t, opened, granted(MaxCredits)).when(grant("p1", 1)).rejected(ErrCreditLimit)
	given(t, opened).when(grant("p1", MaxCredits+1)).rejected(ErrInvalid)
	given(t, opened).when(grant("p1", 0)).rejected(ErrInvalid)
	given(t, opened).when(grant("p1", -1)).rejected(ErrInvalid)
	s := given(t, opened, granted(1), charged("r1", "", ""), paid("p1", MaxCredits))
	s.when(reverse("r1", s.now)).rejected(ErrCreditLimit)
	// At the lower limit of the balance a further refund is rejected.
	given(t, opened, paid("p1", MaxCredits), paid("p2", 1), eventschemas.CreditsCharged{ChargeID: "c", Credits: MaxCredits + 1},
		eventschemas.PaymentRefunded{RefundID: "f1", PaymentID: "p1", Credits: MaxCredits}).
		when(refundOf("f2", "p2", 1)).rejected(ErrCreditLimit)
}

func TestMalformedCommand_IsRejected(t *testing.T) {
	long := strings.Repeat("x", MaxTextBytes+1)
	for name, c := range map[string]command{
		"no request":            charging(Charge{Credits: 1}),
		"long request":          charge(long),
		"NUL in item":           capturing("r", "", "a\x00"),
		"negative charge":       charging(Charge{RequestID: "r", Credits: -1}),
		"key without request":   withKey("r", keyA, ""),
		"request without key":   withKey("r", "", requestA),
		"short key hash":        withKey("r", "abc", requestA),
		"upper case key hash":   withKey("r", strings.Repeat("A", 64), requestA),
		"hold without id":       hold1(""),
		"hold of nothing":       holding("h", 0),
		"release without id":    release(""),
		"grant without id":      grant("", 5),
		"refund without id":     refundOf("", "p1", 1),
		"refund of less than 0": refundOf("f", "p1", -1),
		"fee without id":        feeOf("", "p1", *euros(1)),
		"fee of nothing":        feeOf("e1", "p1", *euros(0)),
		"fee without currency":  feeOf("e1", "p1", eventschemas.Money{Minor: 1}),
		"fee beyond the limit":  feeOf("e1", "p1", *euros(-MaxMoney - 1)),
		"note without id":       note("", "x"),
		"note without text":     note("n", " \n"),
		"long note":             note("n", strings.Repeat("x", MaxNoteBytes+1)),
		"NUL in note":           note("n", "a\x00"),
		"breakage, no policy":   breakage(""),
		"breakage, long policy": breakage(long),
		"key hash":              issueKey("k", "zz"),
		"revoke without id":     revokeKey(""),
		"reverse without id":    func(s *scene) { s.out, s.err = s.account.Reverse(Reverse{Credits: 1, Reason: ReasonOperator}, s.now) },
		"reverse for fun": func(s *scene) {
			s.out, s.err = s.account.Reverse(Reverse{ChargeID: "c", RequestID: "r", Credits: 1, Reason: "fun"}, s.now)
		},
		"kind of grant": func(s *scene) { s.out, s.err = s.account.Grant(Grant{GrantID: "g", Kind: "gift", Credits: 1}) },
		"kind of key":   issuing(IssueKey{KeyID: "k", Hash: keyA, Last4: "abcd", Kind: "root"}),
		"last4":         issuing(IssueKey{KeyID: "k", Hash: keyA, Last4: "abc", Kind: "secret"}),
		"money": func(s *scene) {
			s.out, s.err = s.account.Grant(Grant{GrantID: "g", Kind: KindTopup, Credits: 1, Money: &eventschemas.Money{Minor: 100, Currency: "eur"}})
		},
		"negative money": func(s *scene) {
			s.out, s.err = s.account.Grant(Grant{GrantID: "g", Kind: KindTopup, Credits: 1, Money: &eventschemas.Money{Minor: -1, Currency: "EUR"}})
		},
		"free credits": func(s *scene) { s.out, s.err = New(testID).Open(Open{Holder: "h", Plan: plan.Free, Free: -1}) },
		"holder":       func(s *scene) { s.out, s.err = New(testID).Open(Open{Plan: plan.Free}) },
	} {
		t.Run(name, func(t *testing.T) {
			s := given(t, opened, paid("p1", 10)).when(c).rejected(ErrInvalid)
			var e *InvalidError
			if !errors.As(s.err, &e) || e.Field == "" || e.Reason == "" {
				t.Fatalf("error = %v", s.err)
			}
		})
	}
}

func TestLookups_CountsMonth(t *testing.T) {
	s := given(t, opened, granted(10))
	if n := s.account.Lookups(s.now); n != 0 {
		t.Fatalf("%d lookups before the first, want 0", n)
	}
	s.and(charged("r1", "", ""), charged("r2", "", ""))
	c := charged("r2", "", "")
	s.and(eventschemas.ChargeReversed{ChargeID: c.ChargeID, Credits: 1, RequestID: "r2", Reason: ReasonOperator})
	if n := s.account.Lookups(s.now); n != 1 {
		t.Fatalf("%d lookups, want 1", n)
	}
	december := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	if n := s.account.Lookups(december); n != 0 {
		t.Fatalf("%d lookups on the first of the next month, want 0", n)
	}
	if n := s.account.Lookups(december.In(time.FixedZone("east", -5*3600)).Add(-time.Microsecond)); n != 1 {
		t.Fatalf("%d lookups just before the month ends in UTC, want 1", n)
	}
	s.now = december
	s.and(charged("r3", "", ""))
	if n := s.account.Lookups(s.now); n != 1 {
		t.Fatalf("%d lookups in December, want 1", n)
	}
}

func TestDecision_NeverBeforeLastEvent(t *testing.T) {
	// This node's clock is behind the stream. By the stream's time the key is still valid.
	s := given(t, opened, granted(5)).after(IdempotencyWindow).and(keyedCharge("r1", keyA, requestA))
	s.now = s.now.Add(-2 * IdempotencyWindow)
	s.when(withKey("r2", keyA, requestA)).keeps("r2", keyedCharge("r1", keyA, requestA))
}

func TestForget_ChangesNoDecision(t *testing.T) {
	// Two accounts with the same stream. The second keeps expired entries, because its group stays tentative.
	build := func() *scene {
		return given(t, opened, granted(20), held("h1", 1), charged("r1", "h1", ""), keyedCharge("r2", keyA, requestA))
	}
	plain, tentative := build(), build()
	tentative.account.Begin()
	for _, s := range []*scene{plain, tentative} {
		s.after(25 * time.Hour).and(keyedCharge("r3", keyB, requestB))
	}
	if len(plain.account.ended) != 0 || len(tentative.account.ended) != 1 {
		t.Fatalf("the test needs one account that forgot: %d and %d", len(plain.account.ended), len(tentative.account.ended))
	}
	for i, c := range []command{
		withKey("r4", keyA, requestB), withKey("r4", keyB, requestB), capturing("r1", "h1", ""), release("h1"), hold1("h1"),
	} {
		plain.when(c)
		tentative.when(c)
		if !errors.Is(plain.err, tentative.err) || plain.out.Repeated != tentative.out.Repeated || !slices.Equal(plain.out.Events, tentative.out.Events) {
			t.Errorf("command %d: got %+v %v and, tentatively, %+v %v", i, plain.out, plain.err, tentative.out, tentative.err)
		}
	}
}
