package logofinder

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"image"
	"math"
	"net/url"
	"slices"
	"strings"

	"letterhead/internal/imaging"
	"letterhead/internal/svg"
	"letterhead/workers/crawl/extract/colors"
	"letterhead/workers/crawl/inlinesvg"
)

// Limits of files.
const (
	MaxBytes        = imaging.MaxBytes // limits one file
	maxSpritePixels = 2048 * 2048      // limits the pixels of a file from which a logo is cut
	// minSide is the minimum length, in pixels, of a logo's longer side; for an
	// icon it is minIconSide if there is nothing better.
	minSide     = 24
	minIconSide = 16
	maxAspect   = 12.0 // the largest ratio of width to height of a logo; separators and banners exceed it
	// maxMasthead is the limit for an image that the page links home or declares
	// as its logo: a newspaper's or an authority's name may be one long line.
	maxMasthead = 24.0
	// photoPalette and photoShare identify a photograph: at least so many colors, and none with a larger share.
	photoPalette = 12
	photoShare   = 0.35
)

// Errors of Open and As.
var (
	// ErrNotLogo: the file is an image but not a logo: blank, tiny, a stripe, a photograph.
	ErrNotLogo = errors.New("not a logo")
	// ErrDefault: the file is the default of a framework or a site builder.
	ErrDefault = errors.New("a framework's own icon")
)

// Image is a candidate whose file was read.
type Image struct {
	Candidate
	Format        imaging.Format
	Width, Height int // pixels; 0 for a vector without a size

	SVG []byte // rebuilt; nil for a raster
	// Lettered is set for a vector with letters that only browsers have. Raster is a sketch of it, and is not stored.
	Lettered bool
	Raster   *image.NRGBA   // at most readSide pixels long; a vector is drawn analysisSide pixels long
	Colors   colors.Palette // of its ink
	Theme    string         // of its ink: light, dark, or "" if its background decides
	Clear    bool           // its background is transparent
	Hash     uint64         // perceptual
	Sum      [32]byte       // of the original file, or of the part that is used
	thumb    *thumb
	aspect   float64 // of its ink, width to height
	draw     Renderer
}

// DataURL decodes a URL that contains the image itself.
func DataURL(u *url.URL) ([]byte, error) {
	data := svg.DataURL(u.Scheme + ":" + u.Opaque)
	if data == nil {
		return nil, errors.New("not a data URL, or not valid base64")
	}
	return data, nil
}

// Renderer draws vectors. internal/resvg implements it. It is safe for concurrent use.
type Renderer interface {
	// Render draws a rebuilt SVG on a transparent background, its longer side with that many pixels. Errors:
	// imaging.ErrMalformed if it cannot be drawn, imaging.ErrTooLarge if it takes too many steps or too much memory,
	// context.DeadlineExceeded if it takes too long, ctx.Err().
	Render(ctx context.Context, svg []byte, side int) (*image.NRGBA, error)
}

// vectorCost is the memory, in bytes, for rebuilding a vector. The renderer limits the memory for drawing.
const vectorCost = 4 << 20

// Cost returns the memory, in bytes, that Open and As need at most, excluding
// the file. It is 0 for a file that Open rejects by its header.
func Cost(data []byte, sprites bool) int64 {
	if imaging.Sniff(data).IsVector() {
		return vectorCost
	}
	info, err := imaging.ProbeWithin(data, limits)
	if err != nil {
		return 0
	}
	cost, err := imaging.DecodeCost(data, limits, readAt(info, sprites))
	if err != nil {
		return 0
	}
	return cost
}

// limits apply to a file. Images of home pages are smaller.
var limits = imaging.Limits{Bytes: MaxBytes, Pixels: imaging.MaxPixels}

// readSide is the longest side, in pixels, at which a raster is read: the largest for any use, so that one reading
// serves all of them and the result does not depend on which use comes first.
const readSide = bannerSide

// readAt returns the longest side, in pixels, at which a raster is read. Sprites are cut from the full size.
func readAt(info imaging.Info, sprites bool) int {
	if sprites && info.Width*info.Height <= maxSpritePixels {
		return imaging.MaxSide
	}
	return readSide
}

// File is a decoded file, independent of the candidates that refer to it.
type File struct {
	format        imaging.Format
	width, height int // pixels, according to its header; 0 for a vector without a size
	sum           [sha256.Size]byte
	svg           []byte // rebuilt; nil for a raster
	lettered      bool   // see Image.Lettered
	draw          Renderer

	Pixels *image.NRGBA // the pixels of a raster, or of a vector drawn analysisSide pixels long
}

// Bytes returns the size of the file's pixels and its rebuilt vector.
func (f *File) Bytes() int64 { return int64(len(f.Pixels.Pix) + len(f.svg)) }

