package logo_test

import (
	"context"
	"errors"
	"image"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/assets"
	"letterhead/internal/imaging"
	"letterhead/internal/svg"
	"letterhead/internal/testmust"
	"letterhead/internal/variants"
	"letterhead/readapi/logo"
)

// The unreadable file has the right name and header, like one that an encoder wrote incorrectly.
func TestDraw_UnreadableImage_UsesNext(t *testing.T) {
	t.Parallel()
	for _, format := range []imaging.Format{imaging.PNG, imaging.WebP} {
		w := newWorld(t)
		data, err := imaging.EncodePNG(bar(32, 16, black))
		if format == imaging.WebP {
			data, err = imaging.EncodeWebP(bar(32, 16, black))
		}
		testmust.Succeed(t, err)
		broken := w.put(data[:len(data)*3/4], string(format))
		whole := w.raster(bar(64, 32, black))
		p := w.draw(brandOf(iconOf("", broken, whole)), request(32, format))
		if img := pixels(t, p); !alike(img.NRGBAAt(16, 16), black) {
			t.Errorf("%s: %v", format, img.NRGBAAt(16, 16))
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
			p := w.draw(b, request(64, format))
			if img := pixels(t, p); p.Fallback != "" || img.Rect.Max != image.Pt(64, 64) || !alike(img.NRGBAAt(32, 32), black) {
				t.Errorf("%s: %v %v", format, img.Rect, img.NRGBAAt(32, 32))
			}
		}
	}
	_, err := w.Draw(t.Context(), brandOf(iconOf("", broken)), request(64, imaging.PNG))
	if !errors.Is(err, logo.ErrNotDrawn) || !strings.Contains(err.Error(), broken.ID) {
		t.Errorf("without another file: %v, want ErrNotDrawn with %q", err, broken.ID)
	}
}

// lettered has letters that only browsers draw.
const lettered = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 90 30"><path d="M0 0h9v9H0z"/><text x="10" y="25" font-size="24">電機</text></svg>`

// Letters that no embedded font has are drawn by browsers only: the vector is answered as it is, and nothing drawn of it.
func TestDraw_LettersOfOtherScripts_AreOnlyInTheVector(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	vector := w.put([]byte(lettered), "svg")
	square := request(64, imaging.SVG)
	square.Type = logo.Full
	only := eventschemas.Logo{Type: "logo", Formats: []eventschemas.Asset{vector}}
	if p := w.draw(brandOf(only), square); p.Fallback != "" || !strings.Contains(string(p.Body), "電機") {
		t.Errorf("the vector is %q, %s", p.Fallback, p.Body)
	}
	for _, format := range []imaging.Format{imaging.PNG, imaging.WebP, imaging.JPEG} {
		for range 2 {
			if p := w.draw(brandOf(only), request(64, format)); p.Fallback == "" {
				t.Errorf("%s is drawn of the vector", format)
			}
			p := w.draw(brandOf(only, iconOf("dark", w.raster(bar(64, 64, black)))), request(64, format))
			if img := pixels(t, p); p.Fallback != "" || !alike(img.NRGBAAt(32, 32), black) {
				t.Errorf("%s: %q, want the icon", format, p.Fallback)
			}
		}
	}
}

// A vector with such letters is read and parsed once, not for each request.
func TestDraw_LettersOfOtherScripts_AreFoundOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	vector := w.put([]byte(lettered), "svg")
	for _, o := range []logo.Options{request(64, imaging.PNG), onPage(logo.Full, nearBlack, 64, imaging.WebP)} {
		w.draw(brandOf(iconOf("", vector)), o)
		read := w.files.read.Load()
		if p := w.draw(brandOf(iconOf("", vector)), o); p.Fallback != logo.Monogram || w.files.read.Load() != read {
			t.Errorf("%s: the fallback is %q, and the file is read again", o.Format, p.Fallback)
		}
	}
	if n := w.vectors.drawn.Load(); n > 0 {
		t.Errorf("the vector is drawn %d times, without its letters", n)
	}
}

// The square around a vector has all of its letters.
func TestDraw_LettersOfOtherScripts_AreInTheSquare(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.draw(brandOf(iconOf("", w.put([]byte(lettered), "svg"))), request(64, imaging.SVG))
	sketch := testmust.Get(svg.Sketch(p.Body))(t)
	ink := imaging.Ink(testmust.Get(w.vectors.Render(t.Context(), sketch, 90))(t))
	if middle := (ink.Min.X + ink.Max.X) / 2; middle < 43 || middle > 47 || ink.Dx() < 50 {
		t.Errorf("the ink is in %v of 90 pixels: %s", ink, p.Body)
	}
}

