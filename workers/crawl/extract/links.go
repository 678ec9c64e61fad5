package extract

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
)

// profile is one candidate for a network's link.
type profile struct {
	network, url, method, source string
	score                        float64
	repeats                      int  // further mentions
	declared                     bool // by the owner, not merely linked
	won                          bool
	note                         string
}

// Weights that separate the brand's own profile from others that it links to.
const (
	sameAsScore    = 40.0
	publisherScore = 36.0 // article:publisher
	siteTagScore   = 35.0
	meScore        = 30.0
	nameTagScore   = 10.0 // twitter:site with the brand's name instead of a handle
	followScore    = 22.0 // "follow us on …"
	edgeScore      = 20.0 // in header, navigation or footer
	groupScore     = 20.0 // in a row of the brand's profiles
	bodyScore      = 5.0
	signScore      = 4.0  // additional, if the link shows only the network's icon or name
	handleWeight   = 30.0 // times the handle's fit to the domain or the name
	nameFactor     = 0.9  // of the fit to the name
	insideFactor   = 0.5  // factor of a link to a part of a profile: a repository, a tab
	personPenalty  = 40.0 // linkedin.com/in on a company's site
	selfPenalty    = 12.0 // linkedin.com/in of the person that the domain is named after: a company's page goes first
	repeatScore    = 4.0  // for each additional place, up to maxRepeats
	maxRepeats     = 3
	minLinkScore   = 18.0 // a single link in running text with an unrelated handle scores less
	minListedScore = 24.0 // minimum for a link among many others of the same network: a list of people
	// A site's tag that does not fit is often the site maker's or a leftover:
	// it loses to a link at the edge. A partial fit is often a section's.
	looseTagScore  = 19.0
	partTagScore   = 26.0
	maxOwnProfiles = 4 // different profiles of one network in one part of the page that the brand may have
	minGroup       = 3 // networks in a row from which it counts as the brand's profiles
	minLastGroup   = 2 // the same in the last quarter of the page's links, where the footer is
)

// Links decides one profile per network, in the documented order.
func Links(in Input) Found[[]eventschemas.Link] {
	out := Found[[]eventschemas.Link]{Value: []eventschemas.Link{}, Source: in.PageURL(),
		Method: "profile links", Confidence: 0.9}
	for _, c := range weighLinks(in) {
		if c.won {
			out.Value = append(out.Value, eventschemas.Link{Name: c.network, URL: c.url})
		}
	}
	return out
}

// LinksWeighed lists the candidates for links: by network in the documented order, best first.
func LinksWeighed(in Input) []Weighed {
	var out []Weighed
	for _, c := range weighLinks(in) {
		out = append(out, Weighed{Field: "links." + c.network, Value: c.url, Source: c.source, Method: c.method,
			Score: Round2(c.score), Won: c.won, Note: c.note})
	}
	return out
}

// weighLinks joins the mentions of each profile, scores them and marks the winner of each network.
func weighLinks(in Input) []profile {
	byURL := map[string]*profile{}
	var all []*profile
	for _, c := range profiles(in) {
		key := c.network + " " + strings.ToLower(
			strings.TrimSuffix(strings.Replace(c.url, "://www.", "://", 1), "/"))
		if have := byURL[key]; have != nil {
			if c.score > have.score {
				have.score, have.method, have.note = c.score, c.method, c.note
			}
			have.declared = have.declared || c.declared
			have.repeats = min(have.repeats+1, maxRepeats)
			continue
		}
		byURL[key] = &c
		all = append(all, &c)
	}
	profiles := map[string]int{}
	for _, c := range all {
		profiles[c.network]++
	}
	out := make([]profile, 0, len(all))
	for _, c := range all {
		if c.repeats > 0 {
			c.score += repeatScore * float64(c.repeats)
			c.note += fmt.Sprintf(", %d mentions", c.repeats+1)
		}
		out = append(out, *c)
	}
	// Stable, so that equal scores keep the order of the page.
	slices.SortStableFunc(out, func(a, b profile) int {
		return cmp.Or(cmp.Compare(networkIndex(a.network), networkIndex(b.network)), cmp.Compare(b.score, a.score))
	})
	for i := range out {
		c := &out[i]
		asked := minLinkScore
		if profiles[c.network] > maxOwnProfiles && !c.declared {
			asked = minListedScore
		}
		switch {
		case i > 0 && out[i-1].network == c.network:
			c.note += "; another scores higher"
		case c.score < asked:
			c.note += "; too little to be the brand's own"
		default:
			c.won = true
		}
	}
	return out
}

