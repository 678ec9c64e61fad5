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
	"letterhead/internal/svg"
	"letterhead/internal/variants"
)

// renderVersion is part of the key of a variant. Increment it when the renderer or the sanitizer gives another image
// for the same file, so that variants drawn before the change are not served.
const renderVersion = 7

// maxStoredPixels is four times the largest raster that a crawl keeps, 1024 by 1024. A larger one
// would take about 250 MB to draw and is not a legitimate logo.
const maxStoredPixels = 4 * 1024 * 1024

// errFault means that the file itself is faulty, so a retry fails, too.
var errFault = errors.New("the file cannot be drawn")

// errLetters means that only browsers draw a vector whole, because it has text that became no outlines on intake.
var errLetters = errors.New("letters of the file have no font here")

// kind is the kind of an image in keys.
type kind byte

const (
	kindLogo         kind = 'l'
	kindMonogram     kind = 'm'
	kindTransparent  kind = 't'
	kindPaleness     kind = 'p' // not an image: whether a file is pale
	kindSwallowed    kind = 'b' // not an image: how much of a file a background swallows
	kindTurnable     kind = 'u' // not an image: whether a file may be turned for a background
	kindPlate        kind = 'c' // not an image: the color of a file's plate
	kindTrim         kind = 'w' // a vector without wide margins, or resultNo if it has none
	kindAdaptive     kind = 'a' // a vector for light and dark pages
	kindSmall        kind = 's' // a large raster's small form, from which later sizes are drawn
	kindTooExpensive kind = 'x' // not an image: records that a vector takes too much at a size
)

// smallSide is the longest side, in pixels, of the small form that a crawl keeps of a larger raster. For a raster
// without one it is made with the first image that needs no more, and cached with the variants.
const smallSide = 256

// form determines the bytes of an image, apart from its content.
type form struct {
	format     imaging.Format
	size       int         // maximum of the longest side; 0 if irrelevant
	background imaging.RGB // background of a JPEG; otherwise zero
}

// appendTo adds the form to a key.
func (f form) appendTo(key []byte) []byte {
	key = append(key, f.format...)
	key = append(key, 0, f.background.R, f.background.G, f.background.B)
	return binary.BigEndian.AppendUint16(key, uint16(f.size))
}

func (f form) encode(img *image.NRGBA) ([]byte, error) {
	switch f.format {
	case imaging.JPEG:
		return imaging.EncodeJPEG(img, f.background)
	case imaging.WebP:
		return imaging.EncodeWebP(img)
	}
	return imaging.EncodePNG(img)
}

// backgroundOf returns the background of a JPEG: the requested color, or that of the requested theme;
// otherwise white, or black for a logo that would be hardly visible on white.
func backgroundOf(o Options, pale bool) imaging.RGB {
	switch {
	case o.Format != imaging.JPEG:
		return imaging.RGB{}
	case o.Background.Set:
		return o.Background.Color
	case o.Theme == Light, o.Theme == Any && pale:
		return imaging.Black
	}
	return imaging.White
}

// variant is derived from a stored file: an image, or the result of inspecting it.
type variant struct {
	form
	source Source
	kind   kind
	outfit outfit
}

// dependsOnPaleness reports whether the background of a file's image depends on whether the file is pale.
func dependsOnPaleness(s Source, o Options) bool {
	return o.Format == imaging.JPEG && o.Theme == Any && s.Ink == Light
}

// variantOf drops options that do not affect the bytes, including paleness unless dependsOnPaleness reports
// that it matters.
func variantOf(s Source, o Options, pale bool) variant {
	f := form{format: o.Format, size: o.Size, background: backgroundOf(o, pale)}
	switch {
	case s.Format == imaging.SVG && o.Format == imaging.SVG:
		f.size = 0
	case o.Format == imaging.SVG:
		f.format = imaging.PNG
	}
	if s.Side > 0 && f.size > s.Side {
		f.size = s.Side
	}
	return variant{form: f, source: s, kind: kindLogo, outfit: outfit{squared: o.Type == Icon, gray: o.Gray}}
}

// fitsSmall reports whether the small form of a raster is sufficient for the variant.
func (v variant) fitsSmall() bool {
	return v.source.Format != imaging.SVG && v.format != imaging.SVG && v.size <= smallSide && v.kind != kindSmall
}

