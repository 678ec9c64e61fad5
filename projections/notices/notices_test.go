package notices_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	domain "letterhead/domain/notices"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
	"letterhead/projections/engine"
	"letterhead/projections/notices"
	"letterhead/projections/projectionstest"
)

var at = time.Date(2026, 11, 21, 9, 0, 0, 123_456_000, time.UTC)

func open(t *testing.T, e *projectionstest.Env) (*notices.Model, *engine.Runner) {
	t.Helper()
	m := notices.New(e.Store)
	r, _ := e.Start(engine.Config{}, m)
	return m, r
}

func opened(id string) []eventschemas.Event {
	return []eventschemas.Event{
		eventschemas.AccountOpened{AccountID: id, Holder: "h", Plan: "free"}, eventschemas.CreditsGranted{GrantID: "g", Kind: "free", Credits: 50},
	}
}

func charged(n int64) eventschemas.Event {
	return eventschemas.CreditsCharged{ChargeID: "c", Credits: n, RequestID: "r", BrandID: "b", Domain: "example.com"}
}

func TestDelivery_FollowsItsEvents(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m, r := open(t, e)
		e.Events("account-a", at, opened("a")...)
		settings := eventschemas.NoticesSet{LowBalance: 40, Webhook: true, Email: true}
		e.Events("notices-a", at, settings)
		e.Events("account-a", at, charged(10))
		e.CatchUp(r)
		if due, err := m.Due(t.Context(), at.AddDate(1, 0, 0), notices.MaxPage); err != nil || due != nil {
			t.Fatalf("at the threshold: %+v, %v, want nothing due", due, err)
		}
		e.Events("account-a", at, charged(3))
		e.CatchUp(r)
		if got, err := m.Get(t.Context(), "a"); err != nil || got != settings {
			t.Errorf("the settings are %+v, %v, want %+v", got, err, settings)
		}
		id := domain.ID("a", domain.LowBalance, 3)
		email := domain.Delivery{NoticeID: id, Kind: domain.LowBalance, Destination: domain.Email, RaisedAt: at, Balance: 37, Threshold: 40, State: domain.Open, NextAt: at}
		webhook := email
		webhook.Destination = domain.Webhook
		watch := domain.Watch{Balance: 37, Settings: settings}
		expect := func(now time.Time, want ...notices.Due) {
			t.Helper()
			if due, err := m.Due(t.Context(), now, notices.MaxPage); err != nil || !reflect.DeepEqual(due, want) {
				t.Fatalf("due are %+v, %v, want %+v", due, err, want)
			}
		}
		expect(at, notices.Due{AccountID: "a", Watch: watch, Events: 1, Deliveries: []domain.Delivery{email, webhook}})
		expect(at.Add(-time.Microsecond))

		e.Events("notices-a", at, eventschemas.NoticeAttempted{NoticeID: id, Destination: domain.Webhook, Attempt: 1},
			eventschemas.NoticeSettled{NoticeID: id, Destination: domain.Webhook, Attempt: 1, Outcome: domain.Failed, Reason: "timeout"},
			eventschemas.NoticeAttempted{NoticeID: id, Destination: domain.Email, Attempt: 1},
			eventschemas.NoticeSettled{NoticeID: id, Destination: domain.Email, Attempt: 1, Outcome: domain.Delivered})
		e.CatchUp(r)
		webhook.Attempts, webhook.NextAt, webhook.Reason = 1, at.Add(5*time.Second), "timeout"
		email.Attempts, email.State, email.NextAt = 1, domain.Delivered, time.Time{}
		expect(at)
		expect(webhook.NextAt, notices.Due{AccountID: "a", Watch: watch, Events: 5, Deliveries: []domain.Delivery{webhook}})
		if got, err := m.Latest(t.Context(), "a", notices.MaxPage); err != nil || !slices.Equal(got, []domain.Delivery{email, webhook}) {
			t.Errorf("the deliveries are %+v, %v, want %+v", got, err, []domain.Delivery{email, webhook})
		}

		e.Events("notices-a", at, eventschemas.NoticeSettled{NoticeID: id, Destination: domain.Webhook, Attempt: 1, Outcome: domain.DeadLettered, Reason: "gone"})
		e.CatchUp(r)
		expect(at.AddDate(1, 0, 0))
		if counts, err := m.Counts(t.Context()); err != nil || counts[domain.Open] != 0 || counts[domain.DeadLettered] != 1 {
			t.Errorf("counts %v, %v, want one dead letter", counts, err)
		}
		e.Events("notices-a", at, eventschemas.NoticeReopened{NoticeID: id, Destination: domain.Webhook})
		e.CatchUp(r)
		webhook.Attempts, webhook.NextAt, webhook.Reason = 0, at, ""
		expect(at, notices.Due{AccountID: "a", Watch: watch, Events: 7, Deliveries: []domain.Delivery{webhook}})

		e.Events("account-a", at, eventschemas.CreditsGranted{GrantID: "g2", Kind: "topup", Credits: 3})
		e.CatchUp(r)
		expect(at.AddDate(1, 0, 0))
		webhook.State, webhook.NextAt = domain.Outdated, time.Time{}
		if found, events, err := m.Find(t.Context(), "a", id); err != nil || events != 7 || !slices.Equal(found, []domain.Delivery{email, webhook}) {
			t.Errorf("after a grant: %+v after %d events, %v, want the webhook outdated", found, events, err)
		}
		if found, _, err := m.Find(t.Context(), "b", id); err != nil || found != nil {
			t.Errorf("the notice in another account: %+v, %v", found, err)
		}
	})
}

