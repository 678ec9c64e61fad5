package imaging

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"letterhead/internal/testmust"
)

// noisy returns images in every form that image/png writes.
func noisy(w, h int) map[string]image.Image {
	noise := rand.NewChaCha8([32]byte{1})
	r := image.Rect(0, 0, w, h)
	gray, gray16, rgba, nrgba, rgba64, nrgba64 := image.NewGray(r), image.NewGray16(r), image.NewRGBA(r), image.NewNRGBA(r), image.NewRGBA64(r), image.NewNRGBA64(r)
	for _, pix := range [][]byte{gray.Pix, gray16.Pix, rgba.Pix, nrgba.Pix, rgba64.Pix, nrgba64.Pix} {
		noise.Read(pix)
	}
	for i := 3; i < len(rgba.Pix); i += 4 {
		rgba.Pix[i] = 0xff
	}
	for i := 6; i < len(rgba64.Pix); i += 8 {
		rgba64.Pix[i], rgba64.Pix[i+1] = 0xff, 0xff
	}
	all := map[string]image.Image{"gray": gray, "gray of 16 bits": gray16, "opaque": rgba, "alpha": nrgba, "opaque of 16 bits": rgba64, "alpha of 16 bits": nrgba64}
	for name, colors := range map[string]int{"2 colors": 2, "4 colors": 4, "16 colors": 16, "200 colors": 200} {
		img := image.NewPaletted(r, nil)
		for i := range colors {
			img.Palette = append(img.Palette, color.NRGBA{uint8(i * 37), uint8(i * 11), uint8(i), uint8(0xff - i%3*80)})
		}
		for i := range img.Pix {
			img.Pix[i] = uint8(noise.Uint64() % uint64(colors))
		}
		all[name] = img
	}
	smooth := image.NewNRGBA(r) // which the encoder filters
	for i := range smooth.Pix {
		smooth.Pix[i] = uint8(i/4%w + i/4/w + 80*(i%4))
	}
	all["smooth"] = smooth
	return all
}

func encoded(t *testing.T, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	quick := png.Encoder{CompressionLevel: png.BestSpeed}
	testmust.Succeed(t, quick.Encode(&b, img))
	return b.Bytes()
}

// boxed is the reference: it decodes the whole image, then reduces it.
func boxed(t *testing.T, data []byte, factor int) *image.NRGBA {
	t.Helper()
	img := testmust.Get(png.Decode(bytes.NewReader(data)))(t)
	whole := toNRGBA(img)
	b := newBoxes(whole.Rect.Size(), factor)
	for y := range whole.Rect.Dy() {
		b.add(whole.Pix[y*whole.Stride : (y+1)*whole.Stride])
	}
	return b.result()
}

// alike allows for rounding 16 bits to 8, through premultiplied values.
func alike(a, b *image.NRGBA) bool {
	if a.Rect != b.Rect {
		return false
	}
	for i := range a.Pix {
		if d := int(a.Pix[i]) - int(b.Pix[i]); (d > 2 || d < -2) && a.Pix[i|3] > 8 {
			return false
		}
	}
	return true
}

// withChunk inserts a chunk after the header.
func withChunk(data []byte, kind string, content []byte) []byte {
	const header = 8 + 25
	chunk := binary.BigEndian.AppendUint32(nil, uint32(len(content)))
	body := append([]byte(kind), content...)
	chunk = append(chunk, body...)
	chunk = binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(body))
	return slices.Concat(data[:header], chunk, data[header:])
}

func TestReducePNG_EveryForm_EqualsReference(t *testing.T) {
	t.Parallel()
	files := map[string][]byte{}
	for name, img := range noisy(61, 43) {
		files[name] = encoded(t, img)
	}
	flat := image.NewGray(image.Rect(0, 0, 61, 43))
	for i := range flat.Pix {
		flat.Pix[i] = uint8(i % 3)
	}
	files["gray with a clear one"] = withChunk(encoded(t, flat), "tRNS", []byte{0, 1})
	opaque := image.NewRGBA(flat.Rect)
	for i := range opaque.Pix {
		opaque.Pix[i] = []uint8{uint8(i / 4 % 2), 2, 3, 0xff}[i%4]
	}
	files["opaque with a clear one"] = withChunk(encoded(t, opaque), "tRNS", []byte{0, 1, 0, 2, 0, 3})
	for name, data := range files {
		for _, factor := range []int{1, 2, 3, 8, 64} {
			got, err := reducePNG(data, factor)
			if err != nil || !alike(got, boxed(t, data, factor)) {
				t.Errorf("%s by %d: %v", name, factor, err)
			}
		}
	}
}

