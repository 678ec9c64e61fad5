package ledger_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/projections/engine"
	"letterhead/projections/ledger"
	"letterhead/projections/projectionstest"
)

// ids are UUIDs, and texts that must not become UUIDs.
func ids() []string {
	id := uuid.NewString()
	return []string{id, strings.ToUpper(uuid.NewString()), "{" + id + "}", strings.ReplaceAll(id, "-", ""), "sixteen-letters!",
		"r", "é", strings.Repeat("long", 1000), uuid.Nil.String(), "urn:uuid:" + id}
}

// Entries do not depend on how rows have types, ids and keys: tables of the previous release give the entries of the
// events, are read until the tables of this release have caught up, and those give the same.
// Rule 8.
func TestEntries_TablesOfBothReleases_AreThoseOfEvents(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		const id = "5ba1c5a5-07e1-4bd5-9d5c-0ff2bd8a8a5f"
		stream := account.Stream(id)
		e.Events(stream, at, eventschemas.AccountOpened{AccountID: id, Holder: "h", Plan: "free"})
		requests, keys := ids(), ids()
		for range 12 { // more keys than rows refer to by their place
			keys = append(keys, uuid.NewString())
		}
		var want []ledger.Entry
		for i, request := range requests {
			charged := eventschemas.EventID(stream, request, eventschemas.CreditsCharged{}.EventType(), "d.com").String()
			for n, chargeID := range []string{charged, request, "c", strings.ToUpper(charged), ""} {
				key := keys[(5*i+n)%len(keys)]
				e.Append(projectionstest.Group{Stream: stream, At: at, RequestID: request, Events: []eventschemas.Event{
					eventschemas.CreditsHeld{HoldID: request, Credits: 1, RequestID: request, Domain: "d.com"},
					eventschemas.HoldReleased{HoldID: request, Credits: 1, Cause: "expired"},
					eventschemas.KeyIssued{KeyID: key, Hash: strings.Repeat("ab", 32), Last4: "1234", Kind: "secret"},
					eventschemas.CreditsCharged{ChargeID: chargeID, Credits: 1, RequestID: request, Domain: "d.com", KeyID: key},
					eventschemas.ChargeKept{ChargeID: chargeID, RequestID: request},
					eventschemas.CreditsGranted{GrantID: request, Kind: "topup", Credits: 1, PaymentID: chargeID},
				}})
			}
		}
		recorded := testmust.Get(e.Log.ReadStream(t.Context(), stream, 0, eventlog.Forward, 1000))(t)
		for i := range recorded {
			r := &recorded[i]
			body := testmust.Get(eventschemas.Decode(r.Type, r.SchemaVersion, r.Data))(t)
			entry := ledger.EntryOf(id, r, body)
			if i > 0 {
				entry.Balance = want[i-1].Balance + entry.Amount
			}
			want = append(want, entry)
		}
		m := ledger.New(e.Store)
		same := func(when string) {
			t.Helper()
			if got := collect(t, m.Entries(t.Context(), id, ledger.Filter{})); !slices.Equal(got, want) {
				t.Errorf("%s:\n%+v\nwant\n%+v", when, got, want)
			}
			for what, values := range map[string][]string{"request": requests, "key": append(keys, "unknown"), "payment": {requests[0], "c", "unknown"}} {
				for _, v := range values {
					f := map[string]ledger.Filter{"request": {RequestID: v}, "key": {KeyID: v}, "payment": {PaymentID: v}}[what]
					selected := slices.DeleteFunc(slices.Clone(want), func(e ledger.Entry) bool {
						return v != map[string]string{"request": e.RequestID, "key": e.KeyID, "payment": e.PaymentID}[what]
					})
					got := collect(t, m.Entries(t.Context(), id, f))
					if !slices.Equal(got, selected) {
						t.Errorf("%s, of %s %q:\n%+v\nwant\n%+v", when, what, v, got, selected)
					}
				}
			}
			st := testmust.Get(m.Statement(t.Context(), id, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), at))(t)
			if lines := fmt.Sprintf("%+v", st); !strings.Contains(lines, keys[0]) || !strings.Contains(lines, keys[len(keys)-1]) {
				t.Errorf("%s, the statement does not name the first and the last key: %s", when, lines)
			}
		}
		r, stop := e.Start(engine.Config{InForce: eventschemas.Format - 1}, m)
		e.CatchUp(r)
		same("tables of the previous release")
		// A scrub compares tables of both releases by the order of their columns.
		rows := testmust.Get(e.Store.Read().QueryContext(t.Context(), "SELECT * FROM ledger_v7_g1_entries LIMIT 0"))(t)
		columns := testmust.Get(rows.Columns())(t)
		testmust.Succeed(t, rows.Close())
		if got := strings.Join(columns, " "); got != "position account_no revision type at amount held balance request_hash request_id actor domain event_id charge_id hold_id payment_id key_id detail hash" {
			t.Errorf("the columns of the previous release are %s", got)
		}
		stop()

		m = ledger.New(e.Store)
		r = e.New(engine.Config{}, m)
		testmust.Succeed(t, r.Start(t.Context()))
		same("before the new tables are built")

		m = ledger.New(e.Store)
		r, _ = e.Start(engine.Config{}, m)
		if e.Shared() {
			testmust.Succeed(t, r.FinishUpgrade(e.Context(), nil))
		}
		if _, ok := testwait.Until(time.Minute, func() bool {
			return testmust.Get(r.List(t.Context()))(t)[0].Version == m.Versions()[0].Number
		}); !ok {
			t.Fatal("the tables of this release are not live")
		}
		same("after the upgrade")
	})
}

