package page

import (
	"net/url"

	"golang.org/x/net/html"

	"letterhead/workers/crawl/linkeddata"
	"letterhead/workers/crawl/site"
)

// Limits of what is gathered from one page. They are far above what real home pages hold.
const (
	// MaxBytes bounds the HTML that is read, after decompression.
	MaxBytes = 3 << 20
	// MaxMetas bounds the meta elements and microdata values.
	MaxMetas = 600
	// MaxIcons bounds the declared icons.
	MaxIcons = 128
	// MaxAnchors bounds the links.
	MaxAnchors = 3000
	// MaxImages bounds the img elements.
	MaxImages = 400
	// MaxDrawings bounds the svg elements.
	MaxDrawings = 300
	// MaxGrounds bounds the elements that may show a logo as their background.
	MaxGrounds = 60
	// MaxStyles bounds the stylesheets that are linked.
	MaxStyles = 64
	// MaxTextBytes bounds the visible text that is kept; words are counted past it.
	MaxTextBytes = 16 << 10
	// MaxValueRunes bounds one text value.
	MaxValueRunes = 4000
	// MaxURLBytes bounds a URL.
	MaxURLBytes = site.MaxURLBytes
	// MaxDataURLBytes bounds a data: URL, which is an image in the page itself.
	MaxDataURLBytes = 512 << 10

	maxHeadings    = 20
	maxRawBytes    = 64 << 10 // of script text kept for signatures
	maxTokens      = 40       // class and id words of one element
	maxScriptHosts = 200
)

// Page is what one HTML page says.
type Page struct {
	URL     *url.URL // where it was found, after redirects
	Base    *url.URL // what relative URLs stand on
	Charset string   // WHATWG name of the encoding it was decoded from
	// Root is the document, for what matches selectors against it or reads items out of it. Nobody changes it.
	Root *html.Node
	// Nested says that the parser refused the page and the plain tree builder was used.
	Nested bool

	Lang     string
	Title    string
	Metas    []Meta
	Icons    []Icon
	Manifest *url.URL // web app manifest
	Config   *url.URL // browserconfig
	Refresh  *Refresh
	Styles   []*url.URL
	Data     *linkeddata.Graph

	Anchors  []Anchor
	Images   []Image  // elements that show a file
	Drawings []Image  // svg elements
	Grounds  []Image  // elements that may show a logo as their background
	Headings []string // h1

	Text      string // visible, the first MaxTextBytes
	Words     int    // visible, all
	Scripts   int
	Sources   []*url.URL // of scripts and frames
	Script    string     // inline script text, the first maxRawBytes, for signatures
	Password  bool       // asks for one
	Forms     int
	ElementID map[string]bool // ids of elements that signatures ask for
}

// Meta is one declared value.
type Meta struct {
	Kind    string // name, property, itemprop, http-equiv
	Key     string // lower case
	Content string
	// Of is the name of the item that a logo belongs to, "" when it does not say; Other that it stands among
	// other people's images.
	Of    string
	Other bool
}

// Icon is a declared icon.
type Icon struct {
	Rel   string // icon, apple-touch-icon, mask-icon, fluid-icon
	URL   *url.URL
	Type  string // declared media type, lower case
	Sizes []Size
	Any   bool   // sizes=any: a vector
	Color string // of a mask icon
	Media string
}

// Size is a declared size in pixels.
type Size struct{ Width, Height int }

// Zone is the part of a page that something stands in.
type Zone int

// Zones.
const (
	Body Zone = iota
	Header
	Nav
	Footer
)

func (z Zone) String() string { return [...]string{"body", "header", "nav", "footer"}[z] }

// Anchor is a link.
type Anchor struct {
	URL  *url.URL
	Text string // its text, else its label
	Me   bool   // rel=me
	Zone Zone
}

// Image is something drawn on the page: a file that an element shows, a drawing in the page's own text, or
// an element whose background the stylesheets know.
type Image struct {
	URL  *url.URL   // of an img, object, embed or input; nil for the others
	Part string     // the id of a part of that file, when only it is shown
	Node *html.Node // the element
	Box  *html.Node // what the variants of one logo share: the link around it, what says logo, or its parent
	// Alt is its text for those who do not see it: alt, aria-label, title.
	Alt           string
	Tokens        []string // lower-case words of its class and id, and of those of its nearest ancestors
	Own           []string // its own of them
	Width, Height int      // declared, 0 unknown
	Large         Source   // the largest file of its srcset
	Zone          Zone
	Top           bool   // stands at the top of a page, in no header
	Home          bool   // stands in a link to the home page
	Sister        bool   // that of another part of the site: shop.acme.com, seen from www.acme.com
	Linked        bool   // stands in a link
	Foreign       bool   // that leads to another site
	LinkLabel     string // aria-label or title of that link
	Excluded      bool   // stands among customers, partners, payments, languages …
	Hidden        bool   // not shown
	Narrow        bool   // shown on small screens only
	Scheme        string // prefers-color-scheme it is meant for: light, dark, or ""
	Order         int    // among all that the page draws
}

// Source is one file of a srcset.
type Source struct {
	URL   *url.URL
	Width int // pixels, or a density when it is below 10
}

// Refresh is a meta refresh.
type Refresh struct {
	Seconds int
	URL     *url.URL
}

// Meta returns the first non-empty content of any of the keys, in the order of the keys.
func (p *Page) Meta(keys ...string) string {
	for _, key := range keys {
		for _, m := range p.Metas {
			if m.Key == key && m.Kind != "itemprop" && m.Content != "" {
				return m.Content
			}
		}
	}
	return ""
}

// Itemprop returns the first non-empty microdata value of a property.
func (p *Page) Itemprop(key string) string {
	for _, m := range p.Metas {
		if m.Kind == "itemprop" && m.Key == key && m.Content != "" {
			return m.Content
		}
	}
	return ""
}

// Resolve makes a URL of the page absolute. It returns nil when it is none, not http or https, too
// long, or holds credentials.
func (p *Page) Resolve(ref string) *url.URL { return resolve(p.Base, ref) }

// ResolvePicture is Resolve for images: a data: URL of one is allowed, and a fragment kept, which names
// a part of it.
func (p *Page) ResolvePicture(ref string) *url.URL {
	u := resolvePicture(p.Base, ref)
	if u == nil || u.Scheme == "data" {
		return u
	}
	u.Fragment = part(ref)
	return u
}

// shellText is the visible text, in bytes, below which a page with scripts is an app that has yet to draw
// itself.
const shellText = 200

// Shell reports whether the page is an empty app shell: scripts, and next to no text.
func (p *Page) Shell() bool { return p.Scripts > 0 && len(p.Text) < shellText }
