package logo

import (
	"cmp"
	"context"
	"crypto/sha256"
	"slices"

	"letterhead/eventschemas"
	"letterhead/internal/imaging"
	"letterhead/internal/svg"
	"letterhead/internal/variants"
)

// Source is a stored file that a logo can be drawn from.
type Source struct {
	ID     string
	Format imaging.Format // imaging.SVG, PNG, WebP or JPEG
	Side   int            // longest side in pixels; 0 for a vector, or if unknown
	Bytes  int64          // size of the file, according to the record
	Type   Type           // of the logo, including types that cannot be requested, such as other
	Ink    Theme          // of the logo; Any if unknown or if the logo has a background
}

// Pale reports whether a file with light ink would be hardly visible on white. Nil reports true for all of them.
type Pale func(Source) bool

// Choose returns the stored files from which a logo can be drawn, the best first. The others are used
// if the best is missing or cannot be drawn. Nil means that the brand has no logo.
//
// The logo's type decides first, then its ink, then how well its files fit the size: a vector, else
// a raster that is large enough, else the largest. Equal logos stay in the order of the record. Among
// the logo's files a vector comes first, then the smallest raster that is large enough, then the other
// large ones, then the small ones from the largest down.
//
// If the options name an ink, logos of that ink come first. Otherwise all are equal except the pale ones, which are
// last: most pages are white. pale is called for light ink only, and only if the type has another logo.
func Choose(logos []eventschemas.Logo, o Options, pale Pale) []Source {
	var out []Source
	for _, l := range inOrder(logos, o, pale) {
		out = append(out, filesOf(l, o)...)
	}
	return out
}

// inOrder returns the logos that have a file, the best first.
func inOrder(logos []eventschemas.Logo, o Options, pale Pale) []*eventschemas.Logo {
	type ranked struct {
		logo *eventschemas.Logo
		rank logoRank
	}
	var order []ranked
	for i := range logos {
		if _, rank, ok := bestOf(&logos[i], o); ok {
			if isDemoted(logos, i, o, pale) {
				rank.theme = worstTheme
			}
			order = append(order, ranked{&logos[i], rank})
		}
	}
	slices.SortStableFunc(order, func(a, b ranked) int { return a.rank.compare(b.rank) })
	out := make([]*eventschemas.Logo, len(order))
	for i, r := range order {
		out[i] = r.logo
	}
	return out
}

// filesOf returns the files of one logo, the best first.
func filesOf(l *eventschemas.Logo, o Options) (out []Source) {
	for i := range l.Formats {
		if s, ok := sourceOf(l, &l.Formats[i]); ok {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b Source) int { return a.rank(o).compare(b.rank(o)) })
	return out
}

// first returns the first result of Choose without computing the others: most requests need only that.
func first(logos []eventschemas.Logo, o Options, pale Pale) (best Source, ok bool) {
	var bestRank logoRank
	for i := range logos {
		s, rank, drawable := bestOf(&logos[i], o)
		if !drawable || ok && rank.compare(bestRank) >= 0 {
			continue
		}
		if isDemoted(logos, i, o, pale) {
			if rank.theme = worstTheme; ok && rank.compare(bestRank) >= 0 {
				continue
			}
		}
		best, bestRank, ok = s, rank, true
	}
	return best, ok
}

// inspectedSide is the size at which a logo is inspected, in pixels: large enough that antialiased edges
// hardly count. It does not depend on the requested size, so a brand has the same logo in all sizes.
const inspectedSide = 128

// isDemoted reports whether other logos of its type take precedence over the logo at i, because it
// is pale and no ink was requested.
func isDemoted(logos []eventschemas.Logo, i int, o Options, pale Pale) bool {
	if o.Theme != Any || inkOf(&logos[i]) != Light {
		return false
	}
	inspected := Options{Size: inspectedSide}
	for j := range logos {
		if j == i || typeRank(o.Type, logos[j].Type) != typeRank(o.Type, logos[i].Type) {
			continue
		}
		if _, _, ok := bestOf(&logos[j], inspected); ok {
			file, _, drawable := bestOf(&logos[i], inspected)
			return drawable && (pale == nil || pale(file))
		}
	}
	return false
}

// bestOf returns the best file of one logo. ok is false if it has none.
func bestOf(l *eventschemas.Logo, o Options) (best Source, rank logoRank, ok bool) {
	var bestRank fileRank
	for i := range l.Formats {
		s, known := sourceOf(l, &l.Formats[i])
		if !known {
			continue
		}
		if r := s.rank(o); !ok || r.compare(bestRank) < 0 {
			best, bestRank, ok = s, r, true
		}
	}
	return best, logoRank{typeRank(o.Type, l.Type), themeRank(o.Theme, inkOf(l)), bestRank.fit, bestRank.missing()}, ok
}

// sourceOf parses a stored file's entry. ok is false if no image can be drawn from the file.
func sourceOf(l *eventschemas.Logo, f *eventschemas.Asset) (s Source, ok bool) {
	s = Source{ID: f.ID, Format: imaging.Format(f.Format), Bytes: f.Size, Type: Type(l.Type), Ink: inkOf(l)}
	switch s.Format {
	case imaging.SVG:
		return s, true
	case imaging.PNG, imaging.WebP, imaging.JPEG:
	default:
		return Source{}, false
	}
	if f.Width != nil && f.Height != nil && *f.Width > 0 && *f.Height > 0 {
		s.Side = max(*f.Width, *f.Height)
	}
	return s, true
}

