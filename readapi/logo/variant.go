package logo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"strconv"
	"time"

	"letterhead/internal/assets"
	"letterhead/internal/imaging"
	"letterhead/internal/monogram"
	"letterhead/internal/variants"
)

// drawingVersion raises with every change of what is drawn of the same file, or let through of it, so that no
// older variant is answered.
const drawingVersion = 5

// maxStoredPixels is four times what a crawl keeps of a raster at most, 1024 by 1024. What is larger would take
// some 250 MB to draw, and nobody put it there to be drawn.
const maxStoredPixels = 4 * 1024 * 1024

// errFault: a file's own fault, which it has the next time too.
var errFault = errors.New("the file cannot be drawn")

// what names the kinds of pictures in keys.
type what byte

const (
	drawnLogo what = 'l'
	drawnMark what = 'm'
	drawnNone what = 't'
	lookedAt  what = 'p' // no picture: whether a file is pale
	smallForm what = 's' // what later sizes of a large raster are drawn from
	tooMuch   what = 'x' // no picture: that a vector takes too much at a size
)

// smallSide is the longest side, in pixels, of the small form that a crawl keeps of a larger raster. Of a raster that
// was stored without one it is made with the first picture that needs no more, and kept among the variants.
const smallSide = 256

// form is the picture that is made, whatever it shows: all that decides its bytes beside that.
type form struct {
	format imaging.Format
	size   int         // longest side at most; 0 where it changes nothing
	ground imaging.RGB // that a JPEG is laid on; else zero
}

// appendTo adds the form to a key.
func (f form) appendTo(key []byte) []byte {
	key = append(key, f.format...)
	key = append(key, 0, f.ground.R, f.ground.G, f.ground.B)
	return binary.BigEndian.AppendUint16(key, uint16(f.size))
}

func (f form) encode(img *image.NRGBA) ([]byte, error) {
	switch f.format {
	case imaging.JPEG:
		return imaging.EncodeJPEG(img, f.ground)
	case imaging.WebP:
		return imaging.EncodeWebP(img)
	}
	return imaging.EncodePNG(img)
}

// groundOf is what a JPEG is laid on: what the asked theme is for; else white, or black under what would hardly
// be seen on white.
func groundOf(format imaging.Format, asked Theme, pale bool) imaging.RGB {
	switch {
	case format != imaging.JPEG:
		return imaging.RGB{}
	case asked == Light, asked == Any && pale:
		return imaging.Black
	}
	return imaging.White
}

// variant is what is made of a stored file: a picture, or what a look at it tells.
type variant struct {
	form
	source Source
	what   what
}

// asksPaleness says whether what a file's picture is laid on depends on its being pale.
func asksPaleness(s Source, o Options) bool {
	return o.Format == imaging.JPEG && o.Theme == Any && s.Ink == Light
}

// variantOf leaves out of the options what makes no difference to the bytes. Paleness is left out too, but where
// asksPaleness says that it matters.
func variantOf(s Source, o Options, pale bool) variant {
	f := form{format: o.Format, size: o.Size, ground: groundOf(o.Format, o.Theme, pale)}
	switch {
	case s.Format == imaging.SVG && o.Format == imaging.SVG:
		f.size = 0
	case o.Format == imaging.SVG:
		f.format = imaging.PNG
	}
	if s.Side > 0 && f.size > s.Side {
		f.size = s.Side
	}
	return variant{form: f, source: s, what: drawnLogo}
}

func lookAt(s Source) variant { return variant{form: form{size: lookSide}, source: s, what: lookedAt} }

// fitsSmall says whether the small form of a raster is enough for the variant.
func (v variant) fitsSmall() bool {
	return v.source.Format != imaging.SVG && v.format != imaging.SVG && v.size <= smallSide && v.what != smallForm
}

// small is the small form of the variant's source.
func (v variant) small() variant {
	return variant{form: form{format: imaging.PNG, size: smallSide}, source: v.source, what: smallForm}
}

func (v variant) key() variants.Key {
	var space [128]byte
	key := append(space[:0], drawingVersion, byte(v.what))
	key = v.appendTo(key)
	key = append(key, v.source.Format...)
	key = append(key, v.source.ID...)
	return sha256.Sum256(key)
}

// draw makes the variant. Errors: errFault, those of Files and of Vectors, that of variants.Need.
func (s *Studio) draw(ctx context.Context, v variant) ([]byte, error) {
	if v.fitsSmall() && (v.source.Side == 0 || v.source.Side > smallSide) {
		if small, ok := s.drawn.Kept(ctx, v.small().key()); ok {
			return s.drawRaster(ctx, small.Body, v)
		}
	}
	room := v.source.Bytes
	if v.source.Format == imaging.SVG {
		room += v.need(v.largest())
	}
	if err := variants.Need(ctx, room); err != nil {
		return nil, err
	}
	data, err := s.files.Read(ctx, v.source.ID, string(v.source.Format))
	if err != nil {
		return nil, err
	}
	if err := assets.Verify(v.source.ID, data); err != nil {
		return nil, err
	}
	made, err := s.drawFrom(ctx, data, v)
	if err != nil && isFileFault(err) {
		return nil, fmt.Errorf("%s %s: %w: %w", v.source.Format, v.source.ID, errFault, err)
	}
	return made, err
}

