package generate_test

import (
	"cmp"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/books"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite/sqlitetest"
	"letterhead/internal/testmust"
	"letterhead/workers/generate"
)

func options(accounts, events int, seed uint64) generate.Options {
	o := generate.Defaults()
	o.Accounts, o.Events, o.Seed = accounts, events, seed
	return o
}

func collect(t testing.TB, o generate.Options) []eventlog.Recorded {
	t.Helper()
	var events []eventlog.Recorded
	for e, err := range generate.Events(o) {
		testmust.Succeed(t, err)
		events = append(events, e)
	}
	return events
}

func decode(t testing.TB, e *eventlog.Recorded) eventschemas.Event {
	t.Helper()
	body, err := eventschemas.Decode(e.Type, e.SchemaVersion, e.Data)
	if err != nil {
		t.Fatalf("position %d: %v", e.Position, err)
	}
	return body
}

func TestEvents_SameOptions_SameEvents(t *testing.T) {
	o := options(30, 5000, 7)
	if first, second := collect(t, o), collect(t, o); !reflect.DeepEqual(first, second) {
		t.Error("two histories of the same options differ")
	}
}

func TestEvents_OtherSeed_OtherEvents(t *testing.T) {
	ids := map[string]bool{}
	for _, e := range collect(t, options(30, 1000, 1)) {
		ids[e.ID.String()] = true
	}
	for _, e := range collect(t, options(30, 1000, 2)) {
		if ids[e.ID.String()] {
			t.Fatalf("%s of %s has the same id in both histories", e.Type, e.Stream)
		}
	}
}

func TestEvents_AnySize_ExactlyAsManyEventsAndAccounts(t *testing.T) {
	for _, c := range []struct{ accounts, events int }{{1, 4}, {1, 1000}, {2, 8}, {7, 28}, {300, 1201}, {1000, 4000}, {20, 8000}} {
		for seed := range uint64(5) {
			o := options(c.accounts, c.events, seed)
			events, streams := collect(t, o), map[string]bool{}
			var last time.Time
			for i, e := range events {
				streams[e.Stream] = true
				if int(e.Position) != i+1 || e.OccurredAt.Before(last) || !e.OccurredAt.Equal(e.OccurredAt.Truncate(time.Microsecond)) {
					t.Fatalf("event %d has position %d and occurred at %s, after %s", i+1, e.Position, e.OccurredAt, last)
				}
				last = e.OccurredAt
			}
			if len(events) != c.events || len(streams) != c.accounts {
				t.Errorf("seed %d: %d events of %d accounts, want %d of %d", seed, len(events), len(streams), c.events, c.accounts)
			}
			if first := events[0].OccurredAt; first.Before(o.Until.AddDate(0, -o.Months, 0)) || last.After(o.Until) {
				t.Errorf("seed %d: from %s to %s, want %d months until %s", seed, first, last, o.Months, o.Until)
			}
		}
	}
}

func TestEvents_ShareOfFirstAccount_IsHot(t *testing.T) {
	for _, hot := range []float64{0.1, 0.5, 1} {
		o := options(50, 10_000, 3)
		o.Hot = hot
		events := collect(t, o)
		counts := map[string]int{}
		for _, e := range events {
			counts[e.Stream]++
		}
		share := float64(counts[events[0].Stream]) / float64(len(events))
		// Openings and the changes of all accounts take about a twentieth of the events.
		if math.Abs(share-hot) > 0.08 {
			t.Errorf("the first account has %.2f of the events, want about %.2f", share, hot)
		}
	}
}

func TestEvents_EveryKind_Occurs(t *testing.T) {
	kinds := map[string]bool{}
	for _, e := range collect(t, options(50, 20_000, 1)) {
		kinds[e.Type] = true
		switch ev := decode(t, &e).(type) {
		case eventschemas.CreditsGranted:
			kinds["grant "+ev.Kind] = true
			if ev.Money != nil {
				kinds["payment in "+ev.Money.Currency] = true
			}
			kinds["tax"] = kinds["tax"] || ev.Tax > 0
		case eventschemas.CreditsCharged:
			kinds["capture"] = kinds["capture"] || ev.HoldID != ""
			kinds["idempotency key"] = kinds["idempotency key"] || ev.IdempotencyKeyHash != ""
		case eventschemas.HoldReleased:
			kinds["release "+ev.Cause] = true
		case eventschemas.ChargeReversed:
			kinds["reversal "+ev.Reason] = true
		}
	}
	for _, want := range []string{
		"AccountOpened", "PlanChanged", "AccountSuspended", "AccountReinstated", "AccountClosed", "CreditsGranted", "CreditsHeld",
		"CreditsCharged", "HoldReleased", "ChargeReversed", "ChargeKept", "PaymentRefunded", "PaymentFeeRecorded", "BreakageRecognized", "KeyIssued", "KeyRevoked",
		"grant free", "grant subscription", "grant topup", "grant adjustment", "payment in EUR", "payment in USD", "payment in JPY",
		"payment in KWD", "tax", "capture", "idempotency key", "release handed_back", "release expired", "reversal client_gone",
		"reversal operator",
	} {
		if !kinds[want] {
			t.Errorf("no %s", want)
		}
	}
}

