package linkeddata

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"letterhead/workers/crawl/site"
)

// strangers are the properties that lead to somebody else's organization, whatever it says of itself.
var strangers = []string{
	"review", "reviews", "reviewedBy", "contributor", "editor", "sponsor", "funder", "parentOrganization",
	"subOrganization", "memberOf", "member", "members", "affiliation", "worksFor", "alumniOf", "client", "brand",
	"manufacturer", "seller", "offeredBy", "organizer", "performer", "location",
	"mentions", "citation", "knowsAbout", "award", "partner", "isPartOf", "itemListElement", "item",
	"productionCompany", "recognizingAuthority", "owns", "department", "subjectOf", "competitor", "founder",
}

// doubtful are the properties that lead to the owner as often as to somebody else: an organization there
// has to say that the site's home page is its own.
var doubtful = []string{
	"author", "creator", "about", "mainEntity", "mainEntityOfPage", "provider", "copyrightHolder", "sourceOrganization",
	"hiringOrganization", "itemReviewed", "maintainer", "publishingPrinciples", "accountablePerson",
}

// How well a name must fit the site's domain, where no URL tells: on its own, and as the publisher.
const (
	clearFit     = 0.7
	publisherFit = 0.4
)

// What the signs of ownership are worth; 0 in all means that somebody else is meant.
const (
	homeURL    = 4 // its url is the site's front
	insideURL  = 2 // its url is a page of the site, as that of an entry in a directory is
	siblingURL = 2 // its url is the same name under another ending
	homeID     = 3 // without a url: its @id lies on the site's front
	publishes  = 3 // the site or the page
	nameFits   = 3
	nameMayFit = 2
	onlyOne    = 1
	hasLogo    = 1
)

// frontPath is the path of a front page: /, /en, /de-de, /index.html.
var frontPath = regexp.MustCompile(`(?i)^/*([a-z]{2,3}([-_][a-z]{2,4})?(/[a-z]{2})?|home|index\.[a-z]{3,4}|default\.aspx?)?/*$`)

// Owner returns the organization that the site belongs to, or nil. On a personal site that may be a
// person. Fit says how well a name fits the site's domain, 0 to 1.
//
// A page also speaks of other organizations: reviewers, clients, parents. One counts as the owner when
// its url leads to the site, or when it is the publisher of the WebSite, or when it stands at the top
// with a fitting name or alone.
func (g *Graph) Owner(s site.Site, fit func(name string) float64) *Object {
	if all := g.Owners(s, fit); len(all) > 0 {
		return all[0]
	}
	return nil
}

// Owners returns all objects that describe the owner, the surest first: pages describe it more than once,
// each time with something else. Those behind the first count when their name is its name or fits as well.
func (g *Graph) Owners(s site.Site, fit func(name string) float64) []*Object {
	type weighed struct {
		object *Object
		score  int
	}
	var found []weighed
	alone := 0
	for _, o := range g.Objects {
		if o.IsOrganization() && o.Parent == nil {
			alone++
		}
	}
	for _, o := range g.Objects {
		if o.isReference() || slices.Contains(strangers, o.Role) || o.pointedAt(strangers...) && !o.pointedAt("publisher") {
			continue
		}
		front := o.atFront(s)
		if !o.IsOrganization() && !(o.Is("Person") && front) || slices.Contains(doubtful, o.Role) && !front {
			continue
		}
		if score := o.ownership(s, fit, alone == 1); score > 0 {
			found = append(found, weighed{o, score})
		}
	}
	slices.SortStableFunc(found, func(a, b weighed) int { return cmp.Compare(b.score, a.score) })
	var out []*Object
	for i, w := range found[:min(len(found), maxValues)] {
		name := w.object.Text("name")
		if i == 0 || w.score >= homeURL && (strings.EqualFold(name, out[0].Text("name")) || fit(name) >= clearFit) {
			out = append(out, w.object)
		}
	}
	return out
}