func isFileFault(err error) bool {
	return errors.Is(err, imaging.ErrMalformed) || errors.Is(err, imaging.ErrTooLarge) ||
		errors.Is(err, imaging.ErrUnsupported) || errors.Is(err, imaging.ErrUnknown)
}

func (s *Studio) drawFrom(ctx context.Context, data []byte, v variant) ([]byte, error) {
	switch {
	case v.format == imaging.SVG:
		// Every stored SVG was rebuilt on intake, and rebuilding one again changes nothing. It is done all the
		// same, once per variant: what a stricter release leaves out is then left out of what is stored already.
		data, _, err := imaging.SanitizeSVG(data)
		return data, err
	case v.source.Format == imaging.SVG:
		img, err := s.drawVector(ctx, v, data)
		if err != nil {
			return nil, err
		}
		return v.made(imaging.Scale(img, v.size))
	}
	return s.drawRaster(ctx, data, v)
}

// leastHalved is the smallest size, in pixels, that is tried of a vector that takes too much at the asked one. What
// takes too much at 256 was not put there to be drawn.
const leastHalved = 256

// drawVector draws at the asked size, or at a half or a quarter of it when the vector takes too many steps or too
// much memory there: the cost of blurs and other filters grows with the pixels, and a smaller logo is better than
// none. Steps and memory depend on the file and the size alone, so the same request gives the same picture on every
// machine. When the time is up the error is not the file's, and nothing is kept.
//
// A size that took too much is remembered for a while: a request that ran out of time does not pay for it again.
func (s *Studio) drawVector(ctx context.Context, v variant, data []byte) (*image.NRGBA, error) {
	for size := v.size; ; size /= 2 {
		last := size/2 < leastHalved
		tried := variant{form: form{size: size}, source: v.source, what: tooMuch}.key()
		if !last && s.isFaulty(tried) {
			continue
		}
		img, err := s.vectors.Render(ctx, data, size)
		if last || !errors.Is(err, imaging.ErrTooLarge) {
			return img, err
		}
		s.faulty.Set(tried, time.Now())
	}
}

// drawRaster makes the variant of a stored raster, or of its small form.
func (s *Studio) drawRaster(ctx context.Context, data []byte, v variant) ([]byte, error) {
	within := imaging.Limits{Pixels: maxStoredPixels}
	info, err := imaging.ProbeWithin(data, within)
	if err != nil {
		return nil, err
	}
	need, err := v.needOf(data, info, within)
	if err != nil {
		return nil, err
	}
	if err := variants.Need(ctx, need); err != nil {
		return nil, err
	}
	if v.fitsSmall() && max(info.Width, info.Height) > smallSide {
		small := v.small()
		kept, err := s.drawn.GetWithin(ctx, small.key(), func(ctx context.Context) ([]byte, error) {
			return s.drawRaster(ctx, data, small)
		})
		if err != nil {
			return nil, err
		}
		data = kept.Body
	}
	img, info, err := imaging.DecodeSmaller(data, within, v.size)
	if err != nil {
		return nil, err
	}
	if v.is(info) {
		return data, nil // it was read first: not even an encoder of ours is believed
	}
	return v.made(img)
}

// made is what an image of the variant's size gives.
func (v variant) made(img *image.NRGBA) ([]byte, error) {
	if v.what == lookedAt {
		return paleness(img), nil
	}
	return v.encode(img)
}

// is says whether a stored raster is the variant: it was encoded on intake as one would be now.
func (v variant) is(stored imaging.Info) bool {
	// A JPEG that is turned is upright in no other way.
	return v.format != imaging.JPEG && stored.Format == v.format && max(stored.Width, stored.Height) <= v.size
}

// standIn is a picture for a logo that is not there.
type standIn struct {
	form
	what what
	mark monogram.Monogram // of drawnMark
}

func fallbackOf(b Brand, o Options) standIn {
	f := standIn{form: form{format: o.Format, size: o.Size, ground: groundOf(o.Format, o.Theme, false)}, what: drawnNone}
	if o.Fallback != Transparent && o.Fallback != NotFound {
		f.what, f.mark = drawnMark, monogram.Monogram{Domain: b.Domain, Name: b.Name}
		if f.format == imaging.SVG {
			f.size = 0
		}
	}
	return f
}

func (f standIn) key() variants.Key {
	var space [128]byte
	key := append(space[:0], drawingVersion, byte(f.what))
	key = f.appendTo(key)
	key = append(key, f.mark.Domain...)
	key = append(key, 0)
	key = append(key, f.mark.Name...)
	return sha256.Sum256(key)
}

func (f standIn) draw() ([]byte, error) {
	if f.format == imaging.SVG {
		if f.what == drawnMark {
			return f.mark.SVG(), nil
		}
		var b bytes.Buffer
		n := strconv.Itoa(f.size)
		b.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" width="` + n + `" height="` + n + `" viewBox="0 0 ` + n + ` ` + n + `"/>`)
		return b.Bytes(), nil
	}
	if f.what == drawnMark {
		return f.encode(f.mark.Draw(f.size))
	}
	return f.encode(image.NewNRGBA(image.Rect(0, 0, f.size, f.size)))
}
