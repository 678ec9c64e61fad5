package commands

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
)

// Rule 3.
func TestChargeLookup_IsOneAppendAndNoRead(t *testing.T) {
	w, d, id := opened(t, 0)
	appends, reads := w.log.appends.Load(), w.log.reads.Load()
	for i := range int64(10) {
		r := w.reserve(d, id)
		in := w.lookup(id)
		in.Reservation = r
		receipt := w.charged(d, in)
		want := Receipt{
			ChargeID: receipt.ChargeID, Credits: 1, Balance: 49 - i, Remaining: 49 - i, Revision: uint64(2 + i), Position: receipt.Position, At: receipt.At,
			BrandID: testBrand, Domain: "acme.com", RecordRevision: 3,
		}
		if receipt != want || time.Since(receipt.At) > time.Hour {
			t.Fatalf("receipt %+v, want %+v", receipt, want)
		}
		head, err := w.log.Head(t.Context())
		if err != nil || receipt.Position != head {
			t.Fatalf("position %d, the log is at %d, %v", receipt.Position, head, err)
		}
	}
	if a, r := w.log.appends.Load()-appends, w.log.reads.Load()-reads; a != 10 || r != 0 {
		t.Fatalf("10 charges took %d appends and %d reads", a, r)
	}
}

func TestChargeLookup_Event_NamesRequestAndBrand(t *testing.T) {
	w := newWorld(t)
	d := w.writer(AccountWriterConfig{Config: streamwriter.Config{Now: func() time.Time { return time.Date(2026, 11, 3, 4, 5, 6, 7_999, time.FixedZone("x", 3600)) }}})
	id := w.opened(d, 0)
	receipt, err := d.ChargeLookup(t.Context(), ChargeLookup{
		Request:   Request{ID: "req-1", Actor: "account:" + id, CorrelationID: "corr", CausationID: "cause"},
		AccountID: id, BrandID: testBrand, Domain: "acme.com", RecordRevision: 9, Item: "7", KeyID: "key-1",
		Once: &Once{Key: [32]byte(bytes.Repeat([]byte{0xaa}, 32)), Request: [32]byte(bytes.Repeat([]byte{0xbb}, 32)), Item: "acme.com"},
	})
	testmust.Succeed(t, err)
	recs, events := w.events(id)
	want := eventschemas.CreditsCharged{
		ChargeID: receipt.ChargeID, Credits: 1, RequestID: "req-1", BrandID: testBrand, Domain: "acme.com", RecordRevision: 9,
		IdempotencyKeyHash: strings.Repeat("a", 32) + hashHex("acme.com")[:32], RequestHash: strings.Repeat("b", 64),
		KeyID: "key-1",
	}
	if events[2] != want || recs[2].Revision != receipt.Revision {
		t.Fatalf("event %+v at %d, want %+v", events[2], recs[2].Revision, want)
	}
	meta := recs[2].Metadata
	if meta.RequestID != "req-1" || meta.Actor != "account:"+id || meta.CorrelationID != "corr" || meta.CausationID != "cause" || len(meta.Hash) != 64 {
		t.Fatalf("metadata = %+v, want those of req-1 and a hash", meta)
	}
	if at := time.Date(2026, 11, 3, 3, 5, 6, 7_000, time.UTC); !recs[2].OccurredAt.Equal(at) || recs[2].OccurredAt.Location() != time.UTC {
		t.Fatalf("occurred at %s, want %s", recs[2].OccurredAt, at)
	}
}

func TestEvents_ClockGoesBack_TimeDoesNot(t *testing.T) {
	w := newWorld(t)
	now := time.Date(2026, 11, 3, 4, 5, 6, 0, time.UTC)
	d := w.writer(AccountWriterConfig{Config: streamwriter.Config{Now: func() time.Time { return now }}})
	id := w.opened(d, 0)
	now = now.Add(-time.Hour) // the clock was set back; openLog checks the stream
	w.charge(d, id)
	w.drain(d)
	later := w.writer(AccountWriterConfig{Config: streamwriter.Config{Now: func() time.Time { return now.Add(-time.Hour) }}})
	w.charge(later, id)
	if recs, _ := w.events(id); !recs[3].OccurredAt.Equal(now.Add(time.Hour)) {
		t.Fatalf("the last event is of %s", recs[3].OccurredAt)
	}
}

