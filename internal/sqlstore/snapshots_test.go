package sqlstore_test

import (
	"errors"
	"testing"

	"letterhead/internal/sqlstore"
	"letterhead/internal/sqlstore/sqlstoretest"
)

func TestSnapshots(t *testing.T) {
	sqlstoretest.EachStore(t, func(t *testing.T, s *sqlstore.Store) {
		snapshots, err := sqlstore.NewSnapshots(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		want := func(foldVersion int, revision uint64, state string, found bool) {
			t.Helper()
			r, b, ok, err := snapshots.Load(t.Context(), "account-1", foldVersion)
			if err != nil || r != revision || string(b) != state || ok != found {
				t.Errorf("fold %d: revision %d, state %q, found %v, %v", foldVersion, r, b, ok, err)
			}
		}
		save := func(foldVersion int, revision uint64, state string) {
			t.Helper()
			if err := snapshots.Save(t.Context(), "account-1", foldVersion, revision, []byte(state)); err != nil {
				t.Error(err)
			}
		}
		want(1, 0, "", false)
		save(1, 100, "a hundred")
		want(1, 100, "a hundred", true)
		save(1, 90, "ninety, late")
		want(1, 100, "a hundred", true)
		save(1, 200, "two hundred")
		want(1, 200, "two hundred", true)
		want(2, 0, "", false)
		save(2, 50, "another fold")
		want(2, 50, "another fold", true)
		want(1, 0, "", false)

		err = snapshots.Save(t.Context(), "account-2", 1, 1, make([]byte, sqlstore.MaxSnapshotBytes+1))
		if !errors.Is(err, sqlstore.ErrSnapshotTooLarge) {
			t.Errorf("too large: %v", err)
		}
		if err := snapshots.Save(t.Context(), "account-2", 1, 0, nil); err != nil {
			t.Errorf("empty state: %v", err)
		}
		if _, _, found, err := snapshots.Load(t.Context(), "account-2", 1); !found || err != nil {
			t.Errorf("empty state: %v, %v", found, err)
		}
	})
}