// linker collects the mentions of profiles.
type linker struct {
	in   Input
	name string // of the brand
	// tenants are the folded names of publications hosted on the site: their profiles do not belong to the site.
	tenants   map[string]bool
	neighbors []string // the labels of other sites that the page links to
	text      string   // of the current link
	around    around   // of the current link
	grouped   bool     // the current link is in a row of profiles
	out       []profile
}

const minInside = 8      // the length, in bytes, from which another site's label within a handle is not a coincidence
const maxNeighbors = 200 // limits the other sites that handles are compared with

// profiles lists every mention of a profile.
func profiles(in Input) []profile {
	name, _ := Name(in)
	l := &linker{in: in, name: name.Value, tenants: map[string]bool{}}
	for _, o := range in.Page.Data.Publishers(in.Site, in.near) {
		if slices.ContainsFunc(o.URLs("url"), func(text string) bool {
			u := in.Page.Resolve(text)
			return in.Site.Own(u) && len(strings.Trim(u.Path, "/")) > maxFrontPath
		}) {
			l.tenants[Folded(o.Text("name"))] = true
		}
	}
	l.look()
	for _, owner := range in.owners() {
		for _, s := range owner.URLs("sameAs") {
			l.add(in.Page.Resolve(s), "sameAs", sameAsScore, true)
		}
	}
	if u := in.Page.Resolve(in.Page.Meta("article:publisher")); u != nil {
		l.add(u, "article:publisher", publisherScore, true)
	}
	if tag := in.Page.Meta("twitter:site"); tag != "" {
		if site, ok := handleOf(tag); ok && (strings.ContainsAny(tag, "@/") || Folded(tag) != Folded(name.Value)) {
			l.add(&url.URL{Scheme: "https", Host: "x.com", Path: "/" + site}, "twitter:site", siteTagScore, true)
		} else if ok {
			l.add(&url.URL{Scheme: "https", Host: "x.com", Path: "/" + site}, "twitter:site", nameTagScore, false)
		}
	}
	l.anchors(in.Page, 1)
	for _, p := range in.More {
		l.anchors(p, moreFactor)
	}
	return l.out
}

// look records the other sites that the page links to and mentions.
func (l *linker) look() {
	add := func(u *url.URL) {
		if u == nil || l.in.Site.Own(u) || len(l.neighbors) >= maxNeighbors || brand.NetworkOf(u.Hostname()) != "" {
			return
		}
		label := Folded(site.New(site.Registrable(u.Hostname())).Label)
		if len(label) >= minCommon && l.fit(label) < commonFit && !slices.Contains(l.neighbors, label) {
			l.neighbors = append(l.neighbors, label)
		}
	}
	for _, a := range l.in.Page.Anchors {
		add(a.URL)
	}
	for _, o := range l.in.Page.Data.All() {
		if !o.IsOrganization() {
			continue
		}
		for _, text := range o.URLs("url") {
			add(l.in.Page.Resolve(text))
		}
	}
}

// others reports whether a profile belongs to another party: another site that the page links to has its handle,
// or the link's own words name another party.
func (l *linker) others(handle, text string) bool {
	if l.fit(handle) >= commonFit {
		return false
	}
	whole := Folded(handle)
	if slices.ContainsFunc(l.neighbors, func(label string) bool {
		return plainFit(whole, label) >= partFit || plainFit(label, whole) >= partFit ||
			len(label) >= minInside && strings.Contains(whole, label)
	}) {
		return true
	}
	if strings.Contains(text, "@") {
		return false // the handle itself
	}
	named := strings.TrimSpace(networkWords.ReplaceAllString(text, " "))
	f := Folded(named)
	return len(f) >= minCommon && len(strings.Fields(named)) <= shortWords && l.fit(named) < commonFit &&
		plainFit(named, whole) >= partFit
}

