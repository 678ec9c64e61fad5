package engine_test

import (
	"testing"
	"time"

	"letterhead/projections/engine"
)

// A quiet log is folded immediately. Under load the pause grows up to a limit, and so does the next batch.
func TestPauseAfterBatch_GrowsWithEvents(t *testing.T) {
	for events, want := range map[int]time.Duration{
		0: 100 * time.Millisecond, 1: 100 * time.Millisecond, 64: 100 * time.Millisecond,
		128: 200 * time.Millisecond, 256: 400 * time.Millisecond, 4000: 400 * time.Millisecond,
	} {
		if got := engine.GatherAfter(events); got != want {
			t.Errorf("after %d events the pause is %s, want %s", events, got, want)
		}
	}
}
