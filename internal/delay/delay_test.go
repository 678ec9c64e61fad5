package delay_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/internal/delay"
)

func TestFor_WaitsForDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := delay.For(t.Context(), time.Hour); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != time.Hour {
			t.Errorf("waited %s", took)
		}
	})
}

func TestFor_EndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := delay.For(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("For = %v, want %v", err, context.DeadlineExceeded)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("waited %s", took)
		}
	})
}

func TestWhile_PassingError_IsRetried(t *testing.T) {
	passing, other := errors.New("passing"), errors.New("other")
	synctest.Test(t, func(t *testing.T) {
		began, calls := time.Now(), 0
		err := delay.While(t.Context(), passing, time.Hour, slog.New(slog.DiscardHandler), "", func(context.Context) error {
			if calls++; calls < 3 {
				return fmt.Errorf("call %d: %w", calls, passing)
			}
			return other
		})
		if took := time.Since(began); err != other || calls != 3 || took != 2*time.Hour {
			t.Errorf("While = %v after %d calls and %s, want %v after 3 and 2 hours", err, calls, took, other)
		}
	})
}

func TestWhile_ContextEnds_ReturnsNil(t *testing.T) {
	for _, failure := range []error{errors.New("passing"), context.DeadlineExceeded} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := delay.While(ctx, failure, time.Hour, slog.New(slog.DiscardHandler), "", func(ctx context.Context) error {
				if failure == context.DeadlineExceeded {
					<-ctx.Done()
				}
				return failure
			})
			if err != nil {
				t.Errorf("While = %v, want nil", err)
			}
		})
	}
}

func TestJittered_BetweenHalfAndWhole(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 1000 {
		d := delay.Jittered(100)
		if d < 50 || d > 100 {
			t.Fatalf("Jittered(100) = %d", d)
		}
		seen[d] = true
	}
	if len(seen) < 10 {
		t.Errorf("Jittered(100) returned only %d different values", len(seen))
	}
	if d := delay.Jittered(0); d != 0 {
		t.Errorf("Jittered(0) = %s", d)
	}
}

func TestAwait_ResultInTime_Returned(t *testing.T) {
	failed := errors.New("failed")
	if err := delay.Await(t.Context(), func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("Await = %v, want %v", err, failed)
	}
}

func TestAwait_ContextEndsFirst_WorkContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began, ended := time.Now(), make(chan struct{})
		err := delay.Await(ctx, func() error {
			defer close(ended)
			return delay.For(context.WithoutCancel(ctx), time.Hour)
		})
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != time.Minute {
			t.Errorf("Await = %v after %s, want %v after %s", err, took, context.DeadlineExceeded, time.Minute)
		}
		<-ended
	})
}

func TestSend_FullChannel_EndsWithContext(t *testing.T) {
	full := make(chan int, 1)
	if err := delay.Send(t.Context(), full, 1); err != nil || <-full != 1 {
		t.Errorf("a value for which there is room: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	full <- 2
	if err := delay.Send(ended, full, 3); !errors.Is(err, context.Canceled) || <-full != 2 {
		t.Errorf("error = %v, want that of the context", err)
	}
}
