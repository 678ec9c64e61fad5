package classify

import (
	_ "embed" // the table of software
	"slices"
	"strings"

	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
	"letterhead/workers/crawl/table"
)

// software.tsv lists programs that people run on their own domains. A program that is not in it is recognized by the
// link or the generator of its log-in page (unknownSoftware).
//
//go:embed software.tsv
var softwareText string

// program is one row of the table.
type program struct {
	name   string   // the row's name
	called string   // the letters of the spelling
	vendor []string // labels of its vendor's domains, where it is the brand
	common bool     // the name is also a common word
}

// programs are the rows by the letters of each spelling.
var programs = func() map[string]program {
	out := map[string]program{}
	for _, row := range table.Must(softwareText).Rows("", 3) {
		names, common := strings.CutPrefix(row[0], "*")
		spellings := strings.Split(names, "|")
		for _, spelling := range spellings {
			called := site.Letters(spelling)
			out[called] = program{spellings[0], called, strings.Split(row[1], "|"), common}
		}
	}
	return out
}()

const (
	softwareWords = 300 // limits the words of a page that only presents its program
	maxTitleParts = 6   // limits the parts of a title that are looked at
)

var (
	// titleBorders separate a page's name and its program's in a title: "Sign in [Jenkins]", "Login – Nextcloud",
	// "acme.com / localhost | phpMyAdmin 5.2.1".
	titleBorders = lazyregexp.New(`\s+[-–—:/·•»›]+\s+|\s*[|·•»›\[\]()]+\s*|:\s+|\s+::\s+`)
	// pageWords are the parts of a title that name a page of any program.
	pageWords = lazyregexp.New(`(?i)^(` + tables.Any("pageWords") + `)$`)
	// welcomeWords surround a program's name.
	welcomeWords = lazyregexp.New(`(?i)^(` + tables.Any("welcomeWords") + `)\s+(?:the\s+|your\s+)?|\s+(` +
		tables.Any("welcomeWords behind") + `)$`)
	freshInstall = lazyregexp.New(`(?i)` + tables.Any("freshInstall")) // matches what programs write into new sites
)

// contentOfInstall matches the paths of pages that a new WordPress site has.
var contentOfInstall = lazyregexp.New(
	`(?i)^/(hello-world|sample-page|author|category|comments|feed|wp-[\w-]+(\.php)?|\d{4})(/|$)`)

// ownPages returns how many pages a page links to that its owner has made.
func ownPages(a Answer) int {
	made := map[string]bool{}
	for _, link := range a.Page.Anchors {
		u := link.URL
		if u != nil && a.Site.Own(u) && strings.Trim(u.Path, "/") != "" && !contentOfInstall.MatchString(u.Path) {
			made[u.Path] = true
		}
	}
	return len(made)
}

// softwareSign recognizes a page that presents the program that runs on the domain, and not the domain's owner: every
// name that it gives is the program's.
func softwareSign(a Answer) string {
	p := a.Page
	if !declaresStranger(a) && !presents(p) && p.Words < softwareWords && ownPages(a) < ownLinks &&
		freshInstall.MatchString(p.Text) {
		return "a new installation"
	}
	found, own := program{}, false
	look := func(text string) {
		for _, part := range softwareParts(a, text) {
			if is, ok := programOf(part); ok {
				found = is
			} else {
				own = true
			}
		}
	}
	look(p.Title)
	look(p.Meta("og:site_name"))
	look(p.Meta("application-name", "apple-mobile-web-app-title"))
	if found.name == "" {
		return unknownSoftware(a)
	}
	if !p.Password { // log-in pages have headings about logging in
		for _, heading := range p.Headings {
			look(heading)
		}
	}
	if own || slices.Contains(found.vendor, a.Site.Label) || isCalled(a, found) ||
		p.Words >= softwareWords || hasOwnLogo(a) {
		return ""
	}
	if found.common && !p.Password && !(p.Shell() && innerLinks(p) < ownLinks) && !logInTitles.MatchString(p.Title) &&
		!strings.Contains(strings.ToLower(p.Meta("generator", "author", "description")), strings.ToLower(found.name)) &&
		innerLinks(p) >= ownLinks {
		return ""
	}
	return "a page of the program " + found.name
}

