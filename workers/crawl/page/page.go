package page

import (
	"net/url"

	"letterhead/workers/crawl/linkeddata"
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
	// MaxStyles bounds the stylesheets that are linked.
	MaxStyles = 64
	// MaxTextBytes bounds the visible text that is kept; words are counted past it.
	MaxTextBytes = 16 << 10
	// MaxValueRunes bounds one text value.
	MaxValueRunes = 4000
	// MaxURLBytes bounds an address.
	MaxURLBytes = 2048
	// MaxDataURLBytes bounds a data: address, which is a picture in the page itself.
	MaxDataURLBytes = 512 << 10

	maxHeadings    = 20
	maxRawBytes    = 64 << 10 // of script text kept for signatures
	maxTokens      = 40       // class and id words of one element
	maxScriptHosts = 200
)

// Page is what one HTML page says.
type Page struct {
	URL     *url.URL // where it was found, after redirects
	Base    *url.URL // what relative addresses stand on
	Charset string   // WHATWG name of the encoding it was decoded from
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
	Images   []Image
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

// Image is an img element.
type Image struct {
	URL           *url.URL
	Alt           string
	Tokens        []string // lower-case words of its class and id
	Width, Height int      // declared, 0 unknown
	Zone          Zone
	Home          bool   // stands in a link to the home page
	Linked        bool   // stands in a link
	Foreign       bool   // that leads to another site
	LinkLabel     string // aria-label or title of that link
	Excluded      bool   // stands among customers, partners, payments, languages …
	Hidden        bool
	Scheme        string // prefers-color-scheme it is meant for: light, dark, or ""
	Order         int    // among the page's images
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

// Resolve makes an address of the page absolute. It returns nil when it is none, not http or https, too
// long, or holds credentials.
func (p *Page) Resolve(ref string) *url.URL { return resolve(p.Base, ref) }
