package idempotency_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
	"letterhead/projections/engine"
	"letterhead/projections/idempotency"
	"letterhead/projections/projectionstest"
)

var start = time.Date(2026, 11, 30, 23, 0, 0, 0, time.UTC)

func open(t *testing.T, e *projectionstest.Env) (*idempotency.Model, *engine.Runner) {
	t.Helper()
	m := idempotency.New(e.Store)
	r, _ := e.Start(engine.Config{}, m)
	return m, r
}

// charge returns a charge under an item of an idempotency key.
func charge(id string, key, item int) eventschemas.CreditsCharged {
	return eventschemas.CreditsCharged{
		ChargeID: id, Credits: 2, RequestID: "r" + id, BrandID: "b" + id, Domain: id + ".com", RecordRevision: 7,
		IdempotencyKeyHash: fmt.Sprintf("%032x%032x", key, item), RequestHash: strings.Repeat("a", 64),
	}
}

func family(key int) string { return fmt.Sprintf("%032x", key) }

// want compares the charges found with the "id@revision" of each.
func want(t *testing.T, m *idempotency.Model, accountID string, key int, through uint64, charges ...string) account.Older {
	t.Helper()
	got := testmust.Get(m.ByKey(t.Context(), accountID, family(key)))(t)
	var found []string
	for _, c := range got.Charges {
		found = append(found, fmt.Sprintf("%s@%d", c.ChargeID, c.Revision))
	}
	if got.Through != through || strings.Join(found, " ") != strings.Join(charges, " ") {
		t.Errorf("account %s, key %d: through %d: %v, want through %d: %v", accountID, key, got.Through, found, through, charges)
	}
	return got
}

func TestByKey_ReturnsItemsOfOneKey(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m, r := open(t, e)
		e.Events("account-a", start, charge("1", 1, 1), charge("2", 2, 1), charge("3", 1, 2),
			eventschemas.CreditsCharged{ChargeID: "no key", Credits: 1, RequestID: "r"})
		e.Events("account-b", start, charge("4", 1, 1))
		e.CatchUp(r)
		got := want(t, m, "a", 1, 3, "1@0", "3@2")
		if c := got.Charges[1]; c.KeyHash != charge("3", 1, 2).IdempotencyKeyHash || c.RequestHash != strings.Repeat("a", 64) ||
			c.Credits != 2 || c.BrandID != "b3" || c.Domain != "3.com" || c.RecordRevision != 7 || !c.At.Equal(start) {
			t.Errorf("found %+v", c)
		}
		want(t, m, "b", 1, 1, "4@0")
		want(t, m, "a", 3, 3)
		want(t, m, "nobody", 1, 0)
	})
}

func TestByKey_LaterChargeOfItem_ReplacesFirst(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m, r := open(t, e)
		e.Events("account-a", start, charge("1", 1, 1),
			eventschemas.ChargeReversed{ChargeID: "1", Credits: 2, RequestID: "r1", Reason: "operator"}, charge("2", 1, 1))
		e.CatchUp(r)
		want(t, m, "a", 1, 3, "2@2")
		e.Events("account-a", start.Add(time.Minute), charge("3", 1, 1))
		e.CatchUp(r)
		want(t, m, "a", 1, 4, "3@3")
	})
}

func TestFold_DayOldCharges_AreDeleted(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m, r := open(t, e)
		e.Events("account-a", start, charge("1", 1, 1))
		e.Events("account-b", start.Add(time.Microsecond), charge("2", 1, 1))
		e.Events("account-c", start.Add(account.IdempotencyWindow), charge("3", 1, 1))
		e.CatchUp(r)
		want(t, m, "a", 1, 0)
		want(t, m, "b", 1, 1, "2@0")
		want(t, m, "c", 1, 1, "3@0")
	})
}

// A key whose charges were all reversed may be used again, so a group of keys may have more rows than a key has items.
func TestByKey_ReusedKey_ReturnsEveryCharge(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m, r := open(t, e)
		for i := range 2 * account.MaxKeyItems {
			e.Events("account-a", start, charge(fmt.Sprint(i), 1, i))
		}
		e.CatchUp(r)
		got, err := m.ByKey(t.Context(), "a", family(1))
		if err != nil || len(got.Charges) != 2*account.MaxKeyItems {
			t.Errorf("%d charges, %v", len(got.Charges), err)
		}
	})
}

// replayed returns the rows of a log that is folded in batches of some events.
func replayed(t *testing.T, e *projectionstest.Env, batch int) string {
	t.Helper()
	m := idempotency.New(e.Store)
	r, stop := e.Start(engine.Config{BatchEvents: batch}, m)
	defer stop()
	testmust.Succeed(t, r.Rebuild(e.Context(), nil, nil))
	return e.Dump(m.Name())
}

// Each account's charges are in the order of time, as the stream writer decides it; those of different accounts are not,
// because clocks of nodes differ.
//
// Rule 8.
func TestFold_AnyBatches_SameRows(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		rng := rand.New(rand.NewPCG(42, 0))
		at := [4]time.Time{start, start.Add(account.IdempotencyWindow), start, start}
		for i := range 400 {
			of := rng.IntN(len(at))
			if rng.IntN(3) > 0 { // otherwise at the same time as the last
				at[of] = at[of].Add(time.Duration(rng.IntN(5)) * account.IdempotencyWindow / 4)
			}
			e.Events(fmt.Sprintf("account-%d", of), at[of], charge(fmt.Sprint(i), rng.IntN(3), rng.IntN(2)))
		}
		want := replayed(t, e, 1)
		for range 10 {
			batch := 2 + rng.IntN(450)
			if got := replayed(t, e, batch); got != want {
				t.Errorf("rows of batches of %d events:\n%s\nwant those of single events:\n%s", batch, got, want)
			}
		}
	})
}
