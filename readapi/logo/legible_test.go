package logo_test

import (
	"bytes"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/image/font"
	"golang.org/x/image/math/fixed"

	"letterhead/internal/imaging"
	"letterhead/internal/testmust"
	"letterhead/readapi/logo"
	"letterhead/starter"
)

// `make background-sheet` draws the sheets of docs/backgrounds.md, with the same code as a request.
var backgroundsFolder = flag.String("backgrounds", "", "draw the sheets of docs/backgrounds.md into this folder")

// famous are the companies of the sheets, in the order of the cells.
var famous = strings.Fields(`
	adobe.com airbnb.com amd.com americanexpress.com apple.com atlassian.com audi.com bmw.com
	cisco.com cloudflare.com dell.com discord.com docker.com dropbox.com ebay.com facebook.com
	fedex.com ferrari.com figma.com ford.com github.com gitlab.com google.com hbo.com
	hp.com ibm.com ikea.com instagram.com intel.com linkedin.com lufthansa.com mastercard.com
	mcdonalds.com microsoft.com mozilla.org mysql.com nasa.gov netflix.com nike.com nodejs.org
	notion.so nvidia.com openai.com oracle.com paypal.com pinterest.com porsche.com python.org
	reddit.com salesforce.com sap.com shopify.com slack.com spotify.com starbucks.com stripe.com
	tesla.com tiktok.com toyota.com uber.com ups.com visa.com youtube.com zoom.us`)

// pages are the backgrounds of the sheets.
var pages = []imaging.RGB{imaging.White, imaging.Black, {R: 0x12, G: 0x12, B: 0x12}, {R: 0x0b, G: 0x5f, B: 0xff}}

// onPage requests a logo for a background.
func onPage(kind logo.Type, page imaging.RGB, size int, format imaging.Format) logo.Options {
	o := logo.Options{Type: kind, Size: size, Format: format, Fallback: logo.Monogram, Theme: logo.Dark, Background: logo.Background{Color: page, Set: true}}
	if imaging.Contrast(page, imaging.White) > imaging.Contrast(page, imaging.Black) {
		o.Theme = logo.Light
	}
	return o
}

// onPaper stores the logos of brands as rasters on white, as pages have them: every second one with the noise of a JPEG.
func onPaper(t *testing.T, brands []logo.Brand, renderer *logo.Renderer) ([]logo.Brand, *logo.Renderer) {
	t.Helper()
	w := newWorld(t)
	var out []logo.Brand
	for i, b := range brands {
		paper := logo.Brand{Domain: b.Domain}
		for _, kind := range []logo.Type{logo.Symbol, logo.Full} {
			o := request(300, imaging.PNG)
			o.Type, o.Theme = kind, logo.Dark
			drawn := testmust.Get(renderer.Draw(t.Context(), b, o))(t)
			ink := pixels(t, drawn)
			img := image.NewNRGBA(image.Rect(0, 0, ink.Rect.Dx()+60, ink.Rect.Dy()+60))
			draw.Draw(img, img.Rect, image.NewUniform(white), image.Point{}, draw.Src)
			draw.Draw(img, ink.Rect.Add(image.Pt(30, 30)), ink, image.Point{}, draw.Over)
			if i%2 == 0 {
				var buf bytes.Buffer
				testmust.Succeed(t, jpeg.Encode(&buf, img, &jpeg.Options{Quality: 85}))
				noisy, _, err := imaging.Decode(buf.Bytes(), imaging.Limits{})
				testmust.Succeed(t, err)
				img = noisy
			}
			l := iconOf("", w.raster(img))
			if kind == logo.Full {
				l.Type = string(logo.Full)
			}
			paper.Logos = append(paper.Logos, l)
		}
		out = append(out, paper)
	}
	return out, w.Renderer
}

// TestFamousLogos_OnAnyBackground_AreLegible measures each icon and wordmark of 64 companies on four backgrounds, as
// vectors, and as rasters on white.
func TestFamousLogos_OnAnyBackground_AreLegible(t *testing.T) {
	t.Parallel()
	every := 1
	if testing.Short() {
		every = 8
	}
	var chosen []string
	for i := 0; i < len(famous); i += every {
		chosen = append(chosen, famous[i])
	}
	brands, renderer := openStarter(t, func(_ int, b starter.Brand) bool { return slices.Contains(chosen, b.Domain) })
	if len(brands) != len(chosen) {
		t.Fatalf("the starter index has %d of the %d companies", len(brands), len(chosen))
	}
	t.Run("vectors", func(t *testing.T) { measureOnPages(t, brands, renderer) })
	papers, paperRenderer := onPaper(t, brands, renderer)
	t.Run("rasters", func(t *testing.T) { measureOnPages(t, papers, paperRenderer) })
	if *backgroundsFolder != "" {
		drawBackgrounds(t, "", brands, renderer, logo.Icon, logo.Full)
		drawBackgrounds(t, "raster-", papers, paperRenderer, logo.Full)
	}
}

