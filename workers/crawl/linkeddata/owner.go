package linkeddata

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/site"
)

// strangers are the properties that lead to another organization, whatever it says about itself.
var strangers = tables.List("strangers")

// doubtful are the properties that lead to the owner or to another organization: such an organization must declare the
// site's home page as its own.
var doubtful = tables.List("doubtful")

// How well a name must fit the site's domain without a URL: in general, and for the publisher.
const (
	clearFit     = 0.7
	publisherFit = 0.4
)

// Weights of the signs of ownership; a sum of 0 means another organization.
const (
	homeURL    = 4 // its url is the site's front
	insideURL  = 2 // its url is a page of the site, such as an entry of a directory
	siblingURL = 2 // its url is the same name under another ending
	homeID     = 3 // without a url: its @id is on the site's front page
	publishes  = 3 // the site or the page
	nameFits   = 3
	nameMayFit = 2
	onlyOne    = 1
	hasLogo    = 1
)

var urlWeights = map[belonging]int{front: homeURL, inside: insideURL, sibling: siblingURL}

// frontPath is the path of a front page: /, /en, /de-de, /index.html.
var frontPath = lazyregexp.New(
	`(?i)^/*([a-z]{2,3}([-_][a-z]{2,4})?(/[a-z]{2})?|home|index\.[a-z]{3,4}|default\.aspx?)?/*$`)

// Owner returns the organization that owns the site, or nil. On a personal site that may be a person. fit returns how
// well a name fits the site's domain, from 0 to 1.
//
// A page also mentions other organizations: reviewers, clients, parents. One counts as the owner if its url leads to
// the site, if it is the publisher of the WebSite, or if it is at the top level with a fitting name or alone.
func (g *Graph) Owner(s site.Site, fit func(name string) float64) *Object {
	if all := g.Owners(s, fit); len(all) > 0 {
		return all[0]
	}
	return nil
}

// Owners returns all objects that describe the owner, the most certain first: pages describe it more than once, with
// different data. Those after the first count if their name is its name or fits as well.
func (g *Graph) Owners(s site.Site, fit func(name string) float64) []*Object {
	type weighed struct {
		object *Object
		score  int
	}
	var found []weighed
	alone := 0
	for _, o := range g.All() {
		if o.IsOrganization() && o.Parent == nil {
			alone++
		}
	}
	for _, o := range g.All() {
		if o.isReference() || slices.Contains(strangers, o.Role) ||
			o.pointedAt(strangers...) && !o.pointedAt("publisher") {
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

// ownership adds up the signs that an organization owns the site; 0 means that it does not.
func (o *Object) ownership(s site.Site, fit func(string) float64, alone bool) int {
	score, foreign := 0, false
	urls := o.URLs("url")
	for _, text := range urls {
		where := whose(text, s)
		score = max(score, urlWeights[where])
		foreign = foreign || where == elsewhere
	}
	if foreign && score == 0 {
		return 0
	}
	if score == insideURL && o.Role == "publisher" && fit(o.Text("name")) < publisherFit {
		return 0 // a publication hosted on the site
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

// atHome reports whether the object's files are on another site that has the object's name: it is a guest on this page.
func (o *Object) atHome(s site.Site) bool {
	for _, property := range []string{"logo", "image"} {
		for _, text := range o.URLs(property) {
			u, err := url.Parse(strings.TrimSpace(text))
			if err != nil || u.Host == "" || s.Own(u) {
				continue
			}
			label := site.New(site.Registrable(u.Hostname())).Label
			if label != "" && label == site.Letters(o.Text("name")) {
				return true
			}
		}
	}
	return false
}

// belonging is the relation of a URL to a site.
type belonging int

const (
	unknown belonging = iota
	front             // the site's front page, or a relative URL
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
	case u.Host == "" && strings.HasPrefix(text, "#"), u.Host != "" &&
		u.Scheme != "" && u.Scheme != "http" && u.Scheme != "https":
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

// isReference reports whether the object only refers to another one.
func (o *Object) isReference() bool {
	return o.ID != "" && len(o.values) <= 2 && o.values["name"] == nil
}

// pointedAt reports whether a reference through one of the properties leads to the object. That of a publisher counts
// only on the site and its pages: articles are bought from agencies.
func (o *Object) pointedAt(roles ...string) bool {
	return slices.ContainsFunc(o.pointers, func(p *Object) bool {
		return slices.Contains(roles, p.Role) &&
			(p.Role != "publisher" || p.Parent != nil && p.Parent.Is("WebSite", "WebPage"))
	})
}

// WebSite returns the object that describes the site itself, or nil. One with a URL is preferred.
func (g *Graph) WebSite(s site.Site) *Object {
	var silent *Object
	for _, o := range g.All() {
		if !o.Is("WebSite") || o.isReference() ||
			slices.Contains([]string{"item", "itemListElement", "mentions", "citation"}, o.Role) {
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

// Publishers returns the organizations that the page's articles name as their publisher, except those whose url leads
// to another site according to near. They may be agencies: their data needs a second sign.
func (g *Graph) Publishers(s site.Site, near func(*url.URL) bool) []*Object {
	var out []*Object
	for _, o := range g.All() {
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
