package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync"
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

func openPositions(t *testing.T) (*Store, *Positions) {
	t.Helper()
	store, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "letterhead.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	p, err := NewPositions(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	return store, p
}

func TestThePositionsOfSeveralReadersAreTheirOwn(t *testing.T) {
	_, p := openPositions(t)
	const readers, saves = 4, 25
	var wg sync.WaitGroup
	for reader := range readers {
		for save := range saves {
			wg.Go(func() { // in any order: the latest stands
				if err := p.Save(t.Context(), fmt.Sprint("reader ", reader), eventlog.Position(reader*1000+save)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	for reader := range readers {
		at, found, err := p.Load(t.Context(), fmt.Sprint("reader ", reader))
		if want := eventlog.Position(reader*1000 + saves - 1); at != want || !found || err != nil {
			t.Errorf("reader %d: %d %t %v, want %d", reader, at, found, err, want)
		}
	}
	if _, found, err := p.Load(t.Context(), "reader"); found || err != nil {
		t.Errorf("a name that is the beginning of others: %t %v", found, err)
	}
}

func TestTheLargestPositionIsKept(t *testing.T) {
	_, p := openPositions(t)
	if err := p.Save(t.Context(), "r", math.MaxInt64); err != nil {
		t.Fatal(err)
	}
	if at, _, err := p.Load(t.Context(), "r"); at != math.MaxInt64 || err != nil {
		t.Errorf("%d %v", at, err)
	}
}

func TestPositionsSayWhyTheyCannot(t *testing.T) {
	store, p := openPositions(t)
	ended, end := context.WithCancel(t.Context())
	end()
	if _, _, err := p.Load(ended, "r"); !errors.Is(err, context.Canceled) {
		t.Errorf("Load with a context that has ended: %v", err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.Load(t.Context(), "r"); !errors.Is(err, ErrClosed) {
		t.Errorf("Load after Close: %v, want ErrClosed", err)
	}
	if err := p.Save(t.Context(), "r", 1); !errors.Is(err, ErrClosed) {
		t.Errorf("Save after Close: %v, want ErrClosed", err)
	}
	if _, err := NewPositions(t.Context(), store); !errors.Is(err, ErrClosed) {
		t.Errorf("NewPositions after Close: %v, want ErrClosed", err)
	}
}