// measureOnPages fails for a logo that is not legible, or that brings a white box.
func measureOnPages(t *testing.T, brands []logo.Brand, renderer *logo.Renderer) {
	cells, plates, weak := 0, 0, 0
	for _, b := range brands {
		for _, page := range pages {
			for _, kind := range []logo.Type{logo.Icon, logo.Full} {
				o := onPage(kind, page, 128, imaging.PNG)
				drawn := testmust.Get(renderer.Draw(t.Context(), b, o))(t)
				img := pixels(t, drawn)
				o.NoPlate = true
				plated := drawn.ETag != testmust.Get(renderer.Draw(t.Context(), b, o))(t).ETag
				swallowed := imaging.SwallowedBy(img, page)
				if plated {
					edge := img.NRGBAAt(img.Rect.Dx()/2, 1)
					swallowed = imaging.SwallowedBy(img, imaging.RGB{R: edge.R, G: edge.G, B: edge.B})
					plates++
					t.Logf("%s as %s on %s: a plate of %v", b.Domain, kind, page.Hex(), edge)
				}
				if cells++; swallowed.IsWeak() {
					weak++
					t.Logf("%s as %s on %s: %+v", b.Domain, kind, page.Hex(), swallowed)
				}
				best := contrastOn(img, color.NRGBA{page.R, page.G, page.B, 0xff})
				if !plated && swallowed.TooMuch() || best < imaging.LeastLegible {
					t.Errorf("%s as %s on %s: %+v is swallowed, the best contrast is %.2f", b.Domain, kind, page.Hex(), swallowed, best)
				}
				if corner := img.NRGBAAt(0, 0); kind == logo.Icon && !plated && page != imaging.White && alike(corner, white) {
					t.Errorf("%s as %s on %s is in a white box", b.Domain, kind, page.Hex())
				}
				if kind == logo.Icon && img.Rect.Dx() != img.Rect.Dy() {
					t.Errorf("%s on %s: the icon is %v", b.Domain, page.Hex(), img.Rect.Max)
				}
			}
		}
	}
	t.Logf("%d cells, %d plates, %d weak", cells, plates, weak)
	if float64(plates) > 0.1*float64(cells) {
		t.Errorf("%d of %d cells have a plate", plates, cells)
	}
}

// drawBackgrounds writes one sheet for each type of logo: the companies on the four backgrounds.
func drawBackgrounds(t *testing.T, name string, brands []logo.Brand, renderer *logo.Renderer, kinds ...logo.Type) {
	t.Helper()
	face := testmust.Get(labelFace())(t)
	const columns, side, size, label = 8, 80, 58, 14 // pixels
	quarter := image.Pt(columns*side, len(famous)/columns*side)
	for _, kind := range kinds {
		sheet := image.NewNRGBA(image.Rect(0, 0, 2*quarter.X, 2*quarter.Y))
		for q, page := range pages {
			corner := image.Pt(q%2*quarter.X, q/2*quarter.Y)
			draw.Draw(sheet, image.Rectangle{corner, corner.Add(quarter)}, image.NewUniform(color.NRGBA{page.R, page.G, page.B, 0xff}), image.Point{}, draw.Src)
			for i, domain := range famous {
				b := brands[slices.IndexFunc(brands, func(b logo.Brand) bool { return b.Domain == domain })]
				drawn, err := renderer.Draw(t.Context(), b, onPage(kind, page, size, imaging.PNG))
				if err != nil {
					t.Fatalf("%s: %v", domain, err)
				}
				img := pixels(t, drawn)
				cell := corner.Add(image.Pt(i%columns*side, i/columns*side))
				at := cell.Add(image.Pt(side, side-label).Sub(img.Rect.Max).Div(2))
				draw.Draw(sheet, img.Rect.Add(at), img, image.Point{}, draw.Over)
				name, _, _ := strings.Cut(domain, ".")
				text := font.Drawer{Dst: sheet, Src: image.NewUniform(color.Gray{0xa0}), Face: face}
				text.Dot = fixed.P(cell.X+(side-text.MeasureString(name).Round())/2, cell.Y+side-4)
				text.DrawString(name)
			}
		}
		data, err := imaging.EncodeWebP(sheet)
		if err == nil {
			err = os.WriteFile(filepath.Join(*backgroundsFolder, name+string(kind)+".webp"), data, 0o644)
		}
		testmust.Succeed(t, err)
	}
}
