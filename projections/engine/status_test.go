package engine_test

import (
	"testing"
	"time"

	"letterhead/projections/engine"
)

func TestLate_SaysTimes(t *testing.T) {
	for want, s := range map[string]engine.Status{
		"up to date":    {},
		"1s behind":     {Lag: 75_995_394},
		"3s behind":     {Lag: 1, Behind: 3*time.Second + 400*time.Millisecond},
		"1h2m3s behind": {Lag: 20, Behind: time.Hour + 2*time.Minute + 3*time.Second},
	} {
		if got := s.Late(); got != want {
			t.Errorf("lag %d, %s: %q, want %q", s.Lag, s.Behind, got, want)
		}
	}
}
