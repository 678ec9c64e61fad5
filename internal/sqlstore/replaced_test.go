package sqlstore_test

import (
	"errors"
	"testing"

	"letterhead/internal/sqlstore"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/internal/testmust"
)

// What a process has read of a log that another process has replaced is not saved, neither over a saved position nor
// where none is saved.
// Rule 8.
func TestReplaceLog_ByAnotherProcess_EarlierReadersSaveNothing(t *testing.T) {
	sqlstoretest.Each(t, func(t *testing.T, cfg sqlstore.Config) {
		before := sqlstoretest.Open(t, cfg)
		positions := testmust.Get(sqlstore.NewPositions(t.Context(), before))(t)
		snapshots := testmust.Get(sqlstore.NewSnapshots(t.Context(), before))(t)
		testmust.Succeed(t, positions.Save(t.Context(), "relay", 90))
		testmust.Succeed(t, snapshots.Save(t.Context(), "sweep", 1, 90, nil))

		by := sqlstoretest.Open(t, cfg)
		for _, id := range []string{"one", "two"} { // the process that replaces the log goes on
			err := by.ReplaceLog(t.Context(), id, func(tx *sqlstore.Tx) error {
				_, err := tx.ExecContext(t.Context(), "UPDATE positions SET position = 40")
				return err
			})
			testmust.Succeed(t, err)
			own := testmust.Get(sqlstore.NewPositions(t.Context(), by))(t)
			testmust.Succeed(t, own.Save(t.Context(), "relay", 41))
		}
		if id, err := before.CurrentLogID(t.Context()); id != "two" || before.LogID() != "" || err != nil {
			t.Errorf("the log is %q, %v, and the earlier process reads %q; want two and none", id, err, before.LogID())
		}
		for what, err := range map[string]error{
			"position that is saved": positions.Save(t.Context(), "relay", 91),
			"position that is not":   positions.Save(t.Context(), "refresh", 91),
			"reset position":         positions.Reset(t.Context(), "relay", 91),
			"snapshot":               snapshots.Save(t.Context(), "sweep", 1, 91, nil),
		} {
			if !errors.Is(err, sqlstore.ErrLogReplaced) {
				t.Errorf("%s: %v, want ErrLogReplaced", what, err)
			}
		}
		after := testmust.Get(sqlstore.NewPositions(t.Context(), sqlstoretest.Open(t, cfg)))(t)
		if at, _, err := after.Load(t.Context(), "relay"); at != 41 || err != nil {
			t.Errorf("the relay is at %d, %v; want 41", at, err)
		}
		if _, found, err := after.Load(t.Context(), "refresh"); found || err != nil {
			t.Errorf("the refresher has a position: %t, %v", found, err)
		}
		testmust.Succeed(t, after.Save(t.Context(), "relay", 42))
	})
}
