package sqlstore

import (
	"path/filepath"
	"testing"

	"letterhead/internal/eventlog"
)

func TestPositionsOutliveTheStoreAndNeverGoBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "letterhead.db")
	open := func() (*Store, *Positions) {
		store, err := Open(t.Context(), Config{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewPositions(t.Context(), store)
		if err != nil {
			t.Fatal(err)
		}
		return store, p
	}
	store, p := open()
	if _, found, err := p.Load(t.Context(), "relay"); found || err != nil {
		t.Fatalf("a position that nobody saved: %t %v", found, err)
	}
	for _, at := range []uint64{5, 9, 7} {
		if err := p.Save(t.Context(), "relay", eventlog.Position(at)); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	store, p = open()
	defer store.Close()
	if at, found, err := p.Load(t.Context(), "relay"); at != 9 || !found || err != nil {
		t.Fatalf("loaded %d %t %v, not 9", at, found, err)
	}
}
