package sessions_test

import (
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/projections"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
	"letterhead/projections/sessions"
)

// Rule 9.
func TestScrub_DamagedSessions_AreAsInTheLog(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m := sessions.New(e.Store)
		r, _ := e.Start(engine.Config{}, m)
		e.Events("signins-a", start, signedIn("s1", "owner", start), signedIn("s2", "owner", start))
		e.Events("signins-a", start, eventschemas.SignedOut{SessionID: "s2"})
		e.CatchUp(r)
		testmust.Succeed(t, r.ScrubOnce(e.Context(), sessions.Name))
		ended, changed := hash("s2"), hash("s1")
		changed[3] ^= 1
		err := m.Handle().Read(func(_ projections.Queryer, tables *projections.Tables) error {
			return e.Store.Write(t.Context(), func(tx *sqlstore.Tx) error {
				_, err := tx.ExecContext(t.Context(), tables.SQL(`UPDATE {sessions} SET hash = $1 WHERE id = 's1'`), hex.EncodeToString(changed[:]))
				if err != nil {
					return err
				}
				return sqlstore.Insert(t.Context(), tx, tables.SQL(`{sessions} (account, id, hash, person, started_at, expires_at)`), 6, "",
					[]any{"a", "s2", hex.EncodeToString(ended[:]), "owner", start.UnixMicro(), start.Add(time.Hour).UnixMicro()})
			})
		})
		testmust.Succeed(t, err)
		if s, err := m.ByHash(t.Context(), hash("s2"), start); err != nil || s.ID != "s2" {
			t.Fatalf("the damage has no effect: %v", err)
		}
		testmust.Succeed(t, r.ScrubOnce(e.Context(), sessions.Name))
		if s, err := m.ByHash(t.Context(), hash("s1"), start); err != nil || s.ID != "s1" {
			t.Errorf("the open session after the scrub: %v, %v", s, err)
		}
		for _, wrong := range [][32]byte{ended, changed} {
			if s, err := m.ByHash(t.Context(), wrong, start); !errors.Is(err, sessions.ErrNotFound) {
				t.Errorf("a session that is not open after the scrub: %v, %v", s, err)
			}
		}
	})
}
