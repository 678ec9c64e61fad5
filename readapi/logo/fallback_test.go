package logo_test

import (
	"bytes"
	"image"
	"image/color"
	"testing"

	"letterhead/eventschemas"
	"letterhead/internal/imaging"
	"letterhead/internal/monogram"
	"letterhead/internal/svg"
	"letterhead/readapi/logo"
)

func TestDraw_NoLogo_ReturnsFallback(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, b := range map[string]logo.Brand{"no logo": brandOf(), "a logo without a file": brandOf(iconOf("dark")), "an unsupported file": brandOf(iconOf("", eventschemas.Asset{ID: "x", Format: "gif"}))} {
		for _, fallback := range []logo.Fallback{logo.Monogram, logo.Transparent, logo.NotFound} {
			for _, format := range []imaging.Format{imaging.WebP, imaging.PNG, imaging.JPEG, imaging.SVG} {
				for _, theme := range []logo.Theme{logo.Any, logo.Light, logo.Dark} {
					o := request(48, format)
					o.Fallback, o.Theme = fallback, theme
					p := w.draw(b, o)
					if p.Fallback == "" || imaging.Sniff(p.Body) != format {
						t.Fatalf("%s %s %s: fallback %q, %s", name, fallback, format, p.Fallback, p.ContentType)
					}
					if format == imaging.SVG {
						if _, _, err := svg.Sanitize(p.Body); fallback == logo.Monogram && (err != nil || bytes.Contains(p.Body, []byte("<text"))) || p.ContentType != logo.ContentTypeSVG {
							t.Errorf("%s %s: %s %v", name, fallback, p.ContentType, err)
						}
						if fallback != logo.Monogram && !bytes.Contains(p.Body, []byte(`width="48" height="48"`)) {
							t.Errorf("%s %s: body %s", name, fallback, p.Body)
						}
						continue
					}
					img := pixels(t, p)
					if img.Rect.Max != image.Pt(48, 48) {
						t.Errorf("%s %s %s: %v", name, fallback, format, img.Rect)
					}
					want := color.NRGBA{}
					if format == imaging.JPEG {
						want = white
						if theme == logo.Light {
							want = black
						}
					}
					if got := img.NRGBAAt(5, 40); fallback != logo.Monogram && !alike(got, want) {
						t.Errorf("%s %s %s %q: %v, want %v", name, fallback, format, theme, got, want)
					}
				}
			}
		}
	}
}

// The cached monogram of one brand is not used for another.
func TestDraw_Monogram_DiffersByBrand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, format := range []imaging.Format{imaging.PNG, imaging.SVG} {
		for _, b := range []logo.Brand{{Domain: "acme.com", Name: "Acme"}, {Domain: "zebra.example", Name: "Zebra"}, {Domain: "acme.com"}, {Domain: "acme.com", Name: "Ümlaut"}} {
			mark := monogram.Monogram{Domain: b.Domain, Name: b.Name}
			p := w.draw(b, request(48, format))
			if format == imaging.SVG {
				if !bytes.Equal(p.Body, mark.SVG()) {
					t.Errorf("%+v: body %s", b, p.Body)
				}
				continue
			}
			if img := pixels(t, p); !bytes.Equal(img.Pix, mark.Draw(48).Pix) {
				t.Errorf("%+v: not the brand's monogram", b)
			}
		}
	}
}
