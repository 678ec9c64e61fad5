package backup_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"letterhead/domain/account"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/workers/backup"
)

// After a restore or a migration, accounts with long streams have a snapshot of their last event, so that
// the first request need not wait until the stream is folded.
func TestRestore_LongStreams_GetSnapshots(t *testing.T) {
	from, folder := embedded(t), t.TempDir()
	w := newWriter(t, from)
	w.charge("long", 400)
	w.charge("short", 399)
	cfg := tiny()
	cfg.LongStream = 400
	run(t, cfg, from, folder)
	wantLeft := func(t *testing.T, snapshots *sqlstore.Snapshots, saved uint64) {
		t.Helper()
		if saved != 1 {
			t.Errorf("%d snapshots were saved", saved)
		}
		revision, state, found, err := snapshots.Load(t.Context(), account.Stream("long"), account.FoldVersion)
		if err != nil || !found || revision != 399 {
			t.Fatalf("found %v at revision %d, %v", found, revision, err)
		}
		a := account.New("long")
		if err := a.UnmarshalBinary(state); err != nil || a.Balance() != -400 || a.Revisions() != 400 {
			t.Errorf("balance %d after %d events, %v", a.Balance(), a.Revisions(), err)
		}
		if _, _, found, err := snapshots.Load(t.Context(), account.Stream("short"), account.FoldVersion); found || err != nil {
			t.Errorf("a short stream has a snapshot (%v)", err)
		}
	}
	open := func(t *testing.T, s side) (backup.Target, *sqlstore.Snapshots) {
		t.Helper()
		snapshots := testmust.Get(sqlstore.NewSnapshots(t.Context(), s.store))(t)
		to := s.target()
		to.Snapshots = snapshots
		return to, snapshots
	}
	t.Run("restore", func(t *testing.T) {
		to, snapshots := open(t, embedded(t))
		out := testmust.Get(backup.Restore(t.Context(), backup.RestoreConfig{Config: cfg}, folder, opened(to)))(t)
		wantLeft(t, snapshots, out.Snapshots)
	})
	t.Run("migrate", func(t *testing.T) {
		_, log := eventStore(t)
		s := withDatabase(t, log, sqlstore.Config{Path: filepath.Join(t.TempDir(), "letterhead.db")})
		s.assets = openAssets(t, t.TempDir())
		to, snapshots := open(t, s)
		out := testmust.Get(backup.Migrate(t.Context(), cfg, true, from.source(), to))(t)
		wantLeft(t, snapshots, out.Snapshots)
	})
	t.Run("that cannot be saved", func(t *testing.T) {
		to := embedded(t).target()
		to.Snapshots = noSnapshots{}
		out, err := backup.Restore(t.Context(), backup.RestoreConfig{Config: cfg}, folder, opened(to))
		if err != nil || out.Snapshots != 0 {
			t.Errorf("Restore saved %d snapshots, %v, want success without snapshots", out.Snapshots, err)
		}
	})
}

// noSnapshots is an unavailable database.
type noSnapshots struct{ *sqlstore.Snapshots }

func (noSnapshots) Save(context.Context, string, int, uint64, []byte) error {
	return errors.New("the database is unavailable")
}
