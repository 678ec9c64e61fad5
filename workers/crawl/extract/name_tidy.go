package extract

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"letterhead/workers/crawl/page"
)

// fitting returns the part of a name that fits the domain best, when the name is written as a title: "PR
// Newswire: news distribution". When no part fits, it is the short one beside a sentence, or the whole.
func fitting(text string, in Input) string {
	text = poweredBy.ReplaceAllString(webHost.ReplaceAllString(text, "$1"), "")
	if bare := slices.IndexFunc(titleSegments(text), func(s string) bool { return isDomain(strings.TrimSpace(s), in) }); bare >= 0 && !slices.ContainsFunc(titleSegments(text), func(s string) bool {
		return in.fit(s) >= wordFit && !isDomain(strings.TrimSpace(s), in) || beyondASCII(s) > 0 && !hasLatin(s)
	}) {
		return strings.TrimSpace(titleSegments(text)[bare])
	}
	parts := slices.DeleteFunc(titleSegments(text), func(s string) bool { return isDomain(strings.TrimSpace(s), in) || generic(s) && in.fit(s) < exactFit })
	if len(parts) < 2 && len(titleSegments(text)) < 2 || in.fit(text) >= PieceFit {
		return sentence(text, in)
	}
	if len(parts) == 1 {
		return parts[0]
	}
	if len(parts) == 0 {
		return text
	}
	best := slices.MaxFunc(parts, func(a, b string) int {
		return cmp.Or(cmp.Compare(in.fit(a), in.fit(b)), cmp.Compare(len(a), len(b)))
	})
	if in.fit(best) >= commonFit {
		return sentence(best, in)
	}
	for _, end := range []string{parts[0], parts[len(parts)-1]} {
		if len(strings.Fields(end)) <= shortWords && utf8.RuneCountInString(text) > 3*utf8.RuneCountInString(end) {
			return end
		}
	}
	return text
}

// webHost is a domain with its customary host.
var webHost = regexp.MustCompile(`(?i)(^|\s)www\.`)

// sentenceEnd parts a slogan of sentences: "Acme.com. Spend less. Smile more."
var sentenceEnd = regexp.MustCompile(`[.,!?:]\s+|[，。！？、]`)

// hostedOn is the end of a title that names the place last: "Say Why on Acme".
var hostedOn = regexp.MustCompile(`(?i)^.+?\s(?:on|at|via|by|from|von|auf|bei|sur|chez|en|su|på|op|na|на|в)\s+(\S+(?:\s\S+){0,3})$`)

// sentence returns the part of a slogan that is the domain, else the whole. Short texts are names in which
// a stop is an abbreviation's: Dr. Oetker.
func sentence(text string, in Input) string {
	if m := hostedOn.FindStringSubmatch(text); m != nil && in.fit(text) < exactFit && in.fit(m[1]) >= exactFit {
		return m[1]
	}
	if len(strings.Fields(text)) > shortWords || beyondASCII(text) > 0 {
		for part := range strings.SplitSeq(sentenceEnd.ReplaceAllString(text, "\n"), "\n") {
			if in.fit(part) >= exactFit {
				return part
			}
		}
	}
	return text
}

