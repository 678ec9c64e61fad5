package classify

import (
	"net/url"
	"slices"
	"strings"

	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/page"
)

// emptyTitles matches the complete first part of the titles of default pages of
// web servers, panels and builders: "Caddy works!" matches, "Caddy" does not.
var emptyTitles = lazyregexp.New(`(?i)^(` + tables.Any("emptyTitles") + `)[\s.…!！]*$`)
var panelLogIns = lazyregexp.New(`(?i)^(hestia|vesta) - login$`) // whole titles of panels

// emptyTexts matches the texts of such pages without a typical title.
var emptyTexts = lazyregexp.New(`(?i)^(` + tables.Any("emptyTexts") + `)`)

// The wordings of pages that announce a new or repaired site. Words that builders, mechanics and theaters also use
// ("expertos en mantenimiento", "prossimamente") count only as a complete part of a title or a heading, or about a
// site.
var (
	soonPlain = tables.Any("soonPlain") // sufficient at the end of a text
	// soonOthers are phrases of other languages, and short ones.
	soonOthers = tables.Any("soonOthers")
	soonSites  = tables.Any("soonSites")                                           // words for a site
	soonFill   = tables.Any("soonFill")                                            // filler words around them
	soonVerbs  = `is|est|est[aá]|é|è|ist|är|er|je|jest|находится|is op dit moment` // connect a site with its state
)

var (
	soonEnds  = lazyregexp.New(`(?i)(^|[^\p{L}])(` + soonPlain + `)([ ,]+(in|on|at|this) .{1,20})?[\s.…!]*$`)
	soonAlone = lazyregexp.New(`(?i)^((` + soonFill + `|` + soonSites + `)\s+)*(` + soonOthers + `|` + soonPlain +
		`)(\s+(` + soonFill + `|` + soonSites + `))*[\s.…!]*$`)
	soonOfSite = lazyregexp.New(`(?i)(^|[^\p{L}])(` + soonSites + `)\s+([^.!?|]{0,30}\s(` + soonVerbs + `)\s+)?((` +
		soonFill + `)\s+)*(` + soonOthers + `|` + soonPlain + `)($|[^\p{L}])`)
	// soonService matches wordings that also name a service.
	soonService = lazyregexp.New(`(?i)^(scheduled|planned|site|web ?site|server) maintenance[\s.…!]*$`)
	// soonSays matches unambiguous sentences, and words of scripts without word boundaries.
	soonSays = lazyregexp.New(`(?i)` + tables.Any("soonSays"))
	// soonPlainly matches soonPlain anywhere: sufficient for a page with almost no other content.
	soonPlainly = lazyregexp.New(`(?i)\b(` + soonPlain + `)\b`)
)

// promises reports whether the title or headings of a page announce it for later.
func promises(a Answer) bool {
	own := presents(a.Page)
	for _, part := range titleParts(a.Page.Title) {
		if saysAny(a, part, soonEnds, soonAlone, soonOfSite, soonSays) || !own && says(a, soonService, part) {
			return true
		}
	}
	for _, heading := range a.Page.Headings {
		if saysAny(a, heading, soonEnds, soonOfSite, soonSays) || !own && saysAny(a, heading, soonAlone, soonService) {
			return true
		}
	}
	return false
}

// titleParts returns the parts of a title, split also at colons.
func titleParts(title string) []string {
	var out []string
	for _, part := range parts(title) {
		out = append(out, strings.Split(part, ": ")...)
	}
	return out
}

// saysAny is says for any of some patterns.
func saysAny(a Answer, text string, patterns ...*lazyregexp.Regexp) bool {
	return slices.ContainsFunc(patterns, func(p *lazyregexp.Regexp) bool { return says(a, p, text) })
}

var errorPhrases = tables.Any("errorPhrases") // phrases of error pages

// errorTitles matches the complete first part of the titles of error pages with
// status 200: "404 Not Found" matches, "404 Coffee" does not.
var errorTitles = lazyregexp.New(`(?i)^((http )?(error|erreur|fehler|errore|erro|b[lł][aą]d|ошибка|помилка|hata)?[ :]*(404|410|500|502|503)([ :.!,–-]*(error|page|seite|fehler))?([ :.!,–-]*(` + errorPhrases + `))?|(404|410|500|502|503):.*|(error[: -]+)?(` + errorPhrases + `))[\s.…!]*$`)

// listing matches the beginning of a directory listing.
var listing = lazyregexp.New(`^(Index of /|Directory listing for /|Verzeichnis von /|Directory: /)`)

func placeholderSign(a Answer) string {
	p := a.Page
	said := first(p.Title)
	if said == "" && len(p.Headings) > 0 {
		said = p.Headings[0]
	}
	whole := strings.TrimSpace(p.Title)
	switch {
	case (emptyTitles.MatchString(said) || emptyTitles.MatchString(whole) || panelLogIns.MatchString(whole)) &&
		!calledSo(a, said) && saysNothing(p, placeholderWords*2) && !drawnApp(a, said):
		return "default page"
	case says(a, emptyTexts, p.Text) && saysNothing(p, placeholderWords*2):
		return "default page"
	case (errorTitles.MatchString(said) || errorTitles.MatchString(whole)) && !calledSo(a, said) &&
		saysNothing(p, placeholderWords):
		return "error page"
	case p.Words < placeholderWords && innerLinks(p) < ownLinks && promises(a):
		return "coming soon"
	case p.Words < soonWords && innerLinks(p) == 0 && p.Meta("description", "og:description") == "" &&
		saysAny(a, p.Text, soonPlainly, soonEnds, soonAlone, soonOfSite, soonSays):
		return "coming soon"
	case (listing.MatchString(p.Text) || listing.MatchString(p.Title)) && !declaresOwner(p):
		return "directory listing"
	}
	return ""
}

// appTitles are titles of templates that an app keeps when its scripts have drawn it.
var appTitles = lazyregexp.New(
									`(?i)^(vite \+ \w+( \+ \w+)?|(vite|react|nuxt|angular|vue|svelte|sveltekit|create next|create react) app)$`)
var templateText = lazyregexp.New(`(?i)` + tables.Any("templateText")) // matches what the templates themselves show

const drawnWords = 8 // the least number of words of an app that was drawn

// drawnApp reports whether scripts have drawn more than the template of an app whose title was never changed.
func drawnApp(a Answer, title string) bool {
	return a.Drawn && appTitles.MatchString(title) && !templateText.MatchString(a.Page.Text) &&
		a.Page.Words >= drawnWords &&
		(len(a.Page.Headings) > 0 || len(a.Page.Images)+len(a.Page.InlineSVGs) > 0 || innerLinks(a.Page) > 0)
}

const soonWords = 25 // limits the words of a page that announces itself only in its text

// SendsOn returns where a page without content sends every visitor, or nil. A page that presents its owner or has a menu
// must do so at once.
func SendsOn(p *page.Page) *url.URL {
	if p.Words >= challengeWords {
		return nil
	}
	to := p.Onward()
	if to == nil || to.Seconds > maxRefreshSeconds || to.Seconds > 0 && speaks(p) {
		return nil
	}
	return to.URL
}

const maxRefreshSeconds = 5 // the longest wait of a redirect that is followed
