package imaging

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"sync"

	"github.com/HugoSmits86/nativewebp"
)

// jpegQuality is where logos and photos show no blocks at a third of a PNG's size.
const jpegQuality = 85

// pngEncoder keeps its buffers, some 800 kB each, for the next picture.
var pngEncoder = png.Encoder{BufferPool: new(pngBuffers)}

type pngBuffers struct{ pool sync.Pool }

func (p *pngBuffers) Get() *png.EncoderBuffer {
	b, _ := p.pool.Get().(*png.EncoderBuffer)
	return b // nil: the encoder makes one
}

func (p *pngBuffers) Put(b *png.EncoderBuffer) { p.pool.Put(b) }

// EncodePNG writes a PNG: with a palette when that holds all colors, else without an alpha channel when the
// picture is opaque.
func EncodePNG(img *image.NRGBA) ([]byte, error) {
	var b bytes.Buffer
	var what image.Image = img
	if small := indexed(img); small != nil {
		what = small
	}
	if err := pngEncoder.Encode(&b, what); err != nil {
		return nil, fmt.Errorf("encode png: %w", err)
	}
	return b.Bytes(), nil
}

// maxBundled is up to how many colors the format packs several indexes into one pixel, which nativewebp 0.9.3
// does not.
const maxBundled = 16

// visible counts the colors that are not clear. All clear ones are one to nativewebp.
func visible(palette color.Palette) int {
	n := 0
	for _, c := range palette {
		if c.(color.NRGBA).A > 0 {
			n++
		}
	}
	return n
}

// exactColor is a color that survives the way through 16-bit premultiplied colors, which nativewebp sends those of
// a palette: taken from the middle of what becomes the same 8 bits, it cannot be rounded to its neighbor.
type exactColor struct{ r, g, b, a uint32 }

func exactly(c color.NRGBA) *exactColor {
	a := uint32(c.A) * 0x101
	times := func(v uint8) uint32 { return ((uint32(v)<<8|0x80)*a + 0x7fff) / 0xffff }
	return &exactColor{times(c.R), times(c.G), times(c.B), a}
}

// RGBA implements color.Color.
func (c *exactColor) RGBA() (r, g, b, a uint32) { return c.r, c.g, c.b, c.a }

// EncodeWebP writes a lossless WebP. A picture that the format or the encoder cannot hold is ErrTooLarge or
// ErrUnsupported: nativewebp 0.9.3 fails on some black pictures of up to three pixels.
func EncodeWebP(img *image.NRGBA) ([]byte, error) {
	const longest = 1 << 14 // of the format
	if img.Rect.Dx() > longest || img.Rect.Dy() > longest {
		return nil, fmt.Errorf("encode webp of %d×%d pixels: %w", img.Rect.Dx(), img.Rect.Dy(), ErrTooLarge)
	}
	var b bytes.Buffer
	var what image.Image = img
	if few := indexed(img); few != nil && visible(few.Palette) > maxBundled {
		for i, c := range few.Palette {
			few.Palette[i] = exactly(c.(color.NRGBA))
		}
		what = few
	}
	if err := guarded(func() error { return nativewebp.Encode(&b, what, nil) }); err != nil {
		return nil, fmt.Errorf("encode webp: %w: %w", ErrUnsupported, err)
	}
	return b.Bytes(), nil
}

// EncodeJPEG writes a JPEG of the picture on a background, since the format has no alpha.
func EncodeJPEG(img *image.NRGBA, background RGB) ([]byte, error) {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, flatten(img, background), &jpeg.Options{Quality: jpegQuality}); err != nil {
		return nil, fmt.Errorf("encode jpeg: %w", err)
	}
	return b.Bytes(), nil
}

// flatten lays a picture on a color. The result is opaque, for which RGBA and NRGBA are the same.
func flatten(img *image.NRGBA, background RGB) *image.RGBA {
	w, h := img.Rect.Dx(), img.Rect.Dy()
	out := image.NewRGBA(image.Rect(0, 0, w, h))
	on := [3]uint32{uint32(background.R), uint32(background.G), uint32(background.B)}
	for y := range h {
		from := img.Pix[y*img.Stride : y*img.Stride+4*w]
		to := out.Pix[y*out.Stride : y*out.Stride+4*w]
		for i := 0; i < len(from); i += 4 {
			a := uint32(from[i+3])
			for c := range 3 {
				to[i+c] = uint8((uint32(from[i+c])*a + on[c]*(0xff-a) + 0x7f) / 0xff)
			}
			to[i+3] = 0xff
		}
	}
	return out
}
