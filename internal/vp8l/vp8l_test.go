package vp8l_test

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/image/webp"

	"letterhead/internal/vp8l"
)

// wants checks that an image survives encoding and decoding, also with a palette if it has few colors.
func wants(t *testing.T, img *image.NRGBA) {
	t.Helper()
	want := slices.Clone(img.Pix)
	for i := 0; i < len(want); i += 4 {
		if want[i+3] == 0 {
			clear(want[i : i+4])
		}
	}
	check := func(how string, data []byte, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("encode %s of %v: %v", how, img.Rect, err)
		}
		back, err := webp.Decode(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("decode %s of %v: %v", how, img.Rect, err)
		}
		if got, ok := back.(*image.NRGBA); !ok || got.Rect != img.Rect || !bytes.Equal(got.Pix, want) {
			t.Fatalf("%s of %v decodes to a different image", how, img.Rect)
		}
	}
	data, err := vp8l.Encode(img)
	check("picture", data, err)

	few := image.NewPaletted(img.Rect, nil)
	numbers := map[color.NRGBA]uint8{}
	for i := range few.Pix {
		c := img.NRGBAAt(i%img.Rect.Dx(), i/img.Rect.Dx())
		n, ok := numbers[c]
		if !ok {
			if len(few.Palette) == 256 {
				return
			}
			n = uint8(len(few.Palette))
			numbers[c], few.Palette = n, append(few.Palette, c)
		}
		few.Pix[i] = n
	}
	data, err = vp8l.EncodePaletted(few)
	check("palette", data, err)
}

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// TestEncode_Lossless varies the size of the image and the number and frequencies of its colors.
func TestEncode_Lossless(t *testing.T) {
	t.Parallel()
	for n := range uint64(1500) {
		r := random(n)
		w, h := 1+r.IntN(40), 1+r.IntN(40)
		switch n % 5 {
		case 0:
			w = 1 + r.IntN(3)
		case 1:
			h = 1 + r.IntN(3)
		}
		colors := make([]color.NRGBA, 1+r.IntN(1+r.IntN(600)))
		for i := range colors {
			colors[i] = color.NRGBA{uint8(r.Uint32()), uint8(r.Uint32()), uint8(r.Uint32()), uint8(r.Uint32())}
			if n%7 == 0 {
				colors[i].A = 0xff
			}
		}
		img := image.NewNRGBA(image.Rect(0, 0, w, h))
		skew, c := 1+r.IntN(4), 0 // larger values make longer runs and rarer colors
		for i := range w * h {
			if r.IntN(skew) == 0 {
				c = int(math.Pow(r.Float64(), float64(skew)) * float64(len(colors)))
			}
			img.SetNRGBA(i%w, i/w, colors[c])
		}
		wants(t, img)
	}
}

// TestEncode_SmoothImages encodes gradients with weak to strong noise, in images large enough for the
// longest distances of copies.
func TestEncode_SmoothImages(t *testing.T) {
	t.Parallel()
	for n := range uint64(40) {
		r := random(n)
		w, h := 1+r.IntN(400), 1+r.IntN(400)
		img := image.NewNRGBA(image.Rect(0, 0, w, h))
		strength := math.Exp(6*r.Float64() - 4)
		for i := range img.Pix {
			u := r.Float64() - .5
			noise := -strength * math.Copysign(math.Log(1-2*math.Abs(u)), u)
			img.Pix[i] = uint8(min(max(140+90*math.Sin(float64(i/4%w)/30+float64(i/4/w)/50+float64(i%4))+noise, 0), 255))
		}
		wants(t, img)
	}
	img := image.NewNRGBA(image.Rect(0, 0, 1100, 1024))
	for i := range img.Pix {
		img.Pix[i] = uint8(i / 4 * 31 >> (i % 4))
	}
	wants(t, img)
}

// TestCodeLengths_WithinLimit uses frequencies that grow like Fibonacci numbers. A Huffman code for them has
// codewords of 18 bits, but the format allows only 15.
func TestCodeLengths_WithinLimit(t *testing.T) {
	t.Parallel()
	const side = 256
	r := random(1)
	var reds []uint8
	for a, b, s := 5, 5, 0; s < 18; a, b, s = b, a+b, s+1 {
		reds = append(reds, bytes.Repeat([]byte{uint8(7*s + 1)}, a)...)
	}
	reds = append(reds, bytes.Repeat([]byte{200}, side*side-len(reds))...)
	r.Shuffle(len(reds), func(i, j int) { reds[i], reds[j] = reds[j], reds[i] })
	img := image.NewNRGBA(image.Rect(0, 0, side, side))
	for i := range side * side {
		p := img.Pix[4*i : 4*i+4]
		left := make([]byte, 4)
		if i >= side {
			left = img.Pix[4*(i-side):]
		}
		if i%side > 0 {
			left = img.Pix[4*(i-1):]
		}
		p[1], p[3] = uint8(r.Uint32()), 0xff // noise, so that nothing is copied
		p[0] = left[0] - left[1] + reds[i] + p[1]
		p[2] = uint8(r.Uint32())
	}
	wants(t, img)
}

func TestEncode_InvalidSides(t *testing.T) {
	t.Parallel()
	for _, r := range []image.Rectangle{image.Rect(0, 0, 0, 1), image.Rect(0, 0, vp8l.MaxSide+1, 1), image.Rect(0, 0, 1, vp8l.MaxSide+1)} {
		_, err := vp8l.Encode(image.NewNRGBA(r))
		_, few := vp8l.EncodePaletted(image.NewPaletted(r, color.Palette{color.NRGBA{}}))
		if !errors.Is(err, vp8l.ErrSide) || !errors.Is(few, vp8l.ErrSide) {
			t.Errorf("%v: %v, %v; want ErrSide and ErrSide", r, err, few)
		}
	}
	wants(t, image.NewNRGBA(image.Rect(0, 0, vp8l.MaxSide, 1)))
	wants(t, image.NewNRGBA(image.Rect(0, 0, 1, vp8l.MaxSide)))
}

func FuzzEncode(f *testing.F) {
	f.Add(uint8(3), []byte("some pixels of an image, and then some pixels of an image"))
	f.Fuzz(func(t *testing.T, width uint8, pixels []byte) {
		w := int(width) + 1
		h := min(len(pixels)/4/w, 1000)
		if h == 0 {
			return
		}
		wants(t, &image.NRGBA{Pix: pixels[:4*w*h], Stride: 4 * w, Rect: image.Rect(0, 0, w, h)})
	})
}