// networkWords are the words in a link to a profile that do not name its owner.
var networkWords = lazyregexp.New(`(?i)\b(?:` + tables.Any("networkWords") + `)\b|[()|/.,:–—-]`)

// follow matches words of a link to one's own profile.
var follow = lazyregexp.New(`(?i)\b(?:` + tables.Any("follow") + `)\b|подпис(?:ывайтесь|аться) на нас|フォローする|关注我们|關注我們`)

// Limits of the links of one page.
const (
	maxMentions  = 400 // of profiles
	maxLinkWords = 80  // bytes of a link's text that are read
)

// anchors adds the links of a page.
func (l *linker) anchors(p *page.Page, factor float64) {
	about := surroundings(p)
	groups := l.groups(p, about)
	left := maxMentions
	for i, a := range p.Anchors {
		if _, _, ok := Profile(a.URL); !ok || left == 0 {
			continue
		}
		left--
		if l.text = a.Text; len(l.text) > maxLinkWords {
			l.text = "" // a sentence contains more than the owner of the profile
		}
		l.around, l.grouped = about[a.URL.String()], groups[i]
		switch {
		case a.Me:
			l.add(a.URL, "rel=me", meScore*factor, false)
		case follow.MatchString(l.text):
			l.add(a.URL, "follow us", followScore*factor, false)
		case a.Zone != page.Body:
			l.add(a.URL, "link in "+a.Zone.String(), edgeScore*factor, false)
		case groups[i]:
			l.add(a.URL, "row of profiles", groupScore*factor, false)
		default:
			base := bodyScore
			if len(a.Text) <= maxLinkWords && Folded(networkWords.ReplaceAllString(l.text, " ")) == "" {
				base += signScore
			}
			l.add(a.URL, "link", base*factor, false)
		}
	}
	l.text, l.around, l.grouped = "", around{}, false
}

// groups finds the links in a row of profiles, one per network: the brand's own row, at any place. Either one of them
// is the brand's by its handle, or neither the links nor the text around them mention another party. An author's row
// meets neither condition.
func (l *linker) groups(p *page.Page, about map[string]around) map[int]bool {
	out := map[int]bool{}
	var row []int
	networks := map[string]bool{}
	own, somebody := false, false
	owned := map[string]bool{} // networks whose profile of the brand is on the page, by its handle
	for _, a := range p.Anchors {
		if name, canonical, ok := Profile(a.URL); ok && l.fit(lastPart(canonical)) >= StrongFit {
			owned[name] = true
		}
	}
	end := func() {
		least := minGroup
		if len(row) > 0 && row[0] >= len(p.Anchors)*3/4 {
			least = minLastGroup
		}
		if (own || !somebody) && len(networks) >= least {
			for _, i := range row {
				out[i] = true
			}
		}
		row, own, somebody = nil, false, false
		clear(networks)
	}
	for i, a := range p.Anchors {
		name, canonical, ok := Profile(a.URL)
		if !ok && a.URL != nil && (otherNetworks.MatchString(a.URL.Hostname()) || a.URL.Scheme == "mailto" ||
			strings.Contains(strings.ToLower(a.URL.Path), "rss")) {
			continue
		}
		if !ok || networks[name] {
			end()
		}
		if ok {
			row = append(row, i)
			networks[name] = true
			own = own || l.fit(lastPart(canonical)) >= StrongFit
			somebody = somebody || owned[name] && l.fit(lastPart(canonical)) < StrongFit ||
				about[a.URL.String()].personal || strings.Contains(canonical, "linkedin.com/in/") ||
				insideProfile(name, a.URL) || ownWords(a.Text) != ""
		}
	}
	end()
	return out
}

// ownWords returns the words of a link without the network's name and the call to follow, folded. One or two letters
// are the sign of the network.
func ownWords(text string) string {
	if len(text) > maxLinkWords {
		return ""
	}
	words := Folded(networkWords.ReplaceAllString(follow.ReplaceAllString(text, " "), " "))
	if len(words) <= len("in") {
		return ""
	}
	return words
}