// Open decodes a file, or the part of a sprite of vectors. sprites reports whether As may cut a raster into pieces. The
// format is determined from the bytes: a web page in place of a missing icon fails.
//
// Errors: as imaging and of package inlinesvg, the errors of the renderer, ErrNotLogo for a vector of HTML, ctx.Err().
func Open(ctx context.Context, draw Renderer, data []byte, part *inlinesvg.Sprite, sprites bool) (*File, error) {
	if part != nil {
		cut, err := inlinesvg.Cut(data, *part)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotLogo, err)
		}
		data = cut
	}
	info, err := imaging.ProbeWithin(data, limits)
	if err != nil {
		return nil, err
	}
	f := &File{format: info.Format, width: info.Width, height: info.Height, sum: sha256.Sum256(data), draw: draw}
	if info.Format.IsVector() {
		return f, f.drawVector(ctx, data)
	}
	f.Pixels, _, err = imaging.DecodeSmaller(data, limits, readAt(info, sprites))
	return f, err
}

// drawVector rebuilds the vector and draws it.
func (f *File) drawVector(ctx context.Context, data []byte) error {
	clean, info, err := svg.Sanitize(data)
	if err != nil {
		return err
	}
	if info.Lost {
		return fmt.Errorf("%w: it consists of HTML", ErrNotLogo)
	}
	f.svg, f.width, f.height = clean, 0, 0
	if f.lettered = info.Text; f.lettered {
		if clean, err = svg.Sketch(clean); err != nil {
			return err
		}
	}
	if info.Width != nil && info.Height != nil {
		f.width, f.height = *info.Width, *info.Height
	}
	f.Pixels, err = f.draw.Render(ctx, clean, analysisSide)
	return err
}

// As returns the image that a candidate refers to in the file. Errors:
// imaging.ErrTooLarge for a sprite, ErrNotLogo, ErrDefault.
func (f *File) As(c Candidate) (*Image, error) {
	p := &Image{Candidate: c, Format: f.format, Width: f.width, Height: f.height, SVG: f.svg, Raster: f.Pixels,
		Sum: f.sum, draw: f.draw, Lettered: f.lettered}
	if c.Crop != nil {
		p.Sum = sha256.Sum256(fmt.Appendf(p.Sum[:], "%v", *c.Crop))
	}
	if name, ok := p.frameworkFile(hex.EncodeToString(p.Sum[:])); ok {
		return nil, fmt.Errorf("%w: %s", ErrDefault, name)
	}
	if p.SVG == nil {
		if err := p.size(); err != nil {
			return nil, err
		}
	}
	return p, p.look(p.Raster)
}

// size scales a raster to the size for analysis.
func (p *Image) size() error {
	least := minSide
	if p.Kind != Mark {
		least = minIconSide
	}
	switch {
	case max(p.Width, p.Height) < least:
		return fmt.Errorf("%w: %d×%d pixels", ErrNotLogo, p.Width, p.Height)
	case p.Crop != nil && p.Width*p.Height > maxSpritePixels:
		return fmt.Errorf("%w: a sprite of %d×%d pixels", imaging.ErrTooLarge, p.Width, p.Height)
	case p.Crop != nil:
		var err error
		if p.Raster, err = p.Crop.of(p.Raster); err != nil {
			return err
		}
	}
	p.Raster = imaging.Scale(p.Raster, readSide)
	p.Width, p.Height = p.Raster.Rect.Dx(), p.Raster.Rect.Dy()
	return nil
}

// analysisSide is the longer side, in pixels, of a vector drawn for analysis. Drawing takes about 15 ms.
const analysisSide = 256

// look analyzes the pixels.
func (p *Image) look(img *image.NRGBA) error {
	seen := imaging.Analyze(img)
	if seen.Blank {
		return fmt.Errorf("%w: blank", ErrNotLogo)
	}
	// The ink of a tightly cropped wordmark reaches its corners, but the space between the letters is clear.
	seen.Transparent = seen.Transparent || p.Kind == Mark && imaging.ClearShare(img) > cutClose
	p.Clear, p.Hash, p.thumb = seen.Transparent, seen.Hash, newThumb(img)
	p.Theme = p.theme(seen)
	p.Colors = colors.Palette{Source: p.Source(), Inks: seen.Palette}
	p.aspect = float64(seen.Ink.Dx()) / float64(seen.Ink.Dy())
	longest := maxAspect
	if p.Kind == Mark && (strings.HasPrefix(p.Method, methodHome) || isDeclared(p.Method)) || p.certain() {
		longest = maxMasthead
	}
	if p.aspect > longest || p.aspect < 1/maxAspect {
		return fmt.Errorf("%w: its ink is %d×%d", ErrNotLogo, seen.Ink.Dx(), seen.Ink.Dy())
	}
	if isDeclared(p.Method) && p.isBanner() {
		return fmt.Errorf("%w: a share banner", ErrNotLogo)
	}
	if isPlain(img, seen) {
		return fmt.Errorf("%w: a plain rectangle", ErrNotLogo)
	}
	if p.Kind == Mark && p.SVG == nil && !seen.Transparent && len(seen.Palette) >= photoPalette &&
		seen.Palette[0].Share < photoShare && !p.certain() {
		return fmt.Errorf("%w: a photograph", ErrNotLogo)
	}
	return nil
}