// Every event must be one that the account decides again in the state before it, so no rejected command was written.
func TestEvents_EveryEvent_IsAccepted(t *testing.T) {
	type state struct {
		*account.Account
		books   *books.Account
		charges map[string]eventlog.Recorded
		refunds map[string]bool // payments that were refunded in parts, or as a whole
	}
	states, partial, whole, negative := map[string]*state{}, 0, 0, 0
	for _, e := range collect(t, options(60, 25_000, 11)) {
		s := states[e.Stream]
		if s == nil {
			s = &state{account.New(strings.TrimPrefix(e.Stream, account.StreamPrefix)), books.New(), map[string]eventlog.Recorded{}, map[string]bool{}}
			states[e.Stream] = s
		}
		testmust.Succeed(t, eventschemas.ValidateJSON(e.Type, e.SchemaVersion, e.Data))
		body := decode(t, &e)
		// The account writer releases overdue holds before it decides anything else.
		if overdue := s.ReleaseOverdue(e.OccurredAt); len(overdue.Events) > 0 && e.Type != overdue.Events[0].EventType() {
			t.Errorf("%s revision %d: %s although %d holds are overdue", e.Stream, e.Revision, e.Type, len(overdue.Events))
		}
		var out account.Outcome
		var err error
		switch ev := body.(type) {
		case eventschemas.CreditsCharged:
			s.charges[ev.ChargeID] = e
			var fact account.ChargeFact
			out, fact, err = s.Charge(account.Charge{
				RequestID: ev.RequestID, Credits: ev.Credits, BrandID: ev.BrandID, Domain: ev.Domain, RecordRevision: ev.RecordRevision,
				HoldID: ev.HoldID, Item: ev.Item, IdempotencyKeyHash: ev.IdempotencyKeyHash, RequestHash: ev.RequestHash, KeyID: ev.KeyID,
			}, 0, e.OccurredAt)
			if err == nil && fact.ChargeID != ev.ChargeID {
				t.Errorf("%s revision %d: charge %s, want %s", e.Stream, e.Revision, ev.ChargeID, fact.ChargeID)
			}
		case eventschemas.CreditsHeld:
			out, err = s.Hold(account.Hold{HoldID: ev.HoldID, Credits: ev.Credits, Deadline: ev.Deadline, RequestID: ev.RequestID, Domain: ev.Domain}, 0, e.OccurredAt)
		case eventschemas.CreditsGranted:
			if ev.GrantID == account.FreeGrantID {
				break // part of the opening
			}
			out, err = s.Grant(account.Grant{GrantID: ev.GrantID, Kind: ev.Kind, Credits: ev.Credits, PaymentID: ev.PaymentID, Money: ev.Money, Tax: ev.Tax, Reason: ev.Reason})
		case eventschemas.PaymentRefunded:
			out, err = s.RefundPayment(account.Refund{RefundID: ev.RefundID, PaymentID: ev.PaymentID, Credits: ev.Credits, Money: ev.Money})
			if s.refunds[ev.PaymentID] {
				partial++
			}
			s.refunds[ev.PaymentID] = true
		case eventschemas.PaymentFeeRecorded:
			out, err = s.RecordFee(account.Fee(ev))
		case eventschemas.BreakageRecognized:
			out, err = s.RecognizeBreakage(ev.Policy)
		case eventschemas.ChargeReversed:
			out, err = s.Reverse(account.Reverse{ChargeID: ev.ChargeID, Credits: ev.Credits, ChargedAt: s.charges[ev.ChargeID].OccurredAt, RequestID: ev.RequestID, Reason: ev.Reason}, e.OccurredAt)
		case eventschemas.PlanChanged:
			if string(s.Plan()) != ev.From {
				t.Errorf("%s revision %d: from plan %s, not %s", e.Stream, e.Revision, ev.From, s.Plan())
			}
		}
		if err != nil || len(out.Events) > 1 || len(out.Events) == 1 && !reflect.DeepEqual(out.Events[0], body) {
			t.Fatalf("%s revision %d: the account decides %+v, %v; the event is %+v", e.Stream, e.Revision, out.Events, err, body)
		}
		s.Apply(body, e.OccurredAt)
		s.books.Apply(body, e.Revision, e.OccurredAt)
		if s.Balance() < 0 {
			negative++
		}
	}
	for stream, s := range states {
		var unspent int64
		for _, lot := range s.books.Lots() {
			unspent += lot.Unspent()
			if lot.Refunded == lot.Granted {
				whole++
			}
		}
		if unspent-s.books.Deficit() != s.Balance() {
			t.Errorf("%s has a balance of %d, but %d unspent credits and a deficit of %d", stream, s.Balance(), unspent, s.books.Deficit())
		}
	}
	if partial == 0 || whole == 0 || negative == 0 {
		t.Errorf("%d second refunds of a payment, %d payments refunded as a whole, %d events with a balance below zero; want some of each", partial, whole, negative)
	}
}

