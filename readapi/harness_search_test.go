package readapi_test

import (
	"context"
	"sync/atomic"

	"letterhead/internal/searchindex"
)

// noIndex is a search index that finds nothing.
type noIndex struct {
	searchindex.Index // Scan, which is not called
	checkpoint        atomic.Uint64
	own               atomic.Pointer[searchindex.Origin]
}

func (x *noIndex) Apply(_ context.Context, _ []searchindex.Document, checkpoint uint64) error {
	x.checkpoint.Store(max(x.checkpoint.Load(), checkpoint)) // there is one writer
	return nil
}

func (x *noIndex) Checkpoint(context.Context) (uint64, searchindex.Origin, error) {
	if own := x.own.Load(); own != nil {
		return x.checkpoint.Load(), *own, nil
	}
	return x.checkpoint.Load(), searchindex.Origin{}, nil
}

func (x *noIndex) Use(of searchindex.Origin) { x.own.Store(&of) }

func (x *noIndex) Rebuild(context.Context) (searchindex.Generation, error) { return x, nil }

func (x *noIndex) Freeze(context.Context) (uint64, error) { return x.checkpoint.Load(), nil }

func (*noIndex) Publish(context.Context) error { return nil }

func (*noIndex) Discard() error { return nil }

func (*noIndex) Search(context.Context, string, int) ([]searchindex.Hit, error) { return nil, nil }

func (*noIndex) Close() error { return nil }
