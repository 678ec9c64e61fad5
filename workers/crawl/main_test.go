package crawl_test

import (
	"context"
	"sync"
	"testing"

	"letterhead/internal/resvg"
	"letterhead/internal/resvg/resvgtest"
	"letterhead/internal/testmust"
	"letterhead/workers/crawl"
	"letterhead/workers/crawl/extract"
)

type judgeWeighed = extract.Weighed

// vectors is the only renderer of this test binary.
var vectors = sync.OnceValues(func() (*resvg.Renderer, error) {
	return resvg.New(context.Background(), resvg.Config{CacheDir: resvgtest.Folder()})
})

// config returns the configuration of a crawler with the real renderer.
func config(t testing.TB) crawl.Config {
	t.Helper()
	r := testmust.Get(vectors())(t)
	return crawl.Config{Renderer: r}
}
