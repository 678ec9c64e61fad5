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
	v.compiledNothing(t, cache)
}

// Nor for the import of the starter index.
func TestVectors_ClosedDuringTheImport_CompileNothing(t *testing.T) {
	cache := t.TempDir()
	importing := make(asked)
	failed := func(err error) { t.Errorf("failed: %v", err) }
	v := openVectors(cache, func(context.Context) {}, importing, slog.New(slog.DiscardHandler), failed)
	<-importing // the renderer waits
	v.stop()
	<-importing
	testmust.Succeed(t, v.close())
	v.compiledNothing(t, cache)
}

// asked is a lock that sends when it is asked for, and before it is taken.
type asked chan struct{}

func (t asked) Lock() {
	t <- struct{}{}
	t <- struct{}{}
}

func (asked) Unlock() {}

func (v *vectors) compiledNothing(t *testing.T, cache string) {
	t.Helper()
	if err := v.await(t.Context()); !errors.Is(err, context.Canceled) {
		t.Errorf("await: %v, want %v", err, context.Canceled)
	}
	if kept := testmust.Get(os.ReadDir(cache))(t); len(kept) > 0 {
		t.Errorf("the closed renderer compiled %v", kept)
	}
}
