package lookup

import (
	"errors"
	"testing"

	"letterhead/commands"
)

func TestBatch_TooManyRunning_IsBusyImmediately(t *testing.T) {
	s := New(Config{}, Parts{}) // without parts, any work would panic
	if !s.batches.TryAcquire(MaxBatches) {
		t.Fatalf("a new service has no room for %d batches", MaxBatches)
	}
	_, err := s.Batch(t.Context(), BatchQuery{Identifiers: []string{"acme.com"}})
	if !errors.Is(err, commands.ErrBusy) || !Unavailable(err) {
		t.Errorf("batch past the limit: %v, want ErrBusy", err)
	}
	if batchParallelism*MaxBatches > maxLookups/2 {
		t.Errorf("%d batches leave no room for single look-ups", MaxBatches)
	}
}
