package lookup

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"letterhead/internal/testmust"
)

func TestKeyLocks_ManyWaiters_HoldOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var locks keyLocks
		inside, most, done := 0, 0, 0
		first := testmust.Get(locks.lock(t.Context(), "acme.com"))(t)
		for range 20 {
			go func() {
				unlock, err := locks.lock(t.Context(), "acme.com")
				if err != nil {
					t.Error(err)
					return
				}
				inside++
				most = max(most, inside)
				inside--
				done++
				unlock()
				unlock() // calling it again has no effect
			}()
		}
		synctest.Wait()
		if done != 0 {
			t.Fatalf("%d callers got the lock while it was held, want 0", done)
		}
		other, err := locks.lock(t.Context(), "other.com")
		if err != nil {
			t.Fatal("the lock of another domain was not free")
		}
		other()
		first()
		synctest.Wait()
		if done != 20 || most != 1 || len(locks.used) != 0 {
			t.Fatalf("%d callers got the lock, %d concurrently; %d locks remain; want 20, 1 and 0", done, most, len(locks.used))
		}
	})
}

func TestKeyLocks_ContextEnds_LockIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var locks keyLocks
		unlock := testmust.Get(locks.lock(t.Context(), "acme.com"))(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := locks.lock(ctx, "acme.com"); !errors.Is(err, context.Canceled) {
			t.Fatalf("lock with a canceled context: %v, want Canceled", err)
		}
		unlock()
		if len(locks.used) != 0 {
			t.Fatalf("%d locks remain, want 0", len(locks.used))
		}
	})
}