// small returns the small form of the variant's source.
func (v variant) small() variant {
	return variant{form: form{format: imaging.PNG, size: smallSide}, source: v.source, kind: kindSmall,
		outfit: outfit{cut: v.outfit.cut}}
}

func (v variant) key() variants.Key {
	var space [128]byte
	key := append(space[:0], renderVersion, byte(v.kind))
	key = v.appendTo(key)
	key = append(key, v.source.Format...)
	key = append(key, v.source.ID...)
	key = v.outfit.appendTo(key)
	return sha256.Sum256(key)
}

// draw makes the variant. Errors: errFault, errLetters, those of Files and of Vectors, that of variants.Need.
func (r *Renderer) draw(ctx context.Context, v variant) ([]byte, error) {
	if v.fitsSmall() && (v.source.Side == 0 || v.source.Side > smallSide) {
		if small, ok := r.drawn.Kept(v.small().key()); ok {
			v.outfit.cut = false
			return r.drawRaster(ctx, small.Body, v)
		}
	}
	cost := v.source.Bytes
	if v.source.Format == imaging.SVG {
		cost += v.cost(v.largest()) + v.frameCost()
	}
	if err := variants.Need(ctx, cost); err != nil {
		return nil, err
	}
	data, err := r.files.Read(ctx, v.source.ID, string(v.source.Format))
	if err != nil {
		return nil, err
	}
	if err := assets.Verify(v.source.ID, data); err != nil {
		return nil, err
	}
	drawn, err := r.drawFrom(ctx, data, v)
	if err != nil && isFileFault(err) {
		return nil, fmt.Errorf("%s %s: %w: %w", v.source.Format, v.source.ID, errFault, err)
	}
	return drawn, err
}

func isFileFault(err error) bool {
	return errors.Is(err, imaging.ErrMalformed) || errors.Is(err, imaging.ErrTooLarge) ||
		errors.Is(err, imaging.ErrUnsupported) || errors.Is(err, imaging.ErrUnknown)
}

func (r *Renderer) drawFrom(ctx context.Context, data []byte, v variant) ([]byte, error) {
	if v.source.Format == imaging.SVG && v.format != imaging.SVG && bytes.Contains(data, []byte("<text")) {
		if _, info, err := svg.Sanitize(data); err == nil && info.Text {
			return nil, errLetters
		}
	}
	switch {
	case v.kind == kindTurnable:
		return r.turnable(ctx, data, v)
	case v.outfit != outfit{} && v.source.Format == imaging.SVG:
		return r.drawDressed(ctx, data, v)
	case v.format == imaging.SVG:
		// Every stored SVG was sanitized on intake, and sanitizing one again changes nothing. It is
		// repeated once per variant so that a stricter release also applies to stored files.
		data, _, err := svg.Sanitize(data)
		return data, err
	case v.source.Format == imaging.SVG:
		img, err := r.drawVector(ctx, v, data)
		if err != nil {
			return nil, err
		}
		return v.output(imaging.Scale(img, v.size))
	}
	return r.drawRaster(ctx, data, v)
}

// minHalvedSize is the smallest size, in pixels, that is tried for a vector that takes too much at the
// requested one. A file that takes too much at 256 is not a legitimate logo.
const minHalvedSize = 256

// drawVector draws at the requested size, or at a half or a quarter of it if the vector takes too many steps or too
// much memory there: the cost of blurs and other filters grows with the pixels, and a smaller logo is better than none.
// Steps and memory depend only on the file and the size, so the same request gives the same image on every machine. If
// the time is up the error is not the file's, and nothing is cached.
//
// A size that took too much is remembered for a while: a request that ran out of time does not repeat it.
func (r *Renderer) drawVector(ctx context.Context, v variant, data []byte) (*image.NRGBA, error) {
	for size := v.size; ; size /= 2 {
		last := size/2 < minHalvedSize
		tried := variant{form: form{size: size}, source: v.source, kind: kindTooExpensive}.key()
		if !last && r.fault(tried) != nil {
			continue
		}
		img, err := r.vectors.Render(ctx, data, size)
		if last || !errors.Is(err, imaging.ErrTooLarge) {
			return img, err
		}
		r.faulty.Set(tried, fault{errFault, time.Now()})
	}
}

