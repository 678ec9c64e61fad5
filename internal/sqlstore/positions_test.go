package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/internal/testmust"
)

func TestPositions_Persist_AndNeverDecrease(t *testing.T) {
	sqlstoretest.Each(t, func(t *testing.T, cfg sqlstore.Config) {
		open := func() (*sqlstore.Store, *sqlstore.Positions) {
			store := sqlstoretest.Open(t, cfg)
			p := testmust.Get(sqlstore.NewPositions(t.Context(), store))(t)
			return store, p
		}
		store, p := open()
		if _, found, err := p.Load(t.Context(), "relay"); found || err != nil {
			t.Fatalf("a position that was never saved: %t %v", found, err)
		}
		for _, at := range []uint64{5, 9, 7} {
			testmust.Succeed(t, p.Save(t.Context(), "relay", eventlog.Position(at)))
		}
		testmust.Succeed(t, store.Close())
		_, p = open()
		if at, found, err := p.Load(t.Context(), "relay"); at != 9 || !found || err != nil {
			t.Fatalf("loaded %d %t %v, not 9", at, found, err)
		}
	})
}

func TestPositions_Reset_MayDecrease(t *testing.T) {
	eachPositions(t, func(t *testing.T, _ *sqlstore.Store, p *sqlstore.Positions) {
		at := func(want eventlog.Position) {
			t.Helper()
			if got, found, err := p.Load(t.Context(), "r"); got != want || !found || err != nil {
				t.Errorf("loaded %d %t %v, want %d", got, found, err, want)
			}
		}
		for _, position := range []eventlog.Position{1000, 40} { // the first name does not exist yet
			testmust.Succeed(t, p.Reset(t.Context(), "r", position))
			at(position)
		}
		for _, position := range []eventlog.Position{39, 41} {
			testmust.Succeed(t, p.Save(t.Context(), "r", position))
		}
		at(41)
	})
}

// eachPositions runs a test with the positions of a new database of each engine.
func eachPositions(t *testing.T, test func(t *testing.T, store *sqlstore.Store, p *sqlstore.Positions)) {
	sqlstoretest.EachStore(t, func(t *testing.T, store *sqlstore.Store) {
		p := testmust.Get(sqlstore.NewPositions(t.Context(), store))(t)
		test(t, store, p)
	})
}

func TestPositions_SeveralReaders_AreIndependent(t *testing.T) {
	eachPositions(t, func(t *testing.T, _ *sqlstore.Store, p *sqlstore.Positions) {
		const readers, saves = 4, 25
		var wg sync.WaitGroup
		for reader := range readers {
			for save := range saves {
				wg.Go(func() { // in any order; the highest position must remain
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
				t.Errorf("Load of reader %d = %d, %t, %v, want %d", reader, at, found, err, want)
			}
		}
		if _, found, err := p.Load(t.Context(), "reader"); found || err != nil {
			t.Errorf("Load of a prefix of stored names: found = %t, error %v, want false", found, err)
		}
	})
}

func TestPositions_Largest_IsStored(t *testing.T) {
	eachPositions(t, func(t *testing.T, _ *sqlstore.Store, p *sqlstore.Positions) {
		testmust.Succeed(t, p.Save(t.Context(), "r", math.MaxInt64))
		if at, _, err := p.Load(t.Context(), "r"); at != math.MaxInt64 || err != nil {
			t.Errorf("%d %v", at, err)
		}
	})
}

func TestPositions_Errors_HaveReason(t *testing.T) {
	eachPositions(t, func(t *testing.T, store *sqlstore.Store, p *sqlstore.Positions) {
		ended, end := context.WithCancel(t.Context())
		end()
		if _, _, err := p.Load(ended, "r"); !errors.Is(err, context.Canceled) {
			t.Errorf("Load with a context that has ended: %v", err)
		}
		testmust.Succeed(t, store.Close())
		if _, _, err := p.Load(t.Context(), "r"); !errors.Is(err, sqlstore.ErrClosed) {
			t.Errorf("Load after Close: %v, want ErrClosed", err)
		}
		if err := p.Save(t.Context(), "r", 1); !errors.Is(err, sqlstore.ErrClosed) {
			t.Errorf("Save after Close: %v, want ErrClosed", err)
		}
		if err := p.Reset(t.Context(), "r", 1); !errors.Is(err, sqlstore.ErrClosed) {
			t.Errorf("Reset after Close: %v, want ErrClosed", err)
		}
		if _, err := sqlstore.NewPositions(t.Context(), store); !errors.Is(err, sqlstore.ErrClosed) {
			t.Errorf("NewPositions after Close: %v, want ErrClosed", err)
		}
	})
}
