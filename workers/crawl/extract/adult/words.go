package adult

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/table"
)

var tables = table.Of("adult")

// Probable signs: the words of the site.

// kind is a group of words with one meaning: two of them count once.
type kind struct {
	name   string
	weight int
	alone  bool // one in the title, with an age gate, suffices
	text   *lazyregexp.Regexp
}

// Weights of the kinds. Words shared with fashion, art, birds, cars and rugby
// are weak; those shared with health pages or shops have no weight in a title.
const (
	strongTerm    = 2
	weakTerm      = 1
	softTerm      = 0
	enoughTerms   = 3 // the weight of two kinds, one of them strong
	enoughGuarded = 6 // required of a page about health, help or research
	enoughText    = 7 // required of the running text, in addition to a strong word in title, description or heading
)

var kinds = []kind{
	{"porn", strongTerm, true, termPattern(tables.List("porn"))},
	// Not XXX-Large.
	{"xxx", strongTerm, false, lazyregexp.New(`(?i)(?:^|[^\p{L}\p{N}])(?:xxx|x-?rated)(?:$|[\s|,.!:;&"'/)])`)},
	{"sex video", strongTerm, true, termPattern(tables.List("sex video"))},
	{"cams", strongTerm, true, termPattern(tables.List("cams"))},
	{"adult video", strongTerm, true, termPattern(tables.List("adult video"))},
	{"act", strongTerm, true, termPattern(tables.List("act"))},
	{"genre", strongTerm, true, termPattern(tables.List("genre"))},
	{"escort", strongTerm, true, termPattern(tables.List("escort"))},
	{"nude", weakTerm, false, termPattern(tables.List("nude"))},
	{"slang", weakTerm, false, termPattern(tables.List("slang"))},
	// Words with another meaning in another language or trade: to rent in Dutch, prepaid in Spanish, a golf club,
	// etching.
	{"ambiguous", weakTerm, false, termPattern(tables.List("ambiguous"))},
	{"toys", softTerm, false, termPattern(tables.List("toys"))},
}

// termPattern matches whole words: an adjacent letter makes another word, as in Essex and Scunthorpe.
func termPattern(words []string) *lazyregexp.Regexp {
	return lazyregexp.New(`(?i)(?:^|[^\p{L}\p{N}])(?:` + strings.Join(words, "|") +
		`)(?:$|[^\p{L}\p{N}])|` + unspaced(words))
}

// unspaced matches the words of scripts without spaces, unless they are part of a longer word: フェラ but not フェラーリ.
func unspaced(words []string) string {
	var out []string
	for _, w := range words {
		if extract.Dense(w) {
			out = append(out, wholeTerm(w))
		}
	}
	if len(out) == 0 {
		return `[^\x{0}-\x{10FFFF}]` // matches nothing
	}
	return "(?:" + strings.Join(out, "|") + ")"
}

// Characters next to which a term of a script without spaces is still a whole word.
const (
	katakanaTails = `(?:サイト|ビデオ|ムービー)?`
	hangulHeads   = `(?:무료|국산|일본|한국|서양)?`
	hangulTails   = `(?:사이트|을|를|은|는|이|가|의)?`
)

// adjacent lists, for Chinese terms, the neighboring characters with which they are the end of one word and the
// beginning of another: 进出口交易 is trade, 特色情况 a special circumstance.
var adjacent = map[string][2]string{
	"口交":  {"出进進入港路窗门門接渡关關", "易通流接换換货貨付界叉汇匯割"},
	"色情":  {"特绿綠景红紅蓝藍金黄黑白本角彩音夜货貨出各行脸臉气氣国國古", "况況怀懷景感调調趣节節缘緣绪緒侣侶境形报報"},
	"援交":  {"支救增后後声聲", "流通付易接涉给給往"},
	"中出し": {"集空途命的日道", ""},
	"無修正": {"", "条案部点箇"},
	"裸体":  {"", ""},
}