func TestFailedPayment_EachAttempt_EndsWithTheNextOrTheGrant(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m, r := open(t, e)
		failed := func(payment string, attempt int64) eventschemas.PaymentFailed {
			return eventschemas.PaymentFailed{PaymentID: payment, Attempt: attempt, FailedAt: at.Add(-time.Hour), Money: &eventschemas.Money{Minor: 4900, Currency: "EUR"}}
		}
		e.Events("account-a", at, opened("a")...)
		e.Events("notices-a", at, failed("in_1", 1), eventschemas.NoticesSet{Webhook: true}, failed("in_1", 2), eventschemas.PaymentFailed{PaymentID: "pi_2", FailedAt: at})
		e.CatchUp(r)
		notice := func(revision uint64, of domain.Payment) domain.Delivery {
			return domain.Delivery{NoticeID: domain.ID("a", domain.PaymentFailed, revision), Kind: domain.PaymentFailed, Destination: domain.Webhook, RaisedAt: at, Balance: 50, Payment: &of, State: domain.Open, NextAt: at}
		}
		invoice := func(attempt int64) domain.Payment {
			return domain.Payment{ID: "in_1", Attempt: attempt, FailedAt: at.Add(-time.Hour), Money: &eventschemas.Money{Minor: 4900, Currency: "EUR"}}
		}
		ended := func(d domain.Delivery) domain.Delivery {
			d.End()
			return d
		}
		expect := func(want ...domain.Delivery) {
			t.Helper()
			byID := func(a, b domain.Delivery) int { return strings.Compare(a.NoticeID, b.NoticeID) }
			got, err := m.Latest(t.Context(), "a", notices.MaxPage)
			slices.SortFunc(got, byID)
			slices.SortFunc(want, byID)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("the notices are %+v, %v, want %+v", got, err, want)
			}
		}
		pack := notice(3, domain.Payment{ID: "pi_2", FailedAt: at})
		expect(notice(2, invoice(2)), pack) // the first attempt had no destination
		e.Events("notices-a", at, failed("in_1", 3), failed("in_1", 4))
		e.CatchUp(r)
		expect(ended(notice(2, invoice(2))), pack, ended(notice(4, invoice(3))), notice(5, invoice(4)))
		e.Events("account-a", at, eventschemas.CreditsGranted{GrantID: "g2", Kind: "subscription", Credits: 100, PaymentID: "in_1"})
		e.CatchUp(r)
		expect(ended(notice(2, invoice(2))), pack, ended(notice(4, invoice(3))), ended(notice(5, invoice(4))))
	})
}

// TestCopiedLog_AttemptBeforeItsNotice_IsNotRepeated folds a log in which events of two streams are swapped, as in a copy to
// another store.
func TestCopiedLog_AttemptBeforeItsNotice_IsNotRepeated(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m := notices.New(e.Store)
		r, stop := e.Start(engine.Config{}, m)
		id := domain.ID("a", domain.LowBalance, 2)
		later := at.AddDate(1, 0, 0)
		e.Events("account-a", at, opened("a")...)
		e.Events("notices-a", at, eventschemas.NoticesSet{LowBalance: 40, Webhook: true, Email: true},
			eventschemas.NoticeAttempted{NoticeID: id, Destination: domain.Webhook, Attempt: 1},
			eventschemas.NoticeSettled{NoticeID: id, Destination: domain.Webhook, Attempt: 1, Outcome: domain.Delivered},
			eventschemas.NoticeAttempted{NoticeID: id, Destination: domain.Email, Attempt: 1},
			eventschemas.NoticeSettled{NoticeID: id, Destination: domain.Email, Attempt: 1, Outcome: domain.Failed, Reason: "mail_server"})
		e.CatchUp(r)
		due, err := m.Due(t.Context(), later, notices.MaxPage)
		if latest, lerr := m.Latest(t.Context(), "a", notices.MaxPage); err != nil || lerr != nil || due != nil || len(latest) != 0 {
			t.Fatalf("before the notice is raised: due %+v, %v; latest %+v, %v", due, err, latest, lerr)
		}
		stop() // the next runner has no rows in memory
		m, r = open(t, e)
		e.Events("account-a", at, charged(13))
		e.CatchUp(r)
		want := domain.Delivery{NoticeID: id, Kind: domain.LowBalance, Destination: domain.Email, RaisedAt: at, Balance: 37, Threshold: 40,
			State: domain.Open, Attempts: 1, NextAt: at.Add(5 * time.Second), Reason: "mail_server"}
		due, err = m.Due(t.Context(), later, notices.MaxPage)
		if err != nil || len(due) != 1 || !slices.Equal(due[0].Deliveries, []domain.Delivery{want}) {
			t.Errorf("due %+v, %v, want the e-mail: %+v", due, err, want)
		}
	})
}

