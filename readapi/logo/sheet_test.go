package logo_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"

	"letterhead/internal/assets"
	"letterhead/internal/imaging"
	"letterhead/internal/testmust"
	"letterhead/readapi/logo"
	"letterhead/starter"
)

// The sheets are for visual inspection: `make logo-sheet` draws them into reports/, with the same code as a request.
var sheetFolder = flag.String("sheet", "", "draw contact sheets into this folder")

// wellKnown are brands whose logos everyone can judge; they are drawn with others of the starter index.
var wellKnown = strings.Fields(`
	adobe.com airbnb.com apple.com audi.com bmw.com cloudflare.com debian.org docker.com ebay.com facebook.com fedex.com
	figma.com github.com google.com hbo.com ibm.com ikea.com instagram.com intel.com kubernetes.io linkedin.com
	lufthansa.com mastercard.com mcdonalds.com microsoft.com mysql.com nasa.gov netflix.com nike.com nodejs.org notion.so
	nvidia.com paypal.com python.org sap.com slack.com snapchat.com spotify.com tesla.com youtube.com`)

const sheetBrands = 60

// background is the background of a page.
type background struct {
	color color.NRGBA
	theme logo.Theme // theme requested for it
}

var backgrounds = []background{
	{color.NRGBA{0xff, 0xff, 0xff, 0xff}, logo.Dark},
	{color.NRGBA{0x11, 0x11, 0x11, 0xff}, logo.Light},
}

// sheetBackgrounds adds the case without a requested theme.
var sheetBackgrounds = append(slices.Clone(backgrounds), background{backgrounds[0].color, logo.Any})

// starterFiles are the vectors of the starter index by their ids, without writing them to a store on disk.
type starterFiles map[string][]byte

func (f starterFiles) Read(_ context.Context, id, ext string) ([]byte, error) {
	if data, ok := f[id]; ok && ext == string(imaging.SVG) {
		return data, nil
	}
	return nil, assets.ErrNotFound
}

// openSheet returns 60 brands of the starter index and a renderer with their files.
func openSheet(t *testing.T) ([]logo.Brand, *logo.Renderer) {
	t.Helper()
	others := 0
	stride := starter.Count / (sheetBrands - len(wellKnown))
	brands, renderer := openStarter(t, func(n int, b starter.Brand) bool {
		if slices.Contains(wellKnown, b.Domain) {
			return true
		}
		if n < others*stride+stride/2 || others == sheetBrands-len(wellKnown) {
			return false
		}
		others++
		return true
	})
	if len(brands) != sheetBrands {
		t.Fatalf("the sheet has %d brands, want %d", len(brands), sheetBrands)
	}
	return brands, renderer
}

// openStarter returns the chosen brands of the starter index and a renderer with their files. n counts from 1.
func openStarter(t testing.TB, chosen func(n int, b starter.Brand) bool) ([]logo.Brand, *logo.Renderer) {
	t.Helper()
	files := starterFiles{}
	var brands []logo.Brand
	n := 0
	err := starter.Each(func(b starter.Brand) error {
		if n++; !chosen(n, b) {
			return nil
		}
		for i, svg := range b.SVG {
			files[b.Record.Logos[i].Formats[0].ID] = svg
		}
		out := logo.Brand{Domain: b.Domain, Logos: b.Record.Logos}
		if b.Record.Name != nil {
			out.Name = *b.Record.Name
		}
		brands = append(brands, out)
		return nil
	})
	testmust.Succeed(t, err)
	vectors := testmust.Get(resvgRenderer())(t)
	return brands, newRenderer(t, files, vectors)
}

// drawnFor draws an icon for a background.
func drawnFor(t *testing.T, renderer *logo.Renderer, b logo.Brand, g background, size int) image.Image {
	t.Helper()
	drawn, err := renderer.Draw(t.Context(), b, logo.Options{Type: logo.Icon, Size: size, Format: imaging.PNG, Theme: g.theme, Fallback: logo.Monogram})
	if err != nil {
		t.Fatalf("%s at %d pixels: %v", b.Domain, size, err)
	}
	img, err := png.Decode(bytes.NewReader(drawn.Body))
	if err != nil {
		t.Fatalf("%s at %d pixels: %v", b.Domain, size, err)
	}
	return img
}

