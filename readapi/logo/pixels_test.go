package logo_test

import (
	"encoding/base64"
	"flag"
	"fmt"
	"image"
	"image/draw"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"letterhead/eventschemas"
	"letterhead/internal/imaging"
	"letterhead/internal/svg"
	"letterhead/internal/testmust"
	"letterhead/readapi/logo"
)

// testdata/pixels contains SVG files of one feature each, with Chromium's rendering next to each. To
// render the references again, with Chromium 156 or later as `chromium`:
//
//	go test ./readapi/logo -run TestDraw_Vectors_MatchReferences -update-pixels
var updatePixels = flag.Bool("update-pixels", false, "redraw the references of the pixel tests with Chromium")

const pixelFolder = "testdata/pixels"

// pixelSizes are the compared sizes of the longer side, in pixels.
var pixelSizes = []int{128, 64}

const (
	// cellSide is the side of a cell, in pixels: below it, two renderers place the same edge differently.
	cellSide = 2
	// cellDiffers is the difference of a premultiplied channel from which a cell is wrong, as in
	// comparisons of other renderers.
	cellDiffers = 24
	// mostWrong is the share of inked cells that may be wrong: if two renderers antialias a slanted
	// edge differently, a few of its cells differ.
	mostWrong = 0.02
)

// pixelCases are the SVGs whose aspect ratio is not 1:1, or that resvg is known to draw differently.
var pixelCases = map[string]struct {
	aspect float64 // width to height; 0 = 1
	wrong  float64 // share of wrong cells; 0 = mostWrong
	why    string
}{
	"aspect-meet":    {aspect: 2},
	"aspect-slice":   {aspect: 2},
	"aspect-none":    {aspect: 0.5},
	"wordmark":       {aspect: 4},
	"dashes":         {wrong: 0.12, why: "dashes begin a part of a pixel from where Chromium's do; at 64 pixels that is much of a dot"},
	"pattern":        {wrong: 0.36, why: "resvg draws one tile as pixels and repeats it: seams, where a tile is no whole number of pixels"},
	"pattern-turned": {wrong: 0.30, why: "as for pattern"},
}

// pixelDrawing is one file of the folder.
type pixelSVG struct {
	name          string
	svg           []byte
	wrong         float64
	width, height int // of its 128-pixel rendering
}

func (d pixelSVG) at(size int) image.Point {
	longest := max(d.width, d.height)
	return image.Pt((d.width*size+longest/2)/longest, (d.height*size+longest/2)/longest)
}

func (d pixelSVG) reference(size int) string {
	return filepath.Join(pixelFolder, fmt.Sprintf("%s.%d.png", d.name, size))
}

func pixelSVGs(t *testing.T) []pixelSVG {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(pixelFolder, "*.svg"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no SVGs: %v", err)
	}
	var out []pixelSVG
	for _, path := range files {
		svg := testmust.Get(os.ReadFile(path))(t)
		d := pixelSVG{name: strings.TrimSuffix(filepath.Base(path), ".svg"), svg: svg, wrong: mostWrong, width: pixelSizes[0], height: pixelSizes[0]}
		known := pixelCases[d.name]
		if known.wrong > 0 {
			d.wrong = known.wrong
		}
		switch {
		case known.aspect > 1:
			d.height = int(float64(d.height) / known.aspect)
		case known.aspect > 0:
			d.width = int(float64(d.width) * known.aspect)
		}
		out = append(out, d)
	}
	return out
}

// TestDraw_Vectors_MatchReferences processes each SVG like a crawled logo: through the sanitizer into the store, and
// from there through the renderer. The PNG and the WebP are compared with Chromium's rendering of the original file.
func TestDraw_Vectors_MatchReferences(t *testing.T) {
	drawings := pixelSVGs(t)
	if *updatePixels {
		drawReferences(t, drawings)
	}
	for name, known := range pixelCases {
		if !slices.ContainsFunc(drawings, func(d pixelSVG) bool { return d.name == name }) {
			t.Errorf("no SVG is named %s", name)
		}
		if (known.wrong > 0) != (known.why != "") {
			t.Errorf("%s: a share of wrong cells needs its reason", name)
		}
	}
	w := newWorld(t)
	for _, d := range drawings {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			icon := w.intake(t, d.svg)
			for _, size := range pixelSizes {
				want := readPNG(t, d.reference(size))
				if got := want.Rect.Size(); got != d.at(size) {
					t.Fatalf("the reference of %d pixels is %v, not %v", size, got, d.at(size))
				}
				drawn := w.decoded(t, icon, asSymbol(size, imaging.PNG))
				wrong := wrongCells(t, drawn, want)
				t.Logf("%d pixels: %.2f %% of the inked cells are wrong", size, 100*wrong)
				if wrong > d.wrong {
					t.Errorf("%d pixels: %.2f %% of the inked cells are wrong, at most %.2f %% may be", size, 100*wrong, 100*d.wrong)
				}
				webp := w.decoded(t, icon, asSymbol(size, imaging.WebP))
				if !slices.Equal(premultiplied(webp), premultiplied(drawn)) {
					t.Errorf("%d pixels: WebP and PNG show different images", size)
				}
			}
		})
	}
}

