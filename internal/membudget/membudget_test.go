package membudget_test

import (
	"context"
	"errors"
	"testing"

	"letterhead/internal/membudget"
)

const mib = 1 << 20

func TestShare_IsTakenUntilReleased(t *testing.T) {
	t.Parallel()
	b := membudget.New(90 * mib)
	first, second, small := b.Share(40*mib), b.Share(30*mib), b.Share(4*mib)
	if !first.TryAcquire() || second.TryAcquire() {
		t.Fatal("40 and 30 MiB were acquired of the 60 MiB for large shares, or neither")
	}
	if !small.TryAcquire() {
		t.Error("a small share waits for a large one")
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if err := second.Acquire(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("Acquire with a canceled context = %v, want context.Canceled", err)
	}
	first.Release()
	if !second.TryAcquire() {
		t.Error("a released share is not free")
	}
	if second.Bytes() != 30*mib {
		t.Errorf("Bytes() = %d, want %d", second.Bytes(), 30*mib)
	}
}

func TestShare_LargerThanBudget_TakesAll(t *testing.T) {
	t.Parallel()
	b := membudget.New(90 * mib)
	huge := b.Share(900 * mib)
	if !huge.TryAcquire() || b.Share(5*mib).TryAcquire() {
		t.Error("a share larger than the budget did not take all memory for large shares")
	}
	huge.Release()
	if !b.Share(60 * mib).TryAcquire() {
		t.Error("Release returned less than was acquired")
	}
}

func TestShare_Zero_TakesNothing(t *testing.T) {
	t.Parallel()
	var s membudget.Share
	if !s.TryAcquire() || s.Acquire(t.Context()) != nil {
		t.Error("the zero share was not acquired immediately")
	}
	s.Release()
}