// ownership weighs the signs that an organization owns the site; 0 means that it does not.
func (o *Object) ownership(s site.Site, fit func(string) float64, alone bool) int {
	score, foreign := 0, false
	urls := o.URLs("url")
	for _, text := range urls {
		switch whose(text, s) {
		case front:
			score = max(score, homeURL)
		case inside:
			score = max(score, insideURL)
		case sibling:
			score = max(score, siblingURL)
		case elsewhere:
			foreign = true
		}
	}
	if foreign && score == 0 {
		return 0
	}
	if score == insideURL && o.Role == "publisher" && fit(o.Text("name")) < publisherFit {
		return 0 // a publication that lives on the site
	}
	if len(urls) == 0 && whose(o.ID, s) == front {
		score += homeID
	}
	if o.Role == "publisher" && o.Parent != nil && o.Parent.Is("WebSite", "WebPage") || o.pointedAt("publisher") {
		score += publishes
	}
	switch name := o.Text("name"); {
	case name == "":
	case fit(name) >= clearFit:
		score += nameFits
	case fit(name) >= publisherFit && o.Role == "publisher":
		score += nameMayFit
	}
	if o.Parent == nil && alone && o.IsOrganization() && (score > 0 || !o.atHome(s)) {
		score += onlyOne
	}
	if score > 0 && o.values["logo"] != nil {
		score += hasLogo
	}
	return score
}

// atHome reports whether the object's files lie on another site that is called as the object is: a guest on this
// page, at home there.
func (o *Object) atHome(s site.Site) bool {
	for _, property := range []string{"logo", "image"} {
		for _, text := range o.URLs(property) {
			u, err := url.Parse(strings.TrimSpace(text))
			if err != nil || u.Host == "" || s.Own(u) {
				continue
			}
			if label := site.New(site.Registrable(u.Hostname())).Label; label != "" && label == site.Letters(o.Text("name")) {
				return true
			}
		}
	}
	return false
}

// belonging is where an address leads, seen from a site.
type belonging int

const (
	unknown belonging = iota
	front             // the site's front page, or a relative address
	inside            // another page of the site
	sibling           // the same name under another ending: acme.co.uk and acme.com
	elsewhere
)

func whose(text string, s site.Site) belonging {
	if text == "" {
		return unknown
	}
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil {
		return unknown
	}
	if u.Host == "" && u.Scheme == "" && strings.HasPrefix(strings.ToLower(u.Path), "www.") {
		u = &url.URL{Scheme: "https", Host: u.Path} // written without a scheme
	}
	switch {
	case u.Host == "" && strings.HasPrefix(text, "#"), u.Host != "" && u.Scheme != "" && u.Scheme != "http" && u.Scheme != "https":
		return unknown
	case u.Host == "" || s.Own(u):
		if frontPath.MatchString(u.Path) {
			return front
		}
		return inside
	case slices.Contains(s.Labels(), site.New(site.Registrable(u.Hostname())).Label):
		return sibling
	}
	return elsewhere
}

// atFront reports whether an object's own url, given in full, is the site's front page.
func (o *Object) atFront(s site.Site) bool {
	return slices.ContainsFunc(o.URLs("url"), func(text string) bool {
		return strings.Contains(text, "//") && whose(text, s) == front
	})
}

// isReference reports whether the object only points at another one.
func (o *Object) isReference() bool {
	return o.ID != "" && len(o.values) <= 2 && o.values["name"] == nil
}

// pointedAt reports whether a reference through one of the properties leads to the object. That of a
// publisher counts on the site and its pages only: articles are bought from agencies.
func (o *Object) pointedAt(roles ...string) bool {
	return slices.ContainsFunc(o.pointers, func(p *Object) bool {
		return slices.Contains(roles, p.Role) && (p.Role != "publisher" || p.Parent != nil && p.Parent.Is("WebSite", "WebPage"))
	})
}

// WebSite returns the object that describes the site itself, or nil. One that gives its address is
// preferred to one that gives none.
func (g *Graph) WebSite(s site.Site) *Object {
	var silent *Object
	for _, o := range g.Objects {
		if !o.Is("WebSite") || o.isReference() || slices.Contains([]string{"item", "itemListElement", "mentions", "citation"}, o.Role) {
			continue
		}
		urls := o.URLs("url")
		if len(urls) == 0 && silent == nil {
			silent = o
		}
		for _, text := range urls {
			if w := whose(text, s); w == front || w == inside || w == sibling {
				return o
			}
		}
	}
	return silent
}

// Publishers returns the organizations that the page's articles name as their publisher, except those
// whose url leads to another site than near says. They may be agencies: what they say needs a second sign.
func (g *Graph) Publishers(s site.Site, near func(*url.URL) bool) []*Object {
	var out []*Object
	for _, o := range g.Objects {
		if o.Role != "publisher" || len(out) >= maxValues {
			continue
		}
		if o.isReference() {
			if o = g.byID[o.ID]; o == nil {
				continue
			}
		}
		strange := slices.ContainsFunc(o.URLs("url"), func(text string) bool {
			u, err := url.Parse(text)
			return whose(text, s) == elsewhere && (err != nil || !near(u))
		})
		if !strange && !slices.Contains(out, o) {
			out = append(out, o)
		}
	}
	return out
}
