package delay

import (
	"testing"
	"testing/synctest"
	"time"
)

// With eight goroutines that compute on two processors, four turns before each commit took half a second.
func TestTurns_OtherWorkTakesThem_AreRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taken, took := 0, 100*time.Millisecond
		others := turns{start: time.Now(), yield: func() { taken++; time.Sleep(took) }}
		commit := func(want int) {
			t.Helper()
			taken = 0
			for range 4 {
				others.give()
			}
			if taken != want {
				t.Errorf("%d turns, want %d", taken, want)
			}
		}
		commit(1)
		commit(0)
		time.Sleep(turnlessFor*took - 1)
		commit(0)
		time.Sleep(time.Nanosecond)
		commit(1)
		took = time.Millisecond
		commit(0)
		time.Sleep(time.Minute)
		commit(4)
		commit(4)
	})
}
