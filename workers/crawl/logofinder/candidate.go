package logofinder

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"

	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/inlinesvg"
	"letterhead/workers/crawl/page"
)

// Limits of candidates.
const (
	MaxCandidates = 12 // limits the files that are fetched for one brand
	maxMarks      = 5  // limits the candidates that are not icons
)

// Kind is the origin of a candidate, which implies its usual shape.
type Kind int

const (
	Icon    Kind = iota // declared by the page as its icon, or at a known path
	Stencil             // a mask icon, a vector in one color
	Mark                // declared as the logo, or shown on the page as one
)

func (k Kind) String() string { return [...]string{"icon", "stencil", "mark"}[k] }

// Candidate is a file that may be a logo.
type Candidate struct {
	// URL is the file's URL. For an inline SVG it is the page's URL with a fragment for the SVG; for a part of a sprite
	// the fragment is the part's id.
	URL    *url.URL
	Method string // the rule that found it
	Kind   Kind
	Score  float64
	Side   int    // declared pixels of the longer side, 0 unknown
	Scheme string // color scheme of its pages: light, dark, ""
	Words  []string
	Probed bool // at a known path, not declared
	// ByConvention is set for an icon that the site may not have chosen: a probed one, or a file of a theme.
	ByConvention bool
	// Larger are files with the same picture that are better if they can be fetched, best first.
	Larger []*url.URL
	// Data is the file itself if the page contains it: an inline SVG. Nothing is fetched then.
	Data    []byte
	Part    *inlinesvg.Sprite // the part that Read uses of a sprite of vectors; nil for the whole file
	Crop    *Crop             // the part that Read uses of a sprite of pixels; nil for the whole file
	Reasons []Reason          // add up to Score
	box     any               // shared by the variants of one logo
	footer  bool              // is in the footer
	node    *html.Node        // the element that shows it; nil if none does
}

// Files lists the files with the candidate's picture, best first.
func (c Candidate) Files() []*url.URL { return append(slices.Clone(c.Larger), c.URL) }

// Crop is a part of an image in CSS pixels. Across is the displayed width of
// the whole image, or 0 for its natural width.
type Crop struct{ X, Y, Width, Height, Across float64 }

// Reason is one sign and its points.
type Reason struct {
	Sign   string
	Points float64
}

func (c *Candidate) add(sign string, points float64) {
	if points != 0 {
		c.Score += points
		c.Reasons = append(c.Reasons, Reason{sign, points})
	}
}

// has reports whether one of the signs was added.
func (c *Candidate) has(signs ...string) bool {
	return slices.ContainsFunc(c.Reasons, func(r Reason) bool { return slices.Contains(signs, r.Sign) })
}

// Candidates lists the possible logos, best first: at most maxMarks from the page itself, then icons.
func Candidates(in extract.Input) []Candidate {
	c := newCollector(in)
	c.declared()
	c.art()
	marks := c.best(maxMarks)
	c.list = nil
	c.icons()
	c.manifestIcons()
	c.bimi()
	c.knownPaths()
	icons := c.best(MaxCandidates - len(marks))
	return append(marks, icons...)
}

// Declared lists the icons that a page declares on its own site and those at
// the known paths, for sites that refuse access to their page.
func Declared(in extract.Input) []Candidate {
	c := newCollector(in)
	c.icons()
	c.bimi()
	c.list = slices.DeleteFunc(c.list, func(x Candidate) bool { return !in.Site.Own(x.URL) && x.Method != methodBIMI })
	c.knownPaths()
	return c.best(MaxCandidates)
}

// collector collects candidates of one kind.
type collector struct {
	in    extract.Input
	brand brand
	list  []Candidate
}

func newCollector(in extract.Input) *collector { return &collector{in: in, brand: newBrand(in)} }

// best returns the best of the list, one per URL, in a deterministic order. A
// URL that is both declared and shown counts a little more than either.
func (c *collector) best(limit int) []Candidate {
	at := map[string]int{}
	var out []Candidate
	for _, x := range c.list {
		if x.URL == nil || defaultIcon(x.URL, c.in.Site) {
			continue
		}
		key := x.URL.String()
		i, ok := at[key]
		if !ok {
			at[key] = len(out)
			out = append(out, x)
			continue
		}
		x, other := x, out[i]
		if x.Score <= other.Score {
			x, other = other, x
		}
		x.Side = max(x.Side, other.Side)
		if x.Larger == nil {
			x.Larger = other.Larger
		}
		if x.Kind == Mark && x.Method != other.Method && !x.has(agreementSign) {
			x.add(agreementSign, agreementScore)
		}
		out[i] = x
	}
	out = withoutCrops(out)
	slices.SortStableFunc(out, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Side, a.Side))
	})
	return out[:min(len(out), limit)]
}