// drawRaster makes the variant from a stored raster, or from its small form.
func (r *Renderer) drawRaster(ctx context.Context, data []byte, v variant) ([]byte, error) {
	within := imaging.Limits{Pixels: maxStoredPixels}
	info, err := imaging.ProbeWithin(data, within)
	if err != nil {
		return nil, err
	}
	cost, err := v.costOf(data, info, within)
	if err != nil {
		return nil, err
	}
	if err := variants.Need(ctx, cost); err != nil {
		return nil, err
	}
	if v.fitsSmall() && max(info.Width, info.Height) > smallSide {
		small := v.small()
		kept, err := r.drawn.GetWithin(ctx, small.key(), func(ctx context.Context) ([]byte, error) {
			return r.drawRaster(ctx, data, small)
		})
		if err != nil {
			return nil, err
		}
		data, v.outfit.cut = kept.Body, false
	}
	side := v.decodedSide()
	img, info, err := imaging.DecodeSmaller(data, within, side)
	if err != nil {
		return nil, err
	}
	size, whole := img.Rect.Size(), true
	if v.outfit.cut {
		if cut, ok := imaging.CutOut(img); ok {
			img, whole = cut, false
		}
		img = imaging.Cropped(img, imaging.Trim(img))
	}
	if whole && img.Rect.Size() == size && v.matches(info) {
		return data, nil // it was decoded first: not even our own encoder is trusted
	}
	if v.outfit.change.recolors() {
		img, _ = imaging.Recolor(img, v.outfit.replace)
	}
	return v.output(imaging.Scale(img, v.outfit.inner(v.size)))
}

// decodedSide returns the maximum of the longest side of a raster that is decoded for the variant.
func (v variant) decodedSide() int {
	if v.outfit.cut || v.outfit.change.recolors() {
		return imaging.CutSide // before it is made smaller, edges are clean
	}
	return v.outfit.inner(v.size)
}

// output encodes an image of the variant's size.
func (v variant) output(img *image.NRGBA) ([]byte, error) {
	if v.kind == kindPaleness {
		return result(imaging.LostOn(img, imaging.White)), nil
	}
	if v.outfit.gray {
		imaging.Gray(img)
	}
	return v.encode(v.outfit.frame(img, v.size))
}

// matches reports whether a stored raster is the variant: it was encoded on intake as it would be now.
func (v variant) matches(stored imaging.Info) bool {
	// A rotated JPEG is upright only after decoding.
	return v.format != imaging.JPEG && stored.Format == v.format && max(stored.Width, stored.Height) <= v.size &&
		v.outfit.keeps(stored.Width, stored.Height)
}

// placeholder is an image that replaces a missing logo.
type placeholder struct {
	form
	kind kind
	mark monogram.Monogram // for kindMonogram
}

func fallbackOf(b Brand, o Options) placeholder {
	f := placeholder{form: form{format: o.Format, size: o.Size, background: backgroundOf(o, false)},
		kind: kindTransparent}
	if o.Fallback == Monogram || o.Fallback == "" {
		f.kind, f.mark = kindMonogram, monogram.Monogram{Domain: b.Domain, Name: b.Name}
		if f.format == imaging.SVG {
			f.size = 0
		}
	}
	return f
}

func (f placeholder) key() variants.Key {
	var space [128]byte
	key := append(space[:0], renderVersion, byte(f.kind))
	key = f.appendTo(key)
	key = append(key, f.mark.Domain...)
	key = append(key, 0)
	key = append(key, f.mark.Name...)
	return sha256.Sum256(key)
}

func (f placeholder) draw() ([]byte, error) {
	if f.format == imaging.SVG {
		if f.kind == kindMonogram {
			return f.mark.SVG(), nil
		}
		var b bytes.Buffer
		n := strconv.Itoa(f.size)
		b.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" width="` + n + `" height="` + n + `" viewBox="0 0 ` +
			n + ` ` + n + `"/>`)
		return b.Bytes(), nil
	}
	if f.kind == kindMonogram {
		return f.encode(f.mark.Draw(f.size))
	}
	return f.encode(image.NewNRGBA(image.Rect(0, 0, f.size, f.size)))
}
