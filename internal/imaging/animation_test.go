package imaging_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"image/gif"
	"slices"
	"testing"

	"letterhead/internal/imaging"
	"letterhead/internal/testmust"
)

var ink = color.NRGBA{20, 110, 70, 255}

// step is a frame of an animation: rectangles of ink on an area that is clear otherwise.
type step struct {
	area     image.Rectangle
	ink      []image.Rectangle
	color    color.NRGBA // zero: ink
	disposal byte        // of gif
	replaces bool        // of WebP
}

var (
	animated = image.Rect(0, 0, 120, 30)
	mark     = image.Rect(4, 4, 26, 26)
	words    = image.Rect(40, 10, 110, 20)
)

func (s step) draw() *image.NRGBA {
	img := image.NewNRGBA(s.area)
	if s.color == (color.NRGBA{}) {
		s.color = ink
	}
	for _, r := range s.ink {
		fill(img, r, s.color)
	}
	return img
}

func animatedGIF(t *testing.T, steps []step) []byte {
	all := &gif.GIF{Config: image.Config{Width: animated.Dx(), Height: animated.Dy()}}
	for _, s := range steps {
		img := s.draw()
		p := image.NewPaletted(s.area, color.Palette{color.NRGBA{}, s.color, ink})
		for y := s.area.Min.Y; y < s.area.Max.Y; y++ {
			for x := s.area.Min.X; x < s.area.Max.X; x++ {
				p.Set(x, y, img.NRGBAAt(x, y))
			}
		}
		all.Image, all.Delay, all.Disposal = append(all.Image, p), append(all.Delay, 5), append(all.Disposal, s.disposal)
	}
	var b bytes.Buffer
	testmust.Succeed(t, gif.EncodeAll(&b, all))
	return b.Bytes()
}

func animatedWebP(t *testing.T, steps []step) []byte {
	u24 := func(out []byte, n int) []byte { return append(out, byte(n), byte(n>>8), byte(n>>16)) }
	chunk := func(out []byte, id string, body []byte) []byte {
		out = append(out, id...)
		out = binary.LittleEndian.AppendUint32(out, uint32(len(body)))
		return append(out, append(body, make([]byte, len(body)%2)...)...)
	}
	file := chunk([]byte("WEBP"), "VP8X", u24(u24([]byte{0x12, 0, 0, 0}, animated.Dx()-1), animated.Dy()-1))
	for _, s := range steps {
		img := s.draw()
		still := testmust.Get(imaging.EncodeWebP(&image.NRGBA{Pix: img.Pix, Stride: img.Stride, Rect: img.Rect.Sub(img.Rect.Min)}))(t)
		head := u24(u24(nil, s.area.Min.X/2), s.area.Min.Y/2)
		head = u24(u24(u24(head, s.area.Dx()-1), s.area.Dy()-1), 50)
		flags := byte(0)
		if s.replaces {
			flags |= 2
		}
		if s.disposal == gif.DisposalBackground {
			flags |= 1
		}
		file = chunk(file, "ANMF", append(append(head, flags), still[12:]...))
	}
	return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(file))), file...)
}

func TestDecode_Animation_IsItsFullestPicture(t *testing.T) {
	pale := color.NRGBA{200, 225, 215, 255}
	both := []image.Rectangle{mark, words}
	blank, whole := step{area: animated}, step{area: animated, ink: both}
	onlyWord := step{area: image.Rect(40, 10, 112, 22), ink: []image.Rectangle{words}}
	white := step{area: animated, ink: []image.Rectangle{animated}, color: color.NRGBA{255, 255, 255, 255}}
	for name, steps := range map[string][]step{
		"still":            {whole},
		"blank, whole":     {blank, whole},
		"pixel, whole":     {{area: image.Rect(0, 0, 1, 1)}, whole},
		"pieces":           {{area: animated, ink: both[:1]}, onlyWord},
		"fades in":         {blank, {area: animated, ink: both, color: pale}, whole},
		"fades in and out": {blank, {area: animated, ink: both, color: pale}, whole, {area: animated, ink: both, color: pale}, blank},
		"on white":         {white, whole},
		"one at a time":    {{area: animated, ink: both[:1], disposal: gif.DisposalBackground}, {area: animated, ink: both, disposal: gif.DisposalBackground}, blank},
		"replaced":         {{area: animated, ink: []image.Rectangle{mark}, disposal: gif.DisposalBackground, replaces: true}, {area: animated, ink: both, replaces: true}, {area: animated, replaces: true}},
	} {
		for format, data := range map[string][]byte{"gif": animatedGIF(t, steps), "webp": animatedWebP(t, steps)} {
			img, info, err := imaging.Decode(data, imaging.Limits{})
			if err != nil || img.Rect != animated || info.Width != animated.Dx() {
				t.Errorf("%s, %s: %+v, %v", format, name, info, err)
				continue
			}
			if a, b := img.NRGBAAt(15, 15), img.NRGBAAt(100, 15); a != ink || b != ink {
				t.Errorf("%s, %s: %v and %v", format, name, a, b)
			}
		}
	}
}

