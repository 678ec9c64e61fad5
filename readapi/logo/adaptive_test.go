package logo_test

import (
	"strings"
	"testing"

	"letterhead/internal/imaging"
	"letterhead/readapi/logo"
)

func TestDraw_Adaptive_IsAnSVGWhereTwoInksExist(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dark, light := w.put(barSVG(t, "#111"), "svg"), w.put(barSVG(t, "#fff"), "svg")
	adaptive := request(64, imaging.WebP)
	adaptive.Adaptive, adaptive.Negotiated = true, true
	for name, b := range map[string]logo.Brand{
		"two logos":                      brandOf(iconOf("dark", dark), iconOf("light", light)),
		"one whose ink can be turned":    brandOf(iconOf("dark", dark)),
		"a vector in addition to raster": brandOf(iconOf("dark", w.raster(bar(128, 128, black)), dark)),
	} {
		img := w.draw(b, adaptive)
		if img.ContentType != logo.ContentTypeSVG || strings.Count(string(img.Body), "<path") != 2 || !strings.Contains(string(img.Body), "prefers-color-scheme:dark") {
			t.Errorf("%s: %s %s", name, img.ContentType, img.Body)
		}
		if img.From.Ink != logo.Any || img.From.Type != logo.Icon || img.Fallback != "" {
			t.Errorf("%s: from %+v", name, img.From)
		}
	}
	plain := adaptive
	plain.Adaptive = false
	for name, b := range map[string]logo.Brand{
		"a color that both show": brandOf(iconOf("", w.put(barSVG(t, "#118899"), "svg"))),
		"rasters":                brandOf(iconOf("dark", w.raster(bar(128, 128, black))), iconOf("light", w.raster(bar(128, 128, white)))),
		"no logo":                brandOf(),
	} {
		if img, want := w.draw(b, adaptive), w.draw(b, plain); img.ETag != want.ETag {
			t.Errorf("%s: %s, want the same image as without: %s", name, img.ContentType, want.ContentType)
		}
	}
}

// A raster is better than a large vector of which half is shown.
func TestDraw_AdaptiveTooLarge_IsTheOtherImage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := "M0 10h80v20H0z" + strings.Repeat("M1 11h1v1h-1z", 1500)
	asset := w.put([]byte(strings.Replace(string(barSVG(t, "#111")), "M0 10h80v20H0z", long, 1)), "svg")
	o := request(64, imaging.PNG)
	o.Adaptive = true
	if img := w.draw(brandOf(iconOf("dark", asset)), o); img.ContentType != logo.ContentTypePNG {
		t.Errorf("%s of %d bytes", img.ContentType, len(img.Body))
	}
}
