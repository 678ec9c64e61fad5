package account

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"letterhead/domain/plan"
	"letterhead/eventschemas"
)

const testID = "6b1f0c52-3a43-4f06-9a35-3c1f2a5b7d10"

var start = time.Date(2026, 11, 3, 9, 30, 0, 0, time.UTC)

// scene tests one account with given, when and then. Events are applied one second apart.
type scene struct {
	t        testing.TB
	account  *Account
	now      time.Time
	reserved int64
	out      Outcome
	fact     ChargeFact
	err      error
}

func given(t testing.TB, events ...eventschemas.Event) *scene {
	t.Helper()
	s := &scene{t: t, account: New(testID), now: start}
	return s.and(events...)
}

func (s *scene) and(events ...eventschemas.Event) *scene {
	for _, ev := range events {
		s.now = s.now.Add(time.Second)
		s.account.Apply(ev, s.now)
	}
	return s
}

func (s *scene) after(d time.Duration) *scene {
	s.now = s.now.Add(d)
	return s
}

func (s *scene) reserving(n int64) *scene {
	s.reserved = n
	return s
}

type command func(s *scene)

// when runs commands in order and applies their events. The checks concern the last command only.
func (s *scene) when(commands ...command) *scene {
	s.t.Helper()
	for i, c := range commands {
		if i > 0 {
			if s.err != nil {
				s.t.Fatalf("command %d was rejected: %v", i, s.err)
			}
			s.and(s.out.Events...)
		}
		c(s)
	}
	return s
}

func (s *scene) rejected(want error) *scene {
	s.t.Helper()
	if !errors.Is(s.err, want) {
		s.t.Fatalf("error = %v, want %v", s.err, want)
	}
	if len(s.out.Events) != 0 {
		s.t.Fatalf("a rejected command has events %+v", s.out.Events)
	}
	return s
}

func (s *scene) then(want ...eventschemas.Event) *scene {
	s.t.Helper()
	if s.err != nil {
		s.t.Fatalf("the command failed: %v", s.err)
	}
	if len(s.out.Events) != len(want) {
		s.t.Fatalf("events = %+v, want %+v", s.out.Events, want)
	}
	for i := range want {
		if !reflect.DeepEqual(s.out.Events[i], want[i]) {
			s.t.Fatalf("event %d = %+v, want %+v", i, s.out.Events[i], want[i])
		}
	}
	if s.out.Repeated {
		s.t.Fatal("reported as a repeat")
	}
	return s.and(s.out.Events...)
}

func (s *scene) isRepeated() *scene {
	s.t.Helper()
	if s.err != nil || !s.out.Repeated || len(s.out.Events) != 0 {
		s.t.Fatalf("want a repeat, got %+v, %v", s.out, s.err)
	}
	return s
}

// keeps expects a repeat whose events keep exactly these charges.
func (s *scene) keeps(request string, charges ...eventschemas.CreditsCharged) *scene {
	s.t.Helper()
	if s.err != nil || !s.out.Repeated || len(s.out.Events) != len(charges) {
		s.t.Fatalf("want a repeat that keeps %d charges, got %+v, %v", len(charges), s.out, s.err)
	}
	for i, c := range charges {
		if want := (eventschemas.ChargeKept{ChargeID: c.ChargeID, RequestID: request}); s.out.Events[i] != want {
			s.t.Fatalf("event %d = %+v, want %+v", i, s.out.Events[i], want)
		}
	}
	return s.and(s.out.Events...)
}

func (s *scene) balance(balance, held int64) *scene {
	s.t.Helper()
	if s.account.Balance() != balance || s.account.Held() != held {
		s.t.Fatalf("balance %d held %d, want %d and %d", s.account.Balance(), s.account.Held(), balance, held)
	}
	return s
}

// Events.

var opened = eventschemas.AccountOpened{AccountID: testID, Holder: "holder-1", Plan: "free"}

var suspended = eventschemas.AccountSuspended{Reason: "chargeback"}

var closed = eventschemas.AccountClosed{}

func granted(credits int64) eventschemas.Event {
	return eventschemas.CreditsGranted{GrantID: "g", Kind: KindAdjustment, Credits: credits}
}

func paid(payment string, credits int64) eventschemas.Event {
	return eventschemas.CreditsGranted{GrantID: payment, Kind: KindTopup, Credits: credits, PaymentID: payment}
}

func euros(minor int64) *eventschemas.Money {
	return &eventschemas.Money{Minor: minor, Currency: "EUR"}
}

func paidMoney(payment string, credits int64, money *eventschemas.Money) eventschemas.Event {
	return eventschemas.CreditsGranted{GrantID: payment, Kind: KindTopup, Credits: credits, PaymentID: payment, Money: money}
}

func refunded(id, payment string, credits int64, money *eventschemas.Money) eventschemas.Event {
	return eventschemas.PaymentRefunded{RefundID: id, PaymentID: payment, Credits: credits, Money: money}
}

func held(id string, credits int64) eventschemas.Event {
	return eventschemas.CreditsHeld{HoldID: id, Credits: credits, Deadline: start.Add(time.Minute), RequestID: "r-" + id, Domain: "acme.com"}
}

func released(id string, credits int64, cause string) eventschemas.Event {
	return eventschemas.HoldReleased{HoldID: id, Credits: credits, Cause: cause}
}

func charged(request, hold, item string) eventschemas.CreditsCharged {
	return Charge{RequestID: request, Credits: 1, BrandID: "b", Domain: "acme.com", RecordRevision: 7, HoldID: hold, Item: item}.
		event(New(testID).ChargeID(Charge{RequestID: request, Domain: "acme.com", Item: item}))
}

