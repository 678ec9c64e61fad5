package picture

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"letterhead/workers/crawl/judge"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
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

// Candidate is a file that may be a logo.
type Candidate struct {
	URL    *url.URL
	Method string // the rule that found it
	Kind   Kind
	Score  float64
	Side   int    // declared pixels of the longer side, 0 unknown
	Scheme string // color scheme of the pages it is meant for: light, dark, ""
	Words  []string
	Probed bool // at a known path, not declared
}

// Base scores of the places a logo comes from. Source: the table of the extraction notes.
const (
	headerHomeScore  = 50.0
	headerZoneScore  = 20.0
	headerScore      = 25.0
	declaredScore    = 45.0 // JSON-LD
	itempropScore    = 40.0 // og:logo, itemprop=logo
	svgIconScore     = 35.0
	touchScore       = 32.0
	manifestScore    = 30.0
	maskScore        = 20.0
	tileScore        = 18.0
	iconScore        = 15.0
	knownPathScore   = 10.0
	sizeScore        = 10.0 // times the side, up to fullSide
	fullSide         = 256
	unlinkedPenalty  = 15.0
	footerPenalty    = 15.0
	bodyPenalty      = 10.0
	hiddenPenalty    = 20.0
	maskableMinus    = 3.0
	otherSchemeMinus = 4.0
	brandAltScore    = 20.0
	partAltScore     = 12.0
	brandFileScore   = 6.0
	logoWordScore    = 6.0
	firstScore       = 12.0
	vectorScore      = 3.0
	tinyPenalty      = 12.0
	tinySide         = 40 // declared pixels below which header art is a menu icon
	shareImageMinus  = 40.0
	minMarkScore     = 45.0
)

// Sides in pixels that an icon has by convention when it declares none.
const (
	touchSide = 180
	fluidSide = 512
	tileSide  = 144
)

// Candidates lists what may be a logo, best first: at most maxMarks from the page itself, then icons.
func Candidates(in judge.Input) []Candidate {
	var c collector
	c.in = in
	c.declared()
	c.images()
	marks := c.best(maxMarks)
	c.list = nil
	c.icons()
	c.manifestIcons()
	c.knownPaths()
	icons := c.best(MaxCandidates - len(marks))
	return append(marks, icons...)
}

// Declared lists the icons that a page declares on its own site and those at the known paths: what is left
// to try where a site does not show its page.
func Declared(in judge.Input) []Candidate {
	var c collector
	c.in = in
	c.icons()
	c.list = slices.DeleteFunc(c.list, func(x Candidate) bool { return !in.Site.Own(x.URL) })
	c.knownPaths()
	return c.best(MaxCandidates)
}

// collector gathers candidates of one kind.
type collector struct {
	in   judge.Input
	list []Candidate
}

// best returns the best of the list, one per address, in an order that is the same for the same page.
func (c *collector) best(limit int) []Candidate {
	at := map[string]int{}
	var out []Candidate
	for _, x := range c.list {
		if x.URL == nil || defaultIcon(x.URL, c.in.Site) {
			continue
		}
		key := x.URL.String()
		if i, ok := at[key]; ok {
			if x.Score > out[i].Score {
				x.Side = max(x.Side, out[i].Side)
				out[i] = x
			}
			out[i].Side = max(out[i].Side, x.Side)
			continue
		}
		at[key] = len(out)
		out = append(out, x)
	}
	slices.SortStableFunc(out, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Side, a.Side))
	})
	return out[:min(len(out), limit)]
}

func (c *collector) add(x Candidate) {
	if x.URL == nil {
		return
	}
	x.Words = append(x.Words, page.SplitWords(fileName(x.URL))...)
	if isVector(x.URL) && x.Kind == Mark {
		x.Score += vectorScore
	}
	c.list = append(c.list, x)
}

// declared adds what is declared as the brand's logo.
func (c *collector) declared() {
	p := c.in.Page
	for _, ref := range judge.OwnerLogos(c.in) {
		c.add(Candidate{URL: p.Resolve(ref), Method: "json-ld logo", Kind: Mark, Score: declaredScore})
	}
	for _, key := range []string{"og:logo", "logo"} {
		c.add(Candidate{URL: p.Resolve(p.Meta(key)), Method: key, Kind: Mark, Score: itempropScore})
	}
	c.add(Candidate{URL: p.Resolve(p.Itemprop("logo")), Method: "itemprop logo", Kind: Mark, Score: itempropScore})
}