func TestReducePNG_Broken_IsMalformed(t *testing.T) {
	t.Parallel()
	whole := encoded(t, noisy(40, 30)["smooth"])
	testmust.Succeed(t, testmust.Err(reducePNG(whole, 2)))
	for at := 8; at < len(whole)-12; at++ { // followed only by the chunk of the end
		for name, broken := range map[string][]byte{"cut off": whole[:at], "changed": slices.Concat(whole[:at], []byte{whole[at] ^ 4}, whole[at+1:])} {
			err := Guarded("codec", func() error {
				_, err := reducePNG(broken, 2)
				return err
			})
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("%s at %d: %v, want ErrMalformed", name, at, err)
			}
		}
	}
}

// TestDecodeCost_CoversAllocations checks that all allocations,
// garbage included, are within the cost predicted from the header.
// Rule 12.
func TestDecodeCost_CoversAllocations(t *testing.T) {
	const slack = 2 << 20 // tables of the decompressors, which do not grow with the image
	files := map[string][]byte{}
	large := noisy(2100, 2000) // just above reduceFrom
	for _, name := range []string{"alpha of 16 bits", "gray", "200 colors"} {
		files[name] = encoded(t, large[name])
	}
	for name, img := range noisy(1100, 700) {
		files[name+", smaller"] = encoded(t, img)
	}
	var b bytes.Buffer
	testmust.Succeed(t, jpeg.Encode(&b, large["opaque"], nil))
	files["jpeg"] = b.Bytes()
	webp := testmust.Get(EncodeWebP(toNRGBA(noisy(320, 240)["opaque"])))(t)
	files["webp"] = webp
	limits := Limits{Bytes: 64 << 20}
	for name, data := range files {
		cost, err := DecodeCost(data, limits, 1024)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, _, err := DecodeSmaller(data, limits, 1024)
		runtime.ReadMemStats(&after)
		if err != nil || max(got.Rect.Dx(), got.Rect.Dy()) > 1024 {
			t.Errorf("%s: %v", name, err)
		}
		if took := int64(after.TotalAlloc - before.TotalAlloc); took > cost+slack {
			t.Errorf("%s: %d bytes were allocated, the cost is %d", name, took, cost)
		}
	}
}

// Images that took hundreds of megabytes are reduced row by row, or rejected by their header.
func TestDecodeSmaller_LargeImages(t *testing.T) {
	const side = 4096
	deep := image.NewNRGBA64(image.Rect(0, 0, side, side/4+1))
	for i := range deep.Pix {
		deep.Pix[i] = uint8(i >> 12)
	}
	data := encoded(t, deep)
	cost, err := DecodeCost(data, Limits{}, 512)
	if err != nil || cost > 16<<20 {
		t.Errorf("16 bits a channel: %d bytes, %v", cost, err)
	}
	img, _, err := DecodeSmaller(data, Limits{}, 512)
	if err != nil || img.Rect.Dx() != 512 {
		t.Errorf("%v, %v", img, err)
	}
	// Adam7 cannot be reduced row by row.
	interlaced := slices.Clone(data)
	const method = 8 + 8 + 12
	binary.BigEndian.PutUint32(interlaced[16+4:], side)
	interlaced[method] = 1
	binary.BigEndian.PutUint32(interlaced[method+1:], crc32.ChecksumIEEE(interlaced[12:method+1]))
	if _, err := DecodeCost(interlaced, Limits{}, 512); !errors.Is(err, ErrTooLarge) {
		t.Errorf("interlaced: %v, want ErrTooLarge", err)
	}
	if _, _, err := DecodeSmaller(interlaced, Limits{}, 512); !errors.Is(err, ErrTooLarge) {
		t.Errorf("interlaced: %v, want ErrTooLarge", err)
	}
}

func FuzzReducePNG(f *testing.F) {
	for _, img := range noisy(9, 7) {
		var b bytes.Buffer
		testmust.Succeed(f, png.Encode(&b, img))
		f.Add(b.Bytes(), 2)
	}
	f.Fuzz(func(t *testing.T, data []byte, factor int) {
		info, err := ProbeWithin(data, Limits{Pixels: 1 << 16})
		if err != nil || info.Format != PNG || factor < 1 || factor > 1<<14 || pngHeaderOf(data).interlaced {
			return
		}
		var img *image.NRGBA
		err = Guarded("codec", func() (err error) {
			img, err = reducePNG(data, factor)
			return err
		})
		if err == nil && img.Rect.Size() != reduced(image.Pt(info.Width, info.Height), factor) {
			t.Errorf("%v of %+v by %d", img.Rect, info, factor)
		}
	})
}