var (
	marks = strings.NewReplacer("®", "", "™", "", "℠", "", "©", "")
	// legalForm is a company's legal form at the end of its name, or before it where that is the custom.
	legalForm = regexp.MustCompile(`(?i)[,\s]+\(?(inc|incorporated|llc|l\.l\.c|llp|lp|ltd|limited|corp|corporation|co|company|gmbh(\s*&\s*co\.?\s*kga?)?|mbh|ug|ag|se|sa|s\.a|sas|s\.a\.s|sarl|s\.?à\.?\s?r\.?l|srl|s\.r\.l|spa|s\.p\.a|s\.?l\.?u?|b\.?v|n\.?v|plc|oy|oyj|ab|asa|a/s|aps|kg|kgaa|e\.\s?v|e\.\s?k|lda|ltda|s\.?a\.? de c\.?v|pty|pte|pvt|private limited|sdn\.? bhd|bhd|tbk|kk|k\.k|kft|zrt|s\.?r\.?o|s\.?\s?k\.?\s?a|sp\.\s?(?:k|j|p)|gbr|a\.\s?s|d\.\s?o\.\s?o|sp\.?\s?z\s?o\.?\s?o|ооо|оао|зао|пао|ао|株式会社|有限公司|股份有限公司|주식회사)\.?\)?$`)
	legalHead = regexp.MustCompile(`(?i)^(?:株式会社|有限会社|\(株\)|㈱|주식회사|\(주\)|ооо|оао|зао|пао|ао|pt\.?)\s*`)
	legalTail = regexp.MustCompile(`(?:株式会社|有限公司|股份有限公司|有限责任公司|集团|주식회사)$`)
	// inBrackets is what stands in brackets behind a name: Amazon Web Services (AWS), X (formerly Twitter).
	inBrackets = regexp.MustCompile(`^(.+?)\s*[\(（\[]([^()（）\[\]]{2,})[\)）\]]$`)
	// frontPage are words for the front page, or for being the real one, around a name: "ARD Startseite",
	// "Acme Home Page", "Sito ufficiale Acme".
	frontPage = regexp.MustCompile(`(?i)^(?:welcome to|welcome at|willkommen (?:bei|auf|beim?)|bienvenue (?:sur|chez|à)|bienvenido(?:s)? a|bem-vindo (?:à|ao|a)|benvenut[io] (?:su|in|a)|welkom bij|välkommen till|velkommen til|witamy w|добро пожаловать (?:в|на)|by|the official (?:web)?site (?:of|for)|official (?:web)?site (?:of|for)|site officiel (?:de|d')|sitio (?:web )?oficial de|sito ufficiale(?: di)?|site oficial d[aoe]|offizielle (?:web)?seite (?:von|der|des)|официальный сайт|欢迎来到)\s+` +
		`|\s+(?:home\s?page|home|official (?:web\s?|home\s?)?(?:site|page|store|shop)|official|startseite|homepagina|accueil|inicio|início|web\s?site|website|online\s?shop|online\s?store|web\s?shop|tienda (?:online|oficial)|boutique en ligne|site officiel|sitio (?:web )?oficial|site oficial|web oficial|sito ufficiale|offizielle (?:web)?seite|strona główna|ana sayfa|resmi sitesi|главная|официальный сайт|trang chủ|beranda|embed|player)$` +
		`|\s*(?:公式(?:サイト|ホームページ|ウェブサイト|通販|オンラインストア)?|オフィシャル(?:サイト|ホームページ)|ホームページ|トップページ|官方网站|官方網站|官方商城|官网|官網|首页|首頁|공식\s?(?:홈페이지|사이트|온라인\s?스토어)|홈페이지)$|^(?:【?公式】?)\s*`)
)

// tidyName makes a candidate fit to be a name, or "" when it cannot be one.
func tidyName(text string, in Input) string {
	text = page.Clean(marks.Replace(text), page.MaxValueRunes)
	text = strings.Trim(text, " \"'“”‘’«»‹›|-–—·•∙:,；，。、【】「」『』★☆►▶→←✓")
	if !strings.HasSuffix(text, "!") || in.fit(text) < StrongFit && strings.ContainsRune(text, ' ') {
		text = strings.TrimRight(text, "!")
	}
	if m := inBrackets.FindStringSubmatch(text); m != nil && (initials(m[1], m[2]) || !hasLatin(m[1]) && in.fit(m[2]) >= exactFit || in.fit(m[1]) >= in.fit(text) && in.fit(m[1]) > 0) {
		text = m[1]
	}
	for range 2 { // "Acme Official Home Page"
		short := frontPage.ReplaceAllString(text, "")
		if short == text {
			break
		}
		if short = strings.Trim(short, wrapping); short != "" && in.nameFit(short) >= in.nameFit(text) {
			text = short
		}
	}
	for range 2 { // "Acme Co., Ltd."
		short := strings.TrimRight(legalTail.ReplaceAllString(legalHead.ReplaceAllString(legalForm.ReplaceAllString(text, ""), ""), ""), " ,")
		if short == text || in.nameFit(short) < in.nameFit(text) && !isDomain(short, in) || !said(short, in) {
			break
		}
		text = short
	}
	switch opened, closed := strings.Count(text, "("), strings.Count(text, ")"); {
	case opened > closed:
		text += ")" // trimmed off
	case closed > opened:
		text = strings.TrimRight(text, ")")
	}
	if utf8.RuneCountInString(text) > maxNameRunes || strings.ContainsAny(text, "<>{}") || Folded(text) == "" {
		return ""
	}
	if strings.Contains(text, "://") || strings.Contains(text, "@") && !strings.Contains(text, " ") || notName.MatchString(text) || numeral(text) && in.fit(text) < exactFit {
		return ""
	}
	return text
}

