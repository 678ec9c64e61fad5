package resvg_test

import (
	"context"
	"fmt"
	"image"
	"image/color"
	"os"
	"sync"
	"testing"

	"letterhead/internal/resvg"
	"letterhead/internal/testmust"
)

// cacheDir is shared by the tests because compiling takes a second.
var cacheDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "resvg")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cacheDir = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// renderer returns a renderer that is shared by the tests.
var renderer = sync.OnceValues(func() (*resvg.Renderer, error) {
	return resvg.New(context.Background(), resvg.Config{CacheDir: cacheDir})
})

func draw(t testing.TB, svg string, side int) *image.NRGBA {
	t.Helper()
	r := testmust.Get(renderer())(t)
	img, err := r.Render(t.Context(), []byte(svg), side)
	if err != nil {
		t.Fatalf("%v\n%.300s", err, svg)
	}
	return img
}

const open = `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 100 50">`

var (
	clear = color.NRGBA{}
	red   = color.NRGBA{255, 0, 0, 255}
	green = color.NRGBA{0, 128, 0, 255}
	blue  = color.NRGBA{0, 0, 255, 255}
	black = color.NRGBA{0, 0, 0, 255}
)

// at is the expected color of a pixel in a drawing that is 100 pixels wide.
type at struct {
	x, y int
	want color.NRGBA
}

// TestRender_Images draws files whose rendering can be computed by hand.
func TestRender_Images(t *testing.T) {
	for _, c := range []struct {
		name, svg string
		points    []at
	}{
		{"a rectangle on a transparent background", `<rect x="10" y="10" width="30" height="30" fill="#ff0000"/>`, []at{{5, 5, clear}, {11, 11, red}, {38, 38, red}, {41, 41, clear}}},
		{"half clear white stays white", `<rect width="100" height="50" fill="#fff" opacity=".5"/>`, []at{{50, 25, color.NRGBA{255, 255, 255, 128}}}},
		{"half clear color", `<rect width="100" height="50" fill="#ff8000" fill-opacity=".5"/>`, []at{{50, 25, color.NRGBA{255, 128, 0, 128}}}},
		{"linear gradient", `<linearGradient id="g"><stop offset="0" stop-color="red"/><stop offset="1" stop-color="blue"/></linearGradient><rect width="100" height="50" fill="url(#g)"/>`, []at{{0, 25, red}, {50, 25, color.NRGBA{127, 0, 128, 255}}, {99, 25, blue}}},
		{"gradient that inherits stops", `<linearGradient id="a"><stop offset="0" stop-color="red"/><stop offset="1" stop-color="blue"/></linearGradient><linearGradient id="b" xlink:href="#a" x1="1" x2="0"/><rect width="100" height="50" fill="url(#b)"/>`, []at{{0, 25, blue}, {99, 25, red}}},
		{"radial gradient", `<radialGradient id="g" gradientUnits="userSpaceOnUse" cx="50" cy="25" r="25"><stop offset="0" stop-color="white"/><stop offset="1" stop-color="black"/></radialGradient><rect width="100" height="50" fill="url(#g)"/>`, []at{{50, 25, color.NRGBA{251, 251, 251, 255}}, {1, 1, black}}},
		{"mask", `<mask id="m"><rect width="50" height="50" fill="white"/></mask><rect width="100" height="50" fill="red" mask="url(#m)"/>`, []at{{25, 25, red}, {75, 25, clear}}},
		{"clip path", `<clipPath id="c"><circle cx="50" cy="25" r="20"/></clipPath><rect width="100" height="50" fill="red" clip-path="url(#c)"/>`, []at{{50, 25, red}, {35, 25, red}, {25, 25, clear}, {33, 8, clear}}},
		{"use", `<defs><rect id="r" width="10" height="10"/></defs><use xlink:href="#r" x="20" y="20" fill="blue"/><use href="#r" x="60" y="20" fill="red"/>`, []at{{5, 5, clear}, {25, 25, blue}, {65, 25, red}}},
		{"symbol", `<symbol id="s" viewBox="0 0 2 2"><rect width="1" height="2" fill="green"/></symbol><use href="#s" x="20" y="10" width="20" height="20"/>`, []at{{25, 20, green}, {35, 20, clear}}},
		{"currentColor", `<g color="blue"><rect width="100" height="50" fill="currentColor"/></g>`, []at{{50, 25, blue}}},
		{"currentColor without color is black", `<rect width="100" height="50" fill="currentColor"/>`, []at{{50, 25, black}}},
		{"style element", `<style>.a{fill:#00f}#b{fill:red}</style><rect class="a" width="50" height="50"/><rect id="b" class="a" x="50" width="50" height="50"/>`, []at{{25, 25, blue}, {75, 25, red}}},
		{"even-odd hole", `<path fill-rule="evenodd" fill="red" d="M10 0h40v50h-40zM20 10h20v30h-20z"/>`, []at{{15, 25, red}, {30, 25, clear}}},
		{"stroke", `<path stroke="red" stroke-width="10" d="M0 25h100"/>`, []at{{50, 22, red}, {50, 28, red}, {50, 35, clear}}},
		{"transform", `<rect width="10" height="10" fill="red" transform="translate(50 20) scale(2 1)"/>`, []at{{51, 21, red}, {68, 28, red}, {72, 28, clear}}},
		{"pattern", `<pattern id="p" width="20" height="20" patternUnits="userSpaceOnUse"><rect width="10" height="20" fill="blue"/></pattern><rect width="100" height="50" fill="url(#p)"/>`, []at{{5, 5, blue}, {15, 5, clear}, {25, 45, blue}}},
		{"drop shadow", `<filter id="f" x="-1" y="-1" width="3" height="3"><feOffset dx="30"/></filter><rect x="10" y="10" width="20" height="20" fill="red" filter="url(#f)"/>`, []at{{20, 20, clear}, {50, 20, red}}},
		{"embedded raster", `<image width="100" height="50" preserveAspectRatio="none" xlink:href="data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNgYPgPAAEDAQAIicLsAAAAAElFTkSuQmCC"/>`, []at{{50, 25, blue}}},
		{"nested svg", `<svg x="50" width="50" height="50" viewBox="0 0 1 1"><rect width="1" height="1" fill="green"/></svg>`, []at{{25, 25, clear}, {75, 25, green}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			img := draw(t, open+c.svg+"</svg>", 100)
			if img.Rect != image.Rect(0, 0, 100, 50) {
				t.Fatalf("bounds %v", img.Rect)
			}
			for _, p := range c.points {
				if got := img.NRGBAAt(p.x, p.y); !near(got, p.want) {
					t.Errorf("at %d,%d: %v, want %v", p.x, p.y, got, p.want)
				}
			}
		})
	}
}

