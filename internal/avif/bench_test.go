package avif_test

import (
	"testing"

	"letterhead/internal/avif"
	"letterhead/internal/testmust"
)

func BenchmarkDecode(b *testing.B) {
	for _, name := range []string{"ring.avif", "square.avif"} {
		b.Run(name, func(b *testing.B) {
			data := read(b, name)
			h := testmust.Get(avif.Probe(data))(b)
			if _, err := avif.Decode(data, h.Width, h.Height); err != nil { // compiles the decoder
				b.Fatal(err)
			}
			for b.Loop() {
				testmust.Succeed(b, testmust.Err(avif.Decode(data, h.Width, h.Height)))
			}
		})
	}
}
