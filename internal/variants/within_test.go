package variants_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"letterhead/internal/variants"
)

// TestWhatMakingsNeedThemselvesIsMadeOnceInTheirTurn: with one turn for all, a making that waited for another would
// wait for itself.
func TestWhatMakingsNeedThemselvesIsMadeOnceInTheirTurn(t *testing.T) {
	for _, turns := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d turns", turns), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				folder := t.TempDir()
				s := open(t, variants.Config{Concurrent: turns, Folder: folder})
				if _, kept := s.Kept(key(0)); kept {
					t.Error("it is kept before it was made")
				}
				var inner atomic.Int64
				var all sync.WaitGroup
				for i := 1; i <= 8; i++ {
					all.Go(func() {
						_, err := s.Get(t.Context(), key(i), func(ctx context.Context) ([]byte, error) {
							p, err := s.GetWithin(ctx, key(0), func(context.Context) ([]byte, error) {
								inner.Add(1)
								time.Sleep(time.Second)
								return body(0, 500), nil
							})
							if err == nil {
								checkPicture(t, p, 0, 500)
							}
							return body(i, 100), err
						})
						if err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				if inner.Load() != 1 {
					t.Errorf("it was made %d times", inner.Load())
				}
				s.Close()
				again := open(t, variants.Config{Folder: folder})
				p, kept := again.Kept(key(0))
				if !kept {
					t.Fatal("it is not kept after a restart")
				}
				checkPicture(t, p, 0, 500)
			})
		})
	}
}

// TestWhatIsWithinFailsWithTheMaking that asked for it, and is tried again by the next.
func TestWhatIsWithinFailsWithTheMaking(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := open(t, variants.Config{Concurrent: 1})
		fault := errors.New("no ink")
		for _, want := range []error{fault, nil} {
			_, err := s.Get(t.Context(), key(1), func(ctx context.Context) ([]byte, error) {
				_, err := s.GetWithin(ctx, key(0), func(context.Context) ([]byte, error) { return body(0, 500), want })
				return body(1, 100), err
			})
			if !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
	})
}
