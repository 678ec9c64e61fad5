package bleveindex_test

import (
	"testing"

	"letterhead/internal/searchindex"
	"letterhead/internal/searchindex/searchindextest"
)

func benchIndex(b *testing.B) searchindex.Index { return open(b, b.TempDir()) }

// BenchmarkSearch searches by kind of query. The target is 2 ms on the starter index.
func BenchmarkSearch(b *testing.B) { searchindextest.BenchmarkSearch(b, benchIndex) }

// BenchmarkFeed feeds a live index.
func BenchmarkFeed(b *testing.B) { searchindextest.BenchmarkFeed(b, benchIndex) }

// BenchmarkRebuild builds a generation.
func BenchmarkRebuild(b *testing.B) { searchindextest.BenchmarkRebuild(b, benchIndex) }