// A key that becomes known while its entries are selected does not select those of another key.
func TestEntries_KeyOfLaterCharge_DoesNotSelectAnother(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		charge := func(key string) {
			e.Events("account-a", at, eventschemas.CreditsCharged{ChargeID: "c", Credits: 1, RequestID: "r", Domain: "d.com", KeyID: key})
		}
		charge(uuid.NewString())
		m := ledger.New(e.Store)
		r, _ := e.Start(engine.Config{}, m)
		e.CatchUp(r)
		got, err := m.PageAfter(t.Context(), "a", ledger.Filter{KeyID: uuid.NewString()}, func() {
			charge(uuid.NewString())
			e.CatchUp(r)
		})
		if err != nil || len(got) != 0 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// Rows that were written have the numbers of types, so that a type keeps its place.
func TestTypes_KeepTheirPlaces(t *testing.T) {
	want := []string{"CreditsCharged", "CreditsHeld", "HoldReleased", "ChargeKept", "KeyIssued", "KeyRevoked", "CreditsGranted", "PaymentRefunded", "RefundReversed",
		"ChargeReversed", "PaymentFeeRecorded", "BreakageRecognized", "AccountOpened", "PlanChanged", "AccountSuspended", "AccountReinstated", "AccountClosed", "AccountNoted", "KeyLimitSet"}
	if got := ledger.Types(); len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
		t.Errorf("the types are %q, want %q and then others", got, want)
	}
}

// FuzzID tests that rows keep every id, and that different ids have different bytes.
func FuzzID(f *testing.F) {
	for _, id := range append(ids(), "") {
		f.Add(id, id+"\x00\xff")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		packed := ledger.Pack(a)
		if got, err := ledger.Unpack(packed); got != a || err != nil {
			t.Errorf("%q is stored as %q, read as %q, %v", a, packed, got, err)
		}
		if a != b && bytes.Equal(packed, ledger.Pack(b)) {
			t.Errorf("%q and %q have the same bytes", a, b)
		}
		if id, err := ledger.Unpack([]byte(a)); err == nil && len(a) == 16 && string(ledger.Pack(id)) != a {
			t.Errorf("%q is read as %q", a, id)
		}
	})
}