// sizeVariant matches the file of a size that WordPress makes of an upload. A square one is usually a crop.
var sizeVariant = lazyregexp.New(`(?i)-(\d{2,4})x(\d{2,4})(\.(?:png|jpe?g|webp|gif))$`)

// uploaded returns the same text for all sizes of an upload. If the path does not name the image, the query does.
func uploaded(u *url.URL) string {
	if !imageFile.MatchString(u.Path) {
		return u.String()
	}
	return u.Host + sizeVariant.ReplaceAllString(u.Path, "$3")
}

const cropPenalty = 15.0 // keeps a crop of an upload from being a mark if anything else is one

// withoutCrops drops the square crops of uploads that are candidates in another size, whose score they may raise; the
// others count less. An icon is square in any case.
func withoutCrops(list []Candidate) []Candidate {
	isCrop := func(x Candidate) bool {
		m := sizeVariant.FindStringSubmatch(x.URL.Path)
		return x.Kind == Mark && m != nil && m[1] == m[2]
	}
	dropped := map[int]bool{}
	for i := range list {
		if !isCrop(list[i]) {
			continue
		}
		at := slices.IndexFunc(list, func(o Candidate) bool {
			return o.Kind == Mark && !isCrop(o) && uploaded(o.URL) == uploaded(list[i].URL)
		})
		if at < 0 {
			list[i].add("a square crop", -cropPenalty)
			continue
		}
		if dropped[i] = true; list[i].Score > list[at].Score {
			list[at].add("a crop of it is a candidate", list[i].Score-list[at].Score)
		}
	}
	kept := list[:0]
	for i, x := range list {
		if !dropped[i] {
			kept = append(kept, x)
		}
	}
	return kept
}

const agreementSign = "found in two ways"

// put adds a candidate with a base score.
func (c *collector) put(x Candidate, base float64) {
	if x.URL == nil {
		return
	}
	x.Words = append(x.Words, page.SplitWords(fileName(x.URL))...)
	x.Reasons = append([]Reason{{x.Method, base}}, x.Reasons...)
	x.Score += base
	if x.Kind == Mark && isVector(x.URL) {
		x.add(signVector, vectorScore)
	}
	c.list = append(c.list, x)
}

// shareWords are words in the names of images for sharing, unless these are also called logo.
var shareWords = tables.List("shareWords")

func (c *collector) isShareFile(u *url.URL) bool {
	words := page.SplitWords(fileName(u))
	return !says(words) && slices.ContainsFunc(words,
		func(w string) bool { return slices.Contains(shareWords, w) && !strings.Contains(c.in.Site.Label, w) })
}

// declared adds the declared logos of the brand. One that is also the page's share image, in any size, is a banner.
func (c *collector) declared() {
	p, share := c.in.Page, c.shareImages()
	put := func(ref, method string, base float64) {
		if u := p.Resolve(ref); u != nil && !share[uploaded(u)] && !c.isShareFile(u) {
			c.put(Candidate{URL: u, Method: method, Kind: Mark}, base)
		}
	}
	for _, ref := range extract.OwnerLogos(c.in) {
		put(ref, "json-ld logo", declaredScore)
	}
	for _, key := range []string{"og:logo", "logo"} {
		put(p.Meta(key), key, itempropScore)
	}
	for _, m := range p.Metas {
		// An article's publisher and listed customers also have logos.
		if m.Kind == "itemprop" && m.Key == "logo" && m.Content != "" && !m.Other &&
			(m.Of == "" || c.brand.fit(m.Of) > 0) {
			put(m.Content, "itemprop logo", itempropScore)
			break
		}
	}
}

// fileName returns the last part of a URL's path. If the URL asks a server to
// scale another one, it belongs to the other.
func fileName(u *url.URL) string {
	if u == nil || u.Scheme == "data" {
		return ""
	}
	if u.RawQuery != "" && len(u.RawQuery) < page.MaxURLBytes {
		query := u.Query()
		for _, key := range []string{"url", "href", "src", "image"} {
			if inner, err := url.Parse(query.Get(key)); err == nil && imageFile.MatchString(inner.Path) {
				u = inner
				break
			}
		}
	}
	path := strings.TrimSuffix(u.Path, "/")
	return path[strings.LastIndexByte(path, '/')+1:]
}

var imageFile = lazyregexp.New(`(?i)\.(png|jpe?g|gif|webp|avif|svg)$`)

func isVector(u *url.URL) bool {
	if u == nil {
		return false
	}
	if u.Scheme == "data" {
		return strings.HasPrefix(strings.ToLower(u.Opaque), "image/svg")
	}
	return strings.HasSuffix(strings.ToLower(u.Path), ".svg")
}
