package searchindextest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"letterhead/internal/searchindex"
)

// benchBatch is the size of a read model's batches.
const benchBatch = 1000

// Generated returns generated brands of one to three words, the same ones each time.
func Generated(n int) []searchindex.Document {
	r := rand.New(rand.NewPCG(5, 8))
	syllables := strings.Fields("ba be bi bo da de di do fa fe ga go ka ke ki ko la le li lo ma me mi mo na ne ni no pa pe ra re ri ro sa se so ta te ti to va vi wa za zo")
	word := func() string {
		var b strings.Builder
		for range 2 + r.IntN(3) {
			b.WriteString(syllables[r.IntN(len(syllables))])
		}
		return b.String()
	}
	docs := make([]searchindex.Document, n)
	for i := range docs {
		words := []string{word()}
		for range r.IntN(3) {
			words = append(words, word())
		}
		docs[i] = searchindex.Document{
			Domain: fmt.Sprintf("%s%d.com", strings.Join(words, ""), i), Name: strings.Join(words, " "),
			BrandID: fmt.Sprintf("id %d", i), Quality: float64(r.IntN(100)) / 100, Version: uint64(i + 1),
		}
	}
	return docs
}

// BenchmarkSearch searches the starter brands, alone and among a hundred thousand generated ones, by
// kind of query, and reports the median and the 99th percentile.
func BenchmarkSearch(b *testing.B, open func(b *testing.B) searchindex.Index) {
	starter := Brands()
	for _, size := range []struct {
		name string
		docs []searchindex.Document
	}{{"starter", starter}, {"100k", append(slices.Clone(starter), Generated(100_000)...)}} {
		b.Run(size.name, func(b *testing.B) {
			x := open(b)
			defer x.Close()
			fillBench(b, x.Apply, size.docs)
			for _, c := range []struct{ name, query string }{
				{"name", "github"}, {"domain", "github.com"}, {"oneLetter", "a"}, {"twoLetters", "ge"}, {"beginning", "faceb"},
				{"words", "bank of am"}, {"typo", "mircosoft"}, {"typoLong", "american expres"}, {"typoDomain", "githib.com"}, {"nothing", "qqqqqqqqqqqq"},
			} {
				b.Run(c.name, func(b *testing.B) { latencies(b, x, c.query) })
			}
		})
	}
}

func latencies(b *testing.B, x searchindex.Index, query string) {
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		if _, err := x.Search(context.Background(), query, 10); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

func fillBench(b *testing.B, apply func(context.Context, []searchindex.Document, uint64) error, docs []searchindex.Document) {
	for batch := range slices.Chunk(docs, benchBatch) {
		if err := apply(context.Background(), batch, batch[len(batch)-1].Version); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFeed feeds generated brands to a live index; each batch is searchable when Apply returns.
func BenchmarkFeed(b *testing.B, open func(b *testing.B) searchindex.Index) {
	docs := Generated(20_000)
	for b.Loop() {
		x := open(b)
		fillBench(b, x.Apply, docs)
		if err := x.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(docs))*float64(b.N)/b.Elapsed().Seconds(), "docs/s")
}

// BenchmarkRebuild writes generated brands into a new generation and publishes it.
func BenchmarkRebuild(b *testing.B, open func(b *testing.B) searchindex.Index) {
	docs := Generated(20_000)
	x := open(b)
	defer x.Close()
	for b.Loop() {
		g, err := x.Rebuild(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		fillBench(b, g.Apply, docs)
		if _, err := g.Freeze(context.Background()); err != nil {
			b.Fatal(err)
		}
		if err := g.Publish(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(docs))*float64(b.N)/b.Elapsed().Seconds(), "docs/s")
}
