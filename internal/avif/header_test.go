package avif_test

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"letterhead/internal/avif"
)

// box returns a box with its content.
func box(kind string, content ...[]byte) []byte {
	body := slices.Concat(content...)
	return slices.Concat(binary.BigEndian.AppendUint32(nil, uint32(8+len(body))), []byte(kind), body)
}

// file returns an AVIF without pixels: item 1 has the first properties, and item 2 the last one.
func file(primary byte, properties ...[]byte) []byte {
	full := []byte{0, 0, 0, 0}
	associations := []byte{0, 0, 0, 0, 0, 0, 0, 2, 0, 1, byte(len(properties) - 1)}
	for i := range len(properties) - 1 {
		associations = append(associations, byte(i+1))
	}
	associations = append(associations, 0, 2, 1, byte(len(properties)))
	return slices.Concat(box("ftyp", []byte("avif\x00\x00\x00\x00avif")),
		box("meta", full, box("pitm", full, []byte{0, primary}), box("iprp", box("ipco", properties...), box("ipma", associations))))
}

func TestProbe_Properties_AreThoseOfThePrimaryImage(t *testing.T) {
	ispe := func(width, height byte) []byte {
		return box("ispe", []byte{0, 0, 0, 0, 0, 0, 0, width, 0, 0, 0, height})
	}
	irot, imir := box("irot", []byte{1}), box("imir", []byte{1})
	for name, c := range map[string]struct {
		file []byte
		want avif.Header
	}{
		"size":                       {file(1, ispe(30, 20), ispe(5, 5)), avif.Header{Width: 30, Height: 20}},
		"size of the second":         {file(2, ispe(30, 20), ispe(5, 5)), avif.Header{Width: 5, Height: 5}},
		"turned":                     {file(1, ispe(30, 20), irot, ispe(5, 5)), avif.Header{Width: 30, Height: 20, Turns: 1}},
		"turned and mirrored":        {file(1, ispe(30, 20), irot, imir, ispe(5, 5)), avif.Header{Width: 30, Height: 20, Turns: 1, Mirror: avif.LeftRight}},
		"no size":                    {file(1, irot, ispe(5, 5)), avif.Header{}},
		"no such item":               {file(3, ispe(30, 20), ispe(5, 5)), avif.Header{}},
		"a box longer than the file": {append(file(1, ispe(30, 20), ispe(5, 5))[:20], 0xff, 0xff, 0xff, 0xff, 'm', 'e', 't', 'a'), avif.Header{}},
		"nothing":                    {nil, avif.Header{}},
	} {
		h, err := avif.Probe(c.file)
		if h != c.want || (err == nil) != (c.want.Width > 0) || err != nil && !errors.Is(err, avif.ErrMalformed) {
			t.Errorf("%s: %+v, %v; want %+v", name, h, err, c.want)
		}
	}
}
