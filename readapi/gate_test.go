package readapi

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestAGateLetsOneThroughAtATimeAndIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gates
		inside, most, done := 0, 0, 0
		first, err := g.enter(t.Context(), "acme.com")
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			go func() {
				leave, err := g.enter(t.Context(), "acme.com")
				if err != nil {
					t.Error(err)
					return
				}
				inside++
				most = max(most, inside)
				inside--
				done++
				leave()
				leave() // calling it again has no effect
			}()
		}
		synctest.Wait()
		if done != 0 {
			t.Fatalf("%d passed while the first was inside", done)
		}
		other, err := g.enter(t.Context(), "other.com")
		if err != nil {
			t.Fatal("another domain waited")
		}
		other()
		first()
		synctest.Wait()
		if done != 20 || most != 1 || len(g.open) != 0 {
			t.Fatalf("%d passed, %d at once, %d gates kept", done, most, len(g.open))
		}
	})
}

func TestWhoGivesUpAtAGateLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gates
		leave, err := g.enter(t.Context(), "acme.com")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := g.enter(ctx, "acme.com"); !errors.Is(err, context.Canceled) {
			t.Fatalf("entering with an ended context: %v", err)
		}
		leave()
		if len(g.open) != 0 {
			t.Fatalf("%d gates kept", len(g.open))
		}
	})
}