// notName are texts that hold what no name does: a mail address, a template's variable or key.
var notName = regexp.MustCompile(`[^\s@]@[^\s@]+\.[a-zA-Z]{2,}|\$\w|\b[a-z]+(?:\.[a-z_]+){3,}\b|\b[a-z]+_[a-z]+\.[a-z]+\.`)

// poweredBy is what a name says of the platform under it.
var poweredBy = regexp.MustCompile(`(?i)\s+(?:powered|hosted) by\s.+$`)

// numeral says whether a text has no letters: a post's number, a telephone number.
func numeral(text string) bool { return !strings.ContainsFunc(text, unicode.IsLetter) }

// said says whether another place of the page agrees with a name without its legal form.
func said(short string, in Input) bool {
	if in.fit(short) >= StrongFit {
		return true
	}
	f := Folded(short)
	return f != "" && (strings.Contains(Folded(in.Page.Title), f) || strings.Contains(Folded(in.Page.Meta("og:title", "og:site_name")), f))
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

// titleSeparators part a title: a bar, a dash or a colon with space around it, brackets of East Asian
// titles, …
var titleSeparators = regexp.MustCompile(`\s+[-–—|·•∙:»«›~/⋆★]+\s+|\s*[|｜»«¦┃]\s*|:\s+|：|\s+[–—]|[–—-]\s+|\s+::\s+|[【】「」『』]`)

// openCompound is a compound that its second word completes: Lesben- und Schwulenverband. Its hyphen parts
// no title.
var openCompound = regexp.MustCompile(`(?i)(\pL)- ((?:und|oder|bzw\.|sowie|u\.|&|and|or|et|ou|y|e|o|en|of|och|og|eller)\s)`)

// maxSegments bounds the parts of a title.
const maxSegments = 8

// titleSegments splits a title.
func titleSegments(title string) []string {
	if strings.ContainsFunc(title, func(r rune) bool { return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) }) {
		title = strings.NewReplacer("_", " | ", "-", " | ", "—", " | ", "－", " | ").Replace(title)
	}
	parts := titleSeparators.Split(openCompound.ReplaceAllString(title, "${1}‑ ${2}"), maxSegments)
	for i := range parts {
		parts[i] = strings.ReplaceAll(parts[i], "‑ ", "- ")
	}
	// Where nothing fits the domain the first part is the best guess, so order is kept.
	return slices.DeleteFunc(parts, func(s string) bool { return strings.TrimSpace(s) == "" })
}

// logoWords are what an alt text says beside the name.
var logoWords = regexp.MustCompile(`(?i)\b(the logo of|logo (?:of|von|vom|des?|der|dem|du|del|della|di|da|do|dos|das|van|av|af)(?: (?:the|der|des|la|las|los|het))?|logo(type|tipo)?|wordmark|icon|homepage|home page|home|(?:go|back|return|link|zurück|zur|vai|ir|volver|retour) (?:to|zu[mr]?|al?|à l'|alla|ao|startseite)(?: the)?|visit|the official|official site|startseite|accueil|inicio|brand|image|white|black|svg|png)\b|(?:ロゴ|标志|標誌|로고|логотип)`)

func withoutLogoWords(alt string) string {
	return strings.Trim(page.Clean(logoWords.ReplaceAllString(alt, " "), maxNameRunes+1), wrapping)
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
