package logo_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"image"
	"image/color"
	"image/draw"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"letterhead/eventschemas"
	"letterhead/internal/assets"
	"letterhead/internal/imaging"
	"letterhead/internal/resvg"
	"letterhead/internal/resvg/resvgtest"
	"letterhead/internal/svg"
	"letterhead/internal/testmust"
	"letterhead/internal/variants"
	"letterhead/readapi/logo"
)

// resvgRenderer is compiled once for all tests.
var resvgRenderer = sync.OnceValues(func() (*resvg.Renderer, error) {
	return resvg.New(context.Background(), resvg.Config{CacheDir: resvgtest.Folder()})
})

// vectors counts the draws of the real renderer.
type vectors struct{ drawn atomic.Int64 }

func (v *vectors) Render(ctx context.Context, svg []byte, side int) (*image.NRGBA, error) {
	v.drawn.Add(1)
	r, err := resvgRenderer()
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

// world is a renderer with a folder of files.
type world struct {
	*logo.Renderer
	t       testing.TB
	folder  string
	files   *files
	vectors *vectors
}

func newWorld(t testing.TB) *world {
	t.Helper()
	// Compile before drawing: under the race detector it takes longer than an image may.
	testmust.Succeed(t, testmust.Err(resvgRenderer()))
	w := &world{t: t, folder: filepath.Join(t.TempDir(), "assets"), vectors: &vectors{}}
	where := "file://" + w.folder
	store := testmust.Get(assets.Open(t.Context(), where))(t)
	t.Cleanup(func() { store.Close() })
	w.files = &files{Store: store}
	w.Renderer = newRenderer(t, w.files, w.vectors)
	return w
}

func newRenderer(t testing.TB, files logo.Files, vectors logo.Vectors) *logo.Renderer {
	t.Helper()
	drawn := testmust.Get(variants.New(variants.Config{}))(t)
	t.Cleanup(drawn.Close)
	renderer := testmust.Get(logo.NewRenderer(files, vectors, drawn))(t)
	return renderer
}

// put stores a file unchanged and returns its entry.
func (w *world) put(data []byte, format string) eventschemas.Asset {
	w.t.Helper()
	id := testmust.Get(w.files.Put(w.t.Context(), data, format))(w.t)
	a := eventschemas.Asset{ID: id, Format: format, Size: int64(len(data))}
	if info, err := imaging.Probe(data); err == nil && info.Width > 0 {
		a.Width, a.Height = &info.Width, &info.Height
	}
	return a
}

// raster stores an image as PNG.
func (w *world) raster(img *image.NRGBA) eventschemas.Asset {
	w.t.Helper()
	data := testmust.Get(imaging.EncodePNG(img))(w.t)
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

func (w *world) draw(b logo.Brand, o logo.Options) logo.Image {
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

func request(size int, format imaging.Format) logo.Options {
	return logo.Options{Type: logo.Icon, Size: size, Format: format, Fallback: logo.Monogram}
}

// asSymbol is a request for a symbol, which keeps its ratio.
func asSymbol(size int, format imaging.Format) logo.Options {
	o := request(size, format)
	o.Type = logo.Symbol
	return o
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
	testmust.Succeed(t, err)
	return data
}

func pixels(t testing.TB, p logo.Image) *image.NRGBA {
	t.Helper()
	img, info, err := imaging.Decode(p.Body, imaging.Limits{})
	if err != nil {
		t.Fatalf("%s: %v", p.ContentType, err)
	}
	if want := map[imaging.Format]string{imaging.PNG: "image/png", imaging.WebP: "image/webp", imaging.JPEG: "image/jpeg"}[info.Format]; p.ContentType != want {
		t.Errorf("content type of a %s is %s, want %v", info.Format, p.ContentType, want)
	}
	return img
}

func alike(a, b color.NRGBA) bool {
	near := func(p, q uint8) bool { return max(p, q)-min(p, q) <= 6 }
	return near(a.A, b.A) && (a.A == 0 || near(a.R, b.R) && near(a.G, b.G) && near(a.B, b.B))
}
