package delay_test

import (
	"context"
	"errors"
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
