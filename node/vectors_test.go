package node

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"testing"

	"letterhead/internal/testmust"
)

// A node that is closed while its read models are built must not wait for them.
func TestVectors_ClosedBeforeTheReadModelsAreBuilt_CompileNothing(t *testing.T) {
	cache := t.TempDir()
	failed := func(err error) { t.Errorf("failed: %v", err) }
	v := openVectors(cache, func(ctx context.Context) { <-ctx.Done() }, new(sync.Mutex), slog.New(slog.DiscardHandler), failed)
	testmust.Succeed(t, v.close())
	if err := v.await(t.Context()); !errors.Is(err, context.Canceled) {
		t.Errorf("await: %v, want %v", err, context.Canceled)
	}
	if kept := testmust.Get(os.ReadDir(cache))(t); len(kept) > 0 {
		t.Errorf("the closed renderer compiled %v", kept)
	}
}
