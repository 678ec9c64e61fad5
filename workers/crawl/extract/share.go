package extract

import (
	"cmp"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/publicsuffix"

	"letterhead/domain/brand"
	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/linkeddata"
	"letterhead/workers/crawl/page"
)

// shared is a candidate for the page's share image.
type shared struct {
	raw, method string
	confidence  float64
}

// ShareImage decides the page's own share image, which it provides for links to it. A page may have none.
func ShareImage(in Input) (Found[*url.URL], bool) {
	for _, s := range in.shared() {
		u := in.shareImageURL(s.raw)
		if u != nil && !strings.HasPrefix(s.method, "og:") && !strings.HasPrefix(s.method, "twitter:") &&
			(iconFile.MatchString(path.Base(u.Path)) || in.isIcon(u)) {
			continue // an icon counts only if the page explicitly declares it as a share image
		}
		if u != nil {
			return Found[*url.URL]{Value: u, Source: in.PageURL(), Method: s.method, Confidence: s.confidence}, true
		}
	}
	return Found[*url.URL]{}, false
}

// shared lists the declared images in the order of the rules.
func (in Input) shared() []shared {
	var out []shared
	p := in.Page
	for _, key := range []string{"og:image", "og:image:url", "og:image:secure_url", "twitter:image",
		"twitter:image:src", "image_src", "thumbnail"} {
		if key == "og:image" && in.tiny() {
			continue // the page declares a spacer
		}
		for _, m := range p.Metas {
			if m.Key == key && m.Kind != "itemprop" {
				out = append(out, shared{m.Content, key, 0.95})
			}
		}
	}
	for _, raw := range itempropImages(p.Root) {
		out = append(out, shared{raw, "itemprop image", 0.8})
	}
	if o := in.article(); o != nil {
		for _, key := range []string{"image", "primaryImageOfPage", "thumbnailUrl"} {
			for _, raw := range o.URLs(key) {
				out = append(out, shared{raw, "json-ld " + key, 0.8})
			}
		}
	}
	return out
}

const minShareSide = 8 // the shortest declared side, in pixels, of an image that is not a spacer

// tiny reports whether the page declares its share image as a spacer.
func (in Input) tiny() bool {
	for _, key := range []string{"og:image:width", "og:image:height"} {
		n, err := strconv.Atoi(strings.TrimSuffix(in.Page.Meta(key), "px"))
		if err == nil && n > 0 && n < minShareSide {
			return true
		}
	}
	return false
}

var (
	// blankFile matches names of files without an image.
	blankFile = lazyregexp.New(`(?i)^(?:` + tables.Any("blankFile") +
		`)(?:[-_.]?(?:gif|pixel|image|img|1x1))?(?:\.(?:gif|png|jpe?g|webp|svg))?$`)
	// iconFile matches names of icons for a tab or a home screen.
	iconFile = lazyregexp.New(`(?i)^(?:.*[-_.])?(?:fav-?icon|apple-?touch-?icon|ms-?tile|android-?chrome|app-?icon|webclip)[^/]*\.(?:png|ico|jpe?g|gif|webp|svg)$|(?i)^fav-?icon|\.ico$`)
	// placeholderURL matches URLs of services and files that draw placeholders.
	placeholderURL = lazyregexp.New(`(?i)^(?:[a-z0-9-]+\.)?(?:` + tables.Any("placeholderURL") + `)\b`)
	imageName      = lazyregexp.New(`(?i)\.(?:png|jpe?g|gif|webp|avif|svg|bmp|tiff?)\b`)
)

// shareImageURL resolves a declared URL. It returns nil if the URL is not an image's.
func (in Input) shareImageURL(raw string) *url.URL {
	raw = strings.Trim(strings.TrimSpace(raw), `"'`)
	if strings.ContainsAny(raw, "{}<>") || strings.HasPrefix(raw, "%") ||
		strings.HasPrefix(strings.ToLower(raw), "data:") {
		return nil // an unfilled template, or a data URI
	}
	u := in.Page.Resolve(withScheme(raw, in))
	if u == nil {
		return nil
	}
	if _, err := brand.ParseURL(u.String()); err != nil || blankFile.MatchString(path.Base(u.Path)) ||
		placeholderURL.MatchString(u.Host+u.Path) || in.isPage(u) {
		return nil
	}
	return u
}

// withScheme completes a URL without a scheme: www.acme.com/share.png, cdn.acme.com/share.png.
func withScheme(raw string, in Input) string {
	host, rest, ok := strings.Cut(raw, "/")
	if !ok || rest == "" || strings.ContainsAny(host, ":?#") || !strings.Contains(host, ".") ||
		strings.HasPrefix(host, ".") {
		return raw
	}
	_, icann := publicsuffix.PublicSuffix(host)
	if strings.HasPrefix(host, "www.") || in.Site.OwnHost(host) || icann && strings.Count(host, ".") > 1 {
		return "https://" + raw
	}
	return raw
}

// isPage reports whether a URL is a page of the site: the page itself, or a
// folder above it, where a template omitted the file.
func (in Input) isPage(u *url.URL) bool {
	at := in.Page.URL
	if at == nil || u.Hostname() != at.Hostname() || u.RawQuery != "" || imageName.MatchString(u.Path) {
		return false
	}
	whole, part := strings.TrimSuffix(at.Path, "/")+"/", strings.TrimSuffix(u.Path, "/")+"/"
	return strings.HasPrefix(whole, part)
}

// isIcon reports whether a URL names an icon declared by the page.
func (in Input) isIcon(u *url.URL) bool {
	return slices.ContainsFunc(in.Page.Icons, func(icon page.Icon) bool {
		return icon.URL != nil && icon.URL.Host == u.Host && icon.URL.Path == u.Path && icon.URL.RawQuery == u.RawQuery
	})
}

var articleTypes = tables.List("articleTypes") // schema.org types of pages

// article returns the object that represents the page in its linked data, or nil. An article goes before the page that
// contains it, and an object with an image before one without.
func (in Input) article() *linkeddata.Object {
	var all []*linkeddata.Object
	for _, o := range in.Page.Data.All() {
		if o.Is(articleTypes...) && (o.Parent == nil || o.Role == "mainEntity" || o.Role == "mainEntityOfPage") {
			all = append(all, o)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return slices.MinFunc(all, func(a, b *linkeddata.Object) int {
		return cmp.Compare(articleRank(a), articleRank(b))
	})
}

func articleRank(o *linkeddata.Object) int {
	rank := 0
	if len(o.URLs("image")) == 0 && len(o.URLs("primaryImageOfPage")) == 0 {
		rank += 2
	}
	if o.Is("WebPage") {
		rank++
	}
	return rank
}

// itempropImages returns the images that the document declares in microdata by
// meta and link elements. Those of img elements show single items on the page.
func itempropImages(root *html.Node) []string {
	var out []string
	visit(root, func(n *html.Node) bool {
		if n.Type != html.ElementNode || n.Data != "meta" && n.Data != "link" {
			return true
		}
		if slices.ContainsFunc(strings.Fields(page.Attr(n, "itemprop")),
			func(p string) bool { return p == "image" || p == "primaryImageOfPage" }) {
			// a meta element has content, a link element href
			out = append(out, page.Attr(n, "content")+page.Attr(n, "href"))
		}
		return true
	})
	return out
}
