package logo_test

import (
	"bytes"
	"image"
	"sync"
	"testing"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/imaging"
	"letterhead/internal/membudget"
	"letterhead/internal/testmust"
	"letterhead/internal/variants"
	"letterhead/readapi/logo"
	"letterhead/workers/crawl/logofinder"
)

// gradient returns an image with many colors.
func gradient(w, h int) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for i := 0; i < len(img.Pix); i += 4 {
		x, y := i/4%w, i/4/w
		img.Pix[i], img.Pix[i+1], img.Pix[i+2], img.Pix[i+3] = uint8(x*255/w), uint8(y*255/h), uint8((x*y)>>6), uint8(min(255, 2*x*255/w))
	}
	return img
}

// A crawl keeps a small form of a large raster, other sources have only the large one. The
// resulting images are the same, whichever size is requested first, and after a restart.
func TestDraw_LargeRasterAlone_EqualsCrawledForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	img := gradient(700, 500)
	crawled, err := (&logofinder.Image{Raster: img, Width: 700, Height: 500, Clear: true}).Store(t.Context(), w.files)
	if err != nil || len(crawled.Formats) != 4 {
		t.Fatalf("%+v, %v", crawled, err)
	}
	crawled.Type = "icon"
	alone := w.raster(img)
	unknown := alone
	unknown.Width, unknown.Height = nil, nil
	for name, file := range map[string]eventschemas.Asset{"alone": alone, "alone, of no known size": unknown} {
		for _, sizes := range [][]int{{32, 256, 100}, {255, 257}} {
			drawn := testmust.Get(variants.New(variants.Config{}))(t)
			renderer := testmust.Get(logo.NewRenderer(w.files, w.vectors, drawn))(t)
			for _, size := range sizes {
				for _, format := range []imaging.Format{imaging.PNG, imaging.WebP, imaging.JPEG} {
					want := w.draw(brandOf(crawled), request(size, format))
					got, err := renderer.Draw(t.Context(), brandOf(iconOf("", file)), request(size, format))
					if err != nil || !bytes.Equal(got.Body, want.Body) || got.From.ID != file.ID {
						t.Errorf("%s as %s of %d pixels differs from the image drawn from a crawl's forms: %v", name, format, size, err)
					}
				}
			}
			drawn.Close()
		}
	}
}

// A large raster is read once even if many small sizes are requested concurrently.
func TestDraw_LargeRaster_IsReadOnceForSmallSizes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := brandOf(iconOf("", w.raster(gradient(600, 600))))
	w.draw(b, request(64, imaging.WebP))
	before := w.files.read.Load()
	var all sync.WaitGroup
	for size := 65; size < 80; size++ {
		all.Go(func() { w.draw(b, request(size, imaging.WebP)) })
	}
	all.Wait()
	if n := w.files.read.Load() - before; n != 0 {
		t.Errorf("the large file was read another %d times, want 0", n)
	}
	w.draw(b, request(257, imaging.WebP))
	if n := w.files.read.Load() - before; n != 1 {
		t.Errorf("the file was read %d times for an image larger than the small form, want 1", n)
	}
}

// The files are favicons, each smaller than the memory needed to make its small form.
func TestDraw_LargeRastersWaitingForRoom_AreAllDrawn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	drawn := testmust.Get(variants.New(variants.Config{Concurrent: 2, MemoryBudget: membudget.New(3 << 20), MakeTimeout: 20 * time.Second}))(t)
	t.Cleanup(drawn.Close)
	renderer := testmust.Get(logo.NewRenderer(w.files, w.vectors, drawn))(t)
	var brands []logo.Brand
	for i := range 6 {
		brands = append(brands, brandOf(iconOf("", w.raster(bar(700+i, 700+i, teal)))))
	}
	var all sync.WaitGroup
	for _, b := range brands {
		all.Go(func() {
			if p, err := renderer.Draw(t.Context(), b, request(16, imaging.PNG)); err != nil || p.Fallback != "" {
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
	all.Wait()
}
