package bleveindex_test

import (
	"context"
	"path/filepath"
	"testing"

	"letterhead/internal/searchindex"
	"letterhead/internal/searchindex/bleveindex"
	"letterhead/internal/searchindex/searchindextest"
)

func TestContract(t *testing.T) {
	dir := map[string]string{} // per test
	searchindextest.Run(t, func(t *testing.T, name string) searchindex.Index {
		key := t.Name() + name
		if dir[key] == "" {
			dir[key] = filepath.Join(t.TempDir(), name)
		}
		return open(t, dir[key])
	})
}

func open(t testing.TB, path string) *bleveindex.Index {
	t.Helper()
	x, err := bleveindex.Open(context.Background(), bleveindex.Config{Path: path})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return x
}
