package crawl

import (
	"context"
	"image"
	"image/color"
	"net/url"
	"runtime"
	"testing"
	"weak"

	"golang.org/x/sync/semaphore"

	"letterhead/internal/membudget"
	"letterhead/internal/testmust"
	"letterhead/workers/crawl/logofinder"
)

// inked draws every vector as a square of one color.
type inked struct{}

func (inked) Render(_ context.Context, _ []byte, side int) (*image.NRGBA, error) {
	img := image.NewNRGBA(image.Rect(0, 0, side, side))
	for x := range side / 2 {
		img.SetNRGBA(x, x, color.NRGBA{R: 200, A: 255})
	}
	return img, nil
}

// The rendering of a vector is counted like its pixels, and dropped with them if there is no room.
func TestReadings_VectorWithoutSpareRoom_IsNotHeld(t *testing.T) {
	data := []byte(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><path d="M0 0h64v64z" fill="#0b5fff"/></svg>`)
	for name, c := range map[string]struct {
		room func(vector int64) int64
		kept bool
	}{
		"room for all":            {func(vector int64) int64 { return 256*256*4 + vector }, true},
		"room for the pixels":     {func(int64) int64 { return 256 * 256 * 4 }, false},
		"room for nothing at all": {func(int64) int64 { return 0 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			file := testmust.Get(logofinder.Open(t.Context(), inked{}, data, nil, false))(t)
			p, err := file.As(logofinder.Candidate{URL: &url.URL{Scheme: "https", Host: "acme.com"}})
			testmust.Succeed(t, err)
			spares := semaphore.NewWeighted(c.room(int64(len(p.SVG))))
			r := &run{crawler: &Crawler{gate: newGate(1)}, held: held{common: semaphore.NewWeighted(commonBytes), spares: spares}}
			r.crawler.cfg.Renderer, r.crawler.cfg.MemoryBudget = inked{}, membudget.New(64<<20)
			var vector weak.Pointer[byte]
			err = r.decode(t.Context(), rankRead, data, nil, 0, func(f *logofinder.File) error {
				p, err := f.As(logofinder.Candidate{URL: &url.URL{Scheme: "https", Host: "acme.com"}})
				if err == nil {
					vector = weak.Make(&p.SVG[0])
				}
				return err
			})
			testmust.Succeed(t, err)
			runtime.GC()
			if kept := vector.Value() != nil; kept != c.kept {
				t.Errorf("the vector is held: %t", kept)
			}
			runtime.KeepAlive(r)
		})
	}
}
