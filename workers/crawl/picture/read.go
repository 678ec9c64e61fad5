package picture

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"net/url"
	"strings"

	"letterhead/internal/imaging"
	"letterhead/workers/crawl/judge"
)

// Limits of files.
const (
	// MaxBytes bounds one file.
	MaxBytes = imaging.MaxBytes
	// maxLogoPixels bounds a logo's pixels: a larger file is a photo.
	maxLogoPixels = 4096 * 4096
	// minSide is the longest side, in pixels, below which nothing is a logo; an icon may be minIconSide
	// when there is nothing better.
	minSide     = 24
	minIconSide = 16
	// maxAspect is how much longer than high a logo may be; separators and banners are longer.
	maxAspect = 12.0
	// photoPalette and photoShare tell a photograph: so many colors, and none with a larger share.
	photoPalette = 12
	photoShare   = 0.35
)

// Errors of Read.
var (
	// ErrNotLogo: the file is a picture, and no logo: blank, tiny, a stripe, a photograph.
	ErrNotLogo = errors.New("not a logo")
)

// Picture is a candidate whose file was read.
type Picture struct {
	Candidate
	Format        imaging.Format
	Width, Height int // pixels; 0 for a vector without a size

	SVG    []byte        // rebuilt; nil for a raster
	Raster *image.NRGBA  // nil for a vector
	Colors judge.Palette // of its ink
	Theme  string        // of its ink: light, dark, "" when its background decides
	Clear  bool          // its background is transparent
	Hash   uint64        // perceptual, of a raster
	thumb  *thumb
	Sum    [32]byte // of the file as it came
	aspect float64  // of its ink, width to height
}

// DataURL decodes an address that holds the picture itself.
func DataURL(u *url.URL) ([]byte, error) {
	head, body, ok := strings.Cut(u.Opaque, ",")
	if u.Scheme != "data" || !ok {
		return nil, errors.New("not a data address")
	}
	text, err := url.PathUnescape(body)
	if err != nil {
		text = body // SVG in data addresses is often not escaped, percent signs included
	}
	if !strings.HasSuffix(strings.ToLower(strings.TrimSpace(head)), ";base64") {
		return []byte(text), nil
	}
	text = strings.Map(func(r rune) rune {
		if r == ' ' || r == '\n' || r == '\r' || r == '\t' || r == '=' {
			return -1
		}
		return r
	}, text)
	data, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("decode data address: %w", err)
	}
	return data, nil
}

// Read reads a candidate's file. What it is, its bytes say: a web page that answers for a missing icon is
// refused here. Errors: those of imaging, ErrNotLogo.
func Read(c Candidate, data []byte) (*Picture, error) {
	p := &Picture{Candidate: c, Sum: sha256.Sum256(data)}
	info, err := imaging.ProbeWithin(data, imaging.Limits{Bytes: MaxBytes, Pixels: maxLogoPixels})
	if err != nil {
		return nil, err
	}
	p.Format, p.Width, p.Height = info.Format, info.Width, info.Height
	if info.Format.IsVector() {
		err = p.readVector(data)
	} else {
		err = p.readRaster(data)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Picture) readVector(data []byte) error {
	clean, info, err := imaging.SanitizeSVG(data)
	if err != nil {
		return err
	}
	p.SVG, p.Theme, p.Clear = clean, info.Theme(), !info.Opaque
	p.Colors = judge.Palette{Source: p.source(), Inks: info.Colors}
	p.Width, p.Height = 0, 0
	if info.Width != nil && info.Height != nil {
		p.Width, p.Height = *info.Width, *info.Height
		p.aspect = float64(*info.Width) / float64(*info.Height)
		if p.aspect > maxAspect || p.aspect < 1/maxAspect {
			return fmt.Errorf("%w: %d×%d", ErrNotLogo, p.Width, p.Height)
		}
	}
	return nil
}

func (p *Picture) readRaster(data []byte) error {
	least := minSide
	if p.Kind != Mark {
		least = minIconSide
	}
	if max(p.Width, p.Height) < least {
		return fmt.Errorf("%w: %d×%d pixels", ErrNotLogo, p.Width, p.Height)
	}
	img, _, err := imaging.Decode(data, imaging.Limits{Bytes: MaxBytes, Pixels: maxLogoPixels})
	if err != nil {
		return err
	}
	img = imaging.Scale(img, storedSide)
	seen := imaging.Analyze(img)
	if seen.Blank {
		return fmt.Errorf("%w: blank", ErrNotLogo)
	}
	p.Raster, p.Theme, p.Clear, p.Hash = img, seen.Theme(), seen.Transparent, seen.Hash
	p.thumb = newThumb(img)
	p.Width, p.Height = img.Rect.Dx(), img.Rect.Dy()
	p.Colors = judge.Palette{Source: p.source(), Inks: seen.Palette}
	p.aspect = float64(seen.Ink.Dx()) / float64(seen.Ink.Dy())
	if p.aspect > maxAspect || p.aspect < 1/maxAspect {
		return fmt.Errorf("%w: its ink is %d×%d", ErrNotLogo, seen.Ink.Dx(), seen.Ink.Dy())
	}
	if p.Kind == Mark && isPhoto(seen) {
		return fmt.Errorf("%w: a photograph", ErrNotLogo)
	}
	return nil
}

// isPhoto says whether an opaque picture has many colors and none that stands out, as no logo does.
func isPhoto(a imaging.Analysis) bool {
	return !a.Transparent && len(a.Palette) >= photoPalette && a.Palette[0].Share < photoShare
}

// source is the address for evidence; a picture inside of the page has none of its own.
func (p *Picture) source() string {
	if p.URL.Scheme == "data" {
		return "data:"
	}
	return p.URL.String()
}

// IsFileFault says whether an error lies in the file, not in what it was to be stored in.
func IsFileFault(err error) bool {
	for _, fault := range []error{ErrNotLogo, imaging.ErrUnknown, imaging.ErrUnsupported, imaging.ErrTooLarge, imaging.ErrMalformed} {
		if errors.Is(err, fault) {
			return true
		}
	}
	return false
}
