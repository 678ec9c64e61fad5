package readapi_test

import (
	"context"
	"sync/atomic"

	"letterhead/internal/searchindex"
)

// noIndex is a search index that finds nothing.
type noIndex struct {
	searchindex.Index // Scan and Rebuild, which are not called
	checkpoint        atomic.Uint64
}

func (x *noIndex) Apply(_ context.Context, _ []searchindex.Document, checkpoint uint64) error {
	x.checkpoint.Store(max(x.checkpoint.Load(), checkpoint)) // there is one writer
	return nil
}

func (x *noIndex) Checkpoint(context.Context) (uint64, error) { return x.checkpoint.Load(), nil }

func (*noIndex) Search(context.Context, string, int) ([]searchindex.Hit, error) { return nil, nil }

func (*noIndex) Close() error { return nil }
