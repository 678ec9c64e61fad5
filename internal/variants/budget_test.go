package variants_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/internal/membudget"
	"letterhead/internal/variants"
)

const mib = 1 << 20

// holding is a job that needs memory and ends when the test calls end.
type holding struct {
	answer chan error
	begun  bool // has the memory that it needs
	calls  int
	ctx    context.Context
	free   chan struct{}
}

// hold requests an image that successively needs these numbers of bytes, and returns when all goroutines are blocked.
func (s opened) hold(ctx context.Context, i int, needs ...int64) *holding {
	h := &holding{answer: make(chan error, 1), free: make(chan struct{})}
	go func() {
		_, err := s.Get(ctx, key(i), func(ctx context.Context) ([]byte, error) {
			h.calls++
			h.ctx = ctx
			for _, n := range needs {
				if err := variants.Need(ctx, n); err != nil {
					return nil, err
				}
			}
			h.begun = true
			<-h.free
			return body(i, 3000), nil
		})
		h.answer <- err
	}()
	synctest.Wait()
	return h
}

// end ends the job, and returns when all goroutines are blocked.
func (h *holding) end(t *testing.T) {
	t.Helper()
	close(h.free)
	if err := <-h.answer; err != nil {
		t.Error(err)
	}
	synctest.Wait()
}

// A third of the budget is reserved for small images, and jobs that wait for memory take no turn.
func TestBudget_SmallImages_OvertakeWaiting(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := open(t, variants.Config{Concurrent: 2, MemoryBudget: membudget.New(90 * mib)})
		first := s.hold(t.Context(), 1, 40*mib)
		second := s.hold(t.Context(), 2, 30*mib)
		third := s.hold(t.Context(), 3, 1*mib, 20*mib)
		if !first.begun || second.begun || third.begun {
			t.Fatalf("begun: %t, %t, %t; want only the first", first.begun, second.begun, third.begun)
		}
		for i := range 5 {
			small := s.hold(t.Context(), 10+i, 4*mib)
			if !small.begun {
				t.Errorf("small image %d waits", i)
			}
			small.end(t)
		}
		first.end(t)
		if !second.begun || !third.begun {
			t.Errorf("with 60 MiB free: begun %t, %t; want both", second.begun, third.begun)
		}
		second.end(t)
		third.end(t)
		for i := range 40 { // earlier requests are not kept
			h := s.hold(t.Context(), 100+i, 1*mib, 20*mib)
			if !h.begun {
				t.Fatalf("no memory is free after %d jobs that requested it twice", i)
			}
			h.end(t)
		}
		if second.calls != 2 || third.calls != 2 || s.number("failed_total") != 0 || s.number("asked_total", "made") != 48 || s.number("make_seconds") != 48 {
			t.Errorf("two jobs were called %d and %d times, want 2 and 2; metrics: %v failed, %v made, %v durations, want 0, 48 and 48", second.calls, third.calls, s.number("failed_total"), s.number("asked_total", "made"), s.number("make_seconds"))
		}
	})
}

// Neither later images that would fit nor small ones starve a large image, and an image that needs more
// than the whole budget gets all of it.
func TestBudget_LargeImage_IsNotStarved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := open(t, variants.Config{Concurrent: 8, MemoryBudget: membudget.New(90 * mib)})
		one, two := s.hold(t.Context(), 1, 30*mib), s.hold(t.Context(), 2, 20*mib)
		huge := s.hold(t.Context(), 3, 1000*mib)
		later := s.hold(t.Context(), 4, 5*mib)
		if !one.begun || !two.begun || huge.begun || later.begun {
			t.Fatalf("begun: %t, %t, %t, %t; want the first two", one.begun, two.begun, huge.begun, later.begun)
		}
		one.end(t)
		if huge.begun || later.begun {
			t.Errorf("with 20 of 60 MiB taken: begun %t, %t; want neither", huge.begun, later.begun)
		}
		two.end(t)
		if !huge.begun || later.begun {
			t.Errorf("with all memory free: begun %t, %t; want only the huge one", huge.begun, later.begun)
		}
		huge.end(t)
		if !later.begun {
			t.Error("the last job still waits")
		}
		later.end(t)
	})
}

// The limit of small images is in bytes, not in turns.
func TestBudget_SmallImages_AreLimited(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := open(t, variants.Config{Concurrent: 100, MemoryBudget: membudget.New(30 * mib)})
		var all []*holding
		begun := 0
		for i := range 20 {
			all = append(all, s.hold(t.Context(), i, 2*mib))
		}
		for _, h := range all {
			if h.begun {
				begun++
			}
		}
		if begun != 5 {
			t.Errorf("%d jobs of 2 MiB have begun, want 5: a third of 30 MiB", begun)
		}
		for _, h := range all {
			h.end(t)
		}
	})
}

// When the only caller that waits for memory leaves, its image is not made, and the memory is free.
func TestBudget_WaitingCallerCanLeave(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := open(t, variants.Config{Concurrent: 2, MemoryBudget: membudget.New(90 * mib)})
		first := s.hold(t.Context(), 1, 60*mib)
		ctx, leave := context.WithCancel(t.Context())
		second := s.hold(ctx, 2, 60*mib)
		leave()
		if err := <-second.answer; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		synctest.Wait()
		if second.ctx.Err() == nil || s.number("abandoned_total") != 1 {
			t.Errorf("context of the abandoned job: %v, want an error; %v counted as abandoned, want 1", second.ctx.Err(), s.number("abandoned_total"))
		}
		first.end(t)
		if second.begun {
			t.Error("the image was made although its only caller had left")
		}
		third := s.hold(t.Context(), 2, 60*mib)
		if !third.begun {
			t.Error("the next job waits for the memory of the abandoned one")
		}
		third.end(t)
	})
}

// A caller that waits for memory until the deadline gets ErrBusy, as if it had waited for a turn.
func TestBudget_DeadlineEndsWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := open(t, variants.Config{Concurrent: 2, MemoryBudget: membudget.New(90 * mib), MakeTimeout: 5 * time.Second})
		first := s.hold(t.Context(), 1, 60*mib)
		time.Sleep(time.Second)
		begin := time.Now()
		second := s.hold(t.Context(), 2, 60*mib)
		if err := <-second.answer; !errors.Is(err, variants.ErrBusy) || time.Since(begin) != 5*time.Second {
			t.Errorf("second Get = %v after %s, want ErrBusy after 5s", err, time.Since(begin))
		}
		if err := <-first.answer; !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, variants.ErrBusy) {
			t.Errorf("first Get (its job had begun) = %v, want DeadlineExceeded", err)
		}
		synctest.Wait() // the job counts it, and its caller does not wait for that
		if s.number("refused_total") != 1 {
			t.Errorf("%v counted as refused, want 1", s.number("refused_total"))
		}
		close(first.free) // its memory is taken until it really ends
		synctest.Wait()
		third := s.hold(t.Context(), 3, 60*mib)
		if second.begun || !third.begun {
			t.Errorf("begun: %t, %t; want only the third", second.begun, third.begun)
		}
		third.end(t)
	})
}

func TestNeed_OutsideJob_DoesNothing(t *testing.T) {
	t.Parallel()
	if err := variants.Need(t.Context(), 1<<40); err != nil {
		t.Error(err)
	}
}