// loose reports whether a link at the edge of the page is too unrelated to the brand: its handle does not fit, and its
// words mention something other than the network.
func (l *linker) loose(fit float64) bool {
	return fit == 0 && !l.grouped && !strings.Contains(l.text, "@") && ownWords(l.text) != "" &&
		!networkName.MatchString(l.text) && l.fit(l.text) < commonFit
}

// networkName matches the name of a network in a link's text.
var networkName = lazyregexp.New(`(?i)` + tables.Any("networkName"))

// makers are words in the handles of companies that make sites.
var makers = lazyregexp.New(`(?i)software|agency|agentur|webdesign|themes?$|templates?$|plugins?$|hosting`)

// countryEnd is the suffix that distinguishes a handle from those for other countries.
var countryEnd = lazyregexp.New(`(?i)[_.-](?:` + tables.Any("countryEnd") + `)$`)

// fit returns how well a handle fits the domain or the brand's name.
func (l *linker) fit(handle string) float64 {
	handle = strings.TrimPrefix(handle, "@")
	fit := l.in.fit(handle)
	if name := Folded(l.name); name != "" && hasOnlyLatin(l.name) {
		fit = max(fit, nameFactor*plainFit(handle, name), nameFactor*plainFit(l.name, Folded(handle)))
		if short := countryEnd.ReplaceAllString(handle, ""); short != handle {
			// initials: DWN_de
			fit = max(fit, commonFit*plainFit(l.name, Folded(short)),
				commonFit*plainFit(l.in.Site.Label, Folded(short)))
		}
	}
	return fit
}

// add adds one mention.
func (l *linker) add(u *url.URL, method string, base float64, declared bool) {
	name, canonical, ok := Profile(u)
	if !ok || l.in.Site.Own(u) && Folded(lastPart(canonical)) != Folded(l.in.Site.Label) { // not as github.com/github
		return
	}
	last := lastPart(canonical)
	if vendors[Folded(last)] && l.in.fit(last) < exactFit {
		return
	}
	fit := l.fit(last)
	c := profile{network: name, url: canonical, method: method, source: l.in.PageURL(), declared: declared}
	if !declared && insideProfile(name, u) {
		base *= insideFactor
		method += ", inside"
	}
	switch {
	case method == "twitter:site" && fit == 0 && makers.MatchString(last):
		base = 0
	case method == "twitter:site" && fit == 0:
		base = min(base, looseTagScore)
	case method == "twitter:site" && fit < wordFit:
		base = min(base, partTagScore)
	case !declared && l.loose(fit):
		base = min(base, bodyScore)
	}
	c.score = base + handleWeight*fit
	c.note = fmt.Sprintf("%s %.3g, handle fits %.2g", method, base, fit)
	if name == "wikipedia" && (fit < commonFit && hasLatin(last) ||
		!declared && (fit < wordFit || len(ownWords(l.text)) >= MinPart && !networkName.MatchString(l.text))) {
		c.score, c.note = 0, "an article about something else"
	}
	if l.tenants[Folded(last)] && fit == 0 {
		c.score, c.note = 0, "a publication's that lives on the site"
	}
	if !declared && fit < commonFit && (l.around.credited || credit.MatchString(l.text)) {
		c.score, c.note = 0, "a credit to the maker of the site or its images"
	}
	if !declared && l.others(last, l.text) {
		c.score, c.note = 0, "somebody else's"
	}
	if strings.Contains(canonical, "linkedin.com/in/") {
		by := personPenalty
		if l.in.fit(last) >= exactFit {
			by = selfPenalty
		}
		c.score -= by
		c.note += ", a person's"
	}
	l.out = append(l.out, c)
}

// insideProfile reports whether a URL leads into a profile: a repository, an article.
func insideProfile(network string, u *url.URL) bool {
	parts := len(strings.FieldsFunc(u.Path, func(r rune) bool { return r == '/' }))
	return (network == "github" || network == "medium") && (parts > 1 && !strings.HasPrefix(u.Path, "/orgs/") ||
		parts > 0 && strings.HasSuffix(u.Hostname(), ".medium.com"))
}

