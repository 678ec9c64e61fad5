package accounts_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"letterhead/domain/books"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
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
		{eventschemas.CreditsHeld{HoldID: "h1", Credits: 1, Deadline: at, RequestID: "r"}, func() { want.UsedAt = at.Add(2 * time.Second) }},
		{eventschemas.CreditsCharged{ChargeID: "c", Credits: 2, RequestID: "r", HoldID: "h1"}, func() {
			want.Balance, want.SpentMonth, want.Spent, want.UsedAt = 48, books.MonthOf(at), 2, at.Add(3*time.Second)
		}},
		{eventschemas.HoldReleased{HoldID: "h2", Credits: 1, Cause: "expired"}, func() {}},
		{eventschemas.ChargeKept{ChargeID: "c", RequestID: "r2"}, func() {}},
		{eventschemas.ChargeReversed{ChargeID: "c", Credits: 2, RequestID: "r", Reason: "operator"}, func() { want.Balance, want.Spent = 50, 0 }},
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
		page := testmust.Get(m.List(t.Context(), after, 5))(t)
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
					page := testmust.Get(m.Select(t.Context(), c.s, last, limit))(t)
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

// charged is an account that is charged some credits at times, in days after at.
func charged(e *projectionstest.Env, id string, charges map[int]int64) {
	e.Events("account-"+id, at, eventschemas.AccountOpened{AccountID: id, Holder: "h", Plan: "free"}, eventschemas.CreditsGranted{GrantID: "g", Kind: "free", Credits: 50})
	for _, day := range slices.Sorted(maps.Keys(charges)) {
		request := fmt.Sprint(day)
		e.Events("account-"+id, at.AddDate(0, 0, day), eventschemas.CreditsCharged{ChargeID: request, Credits: charges[day], RequestID: request})
	}
}

func TestSelect_BySpend_LatestMonthCountsFirst(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m := accounts.New(e.Store)
		r, _ := e.Start(engine.Config{}, m)
		charged(e, "november", map[int]int64{0: 40})
		charged(e, "never", nil)
		charged(e, "both", map[int]int64{0: 30, 10: 5}) // at is 2026-11-21
		charged(e, "december", map[int]int64{10: 6, 20: 1})
		charged(e, "reversed", map[int]int64{10: 9})
		e.Events("account-reversed", at.AddDate(0, 0, 10), eventschemas.ChargeReversed{ChargeID: "10", Credits: 5, RequestID: "10", Reason: "operator"})
		e.CatchUp(r)
		want := "december 7 2026-12, both 5 2026-12, reversed 4 2026-12, november 40 2026-11, never 0 0001-01"
		for _, limit := range []int{1, 2, 10} {
			var got []string
			for last := (*accounts.Account)(nil); ; {
				page := testmust.Get(m.Select(t.Context(), accounts.Selection{Sort: "spend", Descending: true}, last, limit))(t)
				for i, a := range page {
					got, last = append(got, fmt.Sprintf("%s %d %s", a.ID, a.Spent, a.SpentMonth.Format("2006-01"))), &page[i]
				}
				if len(page) < limit {
					break
				}
			}
			if text := strings.Join(got, ", "); text != want {
				t.Errorf("%d a page: %s, want %s", limit, text, want)
			}
		}
	})
}

func TestSelect_ByUse_CountsKeysAndLookUps(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m := accounts.New(e.Store)
		r, _ := e.Start(engine.Config{}, m)
		for _, id := range []string{"idle", "searching", "looking", "both"} {
			charged(e, id, nil)
		}
		e.Events("account-looking", at.Add(time.Hour), eventschemas.CreditsHeld{HoldID: "h", Credits: 1, Deadline: at, RequestID: "r"})
		e.Events("account-both", at.Add(2*time.Hour), eventschemas.CreditsCharged{ChargeID: "c", Credits: 1, RequestID: "c"})
		used := func(id string, after time.Duration) eventschemas.UsageEntry {
			return eventschemas.UsageEntry{AccountID: id, Month: "2026-11", Searches: 1, KeysUsed: []eventschemas.KeyUsed{{KeyID: "k-" + id, At: at.Add(after)}}}
		}
		e.Events("usage-node-n1", at.Add(4*time.Hour), eventschemas.UsageTicked{Entries: []eventschemas.UsageEntry{used("both", time.Hour), used("searching", 3*time.Hour), used("unknown", 3*time.Hour)}})
		e.Events("usage-node-n2", at.Add(4*time.Hour), eventschemas.UsageTicked{Entries: []eventschemas.UsageEntry{used("searching", time.Minute)}})
		e.CatchUp(r)
		page := testmust.Get(m.Select(t.Context(), accounts.Selection{Sort: "used", Descending: true}, nil, 10))(t)
		got := ""
		for _, a := range page {
			got += a.ID
			if !a.UsedAt.IsZero() {
				got += a.UsedAt.Format(" 15:04")
			}
			got += ";"
		}
		if want := "searching 12:00;both 11:00;looking 10:00;idle;"; got != want {
			t.Errorf("accounts %s, want %s", got, want)
		}
	})
}

func TestOutstanding_SumsUpBalancesAboveZero(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m := accounts.New(e.Store)
		r, _ := e.Start(engine.Config{}, m)
		charged(e, "a", nil)
		charged(e, "b", map[int]int64{0: 20})
		charged(e, "closed", nil)
		e.Events("account-closed", at, eventschemas.AccountClosed{Reason: "r"})
		charged(e, "owes", map[int]int64{0: 60})
		e.CatchUp(r)
		got, err := m.Outstanding(t.Context())
		want := []accounts.Outstanding{{Plan: "free", Status: "active", Accounts: 2, Credits: 80}, {Plan: "free", Status: "closed", Accounts: 1, Credits: 50}}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	})
}
