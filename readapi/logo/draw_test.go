package logo_test

import (
	"bytes"
	"image"
	"image/color"
	"testing"

	"letterhead/eventschemas"
	"letterhead/internal/imaging"
	"letterhead/readapi/logo"
)

func TestDraw_Vector_AtRequestedSize(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := brandOf(iconOf("dark", w.raster(bar(32, 16, black)), w.put(barSVG(t, "#118899"), "svg")))
	for _, size := range []int{16, 127, 1024} {
		for _, format := range []imaging.Format{imaging.WebP, imaging.PNG, imaging.JPEG} {
			p := w.draw(b, request(size, format))
			img := pixels(t, p)
			if img.Rect.Dx() != size || p.Fallback != "" || imaging.Sniff(p.Body) != format {
				t.Errorf("%d %s: %v, %s, fallback %q", size, format, img.Rect, p.ContentType, p.Fallback)
			}
			if got := img.NRGBAAt(size/2, img.Rect.Dy()/2); !alike(got, teal) {
				t.Errorf("%d %s: ink %v", size, format, got)
			}
		}
	}
}

func TestDraw_SVG_IsServedUnchanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	data := barSVG(t, "#118899")
	b := brandOf(iconOf("dark", w.put(data, "svg")))
	for _, size := range []int{16, 1024} {
		if p := w.draw(b, asSymbol(size, imaging.SVG)); !bytes.Equal(p.Body, data) || p.ContentType != "image/svg+xml" || p.Fallback != "" {
			t.Errorf("%d: %s, body %q", size, p.ContentType, p.Body)
		}
	}
}

// TestDraw_UnsanitizedSVG_IsSanitized is about files of an older release, or a folder with another writer.
func TestDraw_UnsanitizedSVG_IsSanitized(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	live := []byte(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8" onload="alert(1)"><script>alert(2)</script><path fill="#189" d="M0 0h8v8H0z"/></svg>`)
	p := w.draw(brandOf(iconOf("", w.put(live, "svg"))), request(64, imaging.SVG))
	if p.ContentType != logo.ContentTypeSVG || bytes.Contains(p.Body, []byte("alert")) || !bytes.Contains(p.Body, []byte("M0 0h8v8H0z")) {
		t.Errorf("%s, body %s", p.ContentType, p.Body)
	}
	// An empty SVG is not a logo; its raster is.
	nothing := []byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(2)</script></svg>`)
	p = w.draw(brandOf(iconOf("", w.put(nothing, "svg"), w.raster(bar(40, 40, teal)))), request(64, imaging.SVG))
	if got := pixels(t, p); got.Rect.Dx() != 40 || p.ContentType != logo.ContentTypePNG {
		t.Errorf("%v %s", got.Rect, p.ContentType)
	}
}

func TestDraw_AnySize_NeverEnlargesRaster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := brandOf(iconOf("dark", w.raster(bar(100, 50, teal)), w.raster(bar(300, 150, black))))
	for size, want := range map[int]image.Point{16: {16, 8}, 100: {100, 50}, 101: {101, 51}, 300: {300, 150}, 1024: {300, 150}} {
		for _, format := range []imaging.Format{imaging.WebP, imaging.PNG, imaging.JPEG, imaging.SVG} {
			p := w.draw(b, asSymbol(size, format))
			img := pixels(t, p)
			if img.Rect.Max != want {
				t.Errorf("%d %s: %v, want %v", size, format, img.Rect.Max, want)
			}
			ink := teal // of the smaller file, which is enough up to 100
			if size > 100 {
				ink = black
			}
			if got := img.NRGBAAt(want.X/2, want.Y/2); !alike(got, ink) {
				t.Errorf("%d %s: ink %v", size, format, got)
			}
			if format == imaging.SVG && p.ContentType != logo.ContentTypePNG {
				t.Errorf("content type of a raster as SVG is %s", p.ContentType)
			}
		}
	}
}

// A record may have been written by hand.
func TestDraw_WrongRecordedSize_FitsRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, recorded := range []int{0, -5, 20, 64, 5000} {
		file := w.raster(bar(200, 100, teal))
		file.Width, file.Height = &recorded, &recorded
		for _, format := range []imaging.Format{imaging.WebP, imaging.PNG} {
			if img := pixels(t, w.draw(brandOf(iconOf("", file)), request(64, format))); img.Rect.Dx() > 64 {
				t.Errorf("recorded size %d: %v", recorded, img.Rect)
			}
		}
	}
}

func TestDraw_JPEG_BackgroundSuitsInk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	well := []eventschemas.Asset{w.put(barSVG(t, "#118899"), "svg"), w.raster(bar(64, 64, teal))}
	pale := []eventschemas.Asset{w.put(barSVG(t, "#eeeeee"), "svg"), w.raster(bar(64, 64, faint))}
	for _, c := range []struct {
		theme logo.Theme
		ink   string
		files []eventschemas.Asset
		of    color.NRGBA
		want  color.NRGBA
	}{
		{logo.Any, "", well, teal, white}, {logo.Any, "dark", well, teal, white}, {logo.Any, "light", well, teal, white}, {logo.Any, "light", pale, faint, black},
		{logo.Light, "light", well, teal, black}, {logo.Light, "dark", well, teal, black}, {logo.Light, "", well, teal, black}, {logo.Light, "light", pale, faint, black},
		{logo.Dark, "light", well, teal, white}, {logo.Dark, "dark", well, teal, white}, {logo.Dark, "", well, teal, white}, {logo.Dark, "light", pale, faint, white},
	} {
		for _, file := range c.files {
			o := request(64, imaging.JPEG)
			o.Theme = c.theme
			img := pixels(t, w.draw(brandOf(iconOf(c.ink, file)), o))
			if got := img.NRGBAAt(2, 2); !alike(got, c.want) {
				t.Errorf("theme %q, ink %q, %s: background %v, want %v", c.theme, c.ink, file.Format, got, c.want)
			}
			if got := img.NRGBAAt(32, img.Rect.Dy()/2); !alike(got, c.of) {
				t.Errorf("theme %q, ink %q, %s: color of the ink %v", c.theme, c.ink, file.Format, got)
			}
		}
	}
}

// Encoders have failed on an image of one pixel.
func TestDraw_OnePixelImage_AsWebP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dot := image.NewNRGBA(image.Rect(0, 0, 1, 1))
	dot.SetNRGBA(0, 0, black)
	p := w.draw(brandOf(iconOf("", w.raster(dot))), request(16, imaging.WebP))
	if img := pixels(t, p); p.ContentType != logo.ContentTypeWebP || img.NRGBAAt(0, 0) != black {
		t.Errorf("%s %v", p.ContentType, img)
	}
}
