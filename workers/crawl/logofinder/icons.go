package logofinder

import (
	"cmp"
	"net/url"
	"strings"

	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/page"
)

// Base scores of the sources of an icon, and of declared logos: estimates, checked on labelled pages.
const (
	declaredScore    = 45.0 // JSON-LD
	itempropScore    = 40.0 // og:logo, itemprop=logo
	bimiScore        = 45.0
	svgIconScore     = 35.0
	touchScore       = 32.0
	manifestScore    = 30.0
	maskScore        = 20.0
	tileScore        = 18.0
	iconScore        = 15.0
	knownPathScore   = 10.0
	sizeScore        = 10.0 // times the side, up to fullSide
	fullSide         = 256
	maskableMinus    = 3.0
	otherSchemeMinus = 4.0
)

// Usual sides, in pixels, of icons that declare none.
const (
	touchSide = 180
	fluidSide = 512
	tileSide  = 144
)

const methodBIMI = "BIMI"

func (c *collector) icon(x Candidate, base float64, sizeShare float64) {
	x.add("size", sizeShare*sized(x.Side))
	if x.Scheme == "dark" {
		x.add("for dark pages", -otherSchemeMinus)
	}
	x.ByConvention = x.URL != nil && themeFile.MatchString(x.URL.Path)
	c.put(x, base)
}

// themeFile matches files that belong to a theme or an extension, of content management systems and builders.
var themeFile = lazyregexp.New(`(?i)/(?:wp-content/(?:themes|plugins)|themes?|templates?|skins?|bitrix)/`)

// icons adds the icons that the page declares.
func (c *collector) icons() {
	for _, i := range c.in.Page.Icons {
		x := Candidate{URL: i.URL, Method: "link " + i.Rel, Side: largestSide(i.Sizes),
			Scheme: page.ColorScheme(i.Media)}
		vector := i.Any && !strings.HasSuffix(strings.ToLower(i.URL.Path), ".ico") ||
			strings.Contains(i.Type, "svg") || isVector(i.URL)
		switch {
		case i.Rel == "mask-icon":
			x.Kind = Stencil
			c.icon(x, maskScore, 0)
		case vector:
			c.icon(x, svgIconScore, 0)
		case i.Rel == "apple-touch-icon":
			x.Side = cmp.Or(x.Side, touchSide)
			c.icon(x, touchScore, 1)
		case i.Rel == "fluid-icon":
			x.Side = max(x.Side, fluidSide)
			c.icon(x, tileScore, 1)
		default:
			c.icon(x, iconScore, 1)
		}
	}
	p := c.in.Page
	c.icon(Candidate{URL: p.Resolve(p.Meta("msapplication-tileimage")), Method: "tile image", Side: tileSide},
		tileScore, 0)
	c.icon(Candidate{URL: p.Resolve(p.Meta("apple-touch-icon")), Method: "meta apple-touch-icon", Side: touchSide},
		tileScore, 0)
}

// manifestIcons adds the icons of the web app manifest and of the browserconfig.
func (c *collector) manifestIcons() {
	if m := c.in.Manifest; m != nil {
		for _, i := range m.Icons {
			x := Candidate{URL: i.URL, Method: "manifest icon", Side: largestSide(i.Sizes)}
			if i.Maskable {
				x.add("drawn to be cut", -maskableMinus)
			}
			if i.Any || strings.Contains(i.Type, "svg") || isVector(i.URL) {
				c.icon(x, svgIconScore, 0)
			} else {
				c.icon(x, manifestScore, 1)
			}
		}
	}
	if m := c.in.Config; m != nil {
		for _, i := range m.Icons {
			c.icon(Candidate{URL: i.URL, Method: "browserconfig tile", Side: largestSide(i.Sizes)}, tileScore, 0.5)
		}
	}
}

// bimi adds the mark that mail programs show for the domain: a square vector.
func (c *collector) bimi() { c.put(Candidate{URL: c.in.BIMI, Method: methodBIMI}, bimiScore) }

// knownPaths adds the files that browsers request by default.
func (c *collector) knownPaths() {
	at := c.in.Page.URL
	if at == nil {
		return
	}
	for _, path := range []string{"/apple-touch-icon.png", "/favicon.ico"} {
		c.put(Candidate{URL: at.ResolveReference(&url.URL{Path: path}), Method: "known path", Probed: true,
			ByConvention: true}, knownPathScore)
	}
}

func largestSide(sizes []page.Size) int {
	side := 0
	for _, s := range sizes {
		side = max(side, s.Width, s.Height)
	}
	return side
}

func sized(side int) float64 { return sizeScore * float64(min(side, fullSide)) / fullSide }
