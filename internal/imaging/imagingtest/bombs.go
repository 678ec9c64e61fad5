package imagingtest

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"slices"
)

// Bomb is a raster that takes a careless decoder gigabytes or minutes, or an invalid one.
type Bomb struct {
	Name string
	Data []byte
}

// RasterBombs returns rasters that a server of images must survive. None of them is a real logo.
func RasterBombs() []Bomb {
	small := smallPNG(40, 20)
	return []Bomb{
		{"PNG of 900 million pixels", PNGBomb()},
		{"the same in an ICO", ICO(PNGBomb())},
		{"ICO of 62 bytes", ICO(DIBHeader(0x7fffffff, 0x3fffffff, 32))},
		{"ICO with a core header", ICO(append(binary.LittleEndian.AppendUint32(nil, 12), 0xff, 0xff, 0xff, 0xff, 1, 0, 24, 0))},
		{"ICO with 65,535 entries", append([]byte{0, 0, 1, 0, 0xff, 0xff}, make([]byte, 65535*16)...)},
		{"GIF of 65535×65535", slices.Concat([]byte("GIF89a\xff\xff\xff\xff\x80\x00\x00"), make([]byte, 6), []byte{0x2c, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 2, 1, 0, 0, 0x3b})},
		{"WebP of 65536×16777216", []byte("RIFF\x1e\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x10\x00\x00\x00\xff\xff\xff\xff\xff\x00")},
		{"BMP that claims more than it has", append([]byte("BM\x00\x00\x00\x00\x00\x00\x00\x00\x36\x00\x00\x00"), DIBHeader(4000, 2000, 24)...)},
		{"JPEG that claims 65500×65500", claims(65500)},
		{"20 MB", append(slices.Clone(small), make([]byte, 20<<20)...)},
		{"cut off", small[:len(small)/2]},
		{"empty", nil},
		{"HTML", []byte("<!doctype html><script>alert(1)</script>")},
		{"SVG with a script", []byte(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><path d="M0 0h9v9z"/><script>alert(1)</script></svg>`)},
		{"GIF that is a script too", []byte("GIF89a/*" + string(make([]byte, 8)) + "*/=1;alert(1)")},
		{"AVIF", []byte("\x00\x00\x00\x1cftypavif\x00\x00\x00\x00avifmif1miaf")},
	}
}

// smallPNG returns a small valid PNG.
func smallPNG(w, h int) []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewNRGBA(image.Rect(0, 0, w, h))); err != nil {
		panic(err) // of a buffer
	}
	return b.Bytes()
}

// claims returns a small JPEG whose header declares a large size.
func claims(side uint16) []byte {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 16, 16)), nil); err != nil {
		panic(err) // of a buffer
	}
	data := b.Bytes()
	frame := bytes.Index(data, []byte{0xff, 0xc0}) // marker, length of two bytes, depth of one, height, width
	binary.BigEndian.PutUint16(data[frame+5:], side)
	binary.BigEndian.PutUint16(data[frame+7:], side)
	return data
}

// LargestPNG returns an image of the maximum size that is decoded: 4096×4096 pixels, half of them clear.
func LargestPNG() []byte {
	const side = 4096
	img := image.NewPaletted(image.Rect(0, 0, side, side), color.Palette{color.NRGBA{}, color.NRGBA{0x0b, 0x5f, 0xff, 0xff}})
	for i := range img.Pix {
		img.Pix[i] = uint8(i / 64 % 2)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		panic(err) // of a buffer
	}
	return b.Bytes()
}

// ICO returns an icon file with these images, each described as 0×0 in the directory.
func ICO(images ...[]byte) []byte {
	out := binary.LittleEndian.AppendUint16([]byte{0, 0, 1, 0}, uint16(len(images)))
	at := 6 + 16*len(images)
	for _, p := range images {
		out = append(out, 0, 0, 0, 0, 1, 0, 32, 0)
		out = binary.LittleEndian.AppendUint32(out, uint32(len(p)))
		out = binary.LittleEndian.AppendUint32(out, uint32(at))
		at += len(p)
	}
	return append(out, bytes.Join(images, nil)...)
}

// DIBHeader returns a BITMAPINFOHEADER for an icon, whose height includes the mask.
func DIBHeader(width, height int32, bits uint16) []byte {
	h := binary.LittleEndian.AppendUint32(nil, 40)
	h = binary.LittleEndian.AppendUint32(h, uint32(width))
	h = binary.LittleEndian.AppendUint32(h, uint32(2*height))
	h = append(h, 1, 0)
	h = binary.LittleEndian.AppendUint16(h, bits)
	return append(h, make([]byte, 24)...)
}

// NoisePNG returns a square image of noise in 256 colors, which is incompressible.
func NoisePNG(side int) []byte {
	noise := rand.NewChaCha8([32]byte{})
	colors := make(color.Palette, 256)
	for i := range colors {
		n := noise.Uint64()
		colors[i] = color.NRGBA{uint8(n), uint8(n >> 8), uint8(n >> 16), uint8(n >> 24)}
	}
	img := image.NewPaletted(image.Rect(0, 0, side, side), colors)
	_, _ = noise.Read(img.Pix) // never fails
	var b bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.NoCompression}
	if err := encoder.Encode(&b, img); err != nil {
		panic(err) // of a buffer
	}
	return b.Bytes()
}
