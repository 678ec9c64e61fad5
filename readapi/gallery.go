package readapi

import (
	"cmp"
	"errors"
	"html/template"
	"net/url"
	"slices"
	"strings"

	"letterhead/domain/brand"
	"letterhead/internal/web"
	"letterhead/readapi/logo"
)

// gallery is the page that shows logos, and the effect of each parameter. Its images are loaded by the
// browser, as on any page: the gallery itself renders none.
type gallery struct {
	frame
	template *template.Template
	csp      []string
	images   string // sources of logos, for policies
	logoBase string // base URL of logos for others, without the slash before the domain
	source   string // the same as reached from this page
}

// The gallery's images. A page load requests at most maxGalleryLogos of them, so that its first view
// and a few tries with the form fit into the 300 keyless requests per minute of one address.
const (
	maxGalleryLogos = 60
	gallerySize     = "64"
	galleryDomain   = "slack.com" // shown by default
)

// galleryImage is an image with its URL.
type galleryImage struct {
	Caption, Alt string
	Ground       string // class of the style; "" = none
	Path         string
	URL, Source  string // URL for others, and as reached from this page
}

// galleryBrand is a logo of a brand, once on each background.
type galleryBrand struct {
	Domain  string
	OnLight galleryImage
	OnDark  galleryImage
}

// galleryField is a field of the form with the value sent.
type galleryField struct {
	Name, Label, Value string
	Options            []galleryOption // of a selection; none for text
}

type galleryOption struct {
	Value, Label string
	Chosen       bool
}

// galleryChoices are the fields of the form in order; the first option of each is the default, which is not sent.
var galleryChoices = []struct {
	name, label string
	options     [][2]string
}{
	{"type", "Type", [][2]string{{"", "icon"}, {"symbol", "symbol"}, {"logo", "logo"}}},
	{"size", "Size", nil},
	{"theme", "Theme (ink)", [][2]string{{"", "any"}, {"dark", "dark"}, {"light", "light"}}},
	{"background", "Background", [][2]string{
		{"", "any"}, {"light", "light"}, {"dark", "dark"}, {"auto-light", "auto-light"},
		{"auto-dark", "auto-dark"}, {"121212", "121212"}, {"0b5fff", "0b5fff"},
	}},
	{"plate", "Plate", [][2]string{{"", "auto"}, {"never", "never"}}},
	{"format",
		"Format", [][2]string{{"", "automatic"}, {"webp", "webp"}, {"png", "png"}, {"jpeg", "jpeg"}, {"svg", "svg"}}},
	{"fallback", "Fallback", [][2]string{{"", "monogram"}, {"transparent", "transparent"}, {"404", "404"}}},
}

// wallBrands are well-known brands of the starter index, which the first page shows.
var wallBrands = []string{
	"google.com", "figma.com", "slack.com", "gitlab.com", "spotify.com", "netflix.com", "airbnb.com", "youtube.com",
	"nvidia.com", "shopify.com", "docker.com", "dropbox.com", "microsoft.com", "kubernetes.io", "python.org",
	"grafana.com", "paypal.com", "reddit.com", "linkedin.com", "duckduckgo.com", "apple.com", "github.com", "twitch.tv",
	"zoom.us",
}

func newGallery(f frame, logoHost string) (*gallery, error) {
	t, err := pageTemplate("logos")
	if err != nil {
		return nil, err
	}
	// Without a separate host, logos are next to this page, under whatever host name it was requested with.
	g := &gallery{frame: f, template: t, images: "img-src 'self'",
		logoBase: strings.TrimSuffix(logoURLs(f.BaseURL, logoHost), "/"), source: "../logo"}
	if logoHost != "" {
		g.source = g.logoBase
		g.images += " " + g.logoBase
	}
	g.csp = f.policy(g.images+"; form-action 'self'", "")
	_, err = g.page(nil) // detects an error in the template
	return g, err
}

