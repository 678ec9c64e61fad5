package imaging_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"letterhead/internal/imaging"
	"letterhead/internal/imaging/imagingtest"
	"letterhead/internal/testmust"
)

// leastLetThrough is the side, in pixels, of a square image of each kind that is still decoded.
var leastLetThrough = map[string]int{
	"jpeg, gray":               4096,
	"jpeg, half colors":        4096,
	"jpeg, full colors":        3648,
	"jpeg, red green blue":     2048,
	"jpeg, rgb by adobe":       2048,
	"jpeg, by photoshop":       3648,
	"jpeg, inks":               1792,
	"progressive, half colors": 1856,
	"progressive, full colors": 1472,
	"progressive, gray":        2688,
	"gif, interlaced":          2560,
	"bmp of 1 bit":             2560,
	"webp, lossless":           1728,
	"webp, animated":           1728,
	"webp, frame in a frame":   1728,
	"webp, lossy":              2560,
	"webp, lossy, alpha":       1600,
}

// firstRejected is the side of the smallest square of each kind that is rejected, in steps of 16 pixels.
var firstRejected = map[string]int{
	"jpeg, gray":               4112,
	"jpeg, half colors":        4112,
	"jpeg, full colors":        2368,
	"jpeg, red green blue":     1968,
	"jpeg, rgb by adobe":       1968,
	"jpeg, by photoshop":       2368,
	"jpeg, inks":               1904,
	"progressive, half colors": 1936,
	"progressive, full colors": 1552,
	"progressive, gray":        2144,
	"gif, interlaced":          4112,
	"bmp of 1 bit":             2896,
	"webp, lossless":           1840,
	"webp, animated":           1840,
	"webp, frame in a frame":   1840,
	"webp, lossy":              4112,
	"webp, lossy, alpha":       1696,
}

// TestDecodeCost_HostileFiles_CoversDecoding checks, for each format, that decoding a small file that declares the
// largest accepted size allocates no more than the predicted cost, garbage included, and that a larger one is rejected
// by its header.
func TestDecodeCost_HostileFiles_CoversDecoding(t *testing.T) {
	const (
		slack = 4 << 20 // tables of the decompressors and copies of the file
		step  = 64
		most  = 4096
	)
	for name, claim := range imagingtest.Claims() {
		t.Run(name, func(t *testing.T) {
			side := most
			for ; ; side -= step {
				_, err := imaging.DecodeCost(claim(side, side, false), imaging.Limits{}, 1200)
				if err == nil {
					break
				}
				if !errors.Is(err, imaging.ErrTooLarge) || side == step {
					t.Fatalf("%d pixels a side: %v", side, err)
				}
			}
			if side < leastLetThrough[name] {
				t.Errorf("the largest accepted side is %d pixels, want %d", side, leastLetThrough[name])
			}
			data := claim(side, side, true)
			cost, err := imaging.DecodeCost(data, imaging.Limits{}, 1200)
			for ; errors.Is(err, imaging.ErrTooLarge) && side > step; cost, err = imaging.DecodeCost(data, imaging.Limits{}, 1200) {
				side -= step // the body also counts
				data = claim(side, side, true)
			}
			testmust.Succeed(t, err)
			took := allocated(func() {
				img, _, err := imaging.DecodeSmaller(data, imaging.Limits{}, 1200)
				if err != nil || img.Rect.Dx() != 1200 {
					t.Errorf("%d pixels a side: %v", side, err)
				}
			})
			t.Logf("%d pixels a side in %d bytes: cost %d MiB, allocated %d MiB", side, len(data), cost>>20, took>>20)
			if took > cost+slack {
				t.Errorf("%d bytes were allocated, the cost is %d", took, cost)
			}
			if side < most {
				larger := claim(side+step, side+step, true)
				rejected := allocated(func() {
					if _, _, err := imaging.DecodeSmaller(larger, imaging.Limits{}, 1200); !errors.Is(err, imaging.ErrTooLarge) {
						t.Errorf("%d pixels a side: %v, want ErrTooLarge", side+step, err)
					}
				})
				if rejected > slack {
					t.Errorf("rejecting the file allocated %d bytes, want at most %d", rejected, slack)
				}
			}
		})
	}
}