// history is what the domain says about the notices of an account.
type history struct {
	watch            domain.Watch
	events, settings uint64            // of the streams account- and notices-
	states           map[string]string // by notice and destination
	last             map[string]string // notice, by payment; that of a low balance has none
}

// apply applies an event at a revision of its stream.
func (h *history) apply(id string, ev eventschemas.Event, revision uint64) {
	payment := ""
	switch ev := ev.(type) {
	case eventschemas.PaymentFailed:
		payment = ev.PaymentID
	case eventschemas.CreditsGranted:
		payment = ev.PaymentID
	}
	effect := h.watch.Apply(ev)
	for _, of := range []struct {
		ends, raises  domain.Effect
		kind, payment string
	}{
		{domain.EndsLow, domain.RaisesLow, domain.LowBalance, ""}, {domain.EndsFailed, domain.RaisesFailed, domain.PaymentFailed, payment},
	} {
		for _, destination := range domain.Destinations {
			if _, known := h.states[h.last[of.payment]+" "+destination]; known && effect&of.ends != 0 {
				h.states[h.last[of.payment]+" "+destination] = domain.Outdated
			}
		}
		if effect&of.raises == 0 {
			continue
		}
		for _, destination := range domain.Destinations {
			if h.watch.Has(destination) {
				h.last[of.payment] = domain.ID(id, of.kind, revision)
				h.states[h.last[of.payment]+" "+destination] = domain.Open
			}
		}
	}
}

// TestAnyHistory_NoticesAreThoseOfTheDomain folds random histories, in batches of any size, and rebuilds.
func TestAnyHistory_NoticesAreThoseOfTheDomain(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m, r := open(t, e)
		seed := uint64(time.Now().UnixNano())
		rng := rand.New(rand.NewPCG(seed, 1))
		all := map[string]*history{"a": {}, "b": {}, "c": {}}
		for id, h := range all {
			h.states, h.last = map[string]string{}, map[string]string{}
			e.Events("account-"+id, at, opened(id)...)
			h.watch.Balance, h.events = 50, 2
		}
		for i := range 400 {
			id := []string{"a", "b", "c"}[rng.IntN(3)]
			h := all[id]
			n := rng.Int64N(20) + 1
			now := at.Add(time.Duration(i) * time.Second)
			stream, revision := "account-"+id, &h.events
			var ev eventschemas.Event
			switch rng.IntN(14) {
			case 0:
				ev = eventschemas.NoticesSet{LowBalance: 30 + n, Webhook: true, Email: n%2 == 0}
			case 1, 2:
				ev = eventschemas.PaymentFailed{PaymentID: fmt.Sprint("p", n%4), Attempt: n, FailedAt: now}
			case 3:
				ev = eventschemas.CreditsGranted{GrantID: fmt.Sprint(i), Kind: "topup", Credits: 2 * n, PaymentID: fmt.Sprint("p", n%4)}
			case 4:
				ev = eventschemas.CreditsGranted{GrantID: fmt.Sprint(i), Kind: "topup", Credits: 2 * n}
			case 5:
				ev = eventschemas.ChargeReversed{ChargeID: "c", Credits: n, RequestID: "r", Reason: "operator"}
			case 6:
				ev = eventschemas.AccountSuspended{Reason: "r"}
				if i > 300 && id == "c" {
					ev = eventschemas.AccountClosed{Reason: "r"}
				}
			default:
				ev = charged(n)
			}
			switch ev.(type) {
			case eventschemas.NoticesSet, eventschemas.PaymentFailed:
				stream, revision = "notices-"+id, &h.settings
			}
			e.Events(stream, now, ev)
			h.apply(id, ev, *revision)
			*revision++
			if rng.IntN(40) == 0 {
				e.CatchUp(r)
			}
		}
		e.CatchUp(r)
		for id, h := range all {
			rows := testmust.Get(m.Latest(t.Context(), id, notices.MaxPage))(t)
			got := map[string]string{}
			for _, d := range rows {
				got[d.NoticeID+" "+d.Destination] = d.State
			}
			if !maps.Equal(got, h.states) {
				t.Errorf("seed %d: account %s has the notices %v, want %v", seed, id, got, h.states)
			}
		}
		before := e.Dump(notices.Name)
		testmust.Succeed(t, r.Rebuild(e.Context(), []string{notices.Name}, func(engine.Progress) {}))
		if after := e.Dump(notices.Name); after != before {
			t.Errorf("seed %d: a rebuild changes the rows from\n%s\nto\n%s", seed, before, after)
		}
	})
}