// declaresStranger reports whether a page declares a name that is no program's.
func declaresStranger(a Answer) bool {
	name := a.Page.Meta("og:site_name", "application-name")
	return slices.ContainsFunc(softwareParts(a, name), func(part string) bool { _, ok := programOf(part); return !ok })
}

// softwareParts returns the parts of a title that are names, except names of pages and the domain.
func softwareParts(a Answer, title string) []string {
	if _, ok := programs[site.Letters(title)]; ok {
		return []string{title}
	}
	var out []string
	for i, part := range titleBorders.Split(title, -1) {
		part = strings.TrimSpace(part)
		letters := site.Letters(part)
		if i >= maxTitleParts || letters == "" || pageWords.MatchString(part) || isHost(a, part) {
			continue
		}
		out = append(out, part)
	}
	return out
}

// isHost reports whether a text is the name of the page's host, which programs put into their titles.
func isHost(a Answer, text string) bool {
	text = strings.TrimPrefix(strings.ToLower(text), "www.")
	return text == a.Site.Domain ||
		a.Page.URL != nil && text == strings.TrimPrefix(a.Page.URL.Hostname(), "www.")
}

// programOf returns the program that a part of a title names, with or without words of welcome and a version around it.
func programOf(part string) (program, bool) {
	for range 3 { // "Welcome to Acme Webmail 1.6"
		if is, ok := programs[site.Letters(part)]; ok {
			return is, true
		}
		short := strings.TrimSpace(welcomeWords.ReplaceAllString(part, ""))
		if short == part {
			break
		}
		part = short
	}
	return program{}, false
}

// isCalled reports whether the domain, or one of the others of the site, is named like a program. A domain that only
// contains the name runs it, unless the name is a common word: nextcloud-acme.com, but jenkins-joinery.com.
func isCalled(a Answer, is program) bool {
	return is.common && (calledSo(a, is.name) || inLabels(a.Site, is.called)) ||
		slices.ContainsFunc(a.Site.Labels(), func(l string) bool {
			return site.Letters(l) == is.called || site.Letters(l) == site.Letters(is.name)
		})
}

// hasOwnLogo reports whether the page shows an image that it calls by the domain's name.
func hasOwnLogo(a Answer) bool {
	return slices.ContainsFunc(a.Page.Images, func(im page.Image) bool {
		alt := strings.TrimSuffix(site.Letters(im.Alt), "logo")
		return len(alt) >= minCalledLetters && !im.Foreign && inLabels(a.Site, alt)
	})
}

// poweredBy matches what precedes the name of a page's program.
var poweredBy = lazyregexp.New(
	`(?i)\b(powered by|running on|runs on|betrieben (mit|von)|propulsé par|desarrollado (con|por)|realizzato con)\b`)

// unknownSoftware recognizes the log-in page of a program that the table lacks: all that the page names is its
// generator, or the name of another site that it links to and is powered by.
func unknownSoftware(a Answer) string {
	p := a.Page
	if !p.Password || p.Words >= gateWords || hasOwnLogo(a) {
		return ""
	}
	names := append(softwareParts(a, p.Title), softwareParts(a, p.Meta("og:site_name", "application-name"))...)
	if len(names) == 0 {
		return ""
	}
	name := site.Letters(welcomeWords.ReplaceAllString(names[0], ""))
	for _, other := range names {
		if site.Letters(welcomeWords.ReplaceAllString(other, "")) != name {
			return ""
		}
	}
	if len(name) < minCalledLetters || inLabels(a.Site, name) ||
		slices.ContainsFunc(a.Site.Labels(), func(l string) bool { return strings.Contains(name, site.Letters(l)) }) {
		return ""
	}
	if strings.HasPrefix(site.Letters(p.Meta("generator")), name) {
		return "a page of its generator"
	}
	for _, link := range p.Anchors {
		if link.URL == nil || a.Site.Own(link.URL) || !poweredBy.MatchString(p.Text) {
			continue
		}
		label := site.Letters(site.New(site.Registrable(link.URL.Hostname())).Label)
		if len(label) >= minCalledLetters && (label == name || strings.HasPrefix(name, label)) {
			return "a page of the program of " + link.URL.Hostname()
		}
	}
	return ""
}