// TestStarterLogos_OnPages_SuitTheirBackground draws 60 brands of the starter index for light and dark pages: none is
// smaller than requested, and the logo for a page is no less visible there than the logo for the other page.
func TestStarterLogos_OnPages_SuitTheirBackground(t *testing.T) {
	t.Parallel()
	brands, renderer := openSheet(t)
	better := 0
	for _, b := range brands {
		for i, g := range backgrounds {
			const size = 32
			img := drawnFor(t, renderer, b, g, size)
			if longest := max(img.Bounds().Dx(), img.Bounds().Dy()); longest != size {
				t.Errorf("%s requested with %d pixels has %d", b.Domain, size, longest)
			}
			contrast, other := contrastOn(img, g.color), contrastOn(drawnFor(t, renderer, b, backgrounds[1-i], size), g.color)
			if contrast < min(other, plainlyVisible) {
				t.Errorf("%s requested with %s ink has a contrast of %.2f with its page, and with the other ink %.2f", b.Domain, g.theme, contrast, other)
			}
			if contrast > other {
				better++
			}
		}
	}
	if better == 0 {
		t.Error("no brand has another logo for another page")
	}
	if *sheetFolder != "" {
		testmust.Succeed(t, drawSheets(t, brands, renderer))
	}
}

// plainlyVisible is the contrast that WCAG 2.2 requires of graphics (1.4.11). More contrast does not make
// a better logo.
const plainlyVisible = 3

// contrastLight returns the luminance term of WCAG's contrast ratio.
func contrastLight(c color.NRGBA) float64 {
	light := func(v uint8) float64 { return math.Pow(float64(v)/255, 2.2) }
	return 0.2126*light(c.R) + 0.7152*light(c.G) + 0.0722*light(c.B) + 0.05
}

// seenOn returns the contrast of an image with its background: the mean over the tenth of its pixels
// with the highest contrast.
func contrastOn(img image.Image, background color.NRGBA) float64 {
	page := image.NewNRGBA(image.Rect(0, 0, img.Bounds().Dx(), img.Bounds().Dy()))
	draw.Draw(page, page.Rect, image.NewUniform(background), image.Point{}, draw.Src)
	draw.Draw(page, page.Rect, img, img.Bounds().Min, draw.Over)
	var all []float64
	for i := 0; i < len(page.Pix); i += 4 {
		a, b := contrastLight(color.NRGBA{page.Pix[i], page.Pix[i+1], page.Pix[i+2], 0xff}), contrastLight(background)
		all = append(all, max(a/b, b/a))
	}
	slices.Sort(all)
	best := all[len(all)-max(len(all)/10, 1):]
	sum := 0.0
	for _, c := range best {
		sum += c
	}
	return sum / float64(len(best))
}

// scripts are names for the sheet of monograms, each with the script it shows.
var scripts = []struct{ label, domain, name string }{
	{"Latin", "acme.com", "Acme"}, {"two words", "goldmansachs.com", "Goldman Sachs"}, {"wide", "willmason.com", "Will Mason"},
	{"narrow", "illyice.com", "Illy Ice"}, {"two signs", "3m.com", "3M"}, {"digits", "23andme.com", "23andMe"}, {"hyphen", "t-online.de", ""},
	{"domain only", "example.org", ""}, {"domain in IDN", "xn--bcher-kva.de", ""}, {"accent", "eclair.fr", "Éclair"}, {"ring", "angstrom.se", "Ångström"},
	{"caron", "skoda.cz", "Škoda"}, {"stroke", "lodz.pl", "Łódź"}, {"sharp s", "strasse.de", "ßtraße"}, {"dotted I", "istanbul.com.tr", "İstanbul"},
	{"ligature", "oeuvre.fr", "œuvre"}, {"tail", "quora.com", "Quora"}, {"Cyrillic", "yandex.ru", "Яндекс"}, {"Cyrillic, two", "sberbank.ru", "Сбербанк России"},
	{"Cyrillic, wide", "shchit.ru", "Щит"}, {"Ukrainian", "kyivstar.ua", "Їжак"}, {"Greek", "ellada.gr", "Ωκεανός"}, {"Greek, two", "ethniki.gr", "Εθνική Τράπεζα"},
	{"Han", "baidu.com", "百度"}, {"Kana", "toyota.jp", "トヨタ"}, {"Hangul", "samsung.co.kr", "삼성"}, {"Arabic", "aljazeera.net", "الجزيرة"}, {"Hebrew", "haaretz.co.il", "הארץ"},
	{"Devanagari", "jagran.com", "जागरण"}, {"Thai", "thairath.co.th", "ไทยรัฐ"}, {"Georgian", "tbc.ge", "თიბისი"}, {"Armenian", "armenpress.am", "Արմենպրես"},
	{"Bengali", "prothomalo.com", "প্রথম আলো"}, {"Tamil", "dinamalar.com", "தினமலர்"}, {"emoji domain", "xn--ls8h.la", ""}, {"Han and Latin", "weibo.com", "微博 Weibo"},
}

