package node

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/internal/testmust"
)

func TestPacer_Turns_RestInProportionToTheDelayOnABusyMachine(t *testing.T) {
	for _, c := range []struct {
		name          string
		worked, delay time.Duration
		want          time.Duration
	}{
		{"an idle machine", time.Second, 0, 0},
		{"a delay of less than a quarter", time.Second, 240 * time.Millisecond, 0},
		{"a delay of more than a quarter", 100 * time.Millisecond, 30 * time.Millisecond, 120 * time.Millisecond},
		{"a turn that has not ended", turn - 1, turn - 1, 0},
		{"a stall", time.Minute, time.Minute, maxRest},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				total := 10 * time.Second // before the first turn
				p := newPacer(func() time.Duration { return total })
				if got := rested(t, p); got != 0 {
					t.Errorf("before the first turn, the process rested for %v", got)
				}
				time.Sleep(c.worked)
				total += c.delay
				if got := rested(t, p); got != c.want {
					t.Errorf("after %v of work with a delay of %v, the process rested for %v, want %v", c.worked, c.delay, got, c.want)
				}
				time.Sleep(c.worked + turn)
				if got := rested(t, p); got != 0 && c.worked >= turn {
					t.Errorf("after a turn without a delay, the process rested for %v", got)
				}
			})
		})
	}
}

func TestPacer_DelayDuringARest_IsNotThatOfTheNextTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		p := newPacer(func() time.Duration { return min(time.Since(began), 2*time.Second) }) // the machine is busy for two seconds
		rested(t, p)
		time.Sleep(1500 * time.Millisecond)
		if got := rested(t, p); got != maxRest {
			t.Errorf("on a busy machine, the process rested for %v, want %v", got, maxRest)
		}
		time.Sleep(turn)
		if got := rested(t, p); got != 0 {
			t.Errorf("after a turn on an idle machine, the process rested for %v", got)
		}
	})
}

func TestPacer_ContextEndsDuringARest_ReturnsItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		total := time.Duration(0)
		p := newPacer(func() time.Duration { return total })
		rested(t, p)
		time.Sleep(time.Second)
		total = time.Second
		ctx, cancel := context.WithTimeout(t.Context(), maxRest/2)
		defer cancel()
		if err := p.rest(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a rest whose context ended returned %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

// rested returns how long p rests.
func rested(t *testing.T, p *pacer) time.Duration {
	t.Helper()
	began := time.Now()
	testmust.Succeed(t, p.rest(t.Context()))
	return time.Since(began)
}
