package logo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"image"

	"letterhead/eventschemas"
	"letterhead/internal/imaging"
	"letterhead/internal/monogram"
	"letterhead/internal/variants"
)

// ErrNotDrawn: what is stored of the logo cannot be drawn.
var ErrNotDrawn = errors.New("the logo could not be drawn")

// Brand is what a logo is drawn of.
type Brand struct {
	Domain string // registrable
	Name   string // "" when it is not known
	Logos  []eventschemas.Logo
}

// Picture is a logo as it is answered. Its bytes are shared and must not be changed.
type Picture struct {
	Body        []byte
	ContentType string
	ETag        string // strong, in its quotes: a digest of the bytes
	// Fallback: it stands for a logo that is not there.
	Fallback bool
}

type (
	// Files are the stored logos; *assets.Store. Errors: assets.ErrNotFound, ErrDamaged, ErrUnavailable.
	Files interface {
		Read(ctx context.Context, id, ext string) ([]byte, error)
	}
	// Vectors draws an SVG; *resvg.Renderer. Errors: those of imaging for the file's own faults.
	Vectors interface {
		Render(ctx context.Context, svg []byte, side int) (*image.NRGBA, error)
	}
)

// Studio draws logos and keeps what it drew. It is safe for concurrent use.
type Studio struct {
	files   Files
	vectors Vectors
	drawn   *variants.Store
}

// NewStudio returns a studio.
func NewStudio(files Files, vectors Vectors, drawn *variants.Store) (*Studio, error) {
	if files == nil || vectors == nil || drawn == nil {
		return nil, errors.New("logo studio: files, vectors or variants are missing")
	}
	return &Studio{files: files, vectors: vectors, drawn: drawn}, nil
}

// drawing raises with every change of what is drawn of the same file, so that nothing older is answered.
const drawingVersion = 1

// Draw returns the picture that the options ask for. The same brand and options give the same bytes.
//
// Errors: ErrNotDrawn, variants.ErrBusy, assets.ErrUnavailable, ctx.Err().
func (s *Studio) Draw(ctx context.Context, b Brand, o Options) (Picture, error) {
	_, file, ok := Choose(b.Logos, o)
	what := fmt.Sprintf("%d %s %+v", drawingVersion, file.ID, o)
	if !ok {
		what += b.Domain
	}
	made, err := s.drawn.Get(ctx, sha256.Sum256([]byte(what)), func(ctx context.Context) ([]byte, error) {
		var img *image.NRGBA
		if !ok {
			img = monogram.Monogram{Domain: b.Domain, Name: b.Name}.Draw(o.Size)
		} else {
			data, err := s.files.Read(ctx, file.ID, file.Format)
			if err != nil {
				return nil, err
			}
			if file.Format == string(imaging.SVG) {
				if o.Format == imaging.SVG {
					return data, nil
				}
				img, err = s.vectors.Render(ctx, data, o.Size)
			} else if img, _, err = imaging.Decode(data, imaging.Limits{}); err == nil {
				img = imaging.Scale(img, o.Size)
			}
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrNotDrawn, err)
			}
		}
		switch o.Format {
		case imaging.WebP:
			return imaging.EncodeWebP(img)
		case imaging.JPEG:
			return imaging.EncodeJPEG(img, imaging.White)
		default:
			return imaging.EncodePNG(img)
		}
	})
	if err != nil {
		return Picture{}, err
	}
	types := map[imaging.Format]string{imaging.PNG: "image/png", imaging.WebP: "image/webp", imaging.JPEG: "image/jpeg", imaging.SVG: "image/svg+xml"}
	return Picture{Body: made.Body, ContentType: types[imaging.Sniff(made.Body)], ETag: `"` + hex.EncodeToString(made.Sum[:16]) + `"`, Fallback: !ok}, nil
}