// drawSheets writes the sheets: small sizes of all brands, 512 pixels of each, and monograms.
func drawSheets(t *testing.T, brands []logo.Brand, renderer *logo.Renderer) error {
	face, err := labelFace()
	if err != nil {
		return err
	}
	var known, unknown []entry
	for _, b := range brands {
		known = append(known, entry{b.Domain, b})
	}
	for _, s := range scripts {
		unknown = append(unknown, entry{s.label + ": " + s.domain, logo.Brand{Domain: s.domain, Name: s.name}})
	}
	drawOne := func(b logo.Brand, g background, size int) image.Image { return drawnFor(t, renderer, b, g, size) }
	small, large := []int{16, 32, 64, 128}, []int{512}
	return errors.Join(
		page{face, drawOne, small, 3, 30}.write("logos-small", known),
		page{face, drawOne, large, 2, 8}.write("logos-large", known),
		page{face, drawOne, small, 3, 36}.write("logos-monograms", unknown),
		page{face, drawOne, large, 2, 8}.write("logos-monograms-large", unknown[:8]),
	)
}

func labelFace() (font.Face, error) {
	f, err := opentype.Parse(goregular.TTF)
	if err != nil {
		return nil, err
	}
	return opentype.NewFace(f, &opentype.FaceOptions{Size: 13, DPI: 72, Hinting: font.HintingFull})
}

// entry is a brand with its label.
type entry struct {
	label string
	brand logo.Brand
}

// page is the layout of entries: each on all backgrounds in a row, with all sizes on each.
type page struct {
	face    font.Face
	draw    func(logo.Brand, background, int) image.Image
	sizes   []int
	columns int
	entries int // per file
}

// write draws as many files as needed for the entries.
func (p page) write(name string, entries []entry) error {
	if err := os.MkdirAll(*sheetFolder, 0o755); err != nil {
		return err
	}
	n := 0
	for part := range slices.Chunk(entries, p.entries) {
		n++
		var buf bytes.Buffer
		if err := png.Encode(&buf, p.lay(part)); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(*sheetFolder, fmt.Sprintf("%s-%d.png", name, n)), buf.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (p page) lay(entries []entry) image.Image {
	const gap, label = 8, 18 // pixels
	width, tallest := gap, slices.Max(p.sizes)
	for _, size := range p.sizes {
		width += size + gap
	}
	height := label + tallest + 2*gap
	rows := (len(entries) + p.columns - 1) / p.columns
	sheet := image.NewNRGBA(image.Rect(0, 0, p.columns*len(sheetBackgrounds)*width, rows*height))
	for i, e := range entries {
		for j, g := range sheetBackgrounds {
			corner := image.Pt((i%p.columns*len(sheetBackgrounds)+j)*width, i/p.columns*height)
			draw.Draw(sheet, image.Rectangle{corner, corner.Add(image.Pt(width, height))}, image.NewUniform(g.color), image.Point{}, draw.Src)
			text := font.Drawer{Dst: sheet, Src: image.NewUniform(color.Gray{0x80}), Face: p.face, Dot: fixed.P(corner.X+gap, corner.Y+label-5)}
			text.DrawString(e.label)
			at := corner.Add(image.Pt(gap, label+gap/2))
			for _, size := range p.sizes {
				img := p.draw(e.brand, g, size)
				middle := at.Add(image.Pt(size, size).Sub(img.Bounds().Size()).Div(2))
				draw.Draw(sheet, image.Rectangle{middle, middle.Add(img.Bounds().Size())}, img, img.Bounds().Min, draw.Over)
				at.X += size + gap
			}
		}
	}
	return sheet
}
