package elastic_test

import (
	"testing"

	"letterhead/internal/searchindex"
	"letterhead/internal/searchindex/searchindextest"
	"letterhead/internal/testservices"
)

func benchIndex(b *testing.B) searchindex.Index {
	server := testservices.Elasticsearch(b)
	return open(b, server, newAlias(b, server))
}

// BenchmarkElasticSearch searches a cluster, by kind of query.
func BenchmarkElasticSearch(b *testing.B) { searchindextest.BenchmarkSearch(b, benchIndex) }

// BenchmarkElasticFeed feeds a live index. The target is 5,000 documents a second.
func BenchmarkElasticFeed(b *testing.B) { searchindextest.BenchmarkFeed(b, benchIndex) }

// BenchmarkElasticRebuild builds a generation.
func BenchmarkElasticRebuild(b *testing.B) { searchindextest.BenchmarkRebuild(b, benchIndex) }
