package variants_test

import (
	"context"
	"testing"

	"letterhead/internal/variants"
)

// logo is the size in bytes of a typical logo of 128 pixels as WebP.
const logo = 3000

func BenchmarkGet(b *testing.B) {
	answer := func(context.Context) ([]byte, error) { return body(1, logo), nil }
	run := func(name string, c variants.Config, images, callers int) {
		b.Run(name, func(b *testing.B) {
			s := open(b, c)
			keys := make([]variants.Key, images)
			for i := range keys {
				keys[i] = key(i)
				s.wants(i, logo)
			}
			b.ReportAllocs()
			b.SetParallelism(callers)
			b.ResetTimer()
			b.RunParallel(func(p *testing.PB) {
				for i := 0; p.Next(); i++ {
					if _, err := s.Get(b.Context(), keys[i%images], answer); err != nil {
						b.Error(err)
					}
				}
			})
			b.StopTimer()
			b.ReportMetric(s.number("asked_total", "made")/float64(b.N), "made/op")
		})
	}
	run("memory", variants.Config{}, 1000, 1)
	// Nothing is kept: a caller that arrives while the image is made joins, otherwise it makes the image.
	run("coalesced", variants.Config{MemoryBytes: 1}, 1, 64)
}
