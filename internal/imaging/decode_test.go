package imaging_test

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"letterhead/internal/imaging"
	"letterhead/internal/imaging/imagingtest"
	"letterhead/internal/testmust"
)

func readRaster(t testing.TB, name string) []byte {
	t.Helper()
	data := testmust.Get(os.ReadFile(filepath.Join("testdata", "rasters", name)))(t)
	return data
}

// quadrants are the colors of the test drawing: upper left, upper right, lower left, lower right.
var (
	quadrants = [4]color.NRGBA{{255, 0, 0, 255}, {0, 255, 0, 255}, {0, 0, 255, 255}, {255, 255, 255, 128}}
	onWhite   = [4]color.NRGBA{{255, 0, 0, 255}, {0, 255, 0, 255}, {0, 0, 255, 255}, {255, 255, 255, 255}}
	inGrey    = [4]color.NRGBA{{76, 76, 76, 255}, {150, 150, 150, 255}, {29, 29, 29, 255}, {255, 255, 255, 255}}
	black     = [4]color.NRGBA{{0, 0, 0, 255}, {0, 0, 0, 255}, {0, 0, 0, 255}, {0, 0, 0, 255}}
)

func checkQuadrants(t *testing.T, img *image.NRGBA, want [4]color.NRGBA, tolerance int) {
	t.Helper()
	if img.Rect != image.Rect(0, 0, 32, 16) {
		t.Fatalf("bounds %v", img.Rect)
	}
	for i, p := range []image.Point{{4, 4}, {28, 4}, {4, 12}, {28, 12}} {
		got := img.NRGBAAt(p.X, p.Y)
		for _, d := range []int{int(got.R) - int(want[i].R), int(got.G) - int(want[i].G), int(got.B) - int(want[i].B), int(got.A) - int(want[i].A)} {
			if d > tolerance || d < -tolerance {
				t.Errorf("at %v: %v, want %v", p, got, want[i])
				break
			}
		}
	}
}

func TestDecode(t *testing.T) {
	cases := []struct {
		file      string
		format    imaging.Format
		want      [4]color.NRGBA
		tolerance int
	}{
		{"rgb.png", imaging.PNG, onWhite, 0},
		{"rgba.png", imaging.PNG, quadrants, 0},
		{"palette.png", imaging.PNG, onWhite, 0},
		{"grey16.png", imaging.PNG, inGrey, 1},
		{"rgb.jpg", imaging.JPEG, onWhite, 6},
		{"progressive.jpg", imaging.JPEG, onWhite, 6},
		{"grey.jpg", imaging.JPEG, inGrey, 6},
		{"cmyk.jpg", imaging.JPEG, onWhite, 8},
		{"still.gif", imaging.GIF, onWhite, 0},
		{"animated.gif", imaging.GIF, onWhite, 0},
		{"lossless.webp", imaging.WebP, quadrants, 0},
		{"lossy.webp", imaging.WebP, onWhite, 12},
		{"alpha.webp", imaging.WebP, quadrants, 12},
		{"animated.webp", imaging.WebP, quadrants, 0},
		{"animated-lossy.webp", imaging.WebP, quadrants, 12},
		{"rgb.bmp", imaging.BMP, onWhite, 0},
		{"rgba.bmp", imaging.BMP, onWhite, 0}, // the fourth byte is not alpha in this kind of file
		{"palette.bmp", imaging.BMP, onWhite, 0},
		{"multi.ico", imaging.ICO, quadrants, 0},
		{"bitmaps.ico", imaging.ICO, quadrants, 0},
		{"picture.avif", imaging.AVIF, onWhite, 12},
		{"alpha.avif", imaging.AVIF, quadrants, 12},
		{"ten-bits.avif", imaging.AVIF, quadrants, 12}, // of 10 bits a channel
	}
	for i := 1; i <= 8; i++ {
		cases = append(cases, struct {
			file      string
			format    imaging.Format
			want      [4]color.NRGBA
			tolerance int
		}{fmt.Sprintf("exif%d.jpg", i), imaging.JPEG, onWhite, 6})
	}
	for _, c := range cases {
		t.Run(c.file, func(t *testing.T) {
			data := readRaster(t, c.file)
			info, err := imaging.Probe(data)
			if want := (imaging.Info{Format: c.format, Width: 32, Height: 16}); err != nil || info != want {
				t.Fatalf("probe: %+v, %v; want %+v", info, err, want)
			}
			img, again, err := imaging.Decode(data, imaging.Limits{})
			if err != nil || again != info {
				t.Fatalf("decode: %+v, %v; want %v", again, err, info)
			}
			checkQuadrants(t, img, c.want, c.tolerance)
		})
	}
}

