package judge

import (
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"

	"letterhead/workers/crawl/page"
)

// Limits of descriptions, in runes.
const (
	minDescription     = 15
	maxDescription     = 1000
	maxLongDescription = 2500
	// longerBy is how much longer a long description must be to say more than the short one.
	longerBy = 1.2
)

// notices are texts about the page, not about the brand.
var notices = regexp.MustCompile(`(?i)\b(enable javascript|javascript is (disabled|required)|(uses|use of|accept) cookies|cookie (policy|settings|consent)|unsupported browser|just another wordpress site|lorem ipsum|page not found)\b`)

// Description decides the short description.
func Description(in Input) (Found[string], bool) {
	p := in.Page
	type option struct{ text, method, source string }
	options := []option{
		{p.Meta("og:description"), "og:description", in.source()},
		{p.Meta("twitter:description"), "twitter:description", in.source()},
		{p.Meta("description", "dc.description", "dcterms.description"), "meta description", in.source()},
		{p.Itemprop("description"), "itemprop description", in.source()},
	}
	if owner := in.owner(); owner != nil {
		options = append(options, option{owner.Text("description"), "json-ld organization", in.source()})
	}
	if p.Data != nil {
		if w := p.Data.WebSite(in.Site); w != nil {
			options = append(options, option{w.Text("description"), "json-ld website", in.source()})
		}
	}
	if in.Manifest != nil {
		options = append(options, option{in.Manifest.Description, "manifest description", in.manifestSource()})
	}
	for i, o := range options {
		if text := describe(o.text, maxDescription); text != "" {
			return Found[string]{Value: text, Source: o.source, Method: o.method, Confidence: round2(0.95 - 0.1*float64(i))}, true
		}
	}
	return Found[string]{}, false
}

// LongDescription decides the long description: what the owner declares about itself, when that says
// more than the short one. Nothing is repeated and nothing is invented.
func LongDescription(in Input, short string) (Found[string], bool) {
	owner := in.owner()
	if owner == nil {
		return Found[string]{}, false
	}
	for _, key := range []string{"description", "disambiguatingDescription"} {
		text := describe(owner.Text(key), maxLongDescription)
		if text != "" && text != short && float64(utf8.RuneCountInString(text)) >= longerBy*float64(utf8.RuneCountInString(short)) {
			return Found[string]{Value: text, Source: in.source(), Method: "json-ld organization", Confidence: 0.9}, true
		}
	}
	return Found[string]{}, false
}

// describe cleans a description, or returns "" when it is none.
func describe(text string, limit int) string {
	text = page.Clean(text, page.MaxValueRunes)
	if utf8.RuneCountInString(text) < minDescription || notices.MatchString(text) {
		return ""
	}
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	cut := string([]rune(text)[:limit-1])
	if i := strings.LastIndexByte(cut, ' '); i > len(cut)/2 {
		cut = cut[:i]
	}
	return strings.TrimRight(cut, " ,;:-") + "…"
}

// ShareImage decides the page's own share image.
func ShareImage(in Input) (Found[*url.URL], bool) {
	for _, key := range []string{"og:image", "og:image:url", "og:image:secure_url", "twitter:image", "twitter:image:src"} {
		for _, m := range in.Page.Metas {
			if m.Key != key || m.Kind == "itemprop" {
				continue
			}
			if u := in.Page.Resolve(m.Content); u != nil {
				return Found[*url.URL]{Value: u, Source: in.source(), Method: key, Confidence: 0.95}, true
			}
		}
	}
	return Found[*url.URL]{}, false
}
