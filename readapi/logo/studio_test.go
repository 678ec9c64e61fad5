package logo_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/assets"
	"letterhead/internal/imaging"
	"letterhead/internal/monogram"
	"letterhead/internal/resvg"
	"letterhead/internal/svg"
	"letterhead/internal/variants"
	"letterhead/readapi/logo"
)

// renderer is compiled once for all tests.
var renderer = sync.OnceValues(func() (*resvg.Renderer, error) { return resvg.New(context.Background(), resvg.Config{}) })

// vectors counts the draws of the real renderer.
type vectors struct{ drawn atomic.Int64 }

func (v *vectors) Render(ctx context.Context, svg []byte, side int) (*image.NRGBA, error) {
	v.drawn.Add(1)
	r, err := renderer()
	if err != nil {
		return nil, err
	}
	return r.Render(ctx, svg, side)
}

// files counts the reads of the real store.
type files struct {
	*assets.Store
	read atomic.Int64
}

func (f *files) Read(ctx context.Context, id, ext string) ([]byte, error) {
	f.read.Add(1)
	return f.Store.Read(ctx, id, ext)
}

// world is a studio with a folder of files.
type world struct {
	*logo.Studio
	t       testing.TB
	folder  string
	files   *files
	vectors *vectors
}

func newWorld(t testing.TB) *world {
	t.Helper()
	// Compile before drawing: under the race detector it takes longer than an image may.
	if _, err := renderer(); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, folder: filepath.Join(t.TempDir(), "assets"), vectors: &vectors{}}
	where, err := assets.FolderURL(w.folder)
	if err != nil {
		t.Fatal(err)
	}
	store, err := assets.Open(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	w.files = &files{Store: store}
	w.Studio = newStudio(t, w.files, w.vectors)
	return w
}

func newStudio(t testing.TB, files logo.Files, vectors logo.Vectors) *logo.Studio {
	t.Helper()
	drawn, err := variants.New(variants.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(drawn.Close)
	studio, err := logo.NewStudio(files, vectors, drawn)
	if err != nil {
		t.Fatal(err)
	}
	return studio
}

// put stores a file unchanged and returns its entry.
func (w *world) put(data []byte, format string) eventschemas.Asset {
	w.t.Helper()
	id, err := w.files.Put(w.t.Context(), data, format)
	if err != nil {
		w.t.Fatal(err)
	}
	a := eventschemas.Asset{ID: id, Format: format, Size: int64(len(data))}
	if info, err := imaging.Probe(data); err == nil && info.Width > 0 {
		a.Width, a.Height = &info.Width, &info.Height
	}
	return a
}

// raster stores an image as PNG.
func (w *world) raster(img *image.NRGBA) eventschemas.Asset {
	w.t.Helper()
	data, err := imaging.EncodePNG(img)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.put(data, "png")
}

// path returns the path of a file in the folder.
func (w *world) path(a eventschemas.Asset) string {
	w.t.Helper()
	found := ""
	err := filepath.WalkDir(w.folder, func(path string, _ os.DirEntry, err error) error {
		if filepath.Base(path) == a.ID+"."+a.Format {
			found = path
		}
		return err
	})
	if err != nil || found == "" {
		w.t.Fatalf("%s.%s is not in the folder: %v", a.ID, a.Format, err)
	}
	return found
}

func (w *world) draw(b logo.Brand, o logo.Options) logo.Picture {
	w.t.Helper()
	p, err := w.Draw(w.t.Context(), b, o)
	if err != nil {
		w.t.Fatalf("%+v: %v", o, err)
	}
	sum := sha256.Sum256(p.Body)
	if want := `"` + hex.EncodeToString(sum[:16]) + `"`; p.ETag != want {
		w.t.Errorf("%+v: ETag %s, want %s", o, p.ETag, want)
	}
	return p
}

func brandOf(logos ...eventschemas.Logo) logo.Brand {
	return logo.Brand{Domain: "acme.com", Name: "Acme", Logos: logos}
}

func iconOf(theme string, formats ...eventschemas.Asset) eventschemas.Logo {
	l := eventschemas.Logo{Type: "icon", Formats: formats}
	if theme != "" {
		l.Theme = &theme
	}
	return l
}

func asked(size int, format imaging.Format) logo.Options {
	return logo.Options{Type: logo.Icon, Size: size, Format: format, Fallback: logo.Monogram}
}

var (
	teal  = color.NRGBA{0x11, 0x88, 0x99, 0xff}
	black = color.NRGBA{0, 0, 0, 0xff}
	white = color.NRGBA{0xff, 0xff, 0xff, 0xff}
	faint = color.NRGBA{0xee, 0xee, 0xee, 0xff}
)

// bar returns a transparent image with a bar across its middle.
func bar(width, height int, ink color.NRGBA) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	draw.Draw(img, image.Rect(0, height/4, width, 3*height/4), image.NewUniform(ink), image.Point{}, draw.Src)
	return img
}