func TestDecode_OneBit(t *testing.T) {
	img, _, err := imaging.Decode(readRaster(t, "mono.bmp"), imaging.Limits{})
	testmust.Succeed(t, err)
	seen := map[color.NRGBA]bool{}
	for i := 0; i < len(img.Pix); i += 4 {
		seen[color.NRGBA{img.Pix[i], img.Pix[i+1], img.Pix[i+2], img.Pix[i+3]}] = true
	}
	if len(seen) != 2 || !seen[black[0]] || !seen[onWhite[3]] || img.NRGBAAt(28, 12) != onWhite[3] {
		t.Errorf("colors %v", seen)
	}
}

func TestDecode_GIFFrameSmallerThanCanvas(t *testing.T) {
	frame := image.NewPaletted(image.Rect(8, 4, 16, 8), color.Palette{color.NRGBA{255, 0, 0, 255}})
	var b bytes.Buffer
	err := gif.EncodeAll(&b, &gif.GIF{Image: []*image.Paletted{frame}, Delay: []int{0}, Config: image.Config{Width: 32, Height: 16, ColorModel: frame.Palette}})
	testmust.Succeed(t, err)
	img, info, err := imaging.Decode(b.Bytes(), imaging.Limits{})
	if err != nil || info.Width != 32 || img.Rect.Dx() != 32 {
		t.Fatalf("%+v, %v", info, err)
	}
	if img.NRGBAAt(0, 0).A != 0 || img.NRGBAAt(8, 4) != (color.NRGBA{255, 0, 0, 255}) || img.NRGBAAt(16, 8).A != 0 {
		t.Error("the frame is not drawn at its offset")
	}
}

