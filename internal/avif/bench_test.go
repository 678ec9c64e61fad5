package avif_test

import (
	"testing"

	"letterhead/internal/avif"
)

func BenchmarkDecode(b *testing.B) {
	for _, name := range []string{"ring.avif", "square.avif"} {
		b.Run(name, func(b *testing.B) {
			data := read(b, name)
			h, err := avif.Probe(data)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := avif.Decode(data, h.Width, h.Height); err != nil { // compiles the decoder
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := avif.Decode(data, h.Width, h.Height); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
