package logo_test

import (
	"os"
	"path/filepath"
	"testing"

	"letterhead/internal/imaging"
	"letterhead/internal/svg"
	"letterhead/internal/testmust"
	"letterhead/internal/testprocess"
	"letterhead/internal/variants"
	"letterhead/readapi/logo"
	"letterhead/starter"
)

// benchSVGs returns real logos as intake stores them: some of the starter index, mostly of one color,
// and those of package imaging's tests, which have many.
func benchSVGs(b *testing.B) [][]byte {
	b.Helper()
	const step = 40
	var out [][]byte
	n := 0
	if err := starter.Each(func(brand starter.Brand) error {
		if n++; n%step == 0 {
			out = append(out, brand.SVG[0])
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	const colored = "../../internal/svg/testdata/logos"
	entries := testmust.Get(os.ReadDir(colored))(b)
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".svg" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(colored, e.Name()))
		testmust.Succeed(b, err)
		if data, _, err = svg.Sanitize(data); err != nil {
			b.Fatal(err)
		}
		out = append(out, data)
	}
	return out
}

// brands stores each drawing as a vector, or as the raster of 256 pixels that intake creates from it.
func (w *world) brands(b *testing.B, svgs [][]byte, asRaster bool) []logo.Brand {
	b.Helper()
	var out []logo.Brand
	for _, svg := range svgs {
		if !asRaster {
			out = append(out, brandOf(iconOf("", w.put(svg, "svg"))))
			continue
		}
		img := testmust.Get(w.vectors.Render(b.Context(), svg, 256))(b)
		out = append(out, brandOf(iconOf("", w.raster(img))))
	}
	return out
}

// bench draws every brand once, and then measures drawing them in turn. change, if set, changes the options each time.
func (w *world) bench(b *testing.B, brands []logo.Brand, o logo.Options, change func(o *logo.Options, i int)) {
	b.Helper()
	for _, brand := range brands {
		w.draw(brand, o)
	}
	b.ReportAllocs()
	before := testprocess.CPUTime()
	i := 0
	for b.Loop() {
		if change != nil {
			change(&o, i)
		}
		testmust.Succeed(b, testmust.Err(w.Draw(b.Context(), brands[i%len(brands)], o)))
		i++
	}
	b.ReportMetric(float64(testprocess.CPUTime()-before)/float64(i)/1e6, "cpu-ms/op")
}

// BenchmarkDraw draws real logos as WebP of 128 pixels: cold, so that each one is made, and warm, so
// that each one is in memory.
func BenchmarkDraw(b *testing.B) {
	svgs := benchSVGs(b)
	o := request(128, imaging.WebP)
	for _, from := range []struct {
		name   string
		raster bool
	}{{"raster 256", true}, {"vector", false}} {
		for _, warm := range []bool{false, true} {
			name := from.name + "/cold"
			if warm {
				name = from.name + "/warm"
			}
			b.Run(name, func(b *testing.B) {
				w := newWorld(b)
				brands := w.brands(b, svgs, from.raster)
				if !warm {
					// Too little memory for any image.
					drawn, err := variants.New(variants.Config{MemoryBytes: 1})
					testmust.Succeed(b, err)
					defer drawn.Close()
					if w.Renderer, err = logo.NewRenderer(w.files, w.vectors, drawn); err != nil {
						b.Fatal(err)
					}
				}
				w.bench(b, brands, o, nil)
			})
		}
	}
}

// BenchmarkDrawOfTwoInks is the warm case for brands whose first logo has the theme light and must be inspected.
func BenchmarkDrawOfTwoInks(b *testing.B) {
	w := newWorld(b)
	var brands []logo.Brand
	for _, svg := range benchSVGs(b) {
		file := w.put(svg, "svg")
		brands = append(brands, brandOf(iconOf("light", file), iconOf("dark", file)))
	}
	w.bench(b, brands, request(128, imaging.WebP), nil)
}

// BenchmarkDrawOnBackground draws real logos for one background, with all images in memory, and for a
// new color each time, on which they must be measured and some of them turned.
func BenchmarkDrawOnBackground(b *testing.B) {
	svgs := benchSVGs(b)
	for _, name := range []string{"warm", "new color"} {
		b.Run(name, func(b *testing.B) {
			w := newWorld(b)
			brands := w.brands(b, svgs, false)
			var change func(o *logo.Options, i int)
			if name == "new color" {
				change = func(o *logo.Options, i int) {
					o.Background.Color = imaging.RGB{R: byte(i), G: byte(i >> 8), B: byte(i >> 16)}
				}
			}
			w.bench(b, brands, onPage(logo.Icon, nearBlack, 128, imaging.WebP), change)
		})
	}
}

// BenchmarkBytes draws real logos at 128 pixels in every format, and reports the mean size of the images.
func BenchmarkBytes(b *testing.B) {
	svgs := benchSVGs(b)
	w := newWorld(b)
	brands := w.brands(b, svgs, false)
	for _, format := range []imaging.Format{imaging.SVG, imaging.WebP, imaging.PNG, imaging.JPEG} {
		b.Run(string(format), func(b *testing.B) {
			total, n := 0, 0
			for b.Loop() {
				for _, brand := range brands {
					total += len(w.draw(brand, request(128, format)).Body)
					n++
				}
			}
			b.ReportMetric(float64(total)/float64(n), "bytes/image")
			b.ReportMetric(0, "ns/op")
		})
	}
}
