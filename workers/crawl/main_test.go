package crawl_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"letterhead/internal/resvg"
	"letterhead/workers/crawl"
	"letterhead/workers/crawl/extract"
)

type judgeWeighed = extract.Weighed

// vectors is the only renderer of this test binary: its module takes a second
// to compile.
var vectors = sync.OnceValues(func() (*resvg.Renderer, error) {
	return resvg.New(context.Background(), resvg.Config{CacheDir: vectorCache})
})

var vectorCache string

func TestMain(m *testing.M) {
	var err error
	if vectorCache, err = os.MkdirTemp("", "resvg-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(vectorCache)
	os.Exit(code)
}

// config returns the configuration of a crawler with the real renderer.
func config(t testing.TB) crawl.Config {
	t.Helper()
	r, err := vectors()
	if err != nil {
		t.Fatal(err)
	}
	return crawl.Config{Renderer: r}
}
