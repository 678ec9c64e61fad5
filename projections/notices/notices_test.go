package notices_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	domain "letterhead/domain/notices"
	"letterhead/eventschemas"
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
		failed := func(attempt int64) eventschemas.PaymentFailed {
			return eventschemas.PaymentFailed{PaymentID: "in_1", Attempt: attempt, Money: &eventschemas.Money{Minor: 4900, Currency: "EUR"}}
		}
		e.Events("account-a", at, opened("a")...)
		e.Events("notices-a", at, failed(1), eventschemas.NoticesSet{Webhook: true}, failed(2), eventschemas.PaymentFailed{PaymentID: "pi_2"})
		e.CatchUp(r)
		notice := func(revision uint64, state string, of eventschemas.PaymentFailed) domain.Delivery {
			d := domain.Delivery{NoticeID: domain.ID("a", domain.FailedPayment, revision), Kind: domain.FailedPayment, Destination: domain.Webhook, RaisedAt: at, Balance: 50, Payment: &of, State: state}
			if state == domain.Open {
				d.NextAt = at
			}
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
		pack := notice(3, domain.Open, eventschemas.PaymentFailed{PaymentID: "pi_2"})
		expect(notice(2, domain.Open, failed(2)), pack) // the first had no destination
		e.Events("notices-a", at, failed(3), failed(4))
		e.CatchUp(r)
		expect(notice(2, domain.Open, failed(2)), pack, notice(4, domain.Outdated, failed(3)), notice(5, domain.Open, failed(4)))
		e.Events("account-a", at, eventschemas.CreditsGranted{GrantID: "g2", Kind: "subscription", Credits: 100, PaymentID: "in_1"})
		e.CatchUp(r)
		expect(notice(2, domain.Open, failed(2)), pack, notice(4, domain.Outdated, failed(3)), notice(5, domain.Outdated, failed(4)))
		before := e.Dump(notices.Name)
		if err := r.Rebuild(e.Context(), []string{notices.Name}, func(engine.Progress) {}); err != nil {
			t.Fatal(err)
		}
		if after := e.Dump(notices.Name); after != before {
			t.Errorf("a rebuild changes the rows from\n%s\nto\n%s", before, after)
		}
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

// TestAnyHistory_NoticesAreThoseOfTheDomain folds random histories, in batches of any size, and rebuilds.
func TestAnyHistory_NoticesAreThoseOfTheDomain(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m, r := open(t, e)
		seed := uint64(time.Now().UnixNano())
		rng := rand.New(rand.NewPCG(seed, 1))
		accounts := []string{"a", "b", "c"}
		model := map[string]*domain.Watch{}
		revision, settings := map[string]uint64{}, map[string]uint64{} // of the streams account- and notices-
		want := map[string][]string{}
		for i := range 300 {
			id := accounts[rng.IntN(len(accounts))]
			w := model[id]
			if w == nil {
				w = &domain.Watch{}
				model[id] = w
				e.Events("account-"+id, at, opened(id)...)
				w.Balance, revision[id] = 50, 2
			}
			n := rng.Int64N(20) + 1
			now := at.Add(time.Duration(i) * time.Second)
			raised := func(kind string, revision uint64) {
				for _, destination := range domain.Destinations {
					if w.Has(destination) {
						want[id] = append(want[id], domain.ID(id, kind, revision)+" "+destination)
					}
				}
			}
			switch rng.IntN(12) {
			case 0:
				ev := eventschemas.NoticesSet{LowBalance: 30 + n, Webhook: true, Email: n%2 == 0}
				e.Events("notices-"+id, now, ev)
				w.Apply(ev)
				settings[id]++
				continue
			case 1:
				ev := eventschemas.PaymentFailed{PaymentID: fmt.Sprint("p", n%3), Attempt: n}
				e.Events("notices-"+id, now, ev)
				w.Apply(ev)
				raised(domain.FailedPayment, settings[id])
				settings[id]++
				continue
			}
			ev := []eventschemas.Event{
				charged(n), charged(n), charged(n), eventschemas.CreditsGranted{GrantID: fmt.Sprint(i), Kind: "topup", Credits: 2 * n, PaymentID: fmt.Sprint("p", n%3)},
				eventschemas.ChargeReversed{ChargeID: "c", Credits: n, RequestID: "r", Reason: "operator"}, eventschemas.AccountSuspended{Reason: "r"},
			}[rng.IntN(6)]
			e.Events("account-"+id, now, ev)
			if w.Apply(ev)&domain.RaisesLow != 0 {
				raised(domain.LowBalance, revision[id])
			}
			revision[id]++
		}
		e.CatchUp(r)
		for _, id := range accounts {
			all, err := m.Latest(t.Context(), id, notices.MaxPage)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range all {
				got = append(got, d.NoticeID+" "+d.Destination)
			}
			slices.Sort(got)
			slices.Sort(want[id])
			if !slices.Equal(got, want[id]) {
				t.Errorf("seed %d: account %s has the notices %v, want %v", seed, id, got, want[id])
			}
		}
		before := e.Dump(notices.Name)
		if err := r.Rebuild(e.Context(), []string{notices.Name}, func(engine.Progress) {}); err != nil {
			t.Fatal(err)
		}
		if after := e.Dump(notices.Name); after != before {
			t.Errorf("seed %d: a rebuild changes the rows from\n%s\nto\n%s", seed, before, after)
		}
	})
}
