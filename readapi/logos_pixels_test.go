package readapi_test

import (
	"fmt"
	"image"
	"image/color"
	"net/http"
	"testing"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/imaging"
)

// raster returns an image with soft edges: a disc of ink on a transparent background, whose hidden
// color must never be visible. Its right half may have another ink.
func raster(w, h int, ink, hidden color.NRGBA, right ...color.NRGBA) *image.NRGBA {
	hidden.A = 0
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			dx, dy := (float64(x)+0.5)/float64(w)-0.5, (float64(y)+0.5)/float64(h)-0.5
			edge := min(max((0.46*0.46-dx*dx-dy*dy)*40, 0), 1)
			c := hidden
			if a := uint8(edge * 255); a > 0 {
				c = ink
				if len(right) > 0 && x >= w/2 {
					c = right[0]
				}
				c.A = a
			}
			img.SetNRGBA(x, y, c)
		}
	}
	return img
}

// hasRaster puts a brand into the index whose only logo is this image, in one format. Only for a PNG
// does the record have the size.
func (s *service) hasRaster(domain string, img *image.NRGBA, format imaging.Format, theme string) {
	s.t.Helper()
	data, err := imaging.EncodePNG(img)
	if format == imaging.WebP {
		data, err = imaging.EncodeWebP(img)
	}
	s.must(err)
	w, h := img.Rect.Dx(), img.Rect.Dy()
	asset := eventschemas.Asset{ID: s.stored(data, string(format)), Format: string(format), Size: int64(len(data))}
	if format == imaging.PNG {
		asset.Width, asset.Height = &w, &h
	}
	l := eventschemas.Logo{Type: "icon", Formats: []eventschemas.Asset{asset}, Tags: []string{}}
	if theme != "" {
		l.Theme = &theme
	}
	r := plainRecord(domain)
	r.Logos = []eventschemas.Logo{l}
	s.known(domain, r)
}

// drawTries limits the requests for a logo whose drawing takes longer than a request's time, which
// happens for one of these on a busy machine under the race detector.
const drawTries = 4

// logoImage requests a logo and decodes it.
func (s *service) logoImage(path string) (*image.NRGBA, imaging.Format) {
	s.t.Helper()
	a := s.send(request{path: path})
	for range drawTries - 1 {
		if a.status == http.StatusServiceUnavailable { // drawing continues, and the next request finds the result
			a = s.send(request{path: path})
		}
	}
	a.ok(s.t)
	img, info, err := imaging.Decode(a.body, imaging.Limits{})
	if err != nil {
		s.t.Fatalf("%s: %v", path, err)
	}
	if want := "image/" + string(info.Format); a.header.Get("Content-Type") != want {
		s.t.Errorf("%s: Content-Type %s, the bytes are %s", path, a.header.Get("Content-Type"), want)
	}
	return img, info.Format
}

// No raster is enlarged beyond its stored size, whatever is requested, and every answer keeps the aspect ratio.
func TestLogo_Raster_IsNeverEnlarged(t *testing.T) {
	t.Parallel()
	s := start(t)
	for i, stored := range []struct{ w, h int }{{20, 20}, {48, 48}, {300, 60}, {37, 200}, {500, 11}} {
		for _, format := range []imaging.Format{imaging.PNG, imaging.WebP} {
			domain := fmt.Sprintf("raster-%d-%s.com", i, format)
			s.hasRaster(domain, raster(stored.w, stored.h, color.NRGBA{0x0b, 0x5f, 0xff, 0xff}, color.NRGBA{}), format, "dark")
			longest := max(stored.w, stored.h)
			for _, size := range []int{1, 16, longest - 1, longest, longest + 1, 128, 256, 1024, 5000} {
				for _, asked := range []imaging.Format{imaging.PNG, imaging.WebP, imaging.JPEG, imaging.SVG} {
					path := fmt.Sprintf("/logo/%s/symbol?size=%d&format=%s", domain, size, asked)
					img, is := s.logoImage(path)
					if asked == imaging.SVG {
						asked = imaging.PNG
					}
					if is != asked {
						t.Errorf("%s is %s, want %v", path, is, asked)
					}
					side := min(min(max(size, 16), 1024), longest)
					scaled := func(v int) int { return max(1, (v*side+longest/2)/longest) }
					if want := image.Pt(scaled(stored.w), scaled(stored.h)); img.Rect.Max != want {
						t.Errorf("%s: %v of %v, want %v", path, img.Rect.Max, stored, want)
					}
				}
			}
			s.clock.add(2 * time.Minute) // an address has 300 requests a minute
		}
	}
}