// icons adds what the page declares as icons.
func (c *collector) icons() {
	for _, i := range c.in.Page.Icons {
		x := Candidate{URL: i.URL, Method: "link " + i.Rel, Side: largestSide(i.Sizes), Scheme: scheme(i.Media)}
		vector := i.Any || strings.Contains(i.Type, "svg") || isVector(i.URL)
		switch {
		case i.Rel == "mask-icon":
			x.Kind, x.Score = Stencil, maskScore
		case vector:
			x.Score = svgIconScore
		case i.Rel == "apple-touch-icon":
			if x.Side == 0 {
				x.Side = touchSide
			}
			x.Score = touchScore + sized(x.Side)
		case i.Rel == "fluid-icon":
			x.Side = max(x.Side, fluidSide)
			x.Score = tileScore + sized(x.Side)
		default:
			x.Score = iconScore + sized(x.Side)
		}
		if x.Scheme == "dark" {
			x.Score -= otherSchemeMinus
		}
		c.add(x)
	}
	c.add(Candidate{URL: c.in.Page.Resolve(c.in.Page.Meta("msapplication-tileimage")), Method: "tile image", Side: tileSide, Score: tileScore})
	c.add(Candidate{URL: c.in.Page.Resolve(c.in.Page.Meta("apple-touch-icon")), Method: "meta apple-touch-icon", Side: touchSide, Score: tileScore})
}

// manifestIcons adds the icons of the web app manifest and of the browserconfig.
func (c *collector) manifestIcons() {
	if m := c.in.Manifest; m != nil {
		for _, i := range m.Icons {
			x := Candidate{URL: i.URL, Method: "manifest icon", Side: largestSide(i.Sizes)}
			x.Score = manifestScore + sized(x.Side)
			if i.Any || strings.Contains(i.Type, "svg") || isVector(i.URL) {
				x.Score = svgIconScore
			}
			if i.Maskable {
				x.Score -= maskableMinus
			}
			c.add(x)
		}
	}
	if m := c.in.Config; m != nil {
		for _, i := range m.Icons {
			side := largestSide(i.Sizes)
			c.add(Candidate{URL: i.URL, Method: "browserconfig tile", Side: side, Score: tileScore + sized(side)/2})
		}
	}
}

// knownPaths adds the files that browsers ask for without being told.
func (c *collector) knownPaths() {
	at := c.in.Page.URL
	if at == nil {
		return
	}
	for _, path := range []string{"/apple-touch-icon.png", "/favicon.ico"} {
		c.add(Candidate{URL: at.ResolveReference(&url.URL{Path: path}), Method: "known path", Score: knownPathScore, Probed: true})
	}
}

// images adds the pictures that the page shows as its logo.
func (c *collector) images() {
	share := map[string]bool{}
	for _, key := range []string{"og:image", "twitter:image"} {
		if u := c.in.Page.Resolve(c.in.Page.Meta(key)); u != nil {
			share[u.String()] = true
		}
	}
	first := true
	for _, im := range c.in.Page.Images {
		score, method := c.scoreImage(im)
		if score == 0 {
			continue
		}
		if first {
			score += firstScore
			first = false
		}
		if share[im.URL.String()] && !im.Home {
			score -= shareImageMinus
		}
		if score >= minMarkScore {
			c.add(Candidate{URL: im.URL, Method: method, Kind: Mark, Score: score, Scheme: im.Scheme, Words: im.Tokens, Side: max(im.Width, im.Height)})
		}
	}
}

// scoreImage weighs the signs that a picture of the page is its logo; 0 means that it cannot be.
func (c *collector) scoreImage(im page.Image) (score float64, method string) {
	if im.Excluded || im.Foreign || strangerAlt(im.Alt, c.in) {
		return 0, ""
	}
	edge := im.Zone == page.Header || im.Zone == page.Nav
	says := slices.ContainsFunc(slices.Concat(im.Tokens, page.SplitWords(fileName(im.URL)), page.SplitWords(im.Alt)), isLogoWord)
	switch {
	case im.Home:
		score, method = headerHomeScore, "home link picture"
		if edge {
			score += headerZoneScore
		}
	case edge:
		score, method = headerScore, "header picture"
		if !im.Linked {
			score -= unlinkedPenalty
		}
	case says:
		score, method = headerScore-bodyPenalty, "picture named logo"
	default:
		return 0, ""
	}
	switch im.Zone {
	case page.Footer:
		score -= footerPenalty
	case page.Body:
		score -= bodyPenalty
	}
	switch fit := judge.Fit(c.in, withoutWords(im.Alt)); {
	case im.Alt == "":
	case fit >= 0.9:
		score += brandAltScore
	case fit >= 0.6:
		score += partAltScore
	}
	if strings.Contains(strings.ToLower(fileName(im.URL)), strings.ToLower(c.in.Site.Label)) {
		score += brandFileScore
	}
	if says {
		score += logoWordScore
	}
	if im.Hidden {
		score -= hiddenPenalty
	}
	if side := max(im.Width, im.Height); side > 0 && side < tinySide {
		score -= tinyPenalty
	}
	return max(score, 0), method
}

