package page

import (
	"cmp"
	"net/url"
	"sync"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"letterhead/domain/brand"
	"letterhead/workers/crawl/linkeddata"
)

// Limits of one page. They are far above real home pages.
const (
	// MaxBytes limits the HTML that is read, after decompression.
	MaxBytes = 3 << 20
	// MaxMetas limits the meta elements and microdata values.
	MaxMetas = 600
	// MaxIcons limits the declared icons.
	MaxIcons = 128
	// MaxAnchors limits the links.
	MaxAnchors = 3000
	// MaxImages limits the img elements.
	MaxImages = 400
	// MaxInlineSVGs limits the svg elements.
	MaxInlineSVGs = 300
	// maxSymbols limits the symbols named logo.
	maxSymbols = 12
	// MaxBackgrounds limits the elements that may show a logo as their background.
	MaxBackgrounds = 60
	// maxStyles limits the linked stylesheets.
	maxStyles = 64
	// maxTextBytes limits the visible text that is kept; words are counted beyond it.
	maxTextBytes = 16 << 10
	// MaxValueRunes limits one text value.
	MaxValueRunes = 4000
	// MaxURLBytes limits a URL.
	MaxURLBytes = brand.MaxURLBytes
	// MaxDataURLBytes limits a data: URL, which is an image in the page itself.
	MaxDataURLBytes = 512 << 10

	maxHeadings    = 20
	maxRawBytes    = 64 << 10 // of script text kept for signatures
	maxTokens      = 40       // class and id words of one element
	maxScriptHosts = 200
	maxFrames      = 6 // of a frameset
)

// Page is the content of one HTML page.
type Page struct {
	URL  *url.URL // final URL, after redirects
	Base *url.URL // base of relative URLs
	// Root is the document, for selectors and for items. It must not be modified.
	Root *html.Node
	// Detected is the page's encoding if it was detected; zero if it is UTF-8 or declared.
	Detected Encoding

	Lang     string
	Title    string
	Metas    []Meta
	Icons    []Icon
	Manifest *url.URL // web app manifest
	Config   *url.URL // browserconfig
	Refresh  *Refresh
	Styles   []*url.URL
	Data     *linkeddata.Graph

	Anchors     []Anchor
	Images      []Image  // elements that show a file
	InlineSVGs  []Image  // svg elements
	Symbols     []string // ids of symbols named logo, in svg elements
	Backgrounds []Image  // elements that may show a logo as their background
	Headings    []string // h1

	Text      string // visible, the first maxTextBytes
	Words     int    // visible, all
	Scripts   int
	Sources   []*url.URL // of scripts and frames
	Frames    []*url.URL // of a frameset
	Script    string     // inline script text, the first maxRawBytes, for signatures
	Password  bool       // has a password input
	Forms     int
	ElementID map[string]bool // ids of elements that are used by signatures

	InTree *InTree         // nil in a page that Parse did not make
	onward func() *Refresh // see Onward
}

// InTree keeps what package extract finds in Root for the name of the site: a crawl asks for it a dozen times, and Root
// may have 200,000 nodes.
type InTree struct {
	sync.Once
	FeedTitles, CopyrightLines []string
}

// Meta is one declared value.
type Meta struct {
	Kind    string // name, property, itemprop, http-equiv
	Key     string // lower case
	Content string
	// Of is the name of the item that a logo belongs to, or "". Other is set if it is among images of others.
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

// Zone is a part of a page.
type Zone int

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

// Image is an image on the page: a file that an element shows, an inline
// drawing, or an element with a background in the stylesheets.
type Image struct {
	URL  *url.URL   // of an img, object, embed or input; nil for the others
	Part string     // the id of the part of that file that is shown
	Node *html.Node // the element
	Box  *html.Node // shared by the variants of one logo: the link around it, the element named logo, or its parent
	// Alt is its alternative text: alt, aria-label, title.
	Alt           string
	Tokens        []string   // lower-case words of its class and id, and of its nearest ancestors' classes and ids
	Own           []string   // only the element's own
	Width, Height int        // declared, 0 unknown
	Large         Source     // the largest file of its srcset and of its picture element
	Larger        []*url.URL // better files than URL, best first
	Zone          Zone
	Top           bool   // is at the top of a page without a header
	Home          bool   // is in a link to the home page
	Sister        bool   // whose target is another section of the site: shop.acme.com, seen from www.acme.com
	Linked        bool   // is in a link
	Foreign       bool   // that leads to another site
	LinkLabel     string // aria-label or title of that link
	Excluded      bool   // is among customers, partners, payments, languages …
	Hidden        bool   // not shown
	Narrow        bool   // shown on small screens only
	Scheme        string // prefers-color-scheme: light, dark, or ""
	Order         int    // among all images of the page
}

// Source is one file of a srcset.
type Source struct {
	URL   *url.URL
	Width int // pixels, or a density if it is below 10
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

// Resolve makes a URL of the page absolute. It returns nil if the URL is
// invalid, not http or https, too long, or contains credentials.
func (p *Page) Resolve(ref string) *url.URL { return resolve(p.Base, ref) }

// ResolveImage is Resolve for images: it allows a data: URL, and keeps a fragment, which names a part of the image.
func (p *Page) ResolveImage(ref string) *url.URL {
	u := resolveImage(p.Base, ref)
	if u == nil || u.Scheme == "data" {
		return u
	}
	u.Fragment = part(ref)
	return u
}

// Include adds the content of a frame's page to the page of its frameset.
func (p *Page) Include(frame *Page) {
	for i := range frame.Images {
		frame.Images[i].Order += len(p.Images)
	}
	p.Images = append(p.Images, frame.Images...)
	p.InlineSVGs = append(p.InlineSVGs, frame.InlineSVGs...)
	p.Backgrounds = append(p.Backgrounds, frame.Backgrounds...)
	p.Symbols = append(p.Symbols, frame.Symbols...)
	p.Anchors = append(p.Anchors, frame.Anchors...)
	p.Headings = append(p.Headings, frame.Headings...)
	p.Metas = append(p.Metas, frame.Metas...)
	p.Icons = append(p.Icons, frame.Icons...)
	p.Styles = append(p.Styles, frame.Styles...)
	p.Sources = append(p.Sources, frame.Sources...)
	p.Text += " " + frame.Text
	p.Words += frame.Words
	p.Scripts += frame.Scripts
	p.Forms += frame.Forms
	p.Password = p.Password || frame.Password
	p.Lang = cmp.Or(p.Lang, frame.Lang)
	for n := range frame.Root.Descendants() {
		if n.DataAtom != atom.Link {
			continue
		}
		for i, a := range n.Attr {
			if u := frame.Resolve(a.Val); a.Key == "href" && u != nil {
				n.Attr[i].Val = u.String() // relative to the frame until now
			}
		}
	}
	for n := frame.Root.FirstChild; n != nil; n = frame.Root.FirstChild {
		frame.Root.RemoveChild(n)
		p.Root.AppendChild(n)
	}
}

// shellText is the visible text, in bytes, below which a page with scripts is an app that is not yet rendered.
const shellText = 200

// Shell reports whether the page is an empty app shell: scripts, and almost no text.
func (p *Page) Shell() bool { return p.Scripts > 0 && len(p.Text) < shellText }
