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
)

// leastLetThrough is the side of a square image of each kind that is still decoded, in pixels.
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

// firstRefused is the side of the smallest square of each kind that is not decoded, in steps of 16 pixels.
var firstRefused = map[string]int{
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

// TestDecodeCost_HostileFilesAtTheLargestSize: of each format, a small file that claims the most pixels that are let
// through allocates no more than its header said, garbage included; one that claims more is refused unread.
func TestDecodeCost_HostileFilesAtTheLargestSize(t *testing.T) {
	const (
		slack = 4 << 20 // tables of the unpackers and copies of the file
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
				t.Errorf("no more than %d pixels a side are let through, want %d", side, leastLetThrough[name])
			}
			data := claim(side, side, true)
			cost, err := imaging.DecodeCost(data, imaging.Limits{}, 1200)
			for ; errors.Is(err, imaging.ErrTooLarge) && side > step; cost, err = imaging.DecodeCost(data, imaging.Limits{}, 1200) {
				side -= step // the body counts too
				data = claim(side, side, true)
			}
			if err != nil {
				t.Fatal(err)
			}
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
				refused := allocated(func() {
					if _, _, err := imaging.DecodeSmaller(larger, imaging.Limits{}, 1200); !errors.Is(err, imaging.ErrTooLarge) {
						t.Errorf("%d pixels a side: %v", side+step, err)
					}
				})
				if refused > slack {
					t.Errorf("%d bytes were allocated to refuse it", refused)
				}
			}
		})
	}
}

// allocated is what a function allocates, garbage included, in bytes.
func allocated(work func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// TestDecodeCost_WebPTables: the tables of a lossless WebP may take many times its pixels and its file. They are in the
// cost, whole or cut off, and refused where they may take the most.
func TestDecodeCost_WebPTables(t *testing.T) {
	const most, letThrough = 2600, 900
	if _, err := imaging.DecodeCost(imagingtest.WebPTables(most), imaging.Limits{}, 1200); !errors.Is(err, imaging.ErrTooLarge) {
		t.Errorf("the most tables: %v", err)
	}
	whole := imagingtest.WebPTables(letThrough)
	for name, data := range map[string][]byte{"whole": whole, "cut off": whole[:250*letThrough]} {
		cost, err := imaging.DecodeCost(data, imaging.Limits{}, 1200)
		if err != nil {
			t.Fatal(err)
		}
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
			t.Errorf("%s: %d bytes were allocated: it is no bomb", name, took)
		}
	}
	plain := imagingtest.Claims()["webp, lossless"](400, 400, true)
	if cost, err := imaging.DecodeCost(plain, imaging.Limits{}, 1200); err != nil || cost > 4<<20 {
		t.Errorf("a plain picture costs %d bytes, %v", cost, err)
	}
}

// TestDecodeCost_WebPOfManyChunks: the cost is that of the image that is decoded, wherever in its file it lies.
func TestDecodeCost_WebPOfManyChunks(t *testing.T) {
	const side = 1024
	want, err := imaging.DecodeCost(imagingtest.Claims()["webp, lossless"](side, side, true), imaging.Limits{}, 1200)
	if err != nil {
		t.Fatal(err)
	}
	if cost, err := imaging.DecodeCost(imagingtest.WebPOfManyChunks(side, side, 1000), imaging.Limits{}, 1200); err != nil || cost < want {
		t.Errorf("1,000 chunks before the picture: cost %d, %v; want %d", cost, err, want)
	}
	many := imagingtest.WebPOfManyChunks(side, side, 1030)
	if cost, err := imaging.DecodeCost(many, imaging.Limits{}, 1200); !errors.Is(err, imaging.ErrMalformed) {
		t.Errorf("1,030 chunks before the picture: cost %d, %v", cost, err)
	}
	if _, _, err := imaging.Decode(many, imaging.Limits{}); !errors.Is(err, imaging.ErrMalformed) {
		t.Errorf("1,030 chunks before the picture: %v", err)
	}
}

// TestDecodeCost_WhatAdobeSays: a JPEG of Photoshop's costs as another one, unless it says that it is not of luma and two
// colors. Each segment that says so counts, also behind the scan, where decoders read on.
func TestDecodeCost_WhatAdobeSays(t *testing.T) {
	const side = 1000
	claims := imagingtest.Claims()
	cost := func(data []byte) int64 {
		n, err := imaging.DecodeCost(data, imaging.Limits{}, 1200)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	plain, rgb := claims["jpeg, full colors"](side, side, true), claims["jpeg, rgb by adobe"](side, side, true)
	if got, want := cost(claims["jpeg, by photoshop"](side, side, true)), cost(plain); got != want {
		t.Errorf("luma and two colors: cost %d, want %d", got, want)
	}
	const adobe = 2 + 2 + 12 // marker, length, content
	segment := rgb[2 : 2+adobe]
	behind := slices.Concat(plain[:len(plain)-2], segment, plain[len(plain)-2:])
	// The decoder looks for the next restart and passes what looks like a segment on its way.
	hidden := slices.Concat(plain[:len(plain)-2], []byte{0xff, 0xe1, 0xff, 0xff}, segment, plain[len(plain)-2:])
	for name, data := range map[string][]byte{"before": rgb, "behind": behind, "hidden": hidden} {
		if got, want := cost(data), cost(plain)+4*side*side; got != want {
			t.Errorf("red, green and blue, said %s: cost %d, want %d", name, got, want)
		}
	}
}

// TestDecodeCost_PixelsAndTablesHaveOneBound: a lossless WebP may take more than another image, for its tables, but not
// the most of pixels and the most of tables.
func TestDecodeCost_PixelsAndTablesHaveOneBound(t *testing.T) {
	const most = 128 << 20
	plain := imagingtest.Claims()["webp, lossless"](1600, 1600, true)
	for _, length := range []int{64 << 10, 128 << 10, 192 << 10, 256 << 10} {
		data := slices.Concat(plain, make([]byte, length))
		data = data[:len(data)&^1]
		binary.LittleEndian.PutUint32(data[4:], uint32(len(data)-8))
		binary.LittleEndian.PutUint32(data[16:], uint32(len(data)-20)) // the one chunk
		cost, err := imaging.DecodeCost(data, imaging.Limits{}, 1200)
		t.Logf("%d bytes: cost %d MiB, %v", len(data), cost>>20, err)
		if refused := errors.Is(err, imaging.ErrTooLarge); refused != (cost > most) {
			t.Errorf("%d bytes: cost %d, %v", len(data), cost, err)
		}
	}
}

// TestDecodeCost_FirstRefused: which squares are let through. There are holes: an image is only reduced by a whole number
// while it is decoded, so that the last one before the next number takes the most.
func TestDecodeCost_FirstRefused(t *testing.T) {
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
		if want := firstRefused[name]; first != want {
			t.Errorf("%s: the first refused has %d pixels a side, want %d", name, first, want)
		}
	}
}
