package keys_test

import (
	"errors"
	"fmt"
	"testing"

	"letterhead/eventschemas"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/projections"
	"letterhead/projections/engine"
	"letterhead/projections/keys"
	"letterhead/projections/projectionstest"
)

// damage changes rows of the live table of keys behind the read model's back. The text has the table as {keys}.
func damage(t *testing.T, e *projectionstest.Env, d *keys.Directory, statement string, args ...any) {
	t.Helper()
	var text string
	err := d.Handle().Read(func(_ projections.Queryer, tables *projections.Tables) error {
		text = tables.SQL(statement)
		return nil
	})
	if err == nil {
		err = e.Store.Write(t.Context(), func(tx *sqlstore.Tx) error {
			_, err := tx.ExecContext(t.Context(), text, args...)
			return err
		})
	}
	testmust.Succeed(t, err)
}

// state returns how a directory answers for a key.
func state(t *testing.T, e *projectionstest.Env, d *keys.Directory, key string) string {
	t.Helper()
	k, found, err := d.Lookup(e.Context(), sum(key))
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("found %t, id %s, account %s, revoked %t", found, k.ID, k.AccountID, k.Revoked)
}

const nobody = "found false, id , account , revoked false"

// TestScrub_DamagedKeys_AreAsInTheLog covers a process that loads damaged rows at its start, and one with the keys in memory.
// Rule 9.
func TestScrub_DamagedKeys_AreAsInTheLog(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		d, r, stop := open(t, e)
		e.Events("account-a", at, eventschemas.AccountOpened{Plan: "free"}, issued("k1", "lh_sk_one", "secret"), issued("k2", "lh_sk_two", "secret"), eventschemas.KeyRevoked{KeyID: "k2"})
		e.CatchUp(r)
		good, revoked := "found true, id k1, account a, revoked false", "found true, id k2, account a, revoked true"
		changed, injected := sum("lh_sk_one"), sum("lh_sk_injected")
		changed[7] ^= 4
		damage(t, e, d, `UPDATE {keys} SET hash = $1 WHERE id = 'k1'`, changed[:])
		damage(t, e, d, `UPDATE {keys} SET revoked_at = NULL WHERE id = 'k2'`)
		damage(t, e, d, `INSERT INTO {keys} (id, account, kind, hash, last4, issued_at, scopes, origins) VALUES ('k3', 'a', 'secret', $1, '0000', 1, '', '')`, injected[:])
		stop()
		d, r, _ = open(t, e)
		e.CatchUp(r)
		if state(t, e, d, "lh_sk_one") != nobody || state(t, e, d, "lh_sk_two") == revoked || state(t, e, d, "lh_sk_injected") == nobody {
			t.Fatal("the damage has no effect, so this test shows nothing")
		}
		for range 2 {
			var err error
			testwait.Until(testwait.Timeout, func() bool { // the node that has just started may not lead yet
				err = r.ScrubOnce(e.Context(), keys.Name)
				return !errors.Is(err, engine.ErrNotFolding)
			})
			testmust.Succeed(t, err)
			for key, want := range map[string]string{"lh_sk_one": good, "lh_sk_two": revoked, "lh_sk_injected": nobody} {
				if got := state(t, e, d, key); got != want {
					t.Errorf("%s after the scrub: %s, want %s", key, got, want)
				}
			}
			// The fold continues with the repaired rows.
			testmust.Succeed(t, r.WaitFor(e.Context(), keys.Name, e.Events("account-a", at, eventschemas.PlanChanged{From: "free", To: "pro"})))
			damage(t, e, d, `DELETE FROM {keys} WHERE id = 'k1'`)
		}
	})
}

// A node that remembers a key learns that the row was wrong.
// Rule 9.
func TestScrub_RevokedKeyRememberedByAnotherNode_IsRejectedThere(t *testing.T) {
	e := projectionstest.OpenPostgres(t)
	d, r, _ := open(t, e)
	e.Events("account-a", at, eventschemas.AccountOpened{Plan: "free"}, issued("k1", "lh_sk_one", "secret"), eventschemas.KeyRevoked{KeyID: "k1"})
	e.CatchUp(r)
	damage(t, e, d, `UPDATE {keys} SET revoked_at = NULL WHERE id = 'k1'`)
	n, other, _ := follower(t, e)
	remembering(t, n, other, "lh_sk_one")
	if got := state(t, n, other, "lh_sk_one"); got != "found true, id k1, account a, revoked false" {
		t.Fatalf("before the scrub: %s", got)
	}
	testmust.Succeed(t, r.ScrubOnce(e.Context(), keys.Name))
	if _, ok := testwait.Until(testwait.Timeout, func() bool {
		return state(t, n, other, "lh_sk_one") == "found true, id k1, account a, revoked true"
	}); !ok {
		t.Errorf("after the scrub the other node answers: %s", state(t, n, other, "lh_sk_one"))
	}
}

// revoked opens a directory with the revoked key lh_sk_one.
func revoked(t *testing.T, e *projectionstest.Env) (d *keys.Directory, r *engine.Runner, stop func()) {
	t.Helper()
	d, r, stop = open(t, e)
	e.Events("account-a", at, eventschemas.AccountOpened{Plan: "free"},
		issued("k1", "lh_sk_one", "secret"), eventschemas.KeyRevoked{KeyID: "k1"})
	e.CatchUp(r)
	return d, r, stop
}

