package deadline_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/internal/deadline"
)

// waits are the ways to wait for a context.
var waits = map[string]func(ctx context.Context){
	"Done": func(ctx context.Context) { <-ctx.Done() },
	"derived": func(ctx context.Context) {
		derived, cancel := context.WithCancel(ctx)
		defer cancel()
		<-derived.Done()
	},
	"Err": func(ctx context.Context) {
		for ctx.Err() == nil {
			time.Sleep(time.Second / 2)
			synctest.Wait() // until an end at this moment has happened
		}
	},
}

type key struct{}

func TestContext_Ends_WakesThoseWhoWait(t *testing.T) {
	for name, wait := range waits {
		for _, c := range []struct {
			name string
			end  func(root context.CancelFunc, outer, inner *deadline.Context)
			want error
			at   time.Duration
		}{
			{"parent", func(root context.CancelFunc, _, _ *deadline.Context) { root() }, context.Canceled, time.Second},
			{"outer", func(_ context.CancelFunc, outer, _ *deadline.Context) { outer.End() }, context.Canceled, time.Second},
			{"inner", func(_ context.CancelFunc, _, inner *deadline.Context) { inner.End() }, context.Canceled, time.Second},
			{"time", func(context.CancelFunc, *deadline.Context, *deadline.Context) {}, context.DeadlineExceeded, time.Minute},
		} {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					began := time.Now()
					root, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
					defer cancel()
					outer := deadline.New(root, 2*time.Minute)
					defer outer.End()
					inner := deadline.New(outer, time.Minute)
					defer inner.End()
					if at, ok := inner.Deadline(); !ok || !at.Equal(began.Add(time.Minute)) || inner.Err() != nil {
						t.Errorf("Deadline = %s, %t; Err = %v", at, ok, inner.Err())
					}
					go func() {
						time.Sleep(time.Second)
						c.end(cancel, outer, inner)
					}()
					wait(inner)
					if took := time.Since(began); took != c.at || !errors.Is(inner.Err(), c.want) {
						t.Errorf("ended after %s with %v, want %s and %v", took, inner.Err(), c.at, c.want)
					}
					cancel()
					if !errors.Is(inner.Err(), c.want) || inner.Value(key{}) != "value" {
						t.Errorf("later, Err = %v and Value = %v", inner.Err(), inner.Value(key{}))
					}
				})
			})
		}
	}
}

func TestContext_EarlierDeadlineOfParent_Counts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		outer := deadline.New(t.Context(), time.Second)
		defer outer.End()
		inner := deadline.New(outer, time.Minute)
		defer inner.End()
		if <-inner.Done(); !errors.Is(inner.Err(), context.DeadlineExceeded) {
			t.Error(inner.Err())
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("took %s", took)
		}
	})
}

func TestContext_Ended_IsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer := deadline.New(t.Context(), time.Minute)
		inner, first := deadline.New(outer, time.Minute), deadline.New(outer, time.Minute)
		first.End()
		<-first.Done()
		outer.End()
		<-inner.Done() // also if it was not called before
		inner.End()
	})
}

func TestBounds_ContextInContext_AreTheOutermostParentAndTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := context.WithValue(t.Context(), key{}, "value")
		outer := deadline.New(root, time.Second)
		defer outer.End()
		inner := deadline.New(outer, time.Minute)
		defer inner.End()
		if outside, at := deadline.Bounds(inner); outside != root || time.Until(at) != time.Second {
			t.Errorf("Bounds = %v, in %s", outside, time.Until(at))
		}
		if outside, at := deadline.Bounds(root); outside != root || !at.IsZero() {
			t.Errorf("Bounds of another context = %v, %s", outside, at)
		}
	})
}
