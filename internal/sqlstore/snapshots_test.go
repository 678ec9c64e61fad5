package sqlstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"letterhead/internal/sqlstore"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/internal/testmust"
)

// snapshotsOn has the snapshots of a store and helpers.
type snapshotsOn struct {
	*testing.T
	store *sqlstore.Store
	*sqlstore.Snapshots
}

func openSnapshots(t *testing.T, s *sqlstore.Store) snapshotsOn {
	t.Helper()
	snapshots := testmust.Get(sqlstore.NewSnapshots(t.Context(), s))(t)
	return snapshotsOn{T: t, store: s, Snapshots: snapshots}
}

func (s snapshotsOn) want(stream string, foldVersion int, revision uint64, state string, found bool) {
	s.Helper()
	r, b, ok, err := s.Load(s.Context(), stream, foldVersion)
	if err != nil || r != revision || string(b) != state || ok != found {
		s.Errorf("%s, fold %d: revision %d, %d bytes, found %v, %v; want revision %d, %d bytes", stream, foldVersion, r, len(b), ok, err, revision, len(state))
	}
}

func (s snapshotsOn) save(stream string, foldVersion int, revision uint64, state string) {
	s.Helper()
	if err := s.Save(s.Context(), stream, foldVersion, revision, []byte(state)); err != nil {
		s.Error(err)
	}
}

func (s snapshotsOn) exec(query string, args ...any) {
	s.Helper()
	err := s.store.Write(s.Context(), func(tx *sqlstore.Tx) error {
		_, err := tx.ExecContext(s.Context(), query, args...)
		return err
	})
	testmust.Succeed(s, err)
}

func TestSnapshots_SaveLoadDiscard(t *testing.T) {
	sqlstoretest.EachStore(t, func(t *testing.T, store *sqlstore.Store) {
		s := openSnapshots(t, store)
		s.want("account-1", 1, 0, "", false)
		s.save("account-1", 1, 100, "a hundred")
		s.want("account-1", 1, 100, "a hundred", true)
		s.save("account-1", 1, 90, "ninety, late")
		s.want("account-1", 1, 100, "a hundred", true)
		s.save("account-1", 1, 200, "two hundred")
		s.want("account-1", 1, 200, "two hundred", true)

		err := s.Save(t.Context(), "account-2", 1, 1, make([]byte, sqlstore.MaxSnapshotBytes+1))
		if !errors.Is(err, sqlstore.ErrSnapshotTooLarge) {
			t.Errorf("too large: %v", err)
		}
		if err := s.Save(t.Context(), "account-2", 1, 0, nil); err != nil {
			t.Errorf("empty state: %v", err)
		}
		s.want("account-2", 1, 0, "", true)
	})
}

func TestSnapshots_TwoFoldVersions_AreBothKept(t *testing.T) {
	sqlstoretest.EachStore(t, func(t *testing.T, store *sqlstore.Store) {
		s := openSnapshots(t, store)
		s.save("account-1", 1, 100, "the last release")
		s.want("account-1", 2, 0, "", false)
		s.save("account-1", 2, 50, "this one")
		s.want("account-1", 1, 100, "the last release", true)
		s.want("account-1", 2, 50, "this one", true)
	})
}

func TestSnapshots_LargeState_IsSplitAndReplacedWhole(t *testing.T) {
	sqlstoretest.EachStore(t, func(t *testing.T, store *sqlstore.Store) {
		s := openSnapshots(t, store)
		noise := rand.NewChaCha8([32]byte{1})
		large := make([]byte, 13<<20) // does not compress: four parts
		testmust.Succeed(t, testmust.Err(noise.Read(large)))
		s.save("account-1", 1, 1, string(large))
		s.want("account-1", 1, 1, string(large), true)
		s.save("account-1", 1, 2, string(large[:5<<20]))
		s.want("account-1", 1, 2, string(large[:5<<20]), true)
		s.save("account-1", 1, 3, "small again")
		s.want("account-1", 1, 3, "small again", true)

		s.save("account-1", 1, 4, string(large))
		s.exec("DELETE FROM stream_snapshots WHERE part = 2")
		if _, _, _, err := s.Load(t.Context(), "account-1", 1); !errors.Is(err, sqlstore.ErrSnapshotDamaged) {
			t.Errorf("with a part missing: %v", err)
		}
	})
}

// A snapshot is rejected after any change in one of its rows.
func TestSnapshots_ChangedInTheDatabase_AreDamaged(t *testing.T) {
	for column, change := range map[string]any{
		"revision":   int64(2),
		"parts":      int64(2),
		"written_by": "somebody",
		"checksum":   bytes.Repeat([]byte{7}, 32),
		"state":      []byte("something else"),
		"stream":     "account-2",
	} {
		t.Run(column, func(t *testing.T) {
			sqlstoretest.EachStore(t, func(t *testing.T, store *sqlstore.Store) {
				s := openSnapshots(t, store)
				s.save("account-1", 1, 1, `{"balance":0}`)
				s.exec(fmt.Sprintf("UPDATE stream_snapshots SET %s = $1", column), change)
				stream := "account-1"
				if column == "stream" {
					stream = "account-2"
				}
				if _, _, found, err := s.Load(t.Context(), stream, 1); !errors.Is(err, sqlstore.ErrSnapshotDamaged) || found {
					t.Fatalf("found %v, %v", found, err)
				}
				testmust.Succeed(t, s.Discard(t.Context(), stream, 1))
				s.save(stream, 1, 0, "folded again")
				s.want(stream, 1, 0, "folded again", true)
			})
		})
	}
}

func TestSnapshots_EachAndPrune(t *testing.T) {
	sqlstoretest.EachStore(t, func(t *testing.T, store *sqlstore.Store) {
		s := openSnapshots(t, store)
		var all []string
		for i := range 1234 { // more than one page of both
			stream := fmt.Sprintf("account-%05d", i)
			for version := 1; version <= 2; version++ {
				all = append(all, fmt.Sprintf("%s/%d/%d", stream, version, i))
			}
		}
		err := store.Write(t.Context(), func(tx *sqlstore.Tx) error {
			for i := range 1234 {
				for version := 1; version <= 2; version++ {
					_, err := tx.ExecContext(t.Context(), "INSERT INTO stream_snapshots VALUES ($1, $2, 0, 1, $3, '', $4, $4)",
						fmt.Sprintf("account-%05d", i), version, i, []byte{})
					if err != nil {
						return err
					}
				}
			}
			return nil
		})
		testmust.Succeed(t, err)
		s.save("accounting", 1, 9, "another kind of stream")
		all = append(all, "accounting/1/9")
		list := func() (listed []string) {
			err := s.Each(t.Context(), func(stream string, foldVersion int, revision uint64) error {
				listed = append(listed, fmt.Sprintf("%s/%d/%d", stream, foldVersion, revision))
				return nil
			})
			testmust.Succeed(t, err)
			return listed
		}
		if got := list(); !slices.Equal(got, all) {
			t.Errorf("%d snapshots are listed, want %d", len(got), len(all))
		}
		if n, err := s.Prune(t.Context(), "account-", 2); n != 1234 || err != nil {
			t.Errorf("pruned %d, %v, want 1234", n, err)
		}
		if got := list(); len(got) != 1235 || got[0] != "account-00000/2/0" || got[1234] != "accounting/1/9" {
			t.Errorf("%d are left, from %s", len(got), got[0])
		}
		stop := errors.New("enough")
		if err := s.Each(t.Context(), func(string, int, uint64) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("Each returned %v", err)
		}
	})
}
