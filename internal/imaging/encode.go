package imaging

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"sync"

	"letterhead/internal/vp8l"
)

// jpegQuality is the quality at which logos and photos show no blocks at a third of a PNG's size.
const jpegQuality = 85

// pngEncoder reuses its buffers of about 800 kB each.
var pngEncoder = png.Encoder{BufferPool: new(pngBuffers)}

type pngBuffers struct{ pool sync.Pool }

func (p *pngBuffers) Get() *png.EncoderBuffer {
	b, _ := p.pool.Get().(*png.EncoderBuffer)
	return b // nil: the encoder allocates one
}

func (p *pngBuffers) Put(b *png.EncoderBuffer) { p.pool.Put(b) }

// EncodePNG encodes a PNG: with a palette if that holds all colors, else
// without an alpha channel if the image is opaque.
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

// EncodeWebP encodes a lossless WebP, with a palette if that holds all colors.
// It returns ErrTooLarge if the format cannot hold the image.
func EncodeWebP(img *image.NRGBA) ([]byte, error) {
	var data []byte
	var err error
	if small := indexed(img); small != nil {
		data, err = vp8l.EncodePaletted(small)
	} else {
		data, err = vp8l.Encode(img)
	}
	if err != nil {
		return nil, fmt.Errorf("encode webp of %d×%d pixels: %w: %w", img.Rect.Dx(), img.Rect.Dy(), ErrTooLarge, err)
	}
	return data, nil
}

// EncodeJPEG encodes a JPEG of the image on a background, because the format has no alpha.
func EncodeJPEG(img *image.NRGBA, background RGB) ([]byte, error) {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, flatten(img, background), &jpeg.Options{Quality: jpegQuality}); err != nil {
		return nil, fmt.Errorf("encode jpeg: %w", err)
	}
	return b.Bytes(), nil
}

// flatten draws an image on a color. The result is opaque, for which RGBA and NRGBA are the same.
func flatten(img *image.NRGBA, background RGB) *image.RGBA {
	w, h := img.Rect.Dx(), img.Rect.Dy()
	out := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		from := img.Pix[y*img.Stride : y*img.Stride+4*w]
		to := out.Pix[y*out.Stride : y*out.Stride+4*w]
		for i := 0; i < len(from); i += 4 {
			c := Over(background, from[i:i+4])
			to[i], to[i+1], to[i+2], to[i+3] = c.R, c.G, c.B, 0xff
		}
	}
	return out
}
