package logo

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"image"
	"slices"
	"time"

	"github.com/maypok86/otter/v2"

	"letterhead/eventschemas"
	"letterhead/internal/assets"
	"letterhead/internal/imaging"
	"letterhead/internal/variants"
)

// ErrNotDrawn means that no stored file of the logo can be drawn.
var ErrNotDrawn = errors.New("the logo could not be drawn")

// Brand is the input for drawing a logo.
type Brand struct {
	Domain string // registrable
	Name   string // "" if unknown
	Logos  []eventschemas.Logo
}

// Image is the image that answers a request. Its bytes are shared and must not be modified.
type Image struct {
	Body        []byte
	ContentType string // one of the constants below; the type of Body, which may differ from the requested one
	ETag        string // strong, quoted: a digest of the bytes
	From        Source // the file that it was drawn from; zero for a fallback
	// Fallback is Monogram or Transparent if the image replaces a missing logo, and "" otherwise.
	Fallback Fallback
}

// The media types of images.
const (
	ContentTypePNG  = "image/png"
	ContentTypeWebP = "image/webp"
	ContentTypeJPEG = "image/jpeg"
	ContentTypeSVG  = "image/svg+xml"
)

type (
	// Files are the stored logos; *assets.Store. Errors: assets.ErrNotFound, ErrDamaged, ErrUnavailable.
	Files interface {
		Read(ctx context.Context, id, ext string) ([]byte, error)
	}
	// Vectors draws an SVG; *resvg.Renderer. Errors: those of imaging for faults of the file, the same
	// for each call with the same file and side; context.DeadlineExceeded if the time is up.
	Vectors interface {
		Render(ctx context.Context, svg []byte, side int) (*image.NRGBA, error)
	}
)

const (
	// maxFiles limits the files that are tried for one image. A crawl keeps at most five of a logo.
	maxFiles = 10
	// maxVectors limits the vectors among them: each may take as many steps as the renderer allows.
	maxVectors = 2
	// faultyTime is how long a file that cannot be drawn is skipped.
	faultyTime = 10 * time.Minute
	// maxFaulty limits the number of such files that are remembered, about 150 bytes each.
	maxFaulty = 4096
)

// Renderer draws and caches logos. It is safe for concurrent use.
type Renderer struct {
	files   Files
	vectors Vectors
	drawn   *variants.Store
	faulty  *otter.Cache[variants.Key, fault] // variants that could not be drawn
}

func NewRenderer(files Files, vectors Vectors, drawn *variants.Store) (*Renderer, error) {
	if files == nil || vectors == nil || drawn == nil {
		return nil, errors.New("logo renderer: files, vectors or variants are missing")
	}
	faulty, err := otter.New(&otter.Options[variants.Key, fault]{MaximumSize: maxFaulty})
	if err != nil {
		return nil, fmt.Errorf("logo renderer: %w", err)
	}
	return &Renderer{files: files, vectors: vectors, drawn: drawn, faulty: faulty}, nil
}

// Draw returns the image for the options. The same brand and options give the same bytes.
//
// Each stored file has separate variants: if the best file is missing, damaged or cannot be drawn, the
// answer is the next one's variant, and the next request tries the best file again.
//
// Errors: ErrNotDrawn, variants.ErrBusy, assets.ErrUnavailable, ctx.Err().
func (r *Renderer) Draw(ctx context.Context, b Brand, o Options) (Image, error) {
	if o.Adaptive {
		if img, ok, err := r.drawAdaptive(ctx, b, o); ok || err != nil {
			return img, err
		}
	}
	if o.Background.Set {
		if img, ok, err := r.drawOn(ctx, b, o); ok || err != nil {
			return img, err
		}
	}
	inspector := inspector{renderer: r, ctx: ctx}
	best, ok := first(b.Logos, o, inspector.pale)
	if inspector.err != nil {
		return Image{}, inspector.err
	}
	if !ok {
		return r.fallback(ctx, b, o)
	}
	img, err := r.variant(ctx, best, o)
	if err == nil || !isFault(err) {
		return img, err
	}
	faults := []error{err}
	sources := Choose(b.Logos, o, inspector.pale)
	if inspector.err != nil {
		return Image{}, inspector.err
	}
	for _, next := range tried(sources)[1:] {
		if img, err = r.variant(ctx, next, o); err == nil || !isFault(err) {
			return img, err
		}
		faults = append(faults, err)
	}
	if !slices.ContainsFunc(faults, func(err error) bool { return !errors.Is(err, errLetters) }) {
		return r.fallback(ctx, b, o) // there is a logo, but in no format other than SVG
	}
	return Image{}, fmt.Errorf("%w: %s: %w", ErrNotDrawn, b.Domain, errors.Join(faults...))
}