// barSVG returns the same as a vector, as stored by intake.
func barSVG(t testing.TB, fill string) []byte {
	t.Helper()
	data, _, err := svg.Sanitize([]byte(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 80 40"><path fill="` + fill + `" d="M0 10h80v20H0z"/></svg>`))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func pixels(t testing.TB, p logo.Picture) *image.NRGBA {
	t.Helper()
	img, info, err := imaging.Decode(p.Body, imaging.Limits{})
	if err != nil {
		t.Fatalf("%s: %v", p.ContentType, err)
	}
	if want := map[imaging.Format]string{imaging.PNG: "image/png", imaging.WebP: "image/webp", imaging.JPEG: "image/jpeg"}[info.Format]; p.ContentType != want {
		t.Errorf("a %s is called %s", info.Format, p.ContentType)
	}
	return img
}

func alike(a, b color.NRGBA) bool {
	near := func(p, q uint8) bool { return max(p, q)-min(p, q) <= 6 }
	return near(a.A, b.A) && (a.A == 0 || near(a.R, b.R) && near(a.G, b.G) && near(a.B, b.B))
}

func TestDraw_Vector_AtRequestedSize(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := brandOf(iconOf("dark", w.raster(bar(32, 16, black)), w.put(barSVG(t, "#118899"), "svg")))
	for _, size := range []int{16, 127, 1024} {
		for _, format := range []imaging.Format{imaging.WebP, imaging.PNG, imaging.JPEG} {
			p := w.draw(b, asked(size, format))
			img := pixels(t, p)
			if img.Rect.Dx() != size || p.Fallback || imaging.Sniff(p.Body) != format {
				t.Errorf("%d %s: %v, %s, fallback %t", size, format, img.Rect, p.ContentType, p.Fallback)
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
		if p := w.draw(b, asked(size, imaging.SVG)); !bytes.Equal(p.Body, data) || p.ContentType != "image/svg+xml" || p.Fallback {
			t.Errorf("%d: %s %q", size, p.ContentType, p.Body)
		}
	}
}

// TestDraw_UnsanitizedSVG is about files of an older release, or a folder with another
// writer.
func TestDraw_UnsanitizedSVG(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	live := []byte(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8" onload="alert(1)"><script>alert(2)</script><path fill="#189" d="M0 0h8v8H0z"/></svg>`)
	p := w.draw(brandOf(iconOf("", w.put(live, "svg"))), asked(64, imaging.SVG))
	if p.ContentType != logo.ContentTypeSVG || bytes.Contains(p.Body, []byte("alert")) || !bytes.Contains(p.Body, []byte("M0 0h8v8H0z")) {
		t.Errorf("%s %s", p.ContentType, p.Body)
	}
	// An empty SVG is not a logo; its raster is.
	nothing := []byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(2)</script></svg>`)
	p = w.draw(brandOf(iconOf("", w.put(nothing, "svg"), w.raster(bar(40, 40, teal)))), asked(64, imaging.SVG))
	if got := pixels(t, p); got.Rect.Dx() != 40 || p.ContentType != logo.ContentTypePNG {
		t.Errorf("%v %s", got.Rect, p.ContentType)
	}
}

func TestRasterIsNeverEnlarged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := brandOf(iconOf("dark", w.raster(bar(100, 50, teal)), w.raster(bar(300, 150, black))))
	for size, want := range map[int]image.Point{16: {16, 8}, 100: {100, 50}, 101: {101, 51}, 300: {300, 150}, 1024: {300, 150}} {
		for _, format := range []imaging.Format{imaging.WebP, imaging.PNG, imaging.JPEG, imaging.SVG} {
			p := w.draw(b, asked(size, format))
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
				t.Errorf("svg of a raster is %s", p.ContentType)
			}
		}
	}
}

// TestDraw_WrongRecordedSizes: a record may have been written by hand.
func TestDraw_WrongRecordedSizes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, said := range []int{0, -5, 20, 64, 5000} {
		file := w.raster(bar(200, 100, teal))
		file.Width, file.Height = &said, &said
		for _, format := range []imaging.Format{imaging.WebP, imaging.PNG} {
			if img := pixels(t, w.draw(brandOf(iconOf("", file)), asked(64, format))); img.Rect.Dx() > 64 {
				t.Errorf("said to be %d: %v", said, img.Rect)
			}
		}
	}
}

func TestJPEGBackground(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	well := []eventschemas.Asset{w.put(barSVG(t, "#118899"), "svg"), w.raster(bar(64, 64, teal))}
	pale := []eventschemas.Asset{w.put(barSVG(t, "#eeeeee"), "svg"), w.raster(bar(64, 64, faint))}
	for _, c := range []struct {
		asked logo.Theme
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
			o := asked(64, imaging.JPEG)
			o.Theme = c.asked
			img := pixels(t, w.draw(brandOf(iconOf(c.ink, file)), o))
			if got := img.NRGBAAt(2, 2); !alike(got, c.want) {
				t.Errorf("asked %q, ink %q, %s: ground %v, want %v", c.asked, c.ink, file.Format, got, c.want)
			}
			if got := img.NRGBAAt(32, img.Rect.Dy()/2); !alike(got, c.of) {
				t.Errorf("asked %q, ink %q, %s: ink %v", c.asked, c.ink, file.Format, got)
			}
		}
	}
}

func TestFallbacks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, b := range map[string]logo.Brand{"no logo": brandOf(), "a logo without a file": brandOf(iconOf("dark")), "a file nobody draws": brandOf(iconOf("", eventschemas.Asset{ID: "x", Format: "gif"}))} {
		for _, fallback := range []logo.Fallback{logo.Monogram, logo.Transparent, logo.NotFound} {
			for _, format := range []imaging.Format{imaging.WebP, imaging.PNG, imaging.JPEG, imaging.SVG} {
				for _, theme := range []logo.Theme{logo.Any, logo.Light, logo.Dark} {
					o := asked(48, format)
					o.Fallback, o.Theme = fallback, theme
					p := w.draw(b, o)
					if !p.Fallback || imaging.Sniff(p.Body) != format {
						t.Fatalf("%s %s %s: fallback %t, %s", name, fallback, format, p.Fallback, p.ContentType)
					}
					if format == imaging.SVG {
						if _, _, err := svg.Sanitize(p.Body); fallback == logo.Monogram && (err != nil || bytes.Contains(p.Body, []byte("<text"))) || p.ContentType != logo.ContentTypeSVG {
							t.Errorf("%s %s: %s %v", name, fallback, p.ContentType, err)
						}
						if fallback != logo.Monogram {
							if info, err := imaging.Probe(p.Body); err != nil || info.Width != 48 || info.Height != 48 {
								t.Errorf("%s %s: %+v, %v", name, fallback, info, err)
							}
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

// TestMonograms_DifferByBrand: the cached monogram of one brand is not used for another.
func TestMonograms_DifferByBrand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, format := range []imaging.Format{imaging.PNG, imaging.SVG} {
		for _, b := range []logo.Brand{{Domain: "acme.com", Name: "Acme"}, {Domain: "zebra.example", Name: "Zebra"}, {Domain: "acme.com"}, {Domain: "acme.com", Name: "Ümlaut"}} {
			mark := monogram.Monogram{Domain: b.Domain, Name: b.Name}
			p := w.draw(b, asked(48, format))
			if format == imaging.SVG {
				if !bytes.Equal(p.Body, mark.SVG()) {
					t.Errorf("%+v: %s", b, p.Body)
				}
				continue
			}
			if img := pixels(t, p); !bytes.Equal(img.Pix, mark.Draw(48).Pix) {
				t.Errorf("%+v has another picture", b)
			}
		}
	}
}

// TestDraw_SmallestImage: encoders have failed on it.
func TestDraw_SmallestImage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dot := image.NewNRGBA(image.Rect(0, 0, 1, 1))
	dot.SetNRGBA(0, 0, black)
	p := w.draw(brandOf(iconOf("", w.raster(dot))), asked(16, imaging.WebP))
	if img := pixels(t, p); p.ContentType != logo.ContentTypeWebP || img.NRGBAAt(0, 0) != black {
		t.Errorf("%s %v", p.ContentType, img)
	}
}

// TestDraw_UnreadableStoredImage: the file has the right name and header, like one that an encoder
// wrote incorrectly.
func TestDraw_UnreadableStoredImage(t *testing.T) {
	t.Parallel()
	for _, format := range []imaging.Format{imaging.PNG, imaging.WebP} {
		w := newWorld(t)
		data, err := imaging.EncodePNG(bar(32, 16, black))
		if format == imaging.WebP {
			data, err = imaging.EncodeWebP(bar(32, 16, black))
		}
		if err != nil {
			t.Fatal(err)
		}
		broken := w.put(data[:len(data)*3/4], string(format))
		whole := w.raster(bar(64, 32, black))
		p := w.draw(brandOf(iconOf("", broken, whole)), asked(32, format))
		if img := pixels(t, p); !alike(img.NRGBAAt(16, 8), black) {
			t.Errorf("%s: %v", format, img.NRGBAAt(16, 8))
		}
	}
}

// unDrawable looks like an SVG, but its element is not closed.
const unDrawable = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><path d="M0 0h8v8H0z">`

func TestDraw_FaultyFile_UsesNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	broken := w.put([]byte(unDrawable), "svg")
	half := w.raster(bar(128, 64, black))
	half.Height = nil // and one of unknown size
	b := brandOf(iconOf("dark", broken, w.put([]byte("\x89PNG\r\n\x1a\nno more"), "png"), half), iconOf("dark", w.put(barSVG(t, "#118899"), "svg")))
	for _, format := range []imaging.Format{imaging.PNG, imaging.WebP, imaging.SVG, imaging.JPEG} {
		for range 2 {
			p := w.draw(b, asked(64, format))
			if img := pixels(t, p); p.Fallback || img.Rect.Max != image.Pt(64, 32) || !alike(img.NRGBAAt(32, 16), black) {
				t.Errorf("%s: %v %v", format, img.Rect, img.NRGBAAt(32, 16))
			}
		}
	}
	_, err := w.Draw(t.Context(), brandOf(iconOf("", broken)), asked(64, imaging.PNG))
	if !errors.Is(err, logo.ErrNotDrawn) || !strings.Contains(err.Error(), broken.ID) {
		t.Errorf("with nothing to fall back to: %v", err)
	}
}

func TestDraw_MissingAndDamagedFiles_FallBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	svg := barSVG(t, "#118899")
	vector := w.put(svg, "svg")
	b := brandOf(iconOf("dark", vector, w.raster(bar(128, 64, black))))
	path := w.path(vector)
	other := barSVG(t, "#ff0000") // an intact file, but not the one with this id
	for _, c := range []struct {
		name  string
		size  int // different each time: a cached image of an intact file is answered without it
		spoil func() error
	}{
		{"missing", 50, func() error { return os.Remove(path) }},
		{"damaged", 60, func() error { return os.WriteFile(path, other, 0o600) }},
	} {
		name, size := c.name, c.size
		if err := c.spoil(); err != nil {
			t.Fatal(err)
		}
		stand := w.draw(b, asked(size, imaging.PNG))
		if img := pixels(t, stand); !alike(img.NRGBAAt(size/2, size/4), black) {
			t.Errorf("%s: %v", name, img.NRGBAAt(size/2, size/4))
		}
		if _, err := w.Draw(t.Context(), brandOf(iconOf("", vector)), asked(size, imaging.PNG)); !errors.Is(err, logo.ErrNotDrawn) {
			t.Errorf("%s, with nothing to fall back to: %v", name, err)
		}
		if err := os.WriteFile(path, svg, 0o600); err != nil {
			t.Fatal(err)
		}
		whole := w.draw(b, asked(size, imaging.PNG))
		if img := pixels(t, whole); !alike(img.NRGBAAt(size/2, size/4), teal) || whole.ETag == stand.ETag {
			t.Errorf("%s and there again: %v", name, img.NRGBAAt(size/2, size/4))
		}
	}
}

func TestDraw_StorageDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := brandOf(iconOf("dark", w.put(barSVG(t, "#118899"), "svg"), w.raster(bar(128, 64, black))))
	if err := os.Rename(w.folder, w.folder+".away"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Draw(t.Context(), b, asked(64, imaging.PNG)); !errors.Is(err, assets.ErrUnavailable) || errors.Is(err, logo.ErrNotDrawn) {
		t.Errorf("away: %v", err)
	}
	if p := w.draw(brandOf(), asked(64, imaging.PNG)); !p.Fallback { // needs no stored file
		t.Errorf("%+v", p)
	}
	if err := os.Rename(w.folder+".away", w.folder); err != nil {
		t.Fatal(err)
	}
	w.draw(b, asked(64, imaging.PNG))
}

func TestGet_CanceledByCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Draw(ctx, brandOf(iconOf("", w.raster(bar(128, 64, black)))), asked(64, imaging.PNG)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// failing draws nothing and counts its calls.
type failing struct {
	err   error
	asked int
}

func (f *failing) Render(context.Context, []byte, int) (*image.NRGBA, error) {
	f.asked++
	return nil, f.err
}

// TestDraw_FaultyVector_IsNotRetriedEachTime: a retry would be as expensive.
func TestDraw_FaultyVector_IsNotRetriedEachTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var logos []eventschemas.Logo
	for _, fill := range []string{"#100", "#200", "#300", "#400"} {
		logos = append(logos, iconOf("", w.put(barSVG(t, fill), "svg")))
	}
	b := brandOf(append(logos, iconOf("", w.raster(bar(128, 64, black))))...)
	synctest.Test(t, func(t *testing.T) {
		slow := &failing{err: imaging.ErrTooLarge}
		studio := newStudio(t, w.files, slow)
		draw := func() {
			t.Helper()
			p, err := studio.Draw(t.Context(), b, asked(64, imaging.PNG))
			if err != nil || p.Fallback {
				t.Fatalf("%+v, %v", p, err)
			}
		}
		draw()
		if slow.asked != 2 {
			t.Errorf("%d vectors were tried for one picture, want 2", slow.asked)
		}
		draw()
		if slow.asked != 2 {
			t.Errorf("%d were tried again at once", slow.asked-2)
		}
		time.Sleep(11 * time.Minute)
		draw()
		if slow.asked != 4 {
			t.Errorf("%d were tried again after a while, want 2", slow.asked-2)
		}
	})
}

// heavy fails above a size, as if drawing took too much.
type heavy struct {
	vectors
	above int
	sizes []int
}

func (h *heavy) Render(ctx context.Context, svg []byte, side int) (*image.NRGBA, error) {
	h.sizes = append(h.sizes, side)
	if side > h.above {
		return nil, imaging.ErrTooLarge
	}
	return h.vectors.Render(ctx, svg, side)
}

func TestDraw_ExpensiveVector_IsDrawnSmaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := brandOf(iconOf("", w.put(barSVG(t, "#189"), "svg")))
	for _, c := range []struct {
		asked, above int
		tried        []int // the last one is drawn, unless it is above
	}{
		{1024, 1024, []int{1024}},
		{1024, 600, []int{1024, 512}},
		{1000, 300, []int{1000, 500}},
		{1024, 256, []int{1024, 512, 256}},
		{1024, 100, []int{1024, 512, 256}},
		{300, 299, []int{300}},
	} {
		vectors := &heavy{above: c.above}
		p, err := newStudio(t, w.files, vectors).Draw(t.Context(), b, asked(c.asked, imaging.PNG))
		if !slices.Equal(vectors.sizes, c.tried) {
			t.Errorf("%d asked, %d possible: tried %v, want %v", c.asked, c.above, vectors.sizes, c.tried)
		}
		last := c.tried[len(c.tried)-1]
		if last > c.above {
			if !errors.Is(err, logo.ErrNotDrawn) {
				t.Errorf("%d asked, %d possible: %v, want ErrNotDrawn", c.asked, c.above, err)
			}
			continue
		}
		if err != nil || p.Fallback {
			t.Errorf("%d asked, %d possible: %+v, %v", c.asked, c.above, p, err)
			continue
		}
		if info, err := imaging.ProbeWithin(p.Body, imaging.Limits{Pixels: 1 << 20}); err != nil || max(info.Width, info.Height) != last {
			t.Errorf("%d asked, %d possible: %+v, %v; want %d", c.asked, c.above, info, err, last)
		}
	}
}

// late is a renderer that fails at first.
type late struct {
	vectors
	fails []error
}

func (l *late) Render(ctx context.Context, svg []byte, side int) (*image.NRGBA, error) {
	if len(l.fails) > 0 {
		err := l.fails[0]
		l.fails = l.fails[1:]
		return nil, fmt.Errorf("draw svg: %w", err)
	}
	return l.vectors.Render(ctx, svg, side)
}

// TestTimeIsUp_AnswersBusyAndKeepsNothing: a machine that was busy for a while later gives the same
// image as every other.
func TestTimeIsUp_AnswersBusyAndKeepsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := brandOf(iconOf("", w.put(barSVG(t, "#189"), "svg"), w.raster(bar(128, 64, black))))
	want := w.draw(b, asked(1024, imaging.PNG))
	folder := t.TempDir()
	drawn, err := variants.New(variants.Config{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	studio, err := logo.NewStudio(w.files, &late{fails: []error{context.DeadlineExceeded, resvg.ErrBusy}}, drawn)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if p, err := studio.Draw(t.Context(), b, asked(1024, imaging.PNG)); !errors.Is(err, variants.ErrBusy) {
			t.Errorf("in want of time: %v, %v", p, err)
		}
	}
	p, err := studio.Draw(t.Context(), b, asked(1024, imaging.PNG))
	if err != nil || !bytes.Equal(p.Body, want.Body) || p.ETag != want.ETag {
		t.Errorf("with time: %v, %s; want %s", err, p.ETag, want.ETag)
	}
	drawn.Close()
	if kept := filesIn(t, folder); len(kept) != 1 {
		t.Errorf("files are kept: %v", kept)
	}
}

func filesIn(t *testing.T, folder string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestDraw_StepsDecideSize draws blurs with few steps, each time with a new renderer and without a
// cache: alone, and concurrently with others. The result does not depend on the time.
func TestDraw_StepsDecideSize(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const steps, patience = 12 << 18, time.Hour
	blurred := []byte(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100"><filter id="f"><feGaussianBlur stdDeviation="9"/></filter>` +
		`<g filter="url(#f)"><rect x="20" y="20" width="60" height="60" fill="#118899"/></g></svg>`)
	b := brandOf(iconOf("", w.put(blurred, "svg")))
	cache := t.TempDir()
	var first []byte
	for range 3 {
		few, err := resvg.New(t.Context(), resvg.Config{CacheDir: cache, Steps: steps, Timeout: patience, Concurrent: 1})
		if err != nil {
			t.Fatal(err)
		}
		drawn, err := variants.New(variants.Config{MakeTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		studio, err := logo.NewStudio(w.files, few, drawn)
		if err != nil {
			t.Fatal(err)
		}
		var crowd sync.WaitGroup
		for i := range 3 {
			crowd.Go(func() {
				if _, err := studio.Draw(t.Context(), b, asked(32+i, imaging.PNG)); err != nil {
					t.Error(err)
				}
			})
		}
		p, err := studio.Draw(t.Context(), b, asked(1024, imaging.PNG))
		crowd.Wait()
		drawn.Close()
		few.Close(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info, err := imaging.Probe(p.Body); err != nil || info.Width != 512 && info.Width != 256 {
			t.Errorf("%d pixels, %v; want half of 1024, or a quarter", info.Width, err)
		}
		if first == nil {
			first = p.Body
		}
		if !bytes.Equal(p.Body, first) {
			t.Error("the same request gave other bytes")
		}
	}
}

// TestDraw_SizeThatTookTooMuch_IsNotRetried: a request that ran out of time at a smaller size does not
// try the size twice.
func TestDraw_SizeThatTookTooMuch_IsNotRetried(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := brandOf(iconOf("", w.put(barSVG(t, "#189"), "svg")))
	vectors := &heavy{above: 600}
	studio := newStudio(t, w.files, vectors)
	for _, format := range []imaging.Format{imaging.PNG, imaging.WebP} {
		if _, err := studio.Draw(t.Context(), b, asked(1024, format)); err != nil {
			t.Fatal(err)
		}
	}
	if want := []int{1024, 512, 512}; !slices.Equal(vectors.sizes, want) {
		t.Errorf("tried %v, want %v", vectors.sizes, want)
	}
}

func TestDraw_BrokenRenderer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := brandOf(iconOf("", w.put(barSVG(t, "#189"), "svg")))
	for _, c := range []struct{ err, want error }{
		{errors.New("broken"), logo.ErrNotDrawn}, {context.DeadlineExceeded, variants.ErrBusy}, {variants.ErrBusy, variants.ErrBusy},
	} {
		studio := newStudio(t, w.files, &failing{err: c.err})
		if _, err := studio.Draw(t.Context(), b, asked(64, imaging.PNG)); !errors.Is(err, c.want) || !errors.Is(err, c.err) {
			t.Errorf("%v became %v", c.err, err)
		}
	}
}

func TestNewStudio_MissingParts_Fails(t *testing.T) {
	t.Parallel()
	if _, err := logo.NewStudio(nil, nil, nil); err == nil {
		t.Error("a studio without anything")
	}
}
