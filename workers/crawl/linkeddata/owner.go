package linkeddata

import (
	"net/url"
	"slices"

	"letterhead/workers/crawl/site"
)

// strangers are the properties that lead to somebody else's organization.
var strangers = []string{
	"review", "reviews", "reviewedBy", "itemReviewed", "author", "creator", "contributor", "editor", "sponsor", "funder", "parentOrganization",
	"subOrganization", "memberOf", "member", "members", "affiliation", "worksFor", "alumniOf", "client", "brand",
	"manufacturer", "seller", "offeredBy", "provider", "hiringOrganization", "organizer", "performer", "location",
	"about", "mentions", "citation", "knowsAbout", "award", "partner", "isPartOf", "mainEntity", "itemListElement",
	"copyrightHolder", "sourceOrganization", "productionCompany", "recognizingAuthority", "owns", "department",
}

// How well a name must fit the site's domain, where no URL tells: on its own, and as the publisher.
const (
	clearFit     = 0.7
	publisherFit = 0.4
)

// Owner returns the organization that the site belongs to, or nil. Fit says how well a name fits the
// site's domain, 0 to 1.
//
// A page also speaks of other organizations: reviewers, clients, parents. One counts as the owner when
// its url leads to the site, or when it is the publisher of the WebSite, or when it stands at the top
// with a fitting name or alone.
func (g *Graph) Owner(s site.Site, fit func(name string) float64) *Object {
	var best *Object
	bestScore := 0
	alone := 0
	for _, o := range g.Objects {
		if o.IsOrganization() && o.Parent == nil {
			alone++
		}
	}
	for _, o := range g.Objects {
		if !o.IsOrganization() || o.isReference() || slices.Contains(strangers, o.Role) {
			continue
		}
		if score := o.ownership(s, fit, alone == 1); score > bestScore {
			best, bestScore = o, score
		}
	}
	return best
}

// ownership weighs the signs that an organization owns the site; 0 means that it does not.
func (o *Object) ownership(s site.Site, fit func(string) float64, onlyOne bool) int {
	score, foreign := 0, false
	for _, text := range o.URLs("url") {
		u, err := url.Parse(text)
		switch {
		case err != nil:
		case u.Host == "" || s.Own(u):
			score += 4
		default:
			foreign = true
		}
	}
	if foreign && score == 0 {
		return 0
	}
	if o.Parent != nil && o.Role == "publisher" && o.Parent.Is("WebSite", "WebPage") {
		score += 3
	}
	switch name := o.Text("name"); {
	case name == "":
	case fit(name) >= clearFit:
		score += 3
	case fit(name) >= publisherFit && o.Role == "publisher":
		score += 2
	}
	if o.Parent == nil && onlyOne {
		score++
	}
	if score > 0 && o.values["logo"] != nil {
		score++
	}
	return score
}

// isReference says whether the object only points at another one.
func (o *Object) isReference() bool {
	return o.ID != "" && len(o.values) <= 2 && o.values["name"] == nil
}

// WebSite returns the object that describes the site itself, or nil.
func (g *Graph) WebSite(s site.Site) *Object {
	for _, o := range g.Objects {
		if !o.Is("WebSite") || o.isReference() {
			continue
		}
		urls := o.URLs("url")
		if len(urls) == 0 {
			return o
		}
		for _, text := range urls {
			if u, err := url.Parse(text); err == nil && (u.Host == "" || s.Own(u)) {
				return o
			}
		}
	}
	return nil
}