// allocated returns the bytes that a function allocates, garbage included.
func allocated(work func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// The tables of a lossless WebP may be many times larger than its pixels and its file. The cost includes them, for
// complete and truncated files, and rejects files whose tables may be too large.
func TestDecodeCost_WebPTables(t *testing.T) {
	const most, letThrough = 2600, 900
	if _, err := imaging.DecodeCost(imagingtest.WebPTables(most), imaging.Limits{}, 1200); !errors.Is(err, imaging.ErrTooLarge) {
		t.Errorf("the most tables: %v, want ErrTooLarge", err)
	}
	whole := imagingtest.WebPTables(letThrough)
	for name, data := range map[string][]byte{"whole": whole, "cut off": whole[:250*letThrough]} {
		cost, err := imaging.DecodeCost(data, imaging.Limits{}, 1200)
		testmust.Succeed(t, err)
		took := allocated(func() {
			if _, _, err = imaging.DecodeSmaller(data, imaging.Limits{}, 1200); err != nil && !errors.Is(err, imaging.ErrMalformed) {
				t.Error(err)
			}
		})
		t.Logf("%s, %d bytes: cost %d MiB, allocated %d MiB", name, len(data), cost>>20, took>>20)
		if took > cost {
			t.Errorf("%s: %d bytes were allocated, the cost is %d", name, took, cost)
		}
		if took < 64<<20 {
			t.Errorf("%s: %d bytes were allocated, too few for a bomb", name, took)
		}
	}
	plain := imagingtest.Claims()["webp, lossless"](400, 400, true)
	if cost, err := imaging.DecodeCost(plain, imaging.Limits{}, 1200); err != nil || cost > 4<<20 {
		t.Errorf("a plain image costs %d bytes, %v", cost, err)
	}
}

// The cost is that of the decoded image, wherever it is in its file.
func TestDecodeCost_WebPOfManyChunks(t *testing.T) {
	const side = 1024
	want := testmust.Get(imaging.DecodeCost(imagingtest.Claims()["webp, lossless"](side, side, true), imaging.Limits{}, 1200))(t)
	if cost, err := imaging.DecodeCost(imagingtest.WebPOfManyChunks(side, side, 1000), imaging.Limits{}, 1200); err != nil || cost < want {
		t.Errorf("1,000 chunks before the image: cost %d, %v; want %d", cost, err, want)
	}
	many := imagingtest.WebPOfManyChunks(side, side, 1030)
	if cost, err := imaging.DecodeCost(many, imaging.Limits{}, 1200); !errors.Is(err, imaging.ErrMalformed) {
		t.Errorf("1,030 chunks before the image: cost %d, %v; want ErrMalformed", cost, err)
	}
	if _, _, err := imaging.Decode(many, imaging.Limits{}); !errors.Is(err, imaging.ErrMalformed) {
		t.Errorf("1,030 chunks before the image: %v; want ErrMalformed", err)
	}
}

// The cost of a JPEG by Photoshop equals that of others, unless it declares colors other than luma and two chroma.
// Every such segment counts, also after the scan, because decoders continue reading there.
func TestDecodeCost_AdobeSegments(t *testing.T) {
	const side = 1000
	claims := imagingtest.Claims()
	cost := func(data []byte) int64 {
		n := testmust.Get(imaging.DecodeCost(data, imaging.Limits{}, 1200))(t)
		return n
	}
	plain, rgb := claims["jpeg, full colors"](side, side, true), claims["jpeg, rgb by adobe"](side, side, true)
	if got, want := cost(claims["jpeg, by photoshop"](side, side, true)), cost(plain); got != want {
		t.Errorf("luma and two colors: cost %d, want %d", got, want)
	}
	const adobe = 2 + 2 + 12 // marker, length, content
	segment := rgb[2 : 2+adobe]
	behind := slices.Concat(plain[:len(plain)-2], segment, plain[len(plain)-2:])
	// The decoder searches for the next restart and skips bytes that look like a segment.
	hidden := slices.Concat(plain[:len(plain)-2], []byte{0xff, 0xe1, 0xff, 0xff}, segment, plain[len(plain)-2:])
	for name, data := range map[string][]byte{"before": rgb, "behind": behind, "hidden": hidden} {
		if got, want := cost(data), cost(plain)+4*side*side; got != want {
			t.Errorf("red, green and blue, said %s: cost %d, want %d", name, got, want)
		}
	}
}

// A lossless WebP may take more than other images, for its tables, but not the maximum of both pixels and tables.
func TestDecodeCost_PixelsAndTablesShareLimit(t *testing.T) {
	const most = 128 << 20
	plain := imagingtest.Claims()["webp, lossless"](1600, 1600, true)
	for _, length := range []int{64 << 10, 128 << 10, 192 << 10, 256 << 10} {
		data := slices.Concat(plain, make([]byte, length))
		data = data[:len(data)&^1]
		binary.LittleEndian.PutUint32(data[4:], uint32(len(data)-8))
		binary.LittleEndian.PutUint32(data[16:], uint32(len(data)-20)) // the only chunk
		cost, err := imaging.DecodeCost(data, imaging.Limits{}, 1200)
		t.Logf("%d bytes: cost %d MiB, %v", len(data), cost>>20, err)
		if rejected := errors.Is(err, imaging.ErrTooLarge); rejected != (cost > most) {
			t.Errorf("%d bytes: cost %d, %v", len(data), cost, err)
		}
	}
}

// TestDecodeCost_FirstRejected checks which squares are accepted. There are gaps: the factor of a reduction during
// decoding is an integer, so the last size before the next factor takes the most.
func TestDecodeCost_FirstRejected(t *testing.T) {
	const step, most = 16, 4096
	for name, claim := range imagingtest.Claims() {
		var through []string
		first, began := 0, step
		for side := step; side <= most+step; side += step {
			_, err := imaging.DecodeCost(claim(side, side, false), imaging.Limits{}, 1200)
			switch {
			case err != nil && began > 0:
				through = append(through, fmt.Sprintf("%d to %d", began, side-step))
				began = 0
				if first == 0 {
					first = side
				}
			case err == nil && began == 0:
				began = side
			}
		}
		t.Logf("%s: %s", name, strings.Join(through, ", "))
		if want := firstRejected[name]; first != want {
			t.Errorf("%s: the smallest rejected side is %d pixels, want %d", name, first, want)
		}
	}
}