// certainScore is the score from which the page decides that a picture is its logo, whatever the picture looks like: in
// the header, in a link home, and first.
const certainScore = 80.0

// certain reports whether the page shows the picture as its logo beyond doubt, and calls it so: the picture above a
// page's text may link home as well.
func (c *Candidate) certain() bool {
	return c.Kind == Mark && c.Score >= certainScore && c.has(signLogoOwn, signLogoBox, signLogoFile)
}

// isDeclared reports whether a method is one of declared logos.
func isDeclared(method string) bool {
	return method == "json-ld logo" || method == "og:logo" || method == "logo" || method == "itemprop logo"
}

// The shape of share banners: 1200×630 and 1280×640 are recommended, and 1600×900 is usual.
const (
	shareWidth = 600 // pixels; the least that is shown across a post
	shareLeast = 1.7 // width to height
	shareMost  = 2.05
)

// isBanner reports whether a picture has the size and shape of a share banner.
func (p *Image) isBanner() bool {
	return p.SVG == nil && !p.Clear && p.Width >= shareWidth && p.ratio() >= shareLeast && p.ratio() <= shareMost
}

// of cuts its part out of a sprite. Errors: ErrNotLogo if the part is outside.
func (c Crop) of(img *image.NRGBA) (*image.NRGBA, error) {
	scale := 1.0
	if c.Across > 0 {
		scale = float64(img.Rect.Dx()) / c.Across
	}
	at := func(v float64) int { return int(math.Round(min(max(v*scale, -maxCrop), maxCrop))) }
	part := image.Rect(at(c.X), at(c.Y), at(c.X+c.Width), at(c.Y+c.Height)).Intersect(img.Rect)
	if part.Empty() {
		return nil, fmt.Errorf("%w: no such part in a sprite of %d×%d pixels", ErrNotLogo, img.Rect.Dx(), img.Rect.Dy())
	}
	return imaging.Cropped(img, part), nil
}

const maxCrop = 1 << 15 // pixels

const (
	// plainShare is the share of its box from which ink of one color is a rectangle. A disc fills 79 %.
	plainShare = 0.985
	plainColor = 0.99 // the share of that color in all ink
)

func isOpaque(img *image.NRGBA, x, y int) bool { return img.Pix[y*img.Stride+4*x+3] >= 128 }

// fills reports whether opaque pixels are at least a share of a box.
func fills(img *image.NRGBA, box image.Rectangle, share float64) bool {
	filled := 0
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			if isOpaque(img, x, y) {
				filled++
			}
		}
	}
	return float64(filled) >= share*float64(box.Dx()*box.Dy())
}

// isPlain reports whether the visible part is one rectangle of one color: a placeholder for a missing logo.
func isPlain(img *image.NRGBA, seen imaging.Analysis) bool {
	if len(seen.Palette) == 0 || seen.Palette[0].Share < plainColor {
		return false
	}
	// An opaque image has its background's color in addition to the ink's, or is blank.
	return fills(img, seen.Ink, plainShare)
}

const (
	// surelyLight and surelyDark are the lumas beyond which the ink decides, whatever the file's name.
	surelyLight = 190
	surelyDark  = 70
)

// Words of a file or class that give the tone of the ink.
var (
	lightInk = tables.List("lightInk")
	darkInk  = []string{"black", "dark", "noir", "negro", "nero", "schwarz", "preto", "onlight"}
)

