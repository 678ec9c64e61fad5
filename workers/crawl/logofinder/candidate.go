package logofinder

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/inlinesvg"
	"letterhead/workers/crawl/page"
)

// Limits of candidates.
const (
	// MaxCandidates bounds the files that are fetched for one brand.
	MaxCandidates = 12
	// maxMarks bounds those of them that are no icons.
	maxMarks = 5
)

// Kind is where a candidate comes from, which says what shape it has by convention.
type Kind int

// Kinds.
const (
	// Icon: declared by the page as its icon, or at a known path.
	Icon Kind = iota
	// Stencil: a mask icon, a vector in one color.
	Stencil
	// Mark: declared as the logo, or drawn on the page as one.
	Mark
)

func (k Kind) String() string { return [...]string{"icon", "stencil", "mark"}[k] }

// Candidate is a file that may be a logo.
type Candidate struct {
	// URL is the file's URL. That of a drawing in the page's own text is the page's, with a fragment that
	// names the drawing; that of a part of a sprite has the part's id as its fragment.
	URL    *url.URL
	Method string // the rule that found it
	Kind   Kind
	Score  float64
	Side   int    // declared pixels of the longer side, 0 unknown
	Scheme string // color scheme of the pages it is meant for: light, dark, ""
	Words  []string
	Probed bool // at a known path, not declared
	// Data is the file itself where the page holds it: a drawing in its HTML. Nothing is fetched then.
	Data []byte
	// Part is what Read takes of the file when that is a sprite of vectors; nil for all of it.
	Part *inlinesvg.Sprite
	// Crop is what Read takes of the file when that is a sprite of pixels; nil for all of it.
	Crop *Crop
	// Reasons are what Score is the sum of.
	Reasons []Reason
	// box is what the variants of one logo share.
	box    any
	footer bool // stands there
}

// Crop is a part of an image in CSS pixels. Across is the width that the whole image is shown at, 0 when
// that is its own.
type Crop struct{ X, Y, Width, Height, Across float64 }

// Reason is one sign and what it counts.
type Reason struct {
	Sign   string
	Points float64
}

// add counts a sign.
func (c *Candidate) add(sign string, points float64) {
	if points != 0 {
		c.Score += points
		c.Reasons = append(c.Reasons, Reason{sign, points})
	}
}

// Candidates lists what may be a logo, best first: at most maxMarks from the page itself, then icons.
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

// Declared lists the icons that a page declares on its own site and those at the known paths: what is left
// to try where a site does not show its page.
func Declared(in extract.Input) []Candidate {
	c := newCollector(in)
	c.icons()
	c.bimi()
	c.list = slices.DeleteFunc(c.list, func(x Candidate) bool { return !in.Site.Own(x.URL) && x.Method != methodBIMI })
	c.knownPaths()
	return c.best(MaxCandidates)
}

// collector gathers candidates of one kind.
type collector struct {
	in    extract.Input
	brand brand
	list  []Candidate
}

func newCollector(in extract.Input) *collector { return &collector{in: in, brand: newBrand(in)} }

// best returns the best of the list, one per URL, in an order that is the same for the same page. What is
// declared and shown counts a little more than either.
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
		if x.Kind == Mark && x.Method != other.Method && !slices.ContainsFunc(x.Reasons, isAgreement) {
			x.add(agreementSign, agreementScore)
		}
		out[i] = x
	}
	slices.SortStableFunc(out, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Side, a.Side))
	})
	return out[:min(len(out), limit)]
}

const agreementSign = "found in two ways"

func isAgreement(r Reason) bool { return r.Sign == agreementSign }

// put takes a candidate with a base score in.
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

// declared adds what is declared as the brand's logo.
func (c *collector) declared() {
	p := c.in.Page
	for _, ref := range extract.OwnerLogos(c.in) {
		c.put(Candidate{URL: p.Resolve(ref), Method: "json-ld logo", Kind: Mark}, declaredScore)
	}
	for _, key := range []string{"og:logo", "logo"} {
		c.put(Candidate{URL: p.Resolve(p.Meta(key)), Method: key, Kind: Mark}, itempropScore)
	}
	for _, m := range p.Metas {
		// An article's publisher and a list of customers have logos too.
		if m.Kind == "itemprop" && m.Key == "logo" && m.Content != "" && !m.Other && (m.Of == "" || c.brand.fit(m.Of) > 0) {
			c.put(Candidate{URL: p.Resolve(m.Content), Method: "itemprop logo", Kind: Mark}, itempropScore)
			break
		}
	}
}

// fileName is the last part of a URL's path; of a URL that asks a server to scale another one, that
// of the other.
func fileName(u *url.URL) string {
	if u == nil || u.Scheme == "data" {
		return ""
	}
	if u.RawQuery != "" && len(u.RawQuery) < page.MaxURLBytes {
		query := u.Query()
		for _, key := range []string{"url", "href", "src", "image"} {
			if inner, err := url.Parse(query.Get(key)); err == nil && pictureFile.MatchString(inner.Path) {
				u = inner
				break
			}
		}
	}
	path := strings.TrimSuffix(u.Path, "/")
	return path[strings.LastIndexByte(path, '/')+1:]
}

var pictureFile = regexp.MustCompile(`(?i)\.(png|jpe?g|gif|webp|avif|svg)$`)

func isVector(u *url.URL) bool {
	if u == nil {
		return false
	}
	if u.Scheme == "data" {
		return strings.HasPrefix(strings.ToLower(u.Opaque), "image/svg")
	}
	return strings.HasSuffix(strings.ToLower(u.Path), ".svg")
}
