package judge

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"letterhead/workers/crawl/page"
)

// maxNameRunes bounds a name: what is longer is a sentence.
const maxNameRunes = 60

// nameCandidate is one name that the page offers.
type nameCandidate struct {
	text   string
	method string
	source string
	base   float64 // what the place it stands in is worth
	score  float64
	agree  int // other places that say the same
}

// What a place is worth; the order is that of the rules, JSON-LD of the owner first. A name's fit to
// the domain is worth more than one step of it: on home pages the title names the brand at either end.
const (
	ownerBase    = 40.0
	websiteBase  = 36.0
	siteNameBase = 34.0
	appBase      = 28.0
	manifestBase = 24.0
	knownBase    = 26.0
	altBase      = 18.0
	titleBase    = 14.0
	headingBase  = 10.0
	// shortBase is added for a title that is one short part: it is a name, not a sentence.
	shortBase  = 4.0
	shortWords = 3
	// labelBase is more than that of a title that does not fit the domain at all.
	labelBase = 16.0

	fitWeight     = 30.0
	agreeWeight   = 5.0
	maxAgree      = 3
	longPenalty   = 8.0 // more than four words
	domainPenalty = 14.0
)

// FromDomain is the method of a name that nothing but the domain gives.
const FromDomain = "domain"

// Name decides the brand's name. Its confidence is low when only the domain says it; agreed says whether
// two places give it.
func Name(in Input) (name Found[string], agreed bool) {
	candidates := nameCandidates(in)
	for i := range candidates {
		c := &candidates[i]
		c.agree = agreement(candidates, c)
		c.score = c.base + fitWeight*in.fits(c.text) + agreeWeight*float64(min(c.agree, maxAgree))
		if len(strings.Fields(c.text)) > 4 {
			c.score -= longPenalty
		}
		if isDomain(c.text, in) {
			c.score -= domainPenalty
		}
	}
	if len(candidates) == 0 {
		return Found[string]{}, false
	}
	best := slices.MaxFunc(candidates, func(a, b nameCandidate) int {
		return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(b.text, a.text))
	})
	confidence := min(1, 0.3+best.score/120)
	if best.method == FromDomain {
		confidence = 0.2
	}
	return Found[string]{Value: spelled(candidates, best), Source: best.source, Method: best.method, Confidence: round2(confidence)}, best.agree > 0
}

// nameCandidates lists every acceptable name once per place.
func nameCandidates(in Input) []nameCandidate {
	p := in.Page
	var out []nameCandidate
	seen := func(source string) func(text, method string, base float64) {
		return func(text, method string, base float64) {
			if text = tidyName(fitting(text, in), in); text != "" && !generic(text) && !hostedName(text, in) {
				out = append(out, nameCandidate{text: text, method: method, source: source, base: base})
			}
		}
	}
	add := seen(in.source())
	if owner := in.owner(); owner != nil {
		add(owner.Text("name"), "json-ld organization", ownerBase)
		add(owner.Text("alternateName"), "json-ld alternate name", titleBase)
	}
	if p.Data != nil {
		if w := p.Data.WebSite(in.Site); w != nil {
			add(w.Text("name"), "json-ld website", websiteBase)
			add(w.Text("alternateName"), "json-ld alternate name", titleBase)
		}
	}
	add(p.Meta("og:site_name"), "og:site_name", siteNameBase)
	add(p.Meta("application-name"), "application-name", appBase)
	add(p.Meta("apple-mobile-web-app-title"), "apple-mobile-web-app-title", appBase)
	add(p.Meta("al:ios:app_name", "al:android:app_name"), "app link", manifestBase)
	if in.Manifest != nil {
		fromManifest := seen(in.manifestSource())
		fromManifest(in.Manifest.Name, "manifest name", manifestBase)
		fromManifest(in.Manifest.ShortName, "manifest short_name", manifestBase-2)
	}
	for _, im := range p.Images {
		if im.Home && !im.Excluded && (im.Zone == page.Header || im.Zone == page.Nav || mentionsLogo(im)) {
			add(withoutLogoWords(im.Alt), "logo alt", altBase)
			add(withoutLogoWords(im.LinkLabel), "home link label", altBase)
		}
	}
	segments := titleSegments(p.Title)
	for _, segment := range segments {
		base := titleBase
		if len(segments) == 1 && len(strings.Fields(segment)) <= shortWords {
			base += shortBase
		}
		add(segment, "title", base)
	}
	for _, h := range p.Headings[:min(len(p.Headings), 1)] {
		add(h, "heading", headingBase)
	}
	for _, segment := range titleSegments(p.Meta("og:title", "twitter:title")) {
		add(segment, "og:title", titleBase-2)
	}
	if in.Known != nil && in.Known.Name != nil {
		seen("data set")(*in.Known.Name, "data set", knownBase)
	}
	// The domain always says something, however little.
	if label := in.Site.Label; label != "" {
		out = append(out, nameCandidate{text: page.Clean(titleCase(label), maxNameRunes), method: FromDomain, source: in.source(), base: labelBase - fitWeight})
	}
	return out
}

// fitting returns the part of a name that fits the domain best, when the name is written as a title: "PR
// Newswire: news distribution". Otherwise, and when no part fits, it returns it whole.
func fitting(text string, in Input) string {
	parts := slices.DeleteFunc(titleSegments(text), func(s string) bool { return isDomain(strings.TrimSpace(s), in) })
	if len(parts) < 2 || in.fits(text) >= pieceFit {
		return text
	}
	best := slices.MaxFunc(parts, func(a, b string) int {
		return cmp.Or(cmp.Compare(in.fits(a), in.fits(b)), cmp.Compare(len(a), len(b)))
	})
	if in.fits(best) >= commonFit {
		return best
	}
	return text
}

