package imaging_test

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	"testing"

	"letterhead/internal/imaging"
)

// property returns an AVIF with a property of its image replaced by another, whose content is one byte.
func property(t *testing.T, kind string, value byte) []byte {
	data := readRaster(t, "picture.avif")
	at := bytes.Index(data, []byte("pixi")) // the depth of the channels, which decoders take from the pixels
	if at < 0 {
		t.Fatal("the file has no such property")
	}
	copy(data[at:], kind)
	data[at+4] = value
	return data
}

func TestDecode_AVIF_IsTurnedOrMirroredAsItsHeaderAsks(t *testing.T) {
	red, green, blue := color.NRGBA{255, 0, 0, 255}, color.NRGBA{0, 255, 0, 255}, color.NRGBA{0, 0, 255, 255}
	for _, c := range []struct {
		name       string
		kind       string
		value      byte
		size       image.Point
		upperLeft  color.NRGBA
		upperRight color.NRGBA
	}{
		{"as stored", "pixi", 0, image.Pt(32, 16), red, green},
		{"a quarter counterclockwise", "irot", 1, image.Pt(16, 32), green, color.NRGBA{255, 255, 255, 255}},
		{"a half", "irot", 2, image.Pt(32, 16), color.NRGBA{255, 255, 255, 255}, blue},
		{"a quarter clockwise", "irot", 3, image.Pt(16, 32), blue, red},
		{"top and bottom exchanged", "imir", 0, image.Pt(32, 16), blue, color.NRGBA{255, 255, 255, 255}},
		{"left and right exchanged", "imir", 1, image.Pt(32, 16), green, red},
	} {
		data := property(t, c.kind, c.value)
		info, err := imaging.Probe(data)
		if err != nil || info.Width != c.size.X || info.Height != c.size.Y {
			t.Errorf("%s: %+v, %v", c.name, info, err)
			continue
		}
		img, _, err := imaging.Decode(data, imaging.Limits{})
		if err != nil || img.Rect.Max != c.size {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if !near(img.NRGBAAt(2, 2), c.upperLeft) || !near(img.NRGBAAt(c.size.X-3, 2), c.upperRight) {
			t.Errorf("%s: %v and %v", c.name, img.NRGBAAt(2, 2), img.NRGBAAt(c.size.X-3, 2))
		}
	}
}

func near(a, b color.NRGBA) bool {
	const tolerance = 12
	for _, d := range []int{int(a.R) - int(b.R), int(a.G) - int(b.G), int(a.B) - int(b.B)} {
		if max(d, -d) > tolerance {
			return false
		}
	}
	return true
}

func TestDecodeCost_AVIF_FollowsFromItsSize(t *testing.T) {
	declare := func(side byte) []byte { // side times 256 pixels
		data := readRaster(t, "picture.avif")
		at := bytes.Index(data, []byte("ispe")) + 8
		copy(data[at:], []byte{0, 0, side, 0, 0, 0, side, 0})
		return data
	}
	if cost, err := imaging.DecodeCost(declare(3), imaging.Limits{}, 1200); err != nil || cost < 56*768*768 {
		t.Errorf("768 pixels a side: %d bytes, %v", cost, err)
	}
	if _, err := imaging.DecodeCost(declare(4), imaging.Limits{}, 1200); !errors.Is(err, imaging.ErrTooLarge) {
		t.Errorf("1024 pixels a side: %v, want ErrTooLarge", err)
	}
}