func inkOf(l *eventschemas.Logo) Theme {
	if l.Theme != nil && (*l.Theme == string(Light) || *l.Theme == string(Dark)) {
		return Theme(*l.Theme)
	}
	return Any
}

// logoRank orders logos, the smallest first.
type logoRank struct{ typ, theme, fit, missing int }

func (r logoRank) compare(other logoRank) int {
	return cmp.Or(cmp.Compare(r.typ, other.typ), cmp.Compare(r.theme, other.theme),
		cmp.Compare(r.fit, other.fit), cmp.Compare(r.missing, other.missing))
}

// The types that may replace a requested type, starting with the type itself. Types that are not
// listed rank as other, and last.
var (
	iconOrder   = [...]Type{Icon, Symbol, Full}
	symbolOrder = [...]Type{Symbol, Icon, Full}
	fullOrder   = [...]Type{Full, Symbol, Icon}
)

func typeRank(requested Type, actual string) int {
	order := &iconOrder
	switch requested {
	case Symbol:
		order = &symbolOrder
	case Full:
		order = &fullOrder
	}
	for i, t := range order {
		if string(t) == actual {
			return i
		}
	}
	return len(order)
}

// themeRank prefers the requested ink. A logo without a theme precedes one of the other theme: mostly
// it is opaque, so its own background makes it visible on any page, and if its ink is unknown it may
// be the right one, while the other theme was made for the opposite background.
func themeRank(requested, ink Theme) int {
	switch {
	case requested == Any, requested == ink:
		return 0
	case ink == Any:
		return 1
	}
	return worstTheme
}

// worstTheme is the rank of the least suitable ink.
const worstTheme = 2

// Ranks of how well a file fits a size, best first.
const (
	isVector = iota
	isLargeEnough
	isTooSmall
)

// fileRank orders the files of one logo, the smallest first.
type fileRank struct {
	fit    int
	side   int // among files that are large enough the smallest first, among the others the largest
	format int
}

func (r fileRank) compare(other fileRank) int {
	return cmp.Or(cmp.Compare(r.fit, other.fit), cmp.Compare(r.side, other.side), cmp.Compare(r.format, other.format))
}

// missing is by how much a file is too small. Files that are large enough are equal.
func (r fileRank) missing() int {
	if r.fit == isTooSmall {
		return r.side
	}
	return 0
}

func (s Source) rank(o Options) fileRank {
	switch {
	case s.Format == imaging.SVG:
		return fileRank{fit: isVector}
	case s.Side >= o.Size:
		return fileRank{isLargeEnough, s.Side, s.formatRank(o)}
	}
	return fileRank{isTooSmall, -s.Side, s.formatRank(o)}
}

// formatRank orders files of the same size. A file that is served unchanged needs no drawing;
// otherwise the format that decodes fastest to the same pixels comes first: PNG takes 50 to 90 percent
// of the time of lossless WebP (measured on logos of 256 pixels). JPEG is lossy.
func (s Source) formatRank(o Options) int {
	switch {
	case s.isUnchangedFor(o):
		return 0
	case s.Format == imaging.PNG:
		return 1
	case s.Format == imaging.WebP:
		return 2
	}
	return 3
}

// isUnchangedFor reports whether the file itself is the requested image: the vector, or a raster in its format that
// need not be made smaller. JPEG never is, because some are rotated and others have a different background.
func (s Source) isUnchangedFor(o Options) bool {
	switch s.Format {
	case imaging.SVG:
		return o.Format == imaging.SVG
	case imaging.PNG:
		return (o.Format == imaging.PNG || o.Format == imaging.SVG) && s.Side > 0 && s.Side <= o.Size
	case imaging.WebP:
		return o.Format == imaging.WebP && s.Side > 0 && s.Side <= o.Size
	}
	return false
}

// maxAdaptive limits an SVG for both color schemes, in bytes: a raster is better than a larger one, of which only half
// is shown.
const maxAdaptive = 32 << 10

// drawAdaptive draws an SVG that follows prefers-color-scheme, from what is drawn on auto-light and on auto-dark. ok is
// false if these are not two different vectors, or larger than maxAdaptive. Errors: those of Draw.
func (r *Renderer) drawAdaptive(ctx context.Context, b Brand, o Options) (img Image, ok bool, err error) {
	if best, ok := first(b.Logos, o, nil); !ok || best.Format != imaging.SVG {
		return Image{}, false, nil
	}
	var drawn [2]Image
	for i, color := range []imaging.RGB{imaging.White, imaging.DarkPage} {
		on := Options{Type: o.Type, Size: o.Size, Format: imaging.SVG, NoPlate: o.NoPlate,
			Background: Background{Color: color, Set: true}}
		if drawn[i], err = r.Draw(ctx, b, on); err != nil {
			return Image{}, false, err
		}
		if drawn[i].Fallback != "" || drawn[i].ContentType != ContentTypeSVG {
			return Image{}, false, nil
		}
	}
	light, dark := drawn[0], drawn[1]
	size := int64(len(light.Body) + len(dark.Body))
	if light.ETag == dark.ETag || size > maxAdaptive {
		return Image{}, false, nil
	}
	key := sha256.Sum256(append([]byte{renderVersion, byte(kindAdaptive)}, light.ETag+dark.ETag...))
	made, err := r.drawn.Get(ctx, key, func(ctx context.Context) ([]byte, error) {
		if err := variants.Need(ctx, size); err != nil {
			return nil, err
		}
		return svg.Adaptive(light.Body, dark.Body)
	})
	if err != nil {
		return Image{}, false, drawError(ctx, err)
	}
	img = imageOf(made)
	img.From = light.From
	img.From.Ink = Any
	return img, true, nil
}