func TestDraw_MissingOrDamagedFile_UsesNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	svg := barSVG(t, "#118899")
	vector := w.put(svg, "svg")
	b := brandOf(iconOf("dark", vector, w.raster(bar(128, 64, black))))
	path := w.path(vector)
	other := barSVG(t, "#ff0000") // an intact file, but not the one with this id
	for _, c := range []struct {
		name   string
		size   int // different each time: a cached image of an intact file is answered without it
		damage func() error
	}{
		{"missing", 50, func() error { return os.Remove(path) }},
		{"damaged", 60, func() error { return os.WriteFile(path, other, 0o600) }},
	} {
		name, size := c.name, c.size
		testmust.Succeed(t, c.damage())
		next := w.draw(b, request(size, imaging.PNG))
		if img := pixels(t, next); !alike(img.NRGBAAt(size/2, size/2), black) {
			t.Errorf("%s: %v", name, img.NRGBAAt(size/2, size/2))
		}
		if _, err := w.Draw(t.Context(), brandOf(iconOf("", vector)), request(size, imaging.PNG)); !errors.Is(err, logo.ErrNotDrawn) {
			t.Errorf("%s, without another file: %v; want ErrNotDrawn", name, err)
		}
		testmust.Succeed(t, os.WriteFile(path, svg, 0o600))
		whole := w.draw(b, request(size, imaging.PNG))
		if img := pixels(t, whole); !alike(img.NRGBAAt(size/2, size/2), teal) || whole.ETag == next.ETag {
			t.Errorf("%s and restored: %v", name, img.NRGBAAt(size/2, size/2))
		}
	}
}

func TestDraw_StorageDown_ReturnsErrUnavailable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := brandOf(iconOf("dark", w.put(barSVG(t, "#118899"), "svg"), w.raster(bar(128, 64, black))))
	testmust.Succeed(t, os.Rename(w.folder, w.folder+".away"))
	if _, err := w.Draw(t.Context(), b, request(64, imaging.PNG)); !errors.Is(err, assets.ErrUnavailable) || errors.Is(err, logo.ErrNotDrawn) {
		t.Errorf("storage unavailable: %v", err)
	}
	if p := w.draw(brandOf(), request(64, imaging.PNG)); p.Fallback == "" { // needs no stored file
		t.Errorf("got %+v", p)
	}
	testmust.Succeed(t, os.Rename(w.folder+".away", w.folder))
	w.draw(b, request(64, imaging.PNG))
}

func TestDraw_CanceledByCaller_ReturnsCanceled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Draw(ctx, brandOf(iconOf("", w.raster(bar(128, 64, black)))), request(64, imaging.PNG)); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want Canceled", err)
	}
}

// failing draws nothing and counts its calls.
type failing struct {
	err   error
	calls int
}

func (f *failing) Render(context.Context, []byte, int) (*image.NRGBA, error) {
	f.calls++
	return nil, f.err
}

// A retry would be as expensive as the first attempt.
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
		renderer := newRenderer(t, w.files, slow)
		draw := func() {
			t.Helper()
			p, err := renderer.Draw(t.Context(), b, request(64, imaging.PNG))
			if err != nil || p.Fallback != "" {
				t.Fatalf("%+v, %v", p, err)
			}
		}
		draw()
		if slow.calls != 2 {
			t.Errorf("%d vectors were tried for one image, want 2", slow.calls)
		}
		draw()
		if slow.calls != 2 {
			t.Errorf("%d were retried immediately, want 0", slow.calls-2)
		}
		time.Sleep(11 * time.Minute)
		draw()
		if slow.calls != 4 {
			t.Errorf("%d were retried later, want 2", slow.calls-2)
		}
	})
}

func TestDraw_RendererFails_ClassifiesError(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := brandOf(iconOf("", w.put(barSVG(t, "#189"), "svg")))
	for _, c := range []struct{ err, want error }{
		{errors.New("broken"), logo.ErrNotDrawn}, {context.DeadlineExceeded, variants.ErrBusy}, {variants.ErrBusy, variants.ErrBusy},
	} {
		renderer := newRenderer(t, w.files, &failing{err: c.err})
		if _, err := renderer.Draw(t.Context(), b, request(64, imaging.PNG)); !errors.Is(err, c.want) || !errors.Is(err, c.err) {
			t.Errorf("Draw returned %[2]v for %[1]v", c.err, err)
		}
	}
}

func TestNewRenderer_MissingParts_Fails(t *testing.T) {
	t.Parallel()
	if _, err := logo.NewRenderer(nil, nil, nil); err == nil {
		t.Error("NewRenderer(nil, nil, nil) succeeded")
	}
}
