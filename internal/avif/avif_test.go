package avif_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image/color"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"letterhead/internal/avif"
	"letterhead/internal/testmust"
)

// read returns a file of testdata: a white square.
func read(t testing.TB, name string) []byte {
	t.Helper()
	data := testmust.Get(os.ReadFile(filepath.Join("testdata", name)))(t)
	return data
}

// declare returns a copy of a file that declares another size.
func declare(data []byte, width, height uint32) []byte {
	out := bytes.Clone(data)
	at := bytes.Index(out, []byte("ispe")) + 8
	binary.BigEndian.PutUint32(out[at:], width)
	binary.BigEndian.PutUint32(out[at+4:], height)
	return out
}

func TestDecode_Square_IsWhite(t *testing.T) {
	data := read(t, "square.avif")
	h, err := avif.Probe(data)
	if want := (avif.Header{Width: 900, Height: 900}); err != nil || h != want {
		t.Fatalf("%+v, %v; want %+v", h, err, want)
	}
	if _, err := avif.Decode(data, 16, 16); !errors.Is(err, avif.ErrMalformed) {
		t.Errorf("decoded as another size: %v", err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	img, err := avif.Decode(data, h.Width, h.Height)
	runtime.ReadMemStats(&after)
	if err != nil || img.Rect.Dx() != 900 || img.Rect.Dy() != 900 {
		t.Fatal(err)
	}
	if c := img.RGBAAt(899, 899); c != (color.RGBA{255, 255, 255, 255}) {
		t.Errorf("the last pixel is %v", c)
	}
	const slack = 1 << 20 // the instance without its memory
	if took, limit := int64(after.TotalAlloc-before.TotalAlloc), avif.Memory(900, 900); took > limit+slack {
		t.Errorf("%d bytes were allocated, want at most %d", took, limit)
	}
}

// The picture of nine million pixels in a file that declares few needs more memory than a file of its declared size may.
// Rule 12.
func TestDecode_PictureLargerThanDeclared_IsRejected(t *testing.T) {
	avif.Decode(read(t, "square.avif"), 900, 900) // compiles the decoder
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := avif.Decode(declare(read(t, "big.avif"), 32, 16), 32, 16)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, avif.ErrTooLarge) {
		t.Errorf("error %v, want ErrTooLarge", err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 12<<20 {
		t.Errorf("%d bytes were allocated", took)
	}
}

func TestDecodeWithin_TooFew_IsTooLarge(t *testing.T) {
	const enough, many = 64 << 20, 1000
	data := read(t, "square.avif")
	for _, c := range []struct {
		bytes, quanta int64
		want          error
	}{{enough, many, nil}, {enough, 1, avif.ErrTooLarge}, {16 << 20, many, avif.ErrTooLarge}} {
		if _, err := avif.DecodeWithin(data, 900, 900, c.bytes, c.quanta); !errors.Is(err, c.want) {
			t.Errorf("%d bytes and %d quanta: %v, want %v", c.bytes, c.quanta, err, c.want)
		}
	}
}

// libavif's function returns success for a file whose picture it cannot decode.
func TestDecode_PictureDamaged_Fails(t *testing.T) {
	for _, name := range []string{"square.avif", "ring.avif"} {
		data := read(t, name)
		h := testmust.Get(avif.Probe(data))(t)
		picture := bytes.Index(data, []byte("mdat")) + 4
		zeros := append(bytes.Clone(data[:picture]), make([]byte, len(data)-picture)...)
		for what, damaged := range map[string][]byte{"cut in the middle": data[:picture+(len(data)-picture)/2], "zeros": zeros} {
			if _, err := avif.Decode(damaged, h.Width, h.Height); !errors.Is(err, avif.ErrMalformed) {
				t.Errorf("%s, %s: error %v", name, what, err)
			}
		}
	}
}

// Rule 12.
func TestDecode_Damaged_FailsOrReturnsItsSize(t *testing.T) {
	whole := read(t, "square.avif")
	for at := range whole {
		damaged := declare(whole, 64, 64)
		damaged[at] ^= 0xff
		for _, data := range [][]byte{damaged, damaged[:at]} {
			h, err := avif.Probe(data)
			if err != nil {
				if !errors.Is(err, avif.ErrMalformed) {
					t.Fatalf("at %d: %v", at, err)
				}
				continue
			}
			if h.Width != 64 || h.Height != 64 {
				continue // callers limit the size
			}
			if img, err := avif.Decode(data, h.Width, h.Height); err == nil && img.Rect.Dx() != 64 || err != nil && !errors.Is(err, avif.ErrMalformed) && !errors.Is(err, avif.ErrTooLarge) {
				t.Fatalf("at %d: %v", at, err)
			}
		}
	}
}

func FuzzProbe(f *testing.F) {
	f.Add(read(f, "square.avif"))
	f.Add([]byte("\x00\x00\x00\x1cftypavif\x00\x00\x00\x00avifmif1miaf"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if h, err := avif.Probe(data); (err == nil) != (h.Width > 0 && h.Height > 0) || err != nil && !errors.Is(err, avif.ErrMalformed) {
			t.Errorf("%+v, %v", h, err)
		}
	})
}
