package classify

import (
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/page"
)

var parkingHosts = tables.List("parkingHosts") // serve only the scripts and frames of parking pages

// parkingSources are parts of URLs of scripts and frames of parking pages.
var parkingSources = []string{"wsimg.com/parking-lander", "google.com/adsense/domains/caf.js", "/adsense/domains/",
							"parking.js?domain", "sedo.com/services/parking", "park.js?domain"}
var parkingScripts = tables.List("parkingScripts") // traces in inline scripts of parking pages
var markets = tables.List("markets")               // sell domains: a redirect to one of them is an offer

// offers matches wordings of domains for sale and of parking pages, in the languages of registrars.
var offers = lazyregexp.New(`(?i)` + tables.Any("offers"))

// offersElsewhere matches those in scripts without word boundaries that a pattern recognizes.
var offersElsewhere = lazyregexp.New(`(?i)` + tables.Any("offersElsewhere"))

// namedOffer is an offer in a title that names the domain itself: "acme.com is for sale".
var namedOffer = lazyregexp.New(`(?i)^(the (domain )?(name )?)?[\w.-]+\.[a-z]{2,} (is|may be|-|–|\|)? ?(` +
	tables.Any("namedOffer") + `)`)

// offersIn reports whether a text has an offer of the domain outside of the brand's name: "Parked by the Sea" on parkedbythesea.com.
func offersIn(a Answer, text string) bool {
	return says(a, offers, text) || says(a, offersElsewhere, text)
}

func parkedSign(a Answer) string {
	p := a.Page
	if p.URL != nil {
		for _, m := range markets {
			if host := p.URL.Hostname(); (host == m || strings.HasSuffix(host, "."+m)) && a.Site.Domain != m {
				return "redirect to " + m
			}
		}
	}
	if p.Words >= parkedWords {
		return ""
	}
	if sign := parkingTrace(a); sign != "" {
		return sign
	}
	named := namedOffer.MatchString(p.Title) && mentions(p.Title, a.Site.Domain)
	if named || (namedOffer.MatchString(p.Title) || offersIn(a, p.Title)) && innerLinks(p) < ownLinks {
		return "title of a domain offer"
	}
	head := strings.Join(append([]string{p.Meta("description", "og:description")}, p.Headings...), ". ")
	namedInHead := slices.ContainsFunc(p.Headings,
		func(h string) bool { return namedOffer.MatchString(h) && mentions(h, a.Site.Domain) })
	if (namedInHead || offersIn(a, head)) && !speaks(p) {
		return "wording of a domain offer"
	}
	// In running text the offer must be about this domain, or be the only content.
	if offersIn(a, p.Text) && innerLinks(p) < ownLinks &&
		(mentions(p.Text, a.Site.Domain) || p.Words < challengeWords*2 && !speaks(p)) {
		return "wording of a domain offer"
	}
	return ""
}

// parkingTrace recognizes traces of the services that provide parking pages.
func parkingTrace(a Answer) string {
	p := a.Page
	for _, source := range p.Sources {
		host := source.Hostname()
		i := slices.IndexFunc(parkingHosts, func(h string) bool { return host == h || strings.HasSuffix(host, "."+h) })
		if i >= 0 && !a.Site.OwnHost(host) {
			return "script of " + parkingHosts[i]
		}
	}
	if s := sourceWith(p, parkingSources); s != "" {
		return "script " + s
	}
	for _, s := range parkingScripts {
		if strings.Contains(p.Script, s) && !speaks(p) {
			return "script of a parking page"
		}
	}
	if hasAdBlockKey(p) {
		return "advertisements for domains"
	}
	return ""
}

// hasAdBlockKey reports whether the document has the key with which parking
// services ask ad blockers to allow their advertisements.
func hasAdBlockKey(p *page.Page) bool {
	if p.Root == nil {
		return false
	}
	for n := p.Root.FirstChild; n != nil; n = n.NextSibling {
		if n.Type == html.ElementNode && n.DataAtom == atom.Html {
			return slices.ContainsFunc(n.Attr, func(x html.Attribute) bool { return x.Key == "data-adblockkey" })
		}
	}
	return false
}

func mentions(text, domain string) bool { return strings.Contains(strings.ToLower(text), domain) }