func TestDecode_AnimationThatReverts_ShowsWhatWasThere(t *testing.T) {
	flash := step{area: image.Rect(2, 2, 28, 28), ink: []image.Rectangle{image.Rect(12, 2, 16, 28)}, color: color.NRGBA{255, 0, 0, 255}, disposal: gif.DisposalPrevious}
	steps := []step{{area: animated, ink: []image.Rectangle{mark}}, flash, {area: image.Rect(40, 10, 112, 22), ink: []image.Rectangle{words}}}
	img, _, err := imaging.Decode(animatedGIF(t, steps), imaging.Limits{})
	if err != nil || img.NRGBAAt(14, 15) != ink || img.NRGBAAt(14, 2).A != 0 || img.NRGBAAt(100, 15) != ink {
		t.Errorf("%v; %v", img.NRGBAAt(14, 15), err)
	}
}

func TestDecode_AnimationCutOff_IsTheFramesBefore(t *testing.T) {
	steps := []step{{area: animated}, {area: animated, ink: []image.Rectangle{mark, words}}, {area: animated}}
	for format, data := range map[string][]byte{"gif": animatedGIF(t, steps), "webp": animatedWebP(t, steps)} {
		img, _, err := imaging.Decode(data[:len(data)-8], imaging.Limits{})
		if err != nil || img.NRGBAAt(15, 15) != ink {
			t.Errorf("%s: %v", format, err)
		}
	}
}

// Frames that cannot be decoded take as long as others.
func TestDecode_AnimationOfBrokenFrames_IsGivenUpWithinTheLimit(t *testing.T) {
	const head = 13
	file := animatedGIF(t, []step{{area: animated, ink: []image.Rectangle{mark}}})
	binary.LittleEndian.PutUint16(file[6:], 1024)
	binary.LittleEndian.PutUint16(file[8:], 1024)
	broken := []byte{',', 0, 0, 0, 0, 0, 4, 0, 4, 0, 2, 0} // 1024 by 1024 pixels without data
	for frames, want := range map[int]error{10: nil, 100: imaging.ErrMalformed} {
		data := slices.Concat(file[:head], bytes.Repeat(broken, frames), file[head:])
		if _, _, err := imaging.Decode(data, imaging.Limits{}); !errors.Is(err, want) {
			t.Errorf("%d broken frames before a whole one: %v, want %v", frames, err, want)
		}
	}
}

func TestDecodeSmaller_BrokenFrameOfWebP_IsLeftOut(t *testing.T) {
	file := animatedWebP(t, []step{{area: animated, ink: []image.Rectangle{mark, words}}})
	frame := append([]byte("ANMF\x10\x00\x00\x00"), make([]byte, 16)...) // without an image
	const chunks = 12 + 18                                               // after the file's header and VP8X
	for name, data := range map[string][]byte{
		"last":  slices.Concat(file, frame),
		"first": slices.Concat(file[:chunks], frame, file[chunks:]),
	} {
		img, _, err := imaging.DecodeSmaller(data, imaging.Limits{}, 1200)
		if err != nil || img.NRGBAAt(15, 15) != ink {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := imaging.DecodeCost(slices.Concat(file[:chunks], frame), imaging.Limits{}, 1200); !errors.Is(err, imaging.ErrMalformed) {
		t.Errorf("only a broken frame: %v", err)
	}
}

// A browser shows inks without Adobe's segment as those with it.
func TestDecode_InksWithoutAdobe_AreThoseWithIt(t *testing.T) {
	adobe := readRaster(t, "cmyk.jpg")
	at := bytes.Index(adobe, []byte("Adobe")) - 4
	length := 2 + int(binary.BigEndian.Uint16(adobe[at+2:]))
	plain := append(bytes.Clone(adobe[:at]), adobe[at+length:]...)
	want, _, err := imaging.Decode(adobe, imaging.Limits{})
	testmust.Succeed(t, err)
	got, _, err := imaging.Decode(plain, imaging.Limits{})
	if err != nil || !bytes.Equal(got.Pix, want.Pix) {
		t.Errorf("other pixels, %v", err)
	}
}