func TestSniff(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		want imaging.Format
	}{
		"nothing":          {"", ""},
		"HTML":             {"<!doctype html><html><svg></svg></html>", ""},
		"HTML as an icon":  {"<html><head><title>404</title>", ""},
		"text":             {"favicon", ""},
		"JSON":             {`{"a":1}`, ""},
		"PDF":              {"%PDF-1.4", ""},
		"SVG":              {" \n<svg viewBox='0 0 1 1'/>", imaging.SVG},
		"SVG with a start": {"\xef\xbb\xbf<?xml version='1.0'?><!-- a > b --><!DOCTYPE svg [<!ENTITY a 'b>'>]><x:svg xmlns:x='http://www.w3.org/2000/svg'/>", imaging.SVG},
		"SVG, upper case":  {"<SVG></SVG>", ""}, // XML is case-sensitive
		"svgfoo":           {"<svgfoo>", ""},
		"AVIF":             {"\x00\x00\x00\x1cftypavif", imaging.AVIF},
		"a BMP's letters":  {"BM and then something that is no bitmap", ""},
		"gzip of nothing":  {"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00", ""},
		"polyglot":         {"GIF89a/*\x01\x00*/=1;alert(1)", imaging.GIF},
	} {
		if got := imaging.Sniff([]byte(c.data)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if _, err := imaging.Probe([]byte("<html>")); !errors.Is(err, imaging.ErrUnknown) {
		t.Errorf("HTML: %v, want ErrUnknown", err)
	}
	if _, _, err := imaging.Decode([]byte("<svg/>"), imaging.Limits{}); !errors.Is(err, imaging.ErrUnsupported) {
		t.Errorf("an SVG decodes: %v, want ErrUnsupported", err)
	}
}

// TestBombs decodes files that cost a careless decoder gigabytes, at almost no cost.
func TestBombs(t *testing.T) {
	bomb := imagingtest.PNGBomb()
	if c, err := png.DecodeConfig(bytes.NewReader(bomb)); err != nil || c.Width != 30000 {
		t.Fatalf("the bomb is no valid file: %v", err)
	}
	if z, err := zlib.NewReader(bytes.NewReader(bomb[8+25+8:])); err != nil {
		t.Fatalf("the bomb is no valid file: %v", err)
	} else if n, err := io.Copy(io.Discard, z); err != nil || n != 30000*3751 {
		t.Fatalf("the bomb holds %d bytes: %v", n, err)
	}
	want := map[string]error{
		"PNG of 900 million pixels": imaging.ErrTooLarge, "the same in an ICO": imaging.ErrTooLarge, "GIF of 65535×65535": imaging.ErrTooLarge,
		"JPEG that claims 65500×65500": imaging.ErrTooLarge, "20 MB": imaging.ErrTooLarge, "empty": imaging.ErrUnknown, "HTML": imaging.ErrUnknown,
		"SVG with a script": imaging.ErrUnsupported,
	}
	for _, c := range imagingtest.RasterBombs() {
		want := want[c.Name]
		if want == nil {
			want = imaging.ErrMalformed
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := imaging.Decode(c.Data, imaging.Limits{})
		runtime.ReadMemStats(&after)
		if !errors.Is(err, want) {
			t.Errorf("%s: decode %v; want %v", c.Name, err, want)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
			t.Errorf("%s: %d bytes allocated", c.Name, used)
		}
		if c.Name == "ICO of 62 bytes" && len(c.Data) != 62 {
			t.Errorf("the bomb has %d bytes", len(c.Data))
		}
	}
}

func TestICO_LargestWithinLimits(t *testing.T) {
	bomb, small, large := imagingtest.PNGBomb(), readRaster(t, "rgba.png"), pngOf(t, 40, 40)
	broken := append(imagingtest.DIBHeader(100, 100, 32), 1, 2, 3)
	for name, c := range map[string]struct {
		file  []byte
		width int
	}{
		"largest last":          {imagingtest.ICO(small, large), 40},
		"largest first":         {imagingtest.ICO(large, small), 40},
		"with a bomb":           {imagingtest.ICO(bomb, small), 32},
		"with a broken one":     {imagingtest.ICO(broken, small), 32},
		"with a non-image":      {imagingtest.ICO([]byte("<html>"), small, nil), 32},
		"a cursor":              {append([]byte{0, 0, 2}, imagingtest.ICO(small)[3:]...), 32},
		"an entry cut off":      {append([]byte{0, 0, 1, 0, 9, 0}, imagingtest.ICO(small)[6:]...), 32},
		"overlapping: two in 1": {overlapping(small), 32},
	} {
		info, err := imaging.Probe(c.file)
		if err != nil || info.Width != c.width || info.Format != imaging.ICO {
			t.Errorf("%s: %+v, %v", name, info, err)
			continue
		}
		img, _, err := imaging.Decode(c.file, imaging.Limits{})
		if err != nil || img.Rect.Dx() != c.width {
			t.Errorf("%s: decode %v", name, err)
		}
	}
}

// overlapping returns an icon whose entries all refer to one image, and one to its middle.
func overlapping(picture []byte) []byte {
	file := imagingtest.ICO(picture, nil, nil)
	for i := range 2 {
		copy(file[6+16*(i+1):], file[6:22])
	}
	binary.LittleEndian.PutUint32(file[6+16*2+12:], uint32(6+16*3+20))
	return file
}

func pngOf(t *testing.T, w, h int) []byte {
	t.Helper()
	data := testmust.Get(imaging.EncodePNG(image.NewNRGBA(image.Rect(0, 0, w, h))))(t)
	return data
}

func TestDecode_IconBitmaps(t *testing.T) {
	red, clear := color.NRGBA{255, 0, 0, 255}, color.NRGBA{}
	palette := []byte{0, 0, 0, 0, 0, 0, 255, 0} // black, red
	for name, c := range map[string]struct {
		data []byte
		want [2]color.NRGBA // the two pixels of a 2×1 image
	}{
		"1 bit with a mask":          {cat(imagingtest.DIBHeader(2, 1, 1), palette, []byte{0xc0, 0, 0, 0}, []byte{0x40, 0, 0, 0}), [2]color.NRGBA{red, clear}},
		"4 bits with a mask":         {cat(imagingtest.DIBHeader(2, 1, 4), palette, make([]byte, 14*4), []byte{0x11, 0, 0, 0}, []byte{0x80, 0, 0, 0}), [2]color.NRGBA{clear, red}},
		"8 bits with a mask":         {cat(imagingtest.DIBHeader(2, 1, 8), palette, make([]byte, 254*4), []byte{1, 1, 0, 0}, []byte{0x40, 0, 0, 0}), [2]color.NRGBA{red, clear}},
		"16 bits":                    {cat(imagingtest.DIBHeader(2, 1, 16), []byte{0, 0x7c, 0, 0x7c}, []byte{0x40, 0, 0, 0}), [2]color.NRGBA{red, clear}},
		"24 bits with a mask":        {cat(imagingtest.DIBHeader(2, 1, 24), []byte{0, 0, 255, 0, 0, 255, 0, 0}, []byte{0x40, 0, 0, 0}), [2]color.NRGBA{red, clear}},
		"32 bits, alpha beats mask":  {cat(imagingtest.DIBHeader(2, 1, 32), []byte{0, 0, 255, 255, 0, 0, 255, 128}, []byte{0xc0, 0, 0, 0}), [2]color.NRGBA{red, {255, 0, 0, 128}}},
		"32 bits, alpha left empty":  {cat(imagingtest.DIBHeader(2, 1, 32), []byte{0, 0, 255, 0, 0, 0, 255, 0}, []byte{0x40, 0, 0, 0}), [2]color.NRGBA{red, clear}},
		"32 bits without the mask":   {cat(imagingtest.DIBHeader(2, 1, 32), []byte{0, 0, 255, 255, 0, 0, 255, 0}), [2]color.NRGBA{red, {255, 0, 0, 0}}},
		"24 bits without the mask":   {cat(imagingtest.DIBHeader(2, 1, 24), []byte{0, 0, 255, 0, 0, 255, 0, 0}), [2]color.NRGBA{red, red}},
		"fewer colors than possible": {cat(withColors(imagingtest.DIBHeader(2, 1, 8), 2), palette, []byte{1, 1, 0, 0}, []byte{0, 0, 0, 0}), [2]color.NRGBA{red, red}},
	} {
		img, info, err := imaging.Decode(imagingtest.ICO(c.data), imaging.Limits{})
		if err != nil || info.Width != 2 || info.Height != 1 {
			t.Errorf("%s: %+v, %v", name, info, err)
			continue
		}
		if got := [2]color.NRGBA{img.NRGBAAt(0, 0), img.NRGBAAt(1, 0)}; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	wrong := imagingtest.ICO(cat(withColors(imagingtest.DIBHeader(2, 1, 8), 2), palette, []byte{1, 2, 0, 0}, []byte{0, 0, 0, 0}))
	if _, _, err := imaging.Decode(wrong, imaging.Limits{}); !errors.Is(err, imaging.ErrMalformed) {
		t.Errorf("a color past the palette: %v, want ErrMalformed", err)
	}
}

func cat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func withColors(header []byte, n uint32) []byte {
	binary.LittleEndian.PutUint32(header[32:], n)
	return header
}

func TestDecode_TopDownBMPWithMasks(t *testing.T) {
	header := imagingtest.DIBHeader(1, 0, 16)
	binary.LittleEndian.PutUint32(header[8:], 0xfffffffe) // two rows, top first
	binary.LittleEndian.PutUint32(header[16:], 3)         // bit fields
	masks := []byte{0, 0xf8, 0, 0, 0xe0, 0x07, 0, 0, 0x1f, 0, 0, 0}
	file := cat([]byte("BM"), make([]byte, 8), []byte{66, 0, 0, 0}, header, masks, []byte{0, 0xf8, 0, 0}, []byte{0xe0, 0x07, 0, 0})
	img, _, err := imaging.Decode(file, imaging.Limits{})
	if err != nil || img.NRGBAAt(0, 0) != (color.NRGBA{255, 0, 0, 255}) || img.NRGBAAt(0, 1) != (color.NRGBA{0, 255, 0, 255}) {
		t.Errorf("%v, %v", img, err)
	}
	binary.LittleEndian.PutUint32(file[14+16:], 1) // run-length encoded
	if _, err := imaging.Probe(file); !errors.Is(err, imaging.ErrUnsupported) {
		t.Errorf("run-length encoding: %v, want ErrUnsupported", err)
	}
}

func TestJPEG_ScanLimit(t *testing.T) {
	data := readRaster(t, "progressive.jpg")
	at := bytes.LastIndex(data, []byte{0xff, 0xda})
	scan := data[at : len(data)-2]
	flood := append(bytes.Clone(data[:at]), bytes.Repeat(scan, 1000)...)
	flood = append(flood, 0xff, 0xd9)
	if _, _, err := imaging.Decode(flood, imaging.Limits{}); !errors.Is(err, imaging.ErrTooLarge) {
		t.Errorf("a thousand scans: %v, want ErrTooLarge", err)
	}
}

func TestDecode_Truncated_Fails(t *testing.T) {
	files := testmust.Get(filepath.Glob(filepath.Join("testdata", "rasters", "*.*")))(t)
	for _, file := range files {
		data := readRaster(t, filepath.Base(file))
		for cut := range len(data) {
			if img, _, err := imaging.Decode(data[:cut], imaging.Limits{}); err == nil && img == nil {
				t.Fatalf("%s cut at %d: neither image nor error", file, cut)
			}
		}
		if filepath.Ext(file) == ".ico" {
			continue // a smaller image may be complete
		}
		if _, _, err := imaging.Decode(data[:len(data)/3], imaging.Limits{}); err == nil {
			t.Errorf("a third of %s decodes", file)
		}
	}
}

func TestLimits(t *testing.T) {
	data := pngOf(t, 100, 50)
	for name, c := range map[string]struct {
		limits imaging.Limits
		want   error
	}{
		"within":        {imaging.Limits{Pixels: 5000, Side: 100, Bytes: len(data)}, nil},
		"a pixel over":  {imaging.Limits{Pixels: 4999}, imaging.ErrTooLarge},
		"a side over":   {imaging.Limits{Side: 99}, imaging.ErrTooLarge},
		"a byte over":   {imaging.Limits{Bytes: len(data) - 1}, imaging.ErrTooLarge},
		"default sides": {imaging.Limits{}, nil},
	} {
		if _, _, err := imaging.Decode(data, c.limits); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestDecode_TotalMemory(t *testing.T) {
	img := image.NewNRGBA(image.Rect(0, 0, 2000, 1000))
	draw.Draw(img, img.Rect, image.NewUniform(color.NRGBA{10, 200, 30, 255}), image.Point{}, draw.Src)
	var b bytes.Buffer
	testmust.Succeed(t, jpeg.Encode(&b, img, nil))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, _, err := imaging.Decode(b.Bytes(), imaging.Limits{}); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	const perPixel = 16 // the doc comment says about 250 MB at 16 million pixels
	if used := after.TotalAlloc - before.TotalAlloc; used > 2000*1000*perPixel {
		t.Errorf("%d bytes a pixel", used/(2000*1000))
	}
}

func rasterSeeds(f *testing.F) {
	files := testmust.Get(filepath.Glob(filepath.Join("testdata", "rasters", "*.*")))(f)
	for _, file := range files {
		f.Add(readRaster(f, filepath.Base(file)))
	}
}

// fuzzLimits keep a single run short.
var fuzzLimits = imaging.Limits{Pixels: 1 << 16, Bytes: 1 << 16}

func FuzzDecode(f *testing.F) {
	rasterSeeds(f)
	f.Fuzz(checkDecode)
}

func checkDecode(t *testing.T, data []byte) {
	info, err := imaging.ProbeWithin(data, fuzzLimits)
	img, again, decodeErr := imaging.Decode(data, fuzzLimits)
	switch {
	case err != nil && decodeErr == nil:
		t.Fatalf("decoded an image that the probe rejected: %v", err)
	case decodeErr != nil:
		if img != nil {
			t.Fatalf("Decode returned both an image and an error: %v", decodeErr)
		}
	case info != again || img.Rect != image.Rect(0, 0, info.Width, info.Height) || info.Width*info.Height > fuzzLimits.Pixels:
		t.Fatalf("probe %+v, decode %+v, bounds %v", info, again, img.Rect)
	}
}

func FuzzICO(f *testing.F) {
	small := readRaster(f, "rgba.png")
	f.Add(imagingtest.ICO(small)[6:])
	f.Add(imagingtest.ICO(imagingtest.DIBHeader(0x7fffffff, 0x3fffffff, 32))[6:])
	f.Add(overlapping(small)[6:])
	f.Add(readRaster(f, "bitmaps.ico")[6:])
	f.Fuzz(func(t *testing.T, rest []byte) {
		checkDecode(t, append([]byte{0, 0, 1, 0, 3, 0}, rest...))
	})
}

func FuzzBMP(f *testing.F) {
	for _, name := range []string{"rgb.bmp", "rgba.bmp", "palette.bmp", "mono.bmp"} {
		f.Add(readRaster(f, name)[14:])
	}
	f.Fuzz(func(t *testing.T, rest []byte) {
		checkDecode(t, append([]byte("BM\x00\x00\x00\x00\x00\x00\x00\x00\x36\x00\x00\x00"), rest...))
	})
}

func FuzzProbe(f *testing.F) {
	rasterSeeds(f)
	f.Add([]byte(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><path d="M0 0h9v9z"/></svg>`))
	f.Add([]byte("\x1f\x8b\x08"))
	f.Fuzz(func(t *testing.T, data []byte) {
		info, err := imaging.Probe(data)
		if err == nil && (info.Format == "" || info.Width < 0 || info.Height < 0 || info.Width*info.Height > imaging.MaxPixels) {
			t.Fatalf("got %+v", info)
		}
	})
}