// A reduced image keeps its ink's color up to its edges: the hidden color of transparent pixels is not
// mixed into it. On a background every pixel is between ink and background.
func TestLogo_TransparentEdges_HaveNoHalo(t *testing.T) {
	t.Parallel()
	s := start(t)
	const slack = 4 // of 255: rounding, once per step
	white, black, red := color.NRGBA{255, 255, 255, 255}, color.NRGBA{0, 0, 0, 255}, color.NRGBA{200, 30, 40, 255}
	// Between these two inks green is constant, and red and blue have the same sum.
	purple, violet := color.NRGBA{200, 30, 40, 255}, color.NRGBA{40, 30, 200, 255}
	between := func(c color.NRGBA) int { return max(off(c.G, 30), off(c.R/2+c.B/2, 120)) }
	only := func(ink color.NRGBA) func(color.NRGBA) int {
		return func(c color.NRGBA) int { return max(off(c.R, ink.R), off(c.G, ink.G), off(c.B, ink.B)) }
	}
	green := color.NRGBA{0, 255, 0, 0}
	for name, c := range map[string]struct {
		img *image.NRGBA
		off func(color.NRGBA) int // distance of a color from the possible mixtures of ink
	}{
		"white":  {raster(400, 300, white, black), only(white)},
		"black":  {raster(400, 300, black, white), only(black)},
		"red":    {raster(400, 300, red, green), only(red)},
		"purple": {raster(400, 300, purple, green, violet), between},
	} {
		domain := name + "-soft.com"
		s.hasRaster(domain, c.img, imaging.PNG, "")
		for _, size := range []int{16, 33, 64, 128, 399, 400} {
			for _, format := range []imaging.Format{imaging.PNG, imaging.WebP} {
				path := fmt.Sprintf("/logo/%s?size=%d&format=%s", domain, size, format)
				img, _ := s.logoImage(path)
				if clear, full := alphas(img); !clear || !full {
					t.Errorf("%s: transparent pixels %t, opaque pixels %t", path, clear, full)
				}
				for i := 0; i < len(img.Pix); i += 4 {
					// Weighted by its opacity.
					if p := (color.NRGBA{img.Pix[i], img.Pix[i+1], img.Pix[i+2], img.Pix[i+3]}); c.off(p)*int(p.A) > slack*255 {
						t.Errorf("%s: %v is not a color of the ink", path, p)
						break
					}
				}
			}
		}
	}
}

func off(a, b uint8) int { return max(int(a)-int(b), int(b)-int(a)) }

func alphas(img *image.NRGBA) (clear, full bool) {
	for i := 3; i < len(img.Pix); i += 4 {
		clear, full = clear || img.Pix[i] == 0, full || img.Pix[i] == 255
	}
	return clear, full
}

// A JPEG has the requested background, or the one that suits its ink, and soft edges between the two.
func TestLogo_JPEG_IsFlattenedOnItsBackground(t *testing.T) {
	t.Parallel()
	s := start(t)
	white, black := color.NRGBA{255, 255, 255, 255}, color.NRGBA{0, 0, 0, 255}
	s.hasRaster("whiteink.com", raster(300, 300, white, black), imaging.PNG, "light")
	s.hasRaster("blackink.com", raster(300, 300, black, white), imaging.PNG, "dark")
	for path, want := range map[string]struct{ background, ink uint8 }{
		"whiteink.com?":                  {0, 255},
		"whiteink.com?background=dark&":  {0, 255},
		"whiteink.com?theme=light&":      {0, 255},
		"blackink.com?":                  {255, 0},
		"blackink.com?background=light&": {255, 0},
		"blackink.com?theme=dark&":       {255, 0},
	} {
		img, _ := s.logoImage("/logo/" + path + "size=64&format=jpeg")
		const slack = 3 // of 255; a JPEG is not exact
		corner, middle := img.NRGBAAt(0, 0), img.NRGBAAt(32, 32)
		if !near(corner, want.background, slack) || !near(middle, want.ink, slack) {
			t.Errorf("%s: %v in the corner and %v in the middle, want %d and %d", path, corner, middle, want.background, want.ink)
		}
	}
}

// near reports whether a gray is approximately the expected one.
func near(c color.NRGBA, want uint8, slack int) bool {
	for _, v := range []uint8{c.R, c.G, c.B} {
		if off(v, want) > slack {
			return false
		}
	}
	return true
}