// lastPart returns the handle in a profile's URL.
func lastPart(canonical string) string {
	canonical = strings.TrimSuffix(canonical, "/")
	if sub, ok := strings.CutSuffix(strings.TrimPrefix(canonical, "https://"), ".medium.com"); ok {
		return sub
	}
	last := canonical[strings.LastIndexByte(canonical, '/')+1:]
	if before, ok := strings.CutSuffix(canonical, "/"+last); ok && numericID.MatchString(last) &&
		(strings.Contains(before, "/pages/") || strings.Contains(before, "/people/")) {
		last = before[strings.LastIndexByte(before, '/')+1:] // the name before the number
	}
	if plain, err := url.PathUnescape(last); err == nil {
		return plain
	}
	return last
}

func networkIndex(name string) int {
	return slices.IndexFunc(brand.Networks, func(n brand.Network) bool { return n.Name == name })
}

// credit matches a text that names the maker of the site, its theme or its images: such a link is the maker's.
var credit = lazyregexp.New(`(?i)(?:^|[^\p{L}])(?:` + tables.Any("credit") + `)|^by\s|(?:制作|デザイン|撮影|设计|技术支持)\s*[:：]`)

// Limits of the search around a link.
const (
	maxBefore  = 60 // bytes of the text before a link
	maxParents = 6  // elements above it
)

var personWords = tables.List("personWords") // words of class and id around an author's or a member's profiles

// around describes the text around the links to one URL.
type around struct {
	credited bool // all of them are credits
	personal bool // one of them is among a person's profiles
}

// surroundings examines the text around the links to profiles.
func surroundings(p *page.Page) map[string]around {
	out := map[string]around{}
	left := maxMentions
	visit(p.Root, func(n *html.Node) bool {
		if n.Type != html.ElementNode || n.Data != "a" || left == 0 {
			return left > 0
		}
		u := p.Resolve(page.Attr(n, "href"))
		if _, _, ok := Profile(u); !ok {
			return true
		}
		left--
		key := u.String()
		have, again := out[key]
		credited := credit.MatchString(before(n) + " " + page.Clean(innerText(n, maxLinkWords), maxLinkWords))
		out[key] = around{credited: credited && (!again || have.credited), personal: have.personal || amongPersons(n)}
		return true
	})
	return out
}

// before returns the end of the text before a link in its paragraph.
func before(n *html.Node) string {
	text := ""
	for at := n; at.Parent != nil && (at == n || inlineElements[at.Data]); at = at.Parent {
		for s := at.PrevSibling; s != nil && len(text) < maxBefore; s = s.PrevSibling {
			if s.Type == html.ElementNode && (s.Data == "a" || s.Data == "br") {
				return page.Clean(text, maxLinkWords) // belongs to another link
			}
			text = innerText(s, maxBefore) + text
		}
	}
	text = page.Clean(text, maxLine)
	return strings.ToValidUTF8(text[max(0, len(text)-maxBefore):], "")
}

// inlineElements are elements that may wrap a link within a credit.
var inlineElements = map[string]bool{"span": true, "strong": true, "b": true, "em": true, "i": true, "small": true}

// amongPersons reports whether a link is among the profiles of an author, a member or a guest.
func amongPersons(n *html.Node) bool {
	left := maxParents
	for at := n; at != nil && left > 0; at = at.Parent {
		if at.Data == "body" {
			return false
		}
		left--
		text := page.Attr(at, "class") + " " + page.Attr(at, "id") + " " + page.Attr(at, "rel")
		if at.Data == "article" || slices.ContainsFunc(page.SplitWords(text[:min(len(text), maxClassBytes)]),
			func(w string) bool { return slices.Contains(personWords, w) }) {
			return true
		}
	}
	return false
}

// otherNetworks matches hosts of networks without a field, and other hosts that are common in a row of profiles.
var otherNetworks = lazyregexp.New(`(?i)^(?:www\.)?(?:` + tables.Any("otherNetworks") + `)$`)
