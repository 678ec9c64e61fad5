package readapi_test

import (
	"fmt"
	"image"
	"image/color"
	"testing"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/imaging"
)

// raster is a picture with soft edges: a disc of one ink on a clear ground, which has another color that must
// never be seen.
func raster(w, h int, ink color.NRGBA, hidden color.NRGBA) *image.NRGBA {
	hidden.A = 0
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			dx, dy := (float64(x)+0.5)/float64(w)-0.5, (float64(y)+0.5)/float64(h)-0.5
			edge := min(max((0.46*0.46-dx*dx-dy*dy)*40, 0), 1)
			c := hidden
			if a := uint8(edge * 255); a > 0 {
				c = color.NRGBA{ink.R, ink.G, ink.B, a}
			}
			img.SetNRGBA(x, y, c)
		}
	}
	return img
}

// hasRaster puts a brand into the index whose one logo is this picture, in one format.
func (s *service) hasRaster(domain string, img *image.NRGBA, format imaging.Format, theme string) {
	s.t.Helper()
	data, err := imaging.EncodePNG(img)
	if format == imaging.WebP {
		data, err = imaging.EncodeWebP(img)
	}
	s.must(err)
	id, err := s.assets.Put(s.t.Context(), data, string(format))
	s.must(err)
	w, h := img.Rect.Dx(), img.Rect.Dy()
	l := eventschemas.Logo{Type: "icon", Formats: []eventschemas.Asset{{ID: id, Format: string(format), Width: &w, Height: &h, Size: int64(len(data))}}, Tags: []string{}}
	if theme != "" {
		l.Theme = &theme
	}
	r := plainRecord(domain)
	r.Logos = []eventschemas.Logo{l}
	s.known(domain, r)
}

// logoPicture asks for a logo and decodes it.
func (s *service) logoPicture(path string) (*image.NRGBA, imaging.Format) {
	s.t.Helper()
	a := s.send(request{path: path})
	a.ok(s.t)
	img, info, err := imaging.Decode(a.body, imaging.Limits{})
	if err != nil {
		s.t.Fatalf("%s: %v", path, err)
	}
	if want := "image/" + string(info.Format); a.header.Get("Content-Type") != want {
		s.t.Errorf("%s: %s, and it is %s", path, a.header.Get("Content-Type"), want)
	}
	return img, info.Format
}

// No raster is made larger than it is stored, whatever is asked for, and every answer keeps the sides' ratio.
func TestNoRasterIsEverMadeLarger(t *testing.T) {
	t.Parallel()
	s := start(t)
	for i, stored := range []struct{ w, h int }{{20, 20}, {48, 48}, {300, 60}, {37, 200}, {500, 11}} {
		for _, format := range []imaging.Format{imaging.PNG, imaging.WebP} {
			domain := fmt.Sprintf("raster-%d-%s.com", i, format)
			s.hasRaster(domain, raster(stored.w, stored.h, color.NRGBA{0x0b, 0x5f, 0xff, 0xff}, color.NRGBA{}), format, "dark")
			longest := max(stored.w, stored.h)
			for _, size := range []int{1, 16, longest - 1, longest, longest + 1, 128, 256, 1024, 5000} {
				for _, asked := range []imaging.Format{imaging.PNG, imaging.WebP, imaging.JPEG, imaging.SVG} {
					path := fmt.Sprintf("/logo/%s?size=%d&format=%s", domain, size, asked)
					img, is := s.logoPicture(path)
					if asked == imaging.SVG {
						asked = imaging.PNG
					}
					if is != asked {
						t.Errorf("%s is %s", path, is)
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

// A picture that is made smaller has its ink's color up to its edges: nothing of the color that clear pixels
// happen to have is drawn into it. On a ground no pixel lies outside of what is between ink and ground.
func TestNoHaloOnTransparentEdges(t *testing.T) {
	t.Parallel()
	s := start(t)
	const slack = 4 // of 255: rounding, once for each step
	white, black, red := color.NRGBA{255, 255, 255, 255}, color.NRGBA{0, 0, 0, 255}, color.NRGBA{200, 30, 40, 255}
	for i, c := range []struct{ ink, hidden color.NRGBA }{{white, black}, {black, white}, {red, color.NRGBA{0, 255, 0, 0}}} {
		domain := fmt.Sprintf("soft-%d.com", i)
		s.hasRaster(domain, raster(400, 300, c.ink, c.hidden), imaging.PNG, "")
		for _, size := range []int{16, 33, 64, 128, 399, 400} {
			for _, format := range []imaging.Format{imaging.PNG, imaging.WebP} {
				path := fmt.Sprintf("/logo/%s?size=%d&format=%s", domain, size, format)
				img, _ := s.logoPicture(path)
				if clear, full := alphas(img); !clear || !full {
					t.Errorf("%s: clear pixels %t, full ones %t", path, clear, full)
				}
				if at, got, ok := bleeds(img, c.ink, slack); ok {
					t.Errorf("%s: at %v %v shines through, which is not of the ink", path, at, got)
				}
			}
		}
	}
}

func alphas(img *image.NRGBA) (clear, full bool) {
	for i := 3; i < len(img.Pix); i += 4 {
		clear, full = clear || img.Pix[i] == 0, full || img.Pix[i] == 255
	}
	return clear, full
}

// bleeds finds a pixel that looks otherwise than its ink would with the same alpha, on black, where every channel
// counts as much as it is seen.
func bleeds(img *image.NRGBA, ink color.NRGBA, slack int) (at image.Point, got color.NRGBA, found bool) {
	for y := range img.Rect.Dy() {
		for x := range img.Rect.Dx() {
			c := img.NRGBAAt(x, y)
			for _, d := range []int{int(c.R) - int(ink.R), int(c.G) - int(ink.G), int(c.B) - int(ink.B)} {
				if max(d, -d)*int(c.A) > slack*255 {
					return image.Pt(x, y), c, true
				}
			}
		}
	}
	return at, got, false
}

// A JPEG has the ground that was asked for, or the one that its ink is seen on, and soft edges between the two.
func TestJPEGsAreFlattenedOnTheirGround(t *testing.T) {
	t.Parallel()
	s := start(t)
	white, black := color.NRGBA{255, 255, 255, 255}, color.NRGBA{0, 0, 0, 255}
	s.hasRaster("whiteink.com", raster(300, 300, white, black), imaging.PNG, "light")
	s.hasRaster("blackink.com", raster(300, 300, black, white), imaging.PNG, "dark")
	for path, want := range map[string]struct{ ground, ink uint8 }{
		"whiteink.com?":                  {0, 255},
		"whiteink.com?background=dark&":  {0, 255},
		"whiteink.com?theme=light&":      {0, 255},
		"blackink.com?":                  {255, 0},
		"blackink.com?background=light&": {255, 0},
		"blackink.com?theme=dark&":       {255, 0},
	} {
		img, _ := s.logoPicture("/logo/" + path + "size=64&format=jpeg")
		const slack = 3 // of 255; a JPEG is not exact
		corner, middle := img.NRGBAAt(0, 0), img.NRGBAAt(32, 32)
		if !near(corner, want.ground, slack) || !near(middle, want.ink, slack) {
			t.Errorf("%s: %v in the corner and %v in the middle, want %d and %d", path, corner, middle, want.ground, want.ink)
		}
	}
}

// near says whether a grey is the one that was wanted, about.
func near(c color.NRGBA, want uint8, slack int) bool {
	for _, v := range []uint8{c.R, c.G, c.B} {
		if d := int(v) - int(want); max(d, -d) > slack {
			return false
		}
	}
	return true
}
