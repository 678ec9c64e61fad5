package variants_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/internal/membudget"
	"letterhead/internal/variants"
)

// With one turn for all, a job that waited for another turn would wait for itself.
func TestGetWithin_RunsOnceInSameTurn(t *testing.T) {
	for _, turns := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d turns", turns), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := open(t, variants.Config{Concurrent: turns})
				if _, kept := s.Kept(key(0)); kept {
					t.Error("Kept reports an image that was never made")
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
								checkImage(t, p, 0, 500)
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
					t.Errorf("the inner image was made %d times, want 1", inner.Load())
				}
				p, kept := s.Kept(key(0))
				if !kept {
					t.Fatal("the inner image is not cached")
				}
				checkImage(t, p, 0, 500)
			})
		})
	}
}

// The error of a nested job fails the outer one, and the next job retries both.
func TestGetWithin_FailsWithOuterJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := open(t, variants.Config{Concurrent: 1})
		fault := errors.New("no ink")
		for _, want := range []error{fault, nil} {
			_, err := s.Get(t.Context(), key(1), func(ctx context.Context) ([]byte, error) {
				_, err := s.GetWithin(ctx, key(0), func(context.Context) ([]byte, error) { return body(0, 500), want })
				return body(1, 100), err
			})
			if !errors.Is(err, want) {
				t.Errorf("Get() = %v, want %v", err, want)
			}
		}
	})
}

// A nested job reserves no memory, so that jobs whose nested jobs need more than is free do not block each other.
func TestGetWithin_UsesMemoryOfOuterJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := open(t, variants.Config{Concurrent: 2, MemoryBudget: membudget.New(90 * mib)})
		var all sync.WaitGroup
		for i := 1; i <= 3; i++ {
			all.Go(func() {
				_, err := s.Get(t.Context(), key(i), func(ctx context.Context) ([]byte, error) {
					if err := variants.Need(ctx, 40*mib); err != nil {
						return nil, err
					}
					time.Sleep(100 * time.Millisecond)
					_, err := s.GetWithin(ctx, key(10+i), func(ctx context.Context) ([]byte, error) {
						if err := variants.Need(ctx, 41*mib); err != nil {
							return nil, err
						}
						return body(10+i, 500), nil
					})
					return body(i, 100), err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
}

// The turn is kept even after the deadline of the enclosing job.
func TestGetWithin_KeepsTurnUntilNestedJobEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := open(t, variants.Config{Concurrent: 1, MemoryBudget: membudget.New(90 * mib), MakeTimeout: 5 * time.Second})
		within, free := make(chan error, 1), make(chan struct{})
		_, err := s.Get(t.Context(), key(1), func(ctx context.Context) ([]byte, error) {
			if err := variants.Need(ctx, 40*mib); err != nil {
				return nil, err
			}
			time.Sleep(time.Second)
			_, err := s.GetWithin(ctx, key(2), func(ctx context.Context) ([]byte, error) {
				<-free
				within <- variants.Need(ctx, 41*mib)
				return body(2, 100), nil
			})
			return body(1, 100), err
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		second := s.hold(t.Context(), 3, 60*mib)
		if second.begun {
			t.Error("the next job began before the nested one ended")
		}
		close(free)
		synctest.Wait()
		if err := <-within; err != nil || !second.begun {
			t.Errorf("Need in the nested job = %v; the next job has begun: %t", err, second.begun)
		}
		second.end(t)
		third := s.hold(t.Context(), 4, 60*mib)
		if !third.begun {
			t.Error("the nested jobs did not release their memory")
		}
		third.end(t)
		if _, kept := s.Kept(key(2)); !kept {
			t.Error("the late result of the nested job was not cached")
		}
	})
}
