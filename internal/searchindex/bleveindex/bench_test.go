package bleveindex_test

import (
	"context"
	"fmt"
	"testing"

	"letterhead/internal/searchindex/searchindextest"
)

// BenchmarkSearch asks the starter index, by kind of query. The target is 2 ms at 3,000 brands.
func BenchmarkSearch(b *testing.B) {
	ctx := context.Background()
	x := open(b, b.TempDir())
	defer x.Close()
	docs := searchindextest.Brands()
	if err := x.Apply(ctx, docs, 1); err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct{ name, query string }{
		{"name", "github"}, {"domain", "github.com"}, {"oneLetter", "a"}, {"twoLetters", "ge"}, {"beginning", "faceb"},
		{"words", "bank of am"}, {"typo", "mircosoft"}, {"typoLong", "american expres"}, {"typoDomain", "githib.com"}, {"nothing", "qqqqqqqqqqqq"},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := x.Search(ctx, c.query, 10); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkApply indexes the starter brands anew.
func BenchmarkApply(b *testing.B) {
	docs := searchindextest.Brands()
	for i := 0; b.Loop(); i++ {
		x := open(b, fmt.Sprintf("%s/%d", b.TempDir(), i))
		if err := x.Apply(context.Background(), docs, 1); err != nil {
			b.Fatal(err)
		}
		if err := x.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(docs))*float64(b.N)/b.Elapsed().Seconds(), "docs/s")
}
