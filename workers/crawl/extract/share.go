package extract

import (
	"cmp"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/publicsuffix"

	"letterhead/workers/crawl/linkeddata"
	"letterhead/workers/crawl/page"
)

// shared is one picture that may be the page's share image.
type shared struct {
	raw, method string
	confidence  float64
}

// ShareImage decides the page's own share image: what it hands to those who link to it. A page that hands
// out none has none.
func ShareImage(in Input) (Found[*url.URL], bool) {
	for _, s := range in.shared() {
		u := in.sharePicture(s.raw)
		if u != nil && !strings.HasPrefix(s.method, "og:") && !strings.HasPrefix(s.method, "twitter:") && (iconFile.MatchString(path.Base(u.Path)) || in.isIcon(u)) {
			continue // a tab's icon is handed out only by who says so in as many words
		}
		if u != nil {
			return Found[*url.URL]{Value: u, Source: in.PageURL(), Method: s.method, Confidence: s.confidence}, true
		}
	}
	return Found[*url.URL]{}, false
}

// shared lists what the page declares, in the order of the rules.
func (in Input) shared() []shared {
	var out []shared
	p := in.Page
	for _, key := range []string{"og:image", "og:image:url", "og:image:secure_url", "twitter:image", "twitter:image:src", "image_src", "thumbnail"} {
		if key == "og:image" && in.tiny() {
			continue // what it declares is a spacer
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

// minShareSide is the shortest declared side of a picture that is more than a spacer, in pixels.
const minShareSide = 8

// tiny says whether the page declares its share image as a spacer.
func (in Input) tiny() bool {
	for _, key := range []string{"og:image:width", "og:image:height"} {
		if n, err := strconv.Atoi(strings.TrimSuffix(in.Page.Meta(key), "px")); err == nil && n > 0 && n < minShareSide {
			return true
		}
	}
	return false
}

var (
	// blankFile is the name of a file that stands for no picture.
	blankFile = regexp.MustCompile(`(?i)^(?:blank|spacer|pixel|clear|transparent|empty|null|undefined|none|false|true|nan|1x1|dot|trans|x)(?:[-_.]?(?:gif|pixel|image|img|1x1))?(?:\.(?:gif|png|jpe?g|webp|svg))?$`)
	// iconFile is the name of a file that is drawn for a tab or a home screen.
	iconFile = regexp.MustCompile(`(?i)^(?:.*[-_.])?(?:fav-?icon|apple-?touch-?icon|ms-?tile|android-?chrome|app-?icon|webclip)[^/]*\.(?:png|ico|jpe?g|gif|webp|svg)$|(?i)^fav-?icon|\.ico$`)
	// drawnPicture is the address of a service or file that draws stand-ins.
	drawnPicture = regexp.MustCompile(`(?i)^(?:[a-z0-9-]+\.)?(?:via\.placeholder\.com|placehold\.it|placehold\.co|placeholder\.com|dummyimage\.com|placekitten\.com|picsum\.photos|lorempixel\.com|s0\.wp\.com/i/blank\.jpg|example\.(?:com|org))\b`)
	pictureName  = regexp.MustCompile(`(?i)\.(?:png|jpe?g|gif|webp|avif|svg|bmp|tiff?)\b`)
)

// sharePicture resolves a declared address, nil when it is no picture's.
func (in Input) sharePicture(raw string) *url.URL {
	raw = strings.Trim(strings.TrimSpace(raw), `"'`)
	if strings.ContainsAny(raw, "{}<>") || strings.HasPrefix(raw, "%") || strings.HasPrefix(strings.ToLower(raw), "data:") {
		return nil // a template that was not filled in, or a picture in the page itself
	}
	u := in.Page.Resolve(withScheme(raw, in))
	if u == nil {
		return nil
	}
	file := path.Base(u.Path)
	if blankFile.MatchString(file) || drawnPicture.MatchString(u.Host+u.Path) || in.isPage(u) {
		return nil
	}
	return u
}

// withScheme mends an address that begins with a host: www.acme.com/share.png, cdn.acme.com/share.png.
func withScheme(raw string, in Input) string {
	host, rest, ok := strings.Cut(raw, "/")
	if !ok || rest == "" || strings.ContainsAny(host, ":?#") || !strings.Contains(host, ".") || strings.HasPrefix(host, ".") {
		return raw
	}
	if _, icann := publicsuffix.PublicSuffix(host); strings.HasPrefix(host, "www.") || in.Site.OwnHost(host) || icann && strings.Count(host, ".") > 1 {
		return "https://" + raw
	}
	return raw
}

// isPage says whether an address is a page of the site: the page itself, or one above it, where a template
// put no file behind the folder.
func (in Input) isPage(u *url.URL) bool {
	at := in.Page.URL
	if at == nil || u.Hostname() != at.Hostname() || u.RawQuery != "" || pictureName.MatchString(u.Path) {
		return false
	}
	whole, part := strings.TrimSuffix(at.Path, "/")+"/", strings.TrimSuffix(u.Path, "/")+"/"
	return strings.HasPrefix(whole, part)
}

// isIcon says whether an address is that of an icon which the page declares.
func (in Input) isIcon(u *url.URL) bool {
	return slices.ContainsFunc(in.Page.Icons, func(icon page.Icon) bool {
		return icon.URL != nil && icon.URL.Host == u.Host && icon.URL.Path == u.Path && icon.URL.RawQuery == u.RawQuery
	})
}

// articleTypes are schema.org types of what a page is.
var articleTypes = []string{"WebPage", "AboutPage", "CollectionPage", "ItemPage", "ProfilePage", "HomePage", "Article", "NewsArticle", "BlogPosting", "TechArticle", "ReportageNewsArticle", "AnalysisNewsArticle", "OpinionNewsArticle", "LiveBlogPosting", "Review", "Product", "Recipe", "VideoObject", "PodcastEpisode", "Event", "Book", "Movie", "Course"}

// article is the object that the page's linked data says the page is, or nil: an article before the page
// that holds it, one with a picture before one without.
func (in Input) article() *linkeddata.Object {
	if in.Page.Data == nil {
		return nil
	}
	var all []*linkeddata.Object
	for _, o := range in.Page.Data.Objects {
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

// itempropImages finds the pictures that the document declares in microdata by meta and link elements.
// Those of img elements are pictures of single things on the page.
func itempropImages(root *html.Node) []string {
	var out []string
	visit(root, func(n *html.Node) bool {
		if n.Type != html.ElementNode || n.Data != "meta" && n.Data != "link" {
			return true
		}
		if slices.ContainsFunc(strings.Fields(page.Attr(n, "itemprop")), func(p string) bool { return p == "image" || p == "primaryImageOfPage" }) {
			out = append(out, page.Attr(n, "content")+page.Attr(n, "href")) // a meta has the one, a link the other
		}
		return true
	})
	return out
}