// decoration are words that an alt text or a file name says beside a brand.
var decoration = regexp.MustCompile(`(?i)\b(logo(type)?|icon|light|dark|white|black|small|large|home(page)?|site|brand|header|footer|main|mobile|desktop|the|by|image|svg|png)\b`)

func withoutWords(alt string) string { return page.Clean(decoration.ReplaceAllString(alt, " "), 80) }

// strangerAlt says whether an alt text names another brand's logo: "Visa logo" on a page of Acme.
func strangerAlt(alt string, in judge.Input) bool {
	if !strings.Contains(strings.ToLower(alt), "logo") {
		return false
	}
	rest := withoutWords(alt)
	if rest == "" || len(strings.Fields(rest)) > 3 || judge.Fit(in, rest) > 0 {
		return false
	}
	// Another name than the domain's may still be the brand's own: the page says so elsewhere.
	own := strings.ToLower(in.Page.Meta("og:site_name", "application-name") + " " + in.Page.Title)
	return !strings.Contains(own, strings.ToLower(rest))
}

func isLogoWord(w string) bool {
	return strings.HasPrefix(w, "logo") || w == "wordmark" || w == "brand"
}

// fileName is the last part of an address's path.
func fileName(u *url.URL) string {
	if u == nil || u.Scheme == "data" {
		return ""
	}
	path := strings.TrimSuffix(u.Path, "/")
	return path[strings.LastIndexByte(path, '/')+1:]
}

func isVector(u *url.URL) bool {
	if u == nil {
		return false
	}
	if u.Scheme == "data" {
		return strings.HasPrefix(strings.ToLower(u.Opaque), "image/svg")
	}
	return strings.HasSuffix(strings.ToLower(u.Path), ".svg")
}

func scheme(media string) string {
	switch media = strings.ReplaceAll(media, " ", ""); {
	case strings.Contains(media, "prefers-color-scheme:dark"):
		return "dark"
	case strings.Contains(media, "prefers-color-scheme:light"):
		return "light"
	}
	return ""
}

func largestSide(sizes []page.Size) int {
	side := 0
	for _, s := range sizes {
		side = max(side, s.Width, s.Height)
	}
	return side
}

func sized(side int) float64 { return sizeScore * float64(min(side, fullSide)) / fullSide }

// builderIcons are icons that site builders and frameworks put where nobody chose one.
var builderIcons = []string{
	"static.parastorage.com/client/pfavico.ico", "www.wix.com/favicon.ico", "static.wixstatic.com/media/wix", "assets.squarespace.com/universal/default-favicon.ico",
	"cdn.shopify.com/shopifycloud/", "s.w.org/favicon.ico", "s.w.org/images/wmark.png", "/wp-includes/images/w-logo", "/vite.svg", "/next.svg", "/vercel.svg",
	"assets-global.website-files.com/img/favicon.ico", "uploads-ssl.webflow.com/img/favicon.ico", "cdn.prod.website-files.com/img/favicon.ico", "cdn2.editmysite.com/images/", "www.blogger.com/favicon.ico",
}

func defaultIcon(u *url.URL, of site.Site) bool {
	if u.Scheme == "data" {
		return false
	}
	text := u.Host + u.Path
	for _, b := range builderIcons {
		if strings.HasPrefix(b, "/") {
			if strings.HasPrefix(u.Path, b) || strings.Contains(u.Path, b) {
				return true
			}
			continue
		}
		if host, _, _ := strings.Cut(b, "/"); strings.HasPrefix(text, b) && !of.OwnHost(host) {
			return true
		}
	}
	return false
}