// theme names the tone of the ink. The words of pages and files count between
// light and dark, where perception may differ from the mean.
func (p *Image) theme(seen imaging.Analysis) string {
	seenTheme := seen.Theme()
	if seenTheme == "light" {
		if ground, ok := groundOf(p.Raster, seen); ok && ground.Luma() > paleLuma { // a dark crest is ink itself
			if p.Kind != Mark || math.Abs(p.ratio()-1) < square {
				return ""
			}
			return "dark"
		}
	}
	if seenTheme == "" && p.Kind == Mark && math.Abs(p.ratio()-1) >= square {
		// A logo with its own background is not an icon: its ink contrasts with the background.
		if cornerLuma(p.Raster) > lightLuma {
			return "dark"
		}
		return "light"
	}
	if seenTheme == "" || seen.Luma > surelyLight || seen.Luma < surelyDark {
		return seenTheme
	}
	light := slices.ContainsFunc(p.Words, func(w string) bool { return slices.Contains(lightInk, w) })
	dark := slices.ContainsFunc(p.Words, func(w string) bool { return slices.Contains(darkInk, w) })
	switch {
	case p.Scheme == "dark":
		return "light"
	case p.Scheme == "light":
		return "dark"
	case light != dark && light:
		return "light"
	case light != dark:
		return "dark"
	}
	return seenTheme
}

const (
	groundLines = 24 // the number of rows and of columns whose ends show a ground
	// groundFill is the least share of the box around the ink that a ground and
	// the art on it fill together; a disc fills 79 %.
	groundFill   = 0.7
	groundEnds   = 0.9  // the least share of the ends that have the ground's color
	groundArt    = 0.06 // the least share of the ground that has other colors
	paleLuma     = 200  // the luma from which a ground is one for dark art
	groundDeltaE = 12   // the largest ΔE2000 of shades of one ground
)

// groundOf returns the color of the disc or plate that art with clear corners
// brings along: everything else is drawn within it.
func groundOf(img *image.NRGBA, seen imaging.Analysis) (ground imaging.RGB, ok bool) {
	box := seen.Ink
	color := func(x, y int) imaging.RGB {
		i := y*img.Stride + 4*x
		return imaging.RGB{R: img.Pix[i], G: img.Pix[i+1], B: img.Pix[i+2]}
	}
	inset := max(1, min(box.Dx(), box.Dy())/48) // edges blend with what is behind them
	var ends []imaging.RGB
	lines := 0
	scan := func(from, along image.Point, steps int) {
		lines++
		first, last := -1, -1
		for i := range steps {
			if at := from.Add(along.Mul(i)); isOpaque(img, at.X, at.Y) {
				if first < 0 {
					first = i
				}
				last = i
			}
		}
		if first < 0 || last-first < 4*inset {
			return
		}
		for _, i := range []int{first + inset, last - inset} {
			at := from.Add(along.Mul(i))
			ends = append(ends, color(at.X, at.Y))
		}
	}
	for i := range groundLines {
		scan(image.Pt(box.Min.X, box.Min.Y+(2*i+1)*box.Dy()/(2*groundLines)), image.Pt(1, 0), box.Dx())
		scan(image.Pt(box.Min.X+(2*i+1)*box.Dx()/(2*groundLines), box.Min.Y), image.Pt(0, 1), box.Dy())
	}
	if len(ends) < lines {
		return ground, false
	}
	ground = ends[len(ends)/2]
	same := 0
	for _, c := range ends {
		if imaging.DeltaE(c, ground) < groundDeltaE {
			same++
		}
	}
	if float64(same) < groundEnds*float64(len(ends)) {
		return ground, false
	}
	art := 0
	for _, swatch := range seen.Palette {
		if imaging.DeltaE(swatch.Color, ground) >= 2*groundDeltaE {
			art += int(1000 * swatch.Share)
		}
	}
	return ground, fills(img, box, groundFill) && float64(art) >= 1000*groundArt
}

// cutClose is the share of clear pixels from which a logo has no background.
// The corners of a rounded icon are less than a tenth.
const cutClose = 0.15

const lightLuma = 128 // luma

// cornerLuma returns the mean luma of an image's corners.
func cornerLuma(img *image.NRGBA) float64 {
	sum, w, h := 0.0, img.Rect.Dx(), img.Rect.Dy()
	for _, at := range []image.Point{{}, {X: w - 1}, {Y: h - 1}, {X: w - 1, Y: h - 1}} {
		c := img.NRGBAAt(at.X, at.Y)
		sum += imaging.RGB{R: c.R, G: c.G, B: c.B}.Luma()
	}
	return sum / 4
}

// Source returns the URL for evidence; an image inside of the page has none.
func (p *Image) Source() string {
	if p.URL.Scheme == "data" {
		return "data:"
	}
	return p.URL.String()
}

// IsFileFault reports whether an error is caused by the file, not by the store.
func IsFileFault(err error) bool {
	faults := []error{
		ErrNotLogo, ErrDefault, imaging.ErrUnknown, imaging.ErrUnsupported, imaging.ErrTooLarge, imaging.ErrMalformed,
	}
	return slices.ContainsFunc(faults, func(fault error) bool { return errors.Is(err, fault) })
}