func TestOpenAccount_IsOneAppend(t *testing.T) {
	w := newWorld(t)
	d := w.writer(AccountWriterConfig{})
	id := uuid.NewString()
	in := OpenAccount{Request: w.request(), AccountID: id, Holder: "h1", Plan: plan.Growth}
	for range 2 {
		w.ok(d.OpenAccount(t.Context(), in))
	}
	_, events := w.events(id)
	if w.log.appends.Load() != 1 || len(events) != 2 || events[0] != (eventschemas.AccountOpened{AccountID: id, Holder: "h1", Plan: "growth"}) {
		t.Fatalf("%d appends, events %+v", w.log.appends.Load(), events)
	}
	in.Holder = "h2"
	w.fails(account.ErrExists)(d.OpenAccount(t.Context(), in))
	s := w.standing(d, id)
	if s.Balance != plan.FreeCredits || s.Plan != plan.Growth || s.Status != "active" {
		t.Fatalf("standing %+v, want %d credits, plan %s, active", s, plan.FreeCredits, plan.Growth)
	}
}

func TestUnknownAccount_EveryCommand_IsNotFound(t *testing.T) {
	w := newWorld(t)
	d := w.writer(AccountWriterConfig{})
	for _, id := range []string{uuid.NewString(), "", "nope", "../x", strings.ToUpper(uuid.NewString()), "{" + uuid.NewString() + "}"} {
		if _, err := d.Reserve(t.Context(), id, ""); !errors.Is(err, account.ErrNotFound) {
			t.Errorf("reserve on %q: %v", id, err)
		}
		if _, err := d.ChargeLookup(t.Context(), w.lookup(id)); !errors.Is(err, account.ErrNotFound) {
			t.Errorf("charge on %q: %v", id, err)
		}
		if _, err := d.Standing(t.Context(), id); !errors.Is(err, account.ErrNotFound) {
			t.Errorf("standing of %q: %v", id, err)
		}
		if _, err := d.ReverseCharge(t.Context(), ReverseCharge{Request: w.request(), AccountID: id, ChargeID: "c", Reason: "operator"}); err == nil {
			t.Errorf("reversed on %q", id)
		}
	}
	if n := w.log.appends.Load(); n != 0 {
		t.Errorf("%d appends, want 0", n)
	}
}

func TestMalformedRequest_AppendsNothing(t *testing.T) {
	w, d, id := openedWith(t, 1)
	appends := w.log.appends.Load()
	for name, request := range map[string]Request{
		"no id": {Actor: "a"}, "no actor": {ID: "r"}, "long id": {ID: strings.Repeat("x", 200), Actor: "a"},
		"long correlation": {ID: "r", Actor: "a", CorrelationID: strings.Repeat("x", 200)},
	} {
		in := w.lookup(id)
		in.Request, in.Reservation = request, w.reserve(d, id)
		if _, err := d.ChargeLookup(t.Context(), in); !errors.Is(err, ErrInvalidRequest) {
			t.Errorf("%s: %v", name, err)
		}
		r := w.reserve(d, id) // so the rejected charge freed its credit
		if _, err := d.HoldCredits(t.Context(), HoldCredits{Request: request, AccountID: id, Reservation: r, Domain: "acme.com"}); !errors.Is(err, ErrInvalidRequest) {
			t.Errorf("%s: hold: %v", name, err)
		}
		if _, err := d.GrantCredits(t.Context(), GrantCredits{Request: request, AccountID: id, Kind: "topup", Credits: 1}); !errors.Is(err, ErrInvalidRequest) {
			t.Errorf("%s: grant: %v", name, err)
		}
	}
	in := w.lookup(id)
	in.BrandID = ""
	w.fails(account.ErrInvalid)(d.ChargeLookup(t.Context(), in))
	w.fails(account.ErrInvalid)(d.HoldCredits(t.Context(), HoldCredits{Request: w.request(), AccountID: id, Domain: "acme.com", Work: 2 * time.Hour}))
	if n := w.log.appends.Load() - appends; n != 0 {
		t.Errorf("%d appends, want 0", n)
	}
	w.reserve(d, id)
}