// image returns a logo of a domain, which may be followed by options of the path; parameters are
// alternating names and values.
func (g *gallery) image(domain, caption string, parameters ...string) galleryImage {
	path := "/" + domain
	for i := 0; i < len(parameters); i += 2 {
		separator := "&"
		if i == 0 {
			separator = "?"
		}
		path += separator + parameters[i] + "=" + url.QueryEscape(parameters[i+1])
	}
	name, _, _ := strings.Cut(domain, "/")
	return galleryImage{Caption: caption, Alt: "Logo of " + name, Path: path, URL: g.logoBase + path,
		Source: g.source + path}
}

// galleryView is the data of the template.
type galleryView struct {
	view
	gallery  *gallery
	LogoBase string

	Domain   string
	Fields   []galleryField
	Rejected string        // a sentence about the input, "" if an image can be shown
	Live     *galleryImage // nil if rejected
	Snippet  string
}

// Image returns an example on a ground. noun says which kind of image it is.
func (v galleryView) Image(ground, noun, domain, caption string, parameters ...string) galleryImage {
	p := v.gallery.image(domain, caption, parameters...)
	p.Ground, p.Alt = ground, strings.Replace(p.Alt, "Logo", noun, 1)
	return p
}

// page renders the page for the values of the form.
func (g *gallery) page(sent url.Values) ([]byte, error) {
	v := galleryView{
		view: view{frame: g.frame, Title: g.Name + ": logos"}, gallery: g, LogoBase: g.logoBase,
		Domain: cmp.Or(strings.TrimSpace(sent.Get("domain")), galleryDomain),
	}
	var parameters []string
	for _, c := range galleryChoices {
		value := strings.TrimSpace(sent.Get(c.name))
		f := galleryField{Name: c.name, Label: c.label, Value: value}
		for _, o := range c.options {
			f.Options = append(f.Options, galleryOption{Value: o[0], Label: o[1], Chosen: o[0] == value})
		}
		if value != "" {
			parameters = append(parameters, c.name, value)
			if c.options != nil && !slices.ContainsFunc(f.Options, func(o galleryOption) bool { return o.Chosen }) {
				f.Options = append(f.Options, galleryOption{Value: value, Label: value, Chosen: true})
			}
		}
		v.Fields = append(v.Fields, f)
	}
	live := g.image(url.PathEscape(v.Domain), "", parameters...)
	live.Alt = "Logo of " + v.Domain
	if v.Rejected = rejectedLogo(live.Path); v.Rejected == "" {
		v.Live = &live
		v.Snippet = `<img src="` + template.HTMLEscapeString(live.URL) + `" alt="` +
			template.HTMLEscapeString(v.Domain) + `">`
	}
	return render(g.template, v)
}

// rejectedLogo returns the sentence with which the logo endpoint would reject a path, or "" if it would not.
func rejectedLogo(path string) string {
	path, query, _ := strings.Cut(strings.TrimPrefix(path, "/"), "?")
	domain, _, err := logo.Parse(path, query, nil)
	if err == nil {
		_, err = brand.ParseDomain(domain)
	}
	var (
		request *logo.InvalidError
		host    *brand.InvalidDomainError
	)
	switch {
	case err == nil:
		return ""
	case errors.As(err, &request):
		return request.Sentence
	case errors.As(err, &host):
		return host.Sentence
	}
	return "The endpoint rejects that."
}

// galleryCache is for the page with submitted values: shared caches need not store what one person typed.
var galleryCache = []string{"private, max-age=300"}

func (x *exchange) serveGallery() error {
	g := x.api.pages.gallery
	body, err := g.page(x.request.URL.Query())
	if err != nil {
		return err
	}
	x.Header()["Content-Security-Policy"] = g.csp
	cache := pageCache
	if x.request.URL.RawQuery != "" {
		cache = galleryCache
	}
	return x.sendCached(web.HTML, newPage(body), cache)
}