// intake stores a vector as a crawl does, without the rasters that a crawl adds.
func (w *world) intake(t testing.TB, data []byte) logo.Brand {
	t.Helper()
	clean, info, err := svg.Sanitize(data)
	testmust.Succeed(t, err)
	id := testmust.Get(w.files.Put(t.Context(), clean, "svg"))(t)
	return brandOf(iconOf("", eventschemas.Asset{ID: id, Format: "svg", Width: info.Width, Height: info.Height, Size: int64(len(clean))}))
}

// decoded draws a logo with the renderer and decodes it.
func (w *world) decoded(t testing.TB, b logo.Brand, o logo.Options) *image.NRGBA {
	t.Helper()
	made := testmust.Get(w.Draw(t.Context(), b, o))(t)
	img, info, err := imaging.Decode(made.Body, imaging.Limits{})
	testmust.Succeed(t, err)
	if info.Format != o.Format || made.Fallback != "" {
		t.Fatalf("requested %s, got %s; fallback %q", o.Format, info.Format, made.Fallback)
	}
	return img
}

func readPNG(t testing.TB, path string) *image.NRGBA {
	t.Helper()
	data := testmust.Get(os.ReadFile(path))(t)
	img, _, err := imaging.Decode(data, imaging.Limits{})
	testmust.Succeed(t, err)
	return img
}

func premultiplied(img *image.NRGBA) []uint8 {
	out := image.NewRGBA(img.Rect)
	draw.Draw(out, out.Rect, img, image.Point{}, draw.Src)
	return out.Pix
}

// wrongCells divides both images into a grid and returns the share of wrong cells among those where either has ink.
func wrongCells(t testing.TB, got, want *image.NRGBA) float64 {
	t.Helper()
	if got.Rect != want.Rect {
		t.Fatalf("drawn %v, want %v", got.Rect, want.Rect)
	}
	width, height := got.Rect.Dx(), got.Rect.Dy()
	a, b := premultiplied(got), premultiplied(want)
	inked, wrong := 0, 0
	for y := 0; y < height; y += cellSide {
		for x := 0; x < width; x += cellSide {
			var sums [2][4]int
			n := 0
			for yy := y; yy < min(y+cellSide, height); yy++ {
				for xx := x; xx < min(x+cellSide, width); xx++ {
					n++
					for c := range 4 {
						sums[0][c] += int(a[4*(yy*width+xx)+c])
						sums[1][c] += int(b[4*(yy*width+xx)+c])
					}
				}
			}
			if sums[0][3] == 0 && sums[1][3] == 0 {
				continue
			}
			inked++
			for c := range 4 {
				if d := sums[0][c] - sums[1][c]; max(d, -d) > cellDiffers*n {
					wrong++
					break
				}
			}
		}
	}
	if inked == 0 {
		t.Fatal("neither image has ink")
	}
	return float64(wrong) / float64(inked)
}

// drawReferences lets Chromium render every file in every size on one page, and crops the images.
func drawReferences(t *testing.T, drawings []pixelSVG) {
	const across, cell = 8, 160
	var page strings.Builder
	page.WriteString(`<!doctype html><style>html,body{margin:0;background:transparent}img{position:absolute}</style>`)
	places := map[string]image.Rectangle{}
	for i, d := range drawings {
		for j, size := range pixelSizes {
			k := len(pixelSizes)*i + j
			place := image.Rectangle{Max: d.at(size)}.Add(image.Pt(k%across*cell, k/across*cell))
			places[d.reference(size)] = place
			fmt.Fprintf(&page, `<img style="left:%dpx;top:%dpx;width:%dpx;height:%dpx" src="data:image/svg+xml;base64,%s">`,
				place.Min.X, place.Min.Y, place.Dx(), place.Dy(), base64.StdEncoding.EncodeToString(d.svg))
		}
	}
	folder := t.TempDir()
	source, shot := filepath.Join(folder, "page.html"), filepath.Join(folder, "page.png")
	testmust.Succeed(t, os.WriteFile(source, []byte(page.String()), 0o600))
	rows := (len(drawings)*len(pixelSizes) + across - 1) / across
	out, err := exec.CommandContext(t.Context(), "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
		"--force-color-profile=srgb", "--force-device-scale-factor=1", "--default-background-color=00000000", "--user-data-dir="+filepath.Join(folder, "profile"),
		fmt.Sprintf("--window-size=%d,%d", across*cell, (rows+1)*cell), "--screenshot="+shot, "file://"+source).CombinedOutput()
	if err != nil {
		t.Fatalf("chromium: %v\n%s", err, out)
	}
	all := readPNG(t, shot)
	for path, place := range places {
		if !place.In(all.Rect) {
			t.Fatalf("the screenshot is %v; %s was to be at %v", all.Rect, path, place)
		}
		cell := image.NewNRGBA(image.Rectangle{Max: place.Size()})
		draw.Draw(cell, cell.Rect, all, place.Min, draw.Src)
		data := testmust.Get(imaging.EncodePNG(cell))(t)
		testmust.Succeed(t, os.WriteFile(path, data, 0o644))
	}
}