// Rule 1.
func TestChargeLookup_SixtyFourCallersOfTwoWriters_NeverOverspend(t *testing.T) {
	w := newWorld(t)
	writers := []*AccountWriter{w.writer(AccountWriterConfig{}), w.writer(AccountWriterConfig{})}
	const credits, callers, tries = 300, 64, 8 // 512 attempts for 300 credits
	id := w.opened(writers[0], credits-plan.FreeCredits)
	var mu sync.Mutex
	paid := map[string]bool{}
	rejected := 0
	var wg sync.WaitGroup
	for caller := range callers {
		d := writers[caller%2]
		wg.Go(func() {
			for range tries {
				in := w.lookup(id)
				r, err := d.Reserve(context.Background(), id, "")
				if err == nil {
					in.Reservation = r
					_, err = d.ChargeLookup(context.Background(), in)
				}
				mu.Lock()
				switch {
				case err == nil:
					paid[in.Request.ID] = true
				case errors.Is(err, account.ErrInsufficientCredits):
					rejected++
				default:
					t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	l := w.ledger(id)
	if len(paid) != credits || rejected != callers*tries-credits || l.balance != 0 || l.minimum < 0 {
		t.Fatalf("%d paid, %d rejected, balance %d, lowest %d", len(paid), rejected, l.balance, l.minimum)
	}
	for request := range paid {
		if l.charges[request] != 1 {
			t.Errorf("request %s has %d unreversed charges", request, l.charges[request])
		}
	}
	if len(l.charges) != credits {
		t.Errorf("%d charges on the ledger", len(l.charges))
	}
}

// Rule 1.
func TestGrant_OtherWriterHadRejected_IsSpendable(t *testing.T) {
	w := newWorld(t)
	here, there := w.writer(AccountWriterConfig{}), w.writer(AccountWriterConfig{})
	id := w.openedWith(here, 0)
	for range 3 {
		// there may overestimate the balance, but must never overcharge.
		w.fails(account.ErrInsufficientCredits)(there.ChargeLookup(t.Context(), w.lookup(id)))
		w.fails(account.ErrInsufficientCredits)(there.Reserve(t.Context(), id, ""))
		w.grant(here, id, 2)
		in := w.lookup(id)
		in.Reservation = w.reserve(there, id)
		w.ok(there.ChargeLookup(t.Context(), in))
		w.charge(here, id)
	}
	if l := w.ledger(id); l.balance != 0 || l.minimum < 0 {
		t.Fatalf("balance %d", l.balance)
	}
}

// Rule 1.
func TestRejection_IsFinalOnlyAfterReadingTail(t *testing.T) {
	w := newWorld(t)
	here, there := w.writer(AccountWriterConfig{}), w.writer(AccountWriterConfig{})
	id := w.opened(here, 0)
	w.charge(there, id) // there knows the account as active
	w.ok(here.Suspend(t.Context(), SuspendAccount{Request: w.request(), AccountID: id, Reason: "x"}))
	// A charge of the writer that has not seen the suspension yet meets a conflict, and is then rejected.
	w.fails(account.ErrSuspended)(there.ChargeLookup(t.Context(), w.lookup(id)))
	w.ok(here.Reinstate(t.Context(), ReinstateAccount{Request: w.request(), AccountID: id}))
	// The writer there still considers the account suspended: its rejection must not be final.
	w.charge(there, id)
	// A hold of one writer can be captured and released by the other, which has never seen it.
	h := w.hold(here, id, time.Second)
	in := w.lookup(id)
	in.HoldID = h.ID
	w.ok(there.ChargeLookup(t.Context(), in))
	h = w.hold(here, id, time.Second)
	w.must(there.ReleaseHold(t.Context(), ReleaseHold{Request: w.request(), AccountID: id, HoldID: h.ID}))
	w.must(here.ReleaseHold(t.Context(), ReleaseHold{Request: w.request(), AccountID: id, HoldID: h.ID}))
	w.failed(here.ReleaseHold(t.Context(), ReleaseHold{Request: w.request(), AccountID: id, HoldID: "unknown"}), account.ErrUnknownHold)
}

func TestIdempotencyKey_SameRequest_ReturnsFirstReceipt(t *testing.T) {
	w := newWorld(t)
	writers := []*AccountWriter{w.writer(AccountWriterConfig{}), w.writer(AccountWriterConfig{})}
	id := w.opened(writers[0], 0)
	keyed := func(request byte) ChargeLookup {
		in := w.lookup(id)
		in.Once = onceOf(7, request)
		return in
	}
	first, err := writers[0].ChargeLookup(t.Context(), keyed(1))
	if err != nil || first.Repeated {
		t.Fatalf("first: %+v, %v", first, err)
	}
	w.charge(writers[0], id)
	for _, d := range writers {
		in := keyed(1)
		in.RecordRevision, in.Reservation = 77, w.reserve(d, id)
		again := w.charged(d, in)
		if !again.Repeated || again.ChargeID != first.ChargeID || again.Revision != first.Revision || again.RecordRevision != 3 || again.Balance != 48 {
			t.Fatalf("again: %+v, first: %+v", again, first)
		}
		if s := w.standing(d, id); s.Available != 48 {
			t.Fatalf("the repeat kept its reservation: %+v, want available 48", s)
		}
		w.fails(account.ErrIdempotencyMismatch)(d.ChargeLookup(t.Context(), keyed(2)))
	}
	// Reversed by one writer, it is charged again by the other, whose memory has the charge.
	w.ok(writers[0].ReverseCharge(t.Context(), ReverseCharge{Request: w.request(), AccountID: id, ChargeID: first.ChargeID, Revision: first.Revision, Reason: account.ReasonOperator}))
	second, err := writers[1].ChargeLookup(t.Context(), keyed(1))
	if err != nil || second.Repeated || second.ChargeID == first.ChargeID {
		t.Fatalf("second: %+v, %v", second, err)
	}
	if l := w.ledger(id); l.balance != 48 {
		t.Fatalf("balance = %d, want 48", l.balance)
	}
}

func TestIdempotencyKey_RacingRequests_ChargeOnce(t *testing.T) {
	w := newWorld(t)
	writers := []*AccountWriter{w.writer(AccountWriterConfig{}), w.writer(AccountWriterConfig{})}
	id := w.opened(writers[0], 0)
	var mu sync.Mutex
	charges := map[string]int{}
	first := 0
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			in := w.lookup(id)
			in.Once = onceOf(7, 1)
			receipt, err := writers[i%2].ChargeLookup(context.Background(), in)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			charges[receipt.ChargeID]++
			if !receipt.Repeated {
				first++
			}
		})
	}
	wg.Wait()
	if l := w.ledger(id); len(charges) != 1 || first != 1 || l.balance != 49 {
		t.Fatalf("charges %v, %d first, balance %d", charges, first, l.balance)
	}
}

func TestReverseCharge_ReversesOnce(t *testing.T) {
	w, d, id := opened(t, 0)
	receipt := w.charge(d, id)
	in := ReverseCharge{Request: w.request(), AccountID: id, ChargeID: receipt.ChargeID, Revision: receipt.Revision, Reason: account.ReasonClientGone}
	for range 2 {
		w.ok(d.ReverseCharge(t.Context(), in))
	}
	if s := w.standing(d, id); s.Balance != 50 || s.Lookups != 0 {
		t.Fatalf("standing %+v, want balance 50 and lookups 0", s)
	}
	if recs, events := w.events(id); len(events) != 4 || recs[3].Metadata.RequestID != in.Request.ID {
		t.Fatalf("events %+v, want 4, the last of request %s", events, in.Request.ID)
	}
	for name, change := range map[string]func(*ReverseCharge){
		"another charge":     func(in *ReverseCharge) { in.ChargeID = "c" },
		"another revision":   func(in *ReverseCharge) { in.Revision = 1 },
		"past the stream":    func(in *ReverseCharge) { in.Revision = 1000 },
		"an unknown account": func(in *ReverseCharge) { in.AccountID = uuid.NewString() },
	} {
		bad := in
		change(&bad)
		if _, err := d.ReverseCharge(t.Context(), bad); !errors.Is(err, ErrUnknownCharge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	in.Reason = "fun"
	w.fails(account.ErrInvalid)(d.ReverseCharge(t.Context(), in))
}

// Rule 7.
func TestStanding(t *testing.T) {
	w := newWorld(t)
	now := time.Date(2026, 11, 30, 23, 0, 0, 0, time.UTC)
	var clock sync.Mutex
	d := w.writer(AccountWriterConfig{Config: streamwriter.Config{Now: func() time.Time {
		clock.Lock()
		defer clock.Unlock()
		return now
	}}})
	id := w.opened(d, 0)
	w.charge(d, id)
	w.charge(d, id)
	w.hold(d, id, time.Second)
	r := w.reserve(d, id)
	want := Standing{Plan: plan.Free, Status: "active", Balance: 48, Remaining: 48, Available: 46, Month: "2026-11", Lookups: 2, OpenHolds: 1}
	if s := w.standing(d, id); !reflect.DeepEqual(s, want) {
		t.Fatalf("standing %+v, want %+v", s, want)
	}
	// A writer that has to load the account returns the same, except for reservations of the other.
	want.Available = 47
	if s := w.standing(w.writer(AccountWriterConfig{Config: streamwriter.Config{Now: func() time.Time { return now }}}), id); !reflect.DeepEqual(s, want) {
		t.Fatalf("standing %+v, want %+v", s, want)
	}
	r.Drop()
	clock.Lock()
	now = now.Add(time.Hour)
	clock.Unlock()
	want.Month, want.Lookups = "2026-12", 0
	if s := w.standing(d, id); !reflect.DeepEqual(s, want) {
		t.Fatalf("in the next month: %+v, want %+v", s, want)
	}
}

func TestStanding_BelowZero(t *testing.T) {
	w, d, id := openedWith(t, 0)
	w.ok(d.GrantCredits(t.Context(), GrantCredits{Request: w.request(), AccountID: id, Kind: account.KindTopup, Credits: 3, PaymentID: "p1"}))
	w.charge(d, id)
	w.hold(d, id, time.Minute)
	done, err := d.RefundPayment(t.Context(), RefundPayment{Request: w.request(), AccountID: id, PaymentID: "p1"})
	if err != nil || done.Balance != -1 || done.Repeated {
		t.Fatalf("refund: %+v, %v", done, err)
	}
	again, err := d.RefundPayment(t.Context(), RefundPayment{Request: w.request(), AccountID: id, PaymentID: "p1"})
	if err != nil || again.Balance != -1 || !again.Repeated || again.Position != done.Position {
		t.Fatalf("again: %+v after %+v, %v", again, done, err)
	}
	if s := w.standing(d, id); s.Balance != -1 || s.Remaining != 0 || s.Available != -1 {
		t.Fatalf("standing %+v, want balance -1, remaining 0 and available -1", s)
	}
	_, err = d.Reserve(t.Context(), id, "")
	var e *account.InsufficientCreditsError
	if !errors.As(err, &e) || *e != (account.InsufficientCreditsError{Balance: -1, Available: -1, Required: 1}) {
		t.Fatalf("reserve: %v", err)
	}
}

// With several nodes the standing reads the tail, so it reflects the answers of other nodes.
func TestStanding_Shared_ReadsTail(t *testing.T) {
	w := newWorld(t)
	here, there := w.writer(AccountWriterConfig{Config: streamwriter.Config{Shared: true}}), w.writer(AccountWriterConfig{Config: streamwriter.Config{Shared: true}})
	id := w.opened(here, 0)
	for i := range int64(3) {
		if s := w.standing(there, id); s.Balance != 50-i {
			t.Fatalf("balance %d after %d charges elsewhere", s.Balance, i)
		}
		w.charge(here, id)
	}
}

func TestAccountCommands_Repeats_AppendNothing(t *testing.T) {
	w, d, id := opened(t, 0)
	key := testKey(t)
	ctx := t.Context()
	for _, step := range []struct {
		name string
		run  func() (Done, error)
		want eventschemas.Event
	}{
		{"plan", func() (Done, error) { return d.ChangePlan(ctx, ChangePlan{w.request(), id, plan.Starter}) }, eventschemas.PlanChanged{From: "free", To: "starter"}},
		{"issue", func() (Done, error) {
			return d.IssueKey(ctx, IssueKey{Request: w.request(), AccountID: id, KeyID: "k1", Key: key})
		},
			eventschemas.KeyIssued{KeyID: "k1", Hash: key.HashHex(), Last4: key.Last4, Kind: "secret"}},
		{"limit", func() (Done, error) { return d.LimitKey(ctx, LimitKey{w.request(), id, "k1", 5, "day"}) },
			eventschemas.KeyLimitSet{KeyID: "k1", Limit: 5, Period: "day"}},
		{"revoke", func() (Done, error) { return d.RevokeKey(ctx, RevokeKey{w.request(), id, "k1"}) }, eventschemas.KeyRevoked{KeyID: "k1"}},
		{"grant", func() (Done, error) {
			return d.GrantCredits(ctx, GrantCredits{Request: w.request(), AccountID: id, Kind: "subscription", Credits: 10, PaymentID: "p"})
		}, eventschemas.CreditsGranted{GrantID: "p", Kind: "subscription", Credits: 10, PaymentID: "p"}},
		{"suspend", func() (Done, error) { return d.Suspend(ctx, SuspendAccount{w.request(), id, "why"}) }, eventschemas.AccountSuspended{Reason: "why"}},
		{"reinstate", func() (Done, error) { return d.Reinstate(ctx, ReinstateAccount{w.request(), id}) }, eventschemas.AccountReinstated{}},
		{"close", func() (Done, error) { return d.Close(ctx, CloseAccount{w.request(), id, "bye"}) }, eventschemas.AccountClosed{Reason: "bye"}},
	} {
		done, err := step.run()
		if err != nil || done.Repeated {
			t.Fatalf("%s: %+v, %v", step.name, done, err)
		}
		recs, events := w.events(id)
		if last := len(events) - 1; !reflect.DeepEqual(events[last], step.want) || recs[last].Position != done.Position {
			t.Fatalf("%s: %+v at %d, want %+v at %d", step.name, events[last], recs[last].Position, step.want, done.Position)
		}
		again, err := step.run()
		if err != nil || !again.Repeated || again.Position != done.Position || again.Balance != done.Balance {
			t.Fatalf("%s again: %+v after %+v, %v", step.name, again, done, err)
		}
	}
	w.fails(account.ErrClosed)(d.ChargeLookup(ctx, w.lookup(id)))
}

func TestVerifyChain(t *testing.T) {
	w, d, id := opened(t, 0)
	for range 5 {
		w.charge(d, id)
	}
	if n, err := Chain.Verify(t.Context(), w.log, account.Stream(id)); n != 7 || err != nil {
		t.Fatalf("%d events, %v, want 7", n, err)
	}
	if n, err := Chain.Verify(t.Context(), w.log, account.Stream(uuid.NewString())); n != 0 || err != nil {
		t.Fatalf("no stream: %d events, %v, want 0", n, err)
	}
	w.log.set(func(f *faults) { f.reading = func(string) error { return unavailable() } })
	w.fails(eventlog.ErrUnavailable)(Chain.Verify(t.Context(), w.log, account.Stream(id)))
	w.log.set(func(f *faults) { f.reading = nil })
}