// wholeTerm returns a pattern that matches a term, but not as a part of another word.
func wholeTerm(w string) string {
	if signs, ok := adjacent[w]; ok {
		if signs[0] != "" {
			w = "(?:^|[^" + signs[0] + "])" + w
		}
		if signs[1] != "" {
			w += "(?:$|[^" + signs[1] + "])"
		}
		return w
	}
	first, _ := utf8.DecodeRuneInString(w)
	last, _ := utf8.DecodeLastRuneInString(w)
	switch {
	case unicode.Is(unicode.Katakana, first):
		w = `(?:^|[^\p{Katakana}ー])` + w
	case unicode.Is(unicode.Hangul, first):
		w = `(?:^|[^\p{Hangul}])` + hangulHeads + w
	}
	switch {
	case unicode.Is(unicode.Katakana, last) || last == 'ー':
		w += katakanaTails + `(?:$|[^\p{Katakana}ー])`
	case unicode.Is(unicode.Hangul, last):
		w += hangulTails + `(?:$|[^\p{Hangul}])`
	}
	return w
}

// ageGate matches the prompt before adult content, and before wine and tobacco: it is no proof on its own.
var ageGate = lazyregexp.New(`(?i)` + tables.Any("ageGate"))

// adultGuards are words of pages about such topics: health, help, law, research, protection.
var adultGuards = lazyregexp.New(`(?i)` + tables.Any("adultGuards"))
var hostWords = tables.List("hostWords") // terms of domain labels that are not part of ordinary words

// wordSign weighs the words of title, description, headings and the domain. It returns the sign that suffices, or "".
func wordSign(in extract.Input) string {
	p := in.Page
	title := strings.Join([]string{begin(p.Title), begin(p.Meta("og:title")), begin(p.Meta("og:site_name"))}, " \n ")
	head := strings.Join([]string{title, begin(p.Meta("description")), begin(p.Meta("og:description")),
		begin(p.Meta("keywords")), begin(strings.Join(p.Headings, " \n "))}, " \n ")
	inHead, weight := weighTerms(head)
	label := strings.ToLower(in.Site.Label)
	host := label == "sex" || slices.ContainsFunc(hostWords, func(w string) bool { return strings.Contains(label, w) })
	if len(inHead) == 0 && !host {
		return ""
	}
	gate := ageGate.MatchString(head + " \n " + p.Text)
	if adultGuards.MatchString(head) {
		if weight >= enoughGuarded && gate {
			return "adult terms and age gate"
		}
		return ""
	}
	if weight >= enoughTerms {
		return "adult terms in title, description or heading"
	}
	inTitle, _ := weighTerms(title)
	if gate && slices.ContainsFunc(inTitle, func(k kind) bool { return k.alone }) {
		return "adult term in title and age gate"
	}
	inText, textWeight := weighTerms(p.Text)
	switch {
	case host && (weight >= strongTerm || textWeight >= enoughTerms || gate && len(inText) > 0):
		return "adult term in domain and text"
	case weight >= strongTerm && textWeight >= enoughText:
		return "adult terms in text"
	case len(inHead) > 0 && gate && textWeight >= enoughText:
		return "adult terms in text and age gate"
	}
	return ""
}

// numeral30 matches XXX as a number: of games, a book's chapter, a regiment.
var numeral30 = lazyregexp.New(`(?i)\b(?:` + tables.Any("numeral30") +
	`)(?: of| de| der)?(?: the| la| les)? xxx\b|\bxxx\.?(?:th|st|e)? ?(?:` + tables.Any("numeral30 behind") + `)`)

const maxHeadBytes = 2000 // limits each text of the head that is checked

func begin(text string) string { return text[:min(len(text), maxHeadBytes)] }

// weighTerms returns the kinds of terms in a text, and their total weight.
func weighTerms(text string) (found []kind, weight int) {
	text = numeral30.ReplaceAllString(text, " ")
	for _, k := range kinds {
		if k.text.MatchString(text) {
			found = append(found, k)
			weight += k.weight
		}
	}
	return found, weight
}