// spelled returns the spelling among all candidates of a name that keeps its diacritics: an alt text says
// Citta where the title says Città.
func spelled(all []nameCandidate, best nameCandidate) string {
	text, same := best.text, folded(best.text)
	for _, c := range all {
		if c.method != FromDomain && folded(c.text) == same && beyondASCII(c.text) > beyondASCII(text) {
			text = c.text
		}
	}
	return text
}

func beyondASCII(text string) int {
	n := 0
	for _, r := range text {
		if r >= utf8.RuneSelf && unicode.IsLetter(r) {
			n++
		}
	}
	return n
}

// agreement counts the other places that give the same name.
func agreement(all []nameCandidate, c *nameCandidate) int {
	same := folded(c.text)
	methods := map[string]bool{}
	for i := range all {
		other := &all[i]
		if other.method != c.method && other.method != FromDomain && folded(other.text) == same {
			methods[other.method] = true
		}
	}
	return len(methods)
}

var (
	marks = strings.NewReplacer("®", "", "™", "", "℠", "", "©", "")
	// legalForm is a company's legal form at the end of its name.
	legalForm = regexp.MustCompile(`(?i)[,\s]+(inc|incorporated|llc|l\.l\.c|ltd|limited|corp|corporation|co|gmbh|ag|s\.?a|s\.?r\.?l|s\.?p\.?a|b\.?v|n\.?v|plc|oy|ab|a/s|aps|kg|lda|pty|pte|kk|k\.k)\.?$`)
	// inBrackets is an abbreviation behind the name it stands for: Amazon Web Services (AWS).
	inBrackets = regexp.MustCompile(`^(.{3,}?)\s*\(([A-Za-z0-9]{2,8})\)$`)
	// frontPage are words for the front page around a name: "ARD Startseite", "Acme Home Page".
	frontPage = regexp.MustCompile(`(?i)^(?:welcome to|willkommen bei|bienvenue sur|by)\s+|\s+(?:home\s?page|home|official (?:web)?site|official|startseite|accueil|website)$`)
)

// tidyName makes a candidate fit to be a name, or "" when it cannot be one.
func tidyName(text string, in Input) string {
	text = page.Clean(marks.Replace(text), page.MaxValueRunes)
	text = strings.Trim(text, " \"'“”«»|-–—·:•,!")
	if m := inBrackets.FindStringSubmatch(text); m != nil && initials(m[1], m[2]) {
		text = m[1]
	}
	if short := strings.TrimSpace(frontPage.ReplaceAllString(text, "")); short != "" && in.fits(short) >= in.fits(text) {
		text = short
	}
	if short := legalForm.ReplaceAllString(text, ""); short != text && in.fits(short) >= in.fits(text) && said(short, in) {
		text = short
	}
	if utf8.RuneCountInString(text) > maxNameRunes || strings.ContainsAny(text, "<>{}") || folded(text) == "" {
		return ""
	}
	if strings.Contains(text, "://") || strings.Contains(text, "@") && !strings.Contains(text, " ") {
		return ""
	}
	return text
}

// said says whether another place of the page agrees with a name without its legal form.
func said(short string, in Input) bool {
	if in.fits(short) >= strongFit {
		return true
	}
	f := folded(short)
	return f != "" && (strings.Contains(folded(in.Page.Title), f) || strings.Contains(folded(in.Page.Meta("og:title")), f))
}

// initials says whether an abbreviation is made of a name's initials.
func initials(name, short string) bool {
	var b strings.Builder
	for w := range strings.FieldsSeq(name) {
		r, _ := utf8.DecodeRuneInString(w)
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String() == strings.ToLower(short)
}

// isDomain says whether a name merely repeats the domain in lower case, as ard.de does. RANDOM.ORG and
// Booking.com are names.
func isDomain(name string, in Input) bool {
	lower := strings.ToLower(name)
	return name == lower && (lower == in.Site.Domain || lower == "www."+in.Site.Domain || slices.Contains(in.Site.Others, lower))
}

// titleSeparators part a title: a bar, a dash or a colon with space around it, …
var titleSeparators = regexp.MustCompile(`\s+[-–—|·•:»«~/]+\s+|\s*[|»«]\s*|:\s+|\s+[–—]|[–—-]\s+`)

// maxSegments bounds the parts of a title.
const maxSegments = 8

// titleSegments splits a title.
func titleSegments(title string) []string {
	parts := titleSeparators.Split(title, maxSegments)
	// Where nothing fits the domain the first part is the best guess, so order is kept.
	return slices.DeleteFunc(parts, func(s string) bool { return strings.TrimSpace(s) == "" })
}

// logoWords are what an alt text says beside the name.
var logoWords = regexp.MustCompile(`(?i)\b(logo(type)?|icon|homepage|home page|home|go to|back to|link to|return to|visit|the official|official site|brand|image|light|dark|white|black|svg|png)\b`)

func withoutLogoWords(alt string) string {
	return page.Clean(logoWords.ReplaceAllString(alt, " "), maxNameRunes+1)
}

func mentionsLogo(im page.Image) bool {
	return slices.ContainsFunc(im.Tokens, isLogoWord) || strings.Contains(strings.ToLower(im.Alt), "logo")
}

func isLogoWord(w string) bool {
	return strings.HasPrefix(w, "logo") || w == "brand" || w == "wordmark"
}

// titleCase writes a domain label as a name.
func titleCase(label string) string {
	words := strings.FieldsFunc(label, func(r rune) bool { return r == '-' || r == '_' })
	for i, w := range words {
		r, n := utf8.DecodeRuneInString(w)
		words[i] = string(unicode.ToTitle(r)) + w[n:]
	}
	return strings.Join(words, " ")
}