// near allows for the rounding of gradients and ignores the color of transparent pixels.
func near(a, b color.NRGBA) bool {
	const slack = 4
	within := func(x, y uint8) bool { return max(x, y)-min(x, y) <= slack }
	return a.A == 0 && b.A == 0 || within(a.R, b.R) && within(a.G, b.G) && within(a.B, b.B) && within(a.A, b.A)
}

func TestRender_LongerSide(t *testing.T) {
	const shape = `<path d="M0 0h400v400h-400z"/></svg>`
	for _, c := range []struct {
		root string
		want image.Point
	}{
		{`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 100">`, image.Pt(64, 32)},
		{`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 200">`, image.Pt(32, 64)},
		{`<svg xmlns="http://www.w3.org/2000/svg" width="10" height="40">`, image.Pt(16, 64)},
		{`<svg xmlns="http://www.w3.org/2000/svg" width="1in" height="384px" viewBox="0 0 9 9">`, image.Pt(16, 64)},
		{`<svg xmlns="http://www.w3.org/2000/svg" viewBox='0 0 100 200'>`, image.Pt(32, 64)},
		{`<svg xmlns="http://www.w3.org/2000/svg" width="3" height="3">`, image.Pt(64, 64)},
		// The sides round to the same number, or wider cannot parse the first tag.
		{`<svg xmlns="http://www.w3.org/2000/svg" width="31.88" height="32">`, image.Pt(64, 64)},
		{`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1.4 .6">`, image.Pt(64, 27)},
		{`<svg xmlns="http://www.w3.org/2000/svg" viewBox='0 0 1.4 .6'>`, image.Pt(64, 27)},
		{`<svg xmlns="http://www.w3.org/2000/svg" viewBox='0 0 .6 1.4'>`, image.Pt(27, 64)},
		{`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 .6 1.4">`, image.Pt(27, 64)},
		// One side is less than half a pixel.
		{`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 .25">`, image.Pt(64, 16)},
		{`<svg xmlns="http://www.w3.org/2000/svg" viewBox='0 0 .1 .4'>`, image.Pt(16, 64)},
	} {
		if got := draw(t, c.root+shape, 64).Rect.Max; got != c.want {
			t.Errorf("%s: %v, want %v", c.root, got, c.want)
		}
	}
	// At a larger size the sides differ by a pixel.
	for root, want := range map[string]image.Point{
		`<svg xmlns="http://www.w3.org/2000/svg" width="31.88" height="32">`: image.Pt(1020, 1024),
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox='0 0 31.88 32'>`:    image.Pt(1020, 1024),
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox='0 0 32 31.88'>`:    image.Pt(1024, 1020),
	} {
		if got := draw(t, root+shape, 1024).Rect.Max; max(got.X, got.Y) != 1024 || got.X-want.X > 1 || want.X-got.X > 1 || got.Y-want.Y > 1 || want.Y-got.Y > 1 {
			t.Errorf("%s: %v, want %v", root, got, want)
		}
	}
}

// TestRender_Concurrent_SameImages draws more images concurrently than there are turns.
func TestRender_Concurrent_SameImages(t *testing.T) {
	r := testmust.Get(renderer())(t)
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			want := color.NRGBA{uint8(10 * i), 7, uint8(255 - 10*i), 255}
			svg := fmt.Sprintf(`%s<rect width="100" height="50" fill="#%02x%02x%02x"/></svg>`, open, want.R, want.G, want.B)
			img, err := r.Render(t.Context(), []byte(svg), 32+i)
			if err != nil || img.Rect.Dx() != 32+i || img.NRGBAAt(16, 8) != want {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	wg.Wait()
}
