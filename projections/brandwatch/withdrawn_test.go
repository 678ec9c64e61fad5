package brandwatch

import (
	"fmt"
	"testing"
)

func TestWithdrawn_TooMany_ForgetsOldest(t *testing.T) {
	const more = 100
	var tail Tail
	for i := range maxWithdrawn + more {
		tail.gone.note(fmt.Sprint(i, ".com"))
		tail.gone.note(fmt.Sprint(i, ".com")) // a repetition uses no entry
	}
	for i := range maxWithdrawn + more {
		if known := tail.Withdrawn(fmt.Sprint(i, ".com")); known != (i >= more) {
			t.Fatalf("%d.com is remembered: %v", i, known)
		}
	}
	if len(tail.gone.domains) != maxWithdrawn || len(tail.gone.order) != maxWithdrawn {
		t.Errorf("%d domains, %d in order", len(tail.gone.domains), len(tail.gone.order))
	}
}