// unrepaired makes the key valid in the table, and lets a scrub fail to repair that. With cure, scrubs can repair it.
func unrepaired(t *testing.T, e *projectionstest.Env, d *keys.Directory, r *engine.Runner) (cure func()) {
	t.Helper()
	damage(t, e, d, `UPDATE {keys} SET revoked_at = NULL WHERE id = 'k1'`)
	refuse, admit := `BEGIN SELECT RAISE(ABORT, 'full'); END`, `DROP TRIGGER full_disk`
	if e.Shared() {
		e.Exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'full'; END $$`)
		refuse, admit = `FOR EACH ROW EXECUTE FUNCTION refuse()`, `DROP FUNCTION refuse CASCADE`
	}
	damage(t, e, d, `CREATE TRIGGER full_disk BEFORE DELETE ON {keys} `+refuse)
	if err := r.ScrubOnce(e.Context(), keys.Name); err == nil {
		t.Fatal("the repair did not fail")
	}
	return func() { e.Exec(admit) }
}

const asRevoked = "found true, id k1, account a, revoked true"

// Rule 9.
func TestScrub_RepairFails_NoKeyIsAnsweredUntilRowsAreRight(t *testing.T) {
	e := projectionstest.Open(t)
	d, r, stop := revoked(t, e)
	if got := state(t, e, d, "lh_sk_one"); got != asRevoked {
		t.Fatal(got)
	}
	absent := func(when string) {
		t.Helper()
		if k, _, err := d.Lookup(e.Context(), sum("lh_sk_one")); !errors.Is(err, projections.ErrNotReady) {
			t.Errorf("%s: %+v, %v, want %v", when, k, err, projections.ErrNotReady)
		}
		if err := d.Ready(); !errors.Is(err, projections.ErrNotReady) {
			t.Errorf("%s: ready: %v, want %v", when, err, projections.ErrNotReady)
		}
	}
	cure := unrepaired(t, e, d, r)
	absent("with rows that could not be repaired")
	stop()
	d, r, _ = open(t, e)
	e.CatchUp(r)
	absent("after a restart")
	if err := r.ScrubOnce(e.Context(), keys.Name); err == nil {
		t.Fatal("the repair did not fail after the restart")
	}
	absent("after a restart and another pass that repaired nothing")
	e.Events("account-a", at, issued("k2", "lh_sk_two", "secret"))
	e.CatchUp(r)
	cure()
	testmust.Succeed(t, r.ScrubOnce(e.Context(), keys.Name))
	if got := state(t, e, d, "lh_sk_one"); got != asRevoked {
		t.Errorf("after the repair: %s, want %s", got, asRevoked)
	}
	if _, found, err := d.Lookup(e.Context(), sum("lh_sk_two")); !found || err != nil {
		t.Errorf("a key that was issued before the repair: %v, %v", found, err)
	}
}

func TestScrub_RepairOfUnreadableRowFails_NextStartSucceeds(t *testing.T) {
	e := projectionstest.Open(t)
	d, r, stop := revoked(t, e)
	damage(t, e, d, `UPDATE {keys} SET hash = x'00' WHERE id = 'k1'`)
	cure := unrepaired(t, e, d, r)
	stop()
	d, r, _ = open(t, e)
	e.CatchUp(r)
	if _, _, err := d.Lookup(e.Context(), sum("lh_sk_one")); !errors.Is(err, projections.ErrNotReady) {
		t.Errorf("after a restart: %v, want %v", err, projections.ErrNotReady)
	}
	cure()
	testmust.Succeed(t, r.ScrubOnce(e.Context(), keys.Name))
	if got := state(t, e, d, "lh_sk_one"); got != asRevoked {
		t.Errorf("after the repair: %s, want %s", got, asRevoked)
	}
}

// Rule 9.
func TestScrub_RepairFails_OtherNodesForgetTheKey(t *testing.T) {
	e := projectionstest.OpenPostgres(t)
	d, r, _ := revoked(t, e)
	n, other, _ := follower(t, e)
	damage(t, e, d, `UPDATE {keys} SET revoked_at = NULL WHERE id = 'k1'`)
	remembering(t, n, other, "lh_sk_one")
	if got := state(t, n, other, "lh_sk_one"); got == asRevoked {
		t.Fatal("the damage has no effect, so this test shows nothing")
	}
	testmust.Succeed(t, other.Ready())
	cure := unrepaired(t, e, d, r)
	if _, ok := testwait.Until(testwait.Timeout, func() bool {
		_, _, err := other.Lookup(e.Context(), sum("lh_sk_one"))
		return errors.Is(err, projections.ErrNotReady)
	}); !ok {
		t.Errorf("the other node still answers: %s", state(t, n, other, "lh_sk_one"))
	}
	if err := other.Ready(); !errors.Is(err, projections.ErrNotReady) {
		t.Errorf("the other node is ready: %v, want %v", err, projections.ErrNotReady)
	}
	cure()
	testmust.Succeed(t, r.ScrubOnce(e.Context(), keys.Name))
	if _, ok := testwait.Until(testwait.Timeout, func() bool {
		return state(t, n, other, "lh_sk_one") == asRevoked
	}); !ok {
		t.Errorf("after the repair the other node answers: %s", state(t, n, other, "lh_sk_one"))
	}
	if err := other.Ready(); err != nil {
		t.Errorf("after the repair the other node is not ready: %v", err)
	}
}