func keyedCharge(request, keyHash, requestHash string) eventschemas.CreditsCharged {
	ev := charged(request, "", "")
	ev.IdempotencyKeyHash, ev.RequestHash = keyHash, requestHash
	return ev
}

var (
	keyA     = strings.Repeat("a", 64)
	keyB     = strings.Repeat("b", 64)
	requestA = strings.Repeat("1", 64)
	requestB = strings.Repeat("2", 64)
)

// itemOf returns the hash of another item of a key.
func itemOf(keyHash string, n int) string { return fmt.Sprintf("%s%032x", keyHash[:keyDigits], n) }

// Commands.

func charge(request string) command { return capturing(request, "", "") }

func capturing(request, hold, item string) command {
	return charging(Charge{RequestID: request, HoldID: hold, Item: item})
}

func withKey(request, keyHash, requestHash string) command {
	return charging(Charge{RequestID: request, IdempotencyKeyHash: keyHash, RequestHash: requestHash})
}

func charging(in Charge) command {
	return func(s *scene) {
		if in.Credits == 0 {
			in.Credits = 1
		}
		in.BrandID, in.Domain, in.RecordRevision = "b", "acme.com", 7
		s.out, s.fact, s.err = s.account.Charge(in, s.reserved, s.now)
	}
}

func hold1(id string) command { return holding(id, 1) }

func holding(id string, credits int64) command {
	return func(s *scene) {
		in := Hold{HoldID: id, Credits: credits, Deadline: start.Add(time.Minute), RequestID: "r-" + id, Domain: "acme.com"}
		s.out, s.err = s.account.Hold(in, s.reserved, s.now)
	}
}

func release(id string) command {
	return func(s *scene) { s.out, s.err = s.account.Release(id, s.now) }
}

func releaseOverdue(s *scene) { s.out, s.err = s.account.ReleaseOverdue(s.now), nil }

// reverse is an operator's reversal; clientGone is a reversal because the client disconnected.
func reverse(request string, chargedAt time.Time) command {
	return reversing(charged(request, "", ""), chargedAt, ReasonOperator)
}

func clientGone(request string, chargedAt time.Time) command {
	return reversing(charged(request, "", ""), chargedAt, ReasonClientGone)
}

func reversing(c eventschemas.CreditsCharged, chargedAt time.Time, reason string) command {
	return func(s *scene) {
		s.out, s.err = s.account.Reverse(Reverse{
			ChargeID: c.ChargeID, Credits: c.Credits, ChargedAt: chargedAt, RequestID: c.RequestID, Reason: reason,
		}, s.now)
	}
}

func reversed(c eventschemas.CreditsCharged, reason string) eventschemas.Event {
	return eventschemas.ChargeReversed{ChargeID: c.ChargeID, Credits: c.Credits, RequestID: c.RequestID, Reason: reason}
}

func recall(request, keyHash, requestHash string, facts *[]ChargeFact) command {
	return func(s *scene) {
		s.out, *facts, s.err = s.account.Recall(Recall{RequestID: request, IdempotencyKeyHash: keyHash, RequestHash: requestHash}, s.now)
	}
}

func grant(payment string, credits int64) command {
	return func(s *scene) {
		s.out, s.err = s.account.Grant(Grant{Kind: KindTopup, Credits: credits, PaymentID: payment})
	}
}

func refundBy(in Refund) command {
	return func(s *scene) { s.out, s.err = s.account.RefundPayment(in) }
}

func refundOf(id, payment string, credits int64) command {
	return refundBy(Refund{RefundID: id, PaymentID: payment, Credits: credits})
}

func refundMoney(id, payment string, credits int64, money *eventschemas.Money) command {
	return refundBy(Refund{RefundID: id, PaymentID: payment, Credits: credits, Money: money})
}

func feeOf(id, payment string, money eventschemas.Money) command {
	return func(s *scene) {
		s.out, s.err = s.account.RecordFee(Fee{FeeID: id, PaymentID: payment, Money: money})
	}
}

func note(id, text string) command {
	return func(s *scene) { s.out, s.err = s.account.Note(id, text) }
}

func breakage(policy string) command {
	return func(s *scene) { s.out, s.err = s.account.RecognizeBreakage(policy) }
}

func open(holder string) command {
	return func(s *scene) {
		s.out, s.err = s.account.Open(Open{Holder: holder, Plan: plan.Free, Free: plan.FreeCredits})
	}
}

func changePlan(to plan.ID) command {
	return func(s *scene) { s.out, s.err = s.account.ChangePlan(to) }
}

func suspend(s *scene) { s.out, s.err = s.account.Suspend("chargeback") }

func reinstate(s *scene) { s.out, s.err = s.account.Reinstate() }

func closeAccount(s *scene) { s.out, s.err = s.account.Close("") }

func issueKey(id, hash string) command {
	return issuing(IssueKey{KeyID: id, Hash: hash, Last4: "aB3d", Kind: "secret"})
}

// issueLimited issues a publishable key.
func issueLimited(id string, terms KeyTerms) command {
	return issuing(IssueKey{KeyID: id, Hash: keyB, Last4: "aB3d", Kind: "publishable", Terms: terms})
}

func issuing(in IssueKey) command {
	return func(s *scene) { s.out, s.err = s.account.IssueKey(in, s.now) }
}

func revokeKey(id string) command {
	return func(s *scene) { s.out, s.err = s.account.RevokeKey(id) }
}
