package accounts_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"letterhead/eventschemas"
	"letterhead/projections/accounts"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
)

var at = time.Date(2026, 11, 21, 9, 0, 0, 123_456_000, time.UTC)

func TestGet_FollowsStream(t *testing.T) { projectionstest.Each(t, testGet_FollowsStream) }

func testGet_FollowsStream(t *testing.T, e *projectionstest.Env) {
	m := accounts.New(e.Store)
	r, _ := e.Start(engine.Config{}, m)
	e.CatchUp(r)
	if _, err := m.Get(t.Context(), "a"); !errors.Is(err, accounts.ErrNotFound) {
		t.Errorf("unknown account: %v, want %v", err, accounts.ErrNotFound)
	}
	want := accounts.Account{ID: "a", Holder: "h", Plan: "free", Status: "active", OpenedAt: at}
	for i, s := range []struct {
		event  eventschemas.Event
		change func()
	}{
		{eventschemas.AccountOpened{AccountID: "a", Holder: "h", Plan: "free"}, func() {}},
		{eventschemas.CreditsGranted{GrantID: "g", Kind: "free", Credits: 50}, func() { want.Balance = 50 }},
		{eventschemas.CreditsHeld{HoldID: "h1", Credits: 1, Deadline: at, RequestID: "r"}, func() {}},
		{eventschemas.CreditsCharged{ChargeID: "c", Credits: 2, RequestID: "r", HoldID: "h1"}, func() { want.Balance = 48 }},
		{eventschemas.HoldReleased{HoldID: "h2", Credits: 1, Cause: "expired"}, func() {}},
		{eventschemas.ChargeKept{ChargeID: "c", RequestID: "r2"}, func() {}},
		{eventschemas.ChargeReversed{ChargeID: "c", Credits: 2, RequestID: "r", Reason: "operator"}, func() { want.Balance = 50 }},
		{eventschemas.PaymentRefunded{RefundID: "f", PaymentID: "p", Credits: 60}, func() { want.Balance = -10 }},
		{eventschemas.PlanChanged{From: "free", To: "growth"}, func() { want.Plan = "growth" }},
		{eventschemas.AccountSuspended{Reason: "r"}, func() { want.Status = "suspended" }},
		{eventschemas.AccountReinstated{}, func() { want.Status = "active" }},
		{eventschemas.KeyIssued{KeyID: "k", Hash: fmt.Sprintf("%064x", 1), Last4: "1234", Kind: "secret"}, func() {}},
		{eventschemas.KeyRevoked{KeyID: "k"}, func() {}},
		{eventschemas.AccountClosed{Reason: "r"}, func() { want.Status = "closed" }},
	} {
		e.Events("account-a", at.Add(time.Duration(i)*time.Second), s.event)
		e.CatchUp(r)
		s.change()
		want.Revision = uint64(i)
		if got, err := m.Get(t.Context(), "a"); err != nil || *got != want {
			t.Fatalf("after %s: %+v, %v, want %+v", s.event.EventType(), got, err, want)
		}
	}
}

func TestList_InPages_ReturnsAll(t *testing.T) {
	projectionstest.Each(t, testList_InPages_ReturnsAll)
}

func testList_InPages_ReturnsAll(t *testing.T, e *projectionstest.Env) {
	m := accounts.New(e.Store)
	r, _ := e.Start(engine.Config{}, m)
	const n = 23
	for i := range n {
		id := fmt.Sprintf("a%02d", (i*5)%n)
		e.Events("account-"+id, at, eventschemas.AccountOpened{AccountID: id, Holder: "h", Plan: "free"})
	}
	e.CatchUp(r)
	var ids []string
	for after := ""; ; {
		page, err := m.List(t.Context(), after, 5)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, a := range page {
			ids = append(ids, a.ID)
		}
		after = ids[len(ids)-1]
	}
	if len(ids) != n {
		t.Fatalf("%d accounts", len(ids))
	}
	for i, id := range ids {
		if id != fmt.Sprintf("a%02d", i) {
			t.Errorf("account %d is %s", i, id)
		}
	}
	if page, err := m.List(t.Context(), "", -1); err != nil || len(page) != 0 {
		t.Errorf("a negative limit: %v, %v, want none", page, err)
	}
}

func TestSelect_FiltersSortsAndContinues(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m := accounts.New(e.Store)
		r, _ := e.Start(engine.Config{}, m)
		for i := range 8 {
			id := string(rune('a' + i))
			events := []eventschemas.Event{
				eventschemas.AccountOpened{AccountID: id, Holder: "h", Plan: []string{"free", "growth"}[i%2]},
				eventschemas.CreditsGranted{GrantID: "g", Kind: "free", Credits: int64(10 - i/2)},
			}
			if i == 3 {
				events = append(events, eventschemas.AccountSuspended{})
			}
			e.Events("account-"+id, at.Add(-time.Duration(i)*time.Minute), events...)
		}
		e.CatchUp(r)
		for _, c := range []struct {
			s    accounts.Selection
			want string
		}{
			{accounts.Selection{}, "abcdefgh"},
			{accounts.Selection{Sort: "id", Descending: true}, "hgfedcba"},
			{accounts.Selection{Sort: "balance"}, "ghefcdab"},
			{accounts.Selection{Sort: "balance", Descending: true, Plan: "growth"}, "bdfh"},
			{accounts.Selection{Sort: "opened"}, "hgfedcba"},
			{accounts.Selection{Sort: "plan"}, "acegbdfh"},
			{accounts.Selection{Status: "suspended"}, "d"},
			{accounts.Selection{Status: "closed"}, ""},
		} {
			for _, limit := range []int{1, 3, accounts.MaxPage} {
				got := ""
				for last := (*accounts.Account)(nil); ; {
					page, err := m.Select(t.Context(), c.s, last, limit)
					if err != nil {
						t.Fatal(err)
					}
					for i := range page {
						got, last = got+page[i].ID, &page[i]
					}
					if len(page) < limit {
						break
					}
				}
				if got != c.want {
					t.Errorf("%+v, %d a page: accounts %s, want %s", c.s, limit, got, c.want)
				}
			}
		}
		if _, err := m.Select(t.Context(), accounts.Selection{Sort: "name"}, nil, 1); err == nil {
			t.Error("Select sorted by an unknown column")
		}
	})
}
