package actions_test

import (
	"slices"
	"testing"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/testmust"
	"letterhead/projections/actions"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
)

func TestList_ActionsOfOperators_NewestFirst(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m := actions.New(e.Store)
		r, _ := e.Start(engine.Config{}, m)
		at := time.Date(2026, 11, 1, 0, 0, 0, 5000, time.UTC)
		did := func(stream, actor string, event eventschemas.Event) {
			e.Append(projectionstest.Group{Stream: stream, At: at, Actor: actor, RequestID: "req_1", Events: []eventschemas.Event{event}})
		}
		did("brand-acme.com", "system:crawler", eventschemas.BrandDiscovered{BrandID: "b", Domain: "acme.com"})
		did("brand-acme.com", "operator:1", eventschemas.BrandClaimed{})
		did("account-a", "account:a", eventschemas.AccountOpened{AccountID: "a", Holder: "h", Plan: "free"})
		did("account-a", "operator:cli", eventschemas.AccountSuspended{Reason: "fraud"})
		did("billing-stripe:evt_1", "operator:2", eventschemas.BillingSettled{Outcome: "dismissed", Reason: "operator"})
		did("signins-a", "operator:2", eventschemas.SignedOutEverywhere{})
		did("brand-acme.com", "operator:1", eventschemas.BrandWithdrawn{Reason: "owner"})
		e.CatchUp(r)
		types := func(f actions.Filter, before uint64, limit int) (types []string, last uint64) {
			t.Helper()
			all := testmust.Get(m.List(t.Context(), f, before, limit))(t)
			for _, a := range all {
				types, last = append(types, a.Type), a.Position
			}
			return types, last
		}
		got, last := types(actions.Filter{}, 0, 2)
		if want := []string{"BrandWithdrawn", "SignedOutEverywhere"}; !slices.Equal(got, want) {
			t.Errorf("the first page has %v, want %v", got, want)
		}
		if got, _ := types(actions.Filter{}, last, 4); !slices.Equal(got, []string{"BillingSettled", "AccountSuspended", "BrandClaimed"}) {
			t.Errorf("the second page has %v", got)
		}
		if got, _ := types(actions.Filter{Actor: "operator:cli"}, 0, 9); !slices.Equal(got, []string{"AccountSuspended"}) {
			t.Errorf("the command line has done %v, want AccountSuspended", got)
		}
		if got, _ := types(actions.Filter{Actor: "operator:1", Stream: "brand-acme.com"}, 0, 9); !slices.Equal(got, []string{"BrandWithdrawn", "BrandClaimed"}) {
			t.Errorf("the token has done %v to the brand", got)
		}
		all, err := m.List(t.Context(), actions.Filter{Stream: "account-a"}, 0, 9)
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v, want one action", all, err)
		}
		if want := (actions.Action{Position: all[0].Position, At: at, Actor: "operator:cli", Type: "AccountSuspended", Stream: "account-a", Revision: 1, RequestID: "req_1"}); all[0] != want {
			t.Errorf("%+v, want %+v", all, want)
		}
	})
}