func TestHistory_EmptyLog_HoldsTheEvents(t *testing.T) {
	log, o := sqlitetest.Open(t), options(50, 10_000, 5)
	var shown []int
	sum := testmust.Get(generate.History(t.Context(), log, o, func(events int) { shown = append(shown, events) }))(t)
	want := collect(t, o)
	var got []eventlog.Recorded
	for at := eventlog.Position(0); len(got) < len(want); {
		page, err := log.ReadAll(t.Context(), at, eventlog.Filter{}, eventlog.MaxPage)
		if err != nil || len(page.Events) == 0 {
			t.Fatalf("%d events after %d: %v", len(page.Events), at, err)
		}
		got, at = append(got, page.Events...), page.Next
	}
	types, verified := map[string]int{}, 0
	for i := range want {
		types[want[i].Type]++
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("event %d in the log is %+v, want %+v", i, got[i], want[i])
		}
		if want[i].Revision == 0 {
			n, err := commands.Chain.Verify(t.Context(), log, want[i].Stream)
			if err != nil {
				t.Error(err)
			}
			verified += n
		}
	}
	if len(got) != o.Events || verified != o.Events {
		t.Errorf("%d events in the log, %d with valid hashes, want %d", len(got), verified, o.Events)
	}
	if !reflect.DeepEqual(sum, generate.Summary{Accounts: 50, Events: o.Events, First: want[0].OccurredAt, Last: want[len(want)-1].OccurredAt, Types: types}) {
		t.Errorf("summary %+v", sum)
	}
	if !slices.IsSortedFunc(shown, cmp.Compare[int]) || shown[len(shown)-1] != o.Events {
		t.Errorf("progress %v, want up to %d", shown, o.Events)
	}
}

func TestHistory_LogWithAccounts_WritesNothing(t *testing.T) {
	log, o := sqlitetest.Open(t), options(2, 100, 1)
	testmust.Succeed(t, testmust.Err(generate.History(t.Context(), log, o, func(int) {})))
	head := testmust.Get(log.Head(t.Context()))(t)
	o.Seed++
	if _, err := generate.History(t.Context(), log, o, func(int) {}); !errors.Is(err, generate.ErrNotEmpty) {
		t.Errorf("a second history: %v", err)
	}
	if now, err := log.Head(t.Context()); err != nil || now != head {
		t.Errorf("the log ends at %d (%v), was %d", now, err, head)
	}
}

func TestEvents_InvalidOptions_Fail(t *testing.T) {
	for name, change := range map[string]func(*generate.Options){
		"no accounts":       func(o *generate.Options) { o.Accounts = 0 },
		"too many accounts": func(o *generate.Options) { o.Accounts, o.Events = generate.MaxAccounts+1, generate.MaxEvents },
		"too few events":    func(o *generate.Options) { o.Events = generate.MinPerAccount*o.Accounts - 1 },
		"too many events":   func(o *generate.Options) { o.Events = generate.MaxEvents + 1 },
		"no months":         func(o *generate.Options) { o.Months = 0 },
		"too many months":   func(o *generate.Options) { o.Months = generate.MaxMonths + 1 },
		"hot below 0":       func(o *generate.Options) { o.Hot = -0.1 },
		"hot not a number":  func(o *generate.Options) { o.Hot = math.NaN() },
		"no end":            func(o *generate.Options) { o.Until = time.Time{} },
	} {
		o := options(10, 1000, 1)
		change(&o)
		for e, err := range generate.Events(o) {
			if !errors.Is(err, generate.ErrOptions) {
				t.Errorf("%s: %v and %+v", name, err, e)
			}
		}
	}
}

func BenchmarkEvents(b *testing.B) {
	o := options(1000, max(b.N, 4000), 1)
	for range generate.Events(o) {
	}
}

func BenchmarkHistory(b *testing.B) {
	log := sqlitetest.Open(b)
	b.ResetTimer()
	testmust.Succeed(b, testmust.Err(generate.History(b.Context(), log, options(1000, max(b.N, 4000), 1), func(int) {})))
}
