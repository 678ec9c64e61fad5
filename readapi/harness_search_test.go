package readapi_test

import (
	"context"

	"letterhead/internal/eventlog"
	"letterhead/internal/searchindex/bleveindex"
	"letterhead/projections/brands"
	"letterhead/projections/search"
)

// openSearch opens the embedded index and its projection.
func (s *service) openSearch(ctx context.Context, folder string, source *brands.Model) *search.Projection {
	s.t.Helper()
	index, err := bleveindex.Open(ctx, bleveindex.Config{Path: folder})
	s.must(err)
	s.t.Cleanup(func() { index.Close() })
	feed, err := search.New(ctx, search.Config{
		Await: func(ctx context.Context, at eventlog.Position) error { return s.runner.WaitFor(ctx, brands.Name, at) },
	}, source, index)
	s.must(err)
	return feed
}