// tried returns the files that may be tried for one image, in their order.
func tried(files []Source) (out []Source) {
	vectors := 0
	for _, s := range files[:min(len(files), maxFiles)] {
		if s.Format == imaging.SVG {
			vectors++
		}
		if s.Format != imaging.SVG || vectors <= maxVectors {
			out = append(out, s)
		}
	}
	return out
}

// isFault reports whether an error concerns one file only, so that another may be used.
func isFault(err error) bool {
	return errors.Is(err, errFault) || errors.Is(err, errLetters) || errors.Is(err, assets.ErrNotFound) ||
		errors.Is(err, assets.ErrDamaged)
}

// variant returns the image drawn from one file. Errors: those of Draw, and those of isFault.
func (r *Renderer) variant(ctx context.Context, from Source, o Options) (Image, error) {
	pale := false
	if dependsOnPaleness(from, o) {
		var err error
		if pale, err = r.pale(ctx, from); err != nil {
			return Image{}, err
		}
	}
	return r.made(ctx, variantOf(from, o, pale))
}

// made returns the image of a variant. Errors: those of get.
func (r *Renderer) made(ctx context.Context, v variant) (Image, error) {
	made, err := r.get(ctx, v)
	if err != nil {
		return Image{}, err
	}
	img := imageOf(made)
	img.From = v.source
	return img, nil
}

// get returns a variant, which it draws if it is not cached. Errors: those of Draw, and those of isFault.
func (r *Renderer) get(ctx context.Context, v variant) (variants.Image, error) {
	key := v.key()
	made, err := r.drawn.Get(ctx, key, func(ctx context.Context) ([]byte, error) {
		if is := r.fault(key); is != nil {
			return nil, fmt.Errorf("%s %s: %w", v.source.Format, v.source.ID, is)
		}
		data, err := r.draw(ctx, v)
		for _, is := range []error{errFault, errLetters} {
			if errors.Is(err, is) {
				r.faulty.Set(key, fault{is, time.Now()})
			}
		}
		return data, err
	})
	if err != nil {
		return variants.Image{}, drawError(ctx, err)
	}
	return made, nil
}

// fault is why a variant could not be drawn, errFault or errLetters, and when.
type fault struct {
	is    error
	since time.Time
}

// fault returns why a variant could not be drawn recently, or nil.
func (r *Renderer) fault(key variants.Key) error {
	if f, ok := r.faulty.GetIfPresent(key); ok && time.Since(f.since) < faultyTime {
		return f.is
	}
	return nil
}

// fallback returns the replacement for a missing logo.
func (r *Renderer) fallback(ctx context.Context, b Brand, o Options) (Image, error) {
	f := fallbackOf(b, o)
	made, err := r.drawn.Get(ctx, f.key(), func(ctx context.Context) ([]byte, error) {
		if err := variants.Need(ctx, f.cost(f.largest())); err != nil {
			return nil, err
		}
		return f.draw()
	})
	if err != nil {
		return Image{}, drawError(ctx, err)
	}
	img := imageOf(made)
	if img.Fallback = Transparent; f.kind == kindMonogram {
		img.Fallback = Monogram
	}
	return img, nil
}

// drawError converts errors to those of Draw, except the ones that isFault recognizes.
func drawError(ctx context.Context, err error) error {
	switch {
	case isFault(err), errors.Is(err, variants.ErrBusy), errors.Is(err, assets.ErrUnavailable), ctx.Err() != nil:
		return err
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: %w", variants.ErrBusy, err) // the time limit of drawing was exceeded, not the caller's
	}
	return fmt.Errorf("%w: %w", ErrNotDrawn, err)
}

func imageOf(made variants.Image) Image {
	const digest = 16 // bytes used: equal by accident less often than a disk returns wrong data
	var tag [2 + 2*digest]byte
	tag[0], tag[len(tag)-1] = '"', '"'
	hex.Encode(tag[1:], made.Sum[:digest])
	return Image{Body: made.Body, ContentType: contentType(made.Body), ETag: string(tag[:])}
}

// contentType returns the media type of an image that was made here.
func contentType(body []byte) string {
	if len(body) == 0 || body[0] == '<' {
		return ContentTypeSVG // a closer look, like Sniff's for untrusted files, takes ten times as long
	}
	switch imaging.Sniff(body) {
	case imaging.WebP:
		return ContentTypeWebP
	case imaging.JPEG:
		return ContentTypeJPEG
	}
	return ContentTypePNG
}
