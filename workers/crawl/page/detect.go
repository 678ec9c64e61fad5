package page

import (
	"cmp"
	"math"
	"net/url"
	"slices"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"

	"letterhead/internal/lazyregexp"
)

// The detection of an encoding that nothing declares compares how likely the bytes beyond ASCII are in each language of
// the table "legacy". Costs are negative natural logarithms of probabilities.
const (
	maxSample  = 6 << 10 // limits the bytes that are compared
	zipf       = 3.0     // the frequency of the letter of rank k is proportional to 1/(k+zipf)
	fewLetters = 12

	letterShare   = 0.93   // the proportion of a language's own letters
	upperShare    = 0.3    // the frequency of a capital relative to its small letter
	markShare     = 0.01   // of each of some 20 signs that all languages use
	otherShare    = 0.0004 // of any other letter or sign of the encoding
	undefinedCost = 16.0   // of a byte or a pair that the encoding does not define
	// insideCost is added for a capital in a word that began with a small letter, foreignCost for a letter of another
	// script after an ASCII one, and besideCost for a Latin letter with a mark next to another.
	insideCost, foreignCost, besideCost = 4.0, 3.0, 2.5
	capitalGain                         = 0.7 // for a capital after another

	commonShare = 0.6 // the proportion of the characters of an East Asian language that its row lists
	// basicShare and basicCount are the proportion and the number of the characters of the first level of the standard,
	// or of the Hangul syllables; signShare and signCount are those of its signs.
	basicShare, basicCount, signShare, signCount = 0.35, 3000, 0.04, 200
	rareCost                                     = 13.5
	halfCost                                     = 8.0 // of a katakana of half width

	hintGain    = 8.0  // for the language that the page declares, and half of it for one of its top-level domain
	westernGain = 2.0  // for windows-1252, which browsers use by default
	claimedGain = 40.0 // for windows-1252 if it is declared, as many servers do by default
	sureGap     = 8.0  // the lead at which three of four detections are right
)

// legacy is one language in one encoding.
type legacy struct {
	name  string
	enc   encoding.Encoding
	hints []string
	costs [256]float64 // of single bytes
	kinds [256]byte    // 'a' for a small letter, 'A' for a capital
	dense bool         // words consist of letters beyond ASCII
	wide  *wide        // nil if each character is one byte
	pairs map[[2]byte]float64
}

// wide has the ranges of an encoding whose characters take two bytes.
type wide struct {
	trails       string // pairs of limits
	basic, signs string // limits of the first bytes
	firstBasic   byte   // the least second byte of basic characters and signs
	half         string // limits of characters of one byte
}

var wides = map[string]*wide{
	"shift_jis": {"\x40\x7e\x80\xfc", "\x88\x98", "\x81\x83", 0x40, "\xa1\xdf"},
	"euc-jp":    {"\xa1\xfe", "\xb0\xcf", "\xa1\xa5", 0xa1, ""},
	"euc-kr":    {"\x41\x5a\x61\x7a\x81\xfe", "\xb0\xc8", "\xa1\xa3", 0xa1, ""},
	"gbk":       {"\x40\x7e\x80\xfe", "\xb0\xd7", "\xa1\xa3", 0xa1, ""},
	"big5":      {"\x40\x7e\xa1\xfe", "\xa4\xc6", "\xa1\xa3", 0x40, ""},
}

// signsOfAll are the signs beyond ASCII that texts in any language contain.
const signsOfAll = "“”‘’„–—«»…©®™°·•€§\u00a0"

var legacies = sync.OnceValue(func() []*legacy {
	var out []*legacy
	for _, row := range tables.Rows("legacy", 3) {
		enc, err := htmlindex.Get(row[0])
		if err != nil {
			panic(err)
		}
		l := &legacy{name: row[0], enc: enc, hints: strings.Fields(row[1]), wide: wides[row[0]],
			pairs: map[[2]byte]float64{}}
		l.learn([]rune(row[2]))
		out = append(out, l)
	}
	return out
})

// learn sets the costs from a language's letters.
func (l *legacy) learn(letters []rune) {
	if single, ok := l.enc.(*charmap.Charmap); ok {
		for b := range l.costs {
			l.costs[b] = -math.Log(otherShare)
			switch r := single.DecodeByte(byte(b)); {
			case r == unicode.ReplacementChar, unicode.IsControl(r):
				l.costs[b] = undefinedCost
			case unicode.IsUpper(r):
				l.kinds[b] = 'A'
			case unicode.IsLetter(r):
				l.kinds[b] = 'a'
			}
		}
	}
	bytesOf := func(r rune) []byte {
		out, _ := l.enc.NewEncoder().Bytes([]byte(string(r))) // nil if the encoding does not have it
		return out
	}
	for _, r := range signsOfAll {
		if b := bytesOf(r); len(b) == 1 {
			l.costs[b[0]] = -math.Log(markShare)
		}
	}
	sum, share := 0.0, letterShare
	for k := range max(len(letters), fewLetters) { // a short list does not make its letters more likely
		sum += 1 / (float64(k) + zipf)
	}
	if l.wide != nil {
		share = commonShare
	}
	for k, r := range letters {
		cost := -math.Log(share / (float64(k) + zipf) / sum)
		switch b := bytesOf(r); len(b) {
		case 1:
			l.costs[b[0]] = cost
		case 2:
			l.pairs[[2]byte(b)] = cost
		}
		if b := bytesOf(unicode.ToUpper(r)); unicode.ToUpper(r) != r && len(b) == 1 {
			l.costs[b[0]] = cost - math.Log(upperShare)
		}
		l.dense = l.dense || !unicode.Is(unicode.Latin, r) && unicode.In(r, unicode.L, unicode.Mn)
	}
}

// cost returns how unlikely a sample is.
func (l *legacy) cost(sample []byte) (sum float64) {
	for i := 0; i < len(sample); i++ {
		c, prev := sample[i], byte(' ')
		if i > 0 {
			prev = sample[i-1]
		}
		switch {
		case c < 0x80:
		case l.wide != nil:
			cost, n := l.pair(sample[i:])
			sum += cost
			i += n - 1
		default:
			sum += l.costs[c]
			kind, before := l.kinds[c], l.kinds[prev]
			switch {
			case kind == 0 || before == 0:
			case kind == 'A' && before == 'a':
				sum += insideCost
			case kind == 'A' && before == 'A' && l.dense:
				sum -= capitalGain
			case l.dense && prev < 0x80:
				sum += foreignCost
			case !l.dense && prev >= 0x80:
				sum += besideCost
			}
		}
	}
	return sum
}

// pair returns the cost of the first character, and its length.
func (l *legacy) pair(s []byte) (cost float64, n int) {
	w := l.wide
	if within(s[0], w.half) {
		return halfCost, 1
	}
	if len(s) < 2 || s[0] < 0x81 || s[0] == 0xff || !within(s[1], w.trails) {
		return undefinedCost, 1
	}
	if cost, ok := l.pairs[[2]byte(s)]; ok {
		return cost, 2
	}
	switch plain := s[1] >= w.firstBasic; {
	case plain && within(s[0], w.basic):
		return -math.Log(basicShare / basicCount), 2
	case plain && within(s[0], w.signs):
		return -math.Log(signShare / signCount), 2
	}
	return rareCost, 2
}

// within reports whether a byte is within pairs of limits.
func within(b byte, limits string) bool {
	for i := 0; i+1 < len(limits); i += 2 {
		if b >= limits[i] && b <= limits[i+1] {
			return true
		}
	}
	return false
}

// sampleOf returns the bytes beyond ASCII with the neighbors that may belong to their characters or words.
func sampleOf(body []byte) []byte {
	var out []byte
	for i, plain := 0, 2; i < len(body) && len(out) < maxSample; i++ {
		switch high := body[i] >= 0x80; {
		case high && plain > 1 && i > 0:
			out = append(out, ' ', body[i-1], body[i])
			plain = 0
		case high:
			out = append(out, body[i])
			plain = 0
		default:
			if plain++; plain == 1 {
				out = append(out, body[i])
			}
		}
	}
	return out
}

var declaredLanguage = lazyregexp.New(`(?i)(?:<html\b[^>]{0,400}?\slang|` +
	`<meta[^>]{0,100}content-language["']?\s+content)\s*=\s*["']?\s*([a-z]{2,3}(?:-[a-z]{2,4})?)`)

// hintsOf returns the codes of the language that a page declares, and the top-level domain of its host.
func hintsOf(body []byte, at *url.URL) (languages []string, domain string) {
	if m := declaredLanguage.FindSubmatch(body[:min(len(body), sniffBytes)]); m != nil {
		code := strings.ToLower(string(m[1]))
		language, _, _ := strings.Cut(code, "-")
		languages = []string{code, language}
	}
	if at != nil {
		domain = at.Hostname()
		domain = domain[strings.LastIndexByte(domain, '.')+1:]
	}
	return languages, "." + domain
}

// Encoding is an encoding that was detected, not declared.
type Encoding struct {
	Name       string  // of the WHATWG standard, in lower case
	Confidence float64 // 0 to 1
}

// detect returns the most likely encoding of a page that is not UTF-8. western is the gain for windows-1252.
func detect(body []byte, at *url.URL, western float64) (encoding.Encoding, Encoding) {
	sample := sampleOf(body)
	languages, domain := hintsOf(body, at)
	type scored struct {
		*legacy
		cost float64
	}
	var all []scored
	for _, l := range legacies() {
		cost := l.cost(sample)
		switch {
		case slices.ContainsFunc(languages, func(code string) bool { return slices.Contains(l.hints, code) }):
			cost -= hintGain
		case slices.Contains(l.hints, domain):
			cost -= hintGain / 2
		}
		if l.name == "windows-1252" {
			cost -= western
		}
		all = append(all, scored{l, cost})
	}
	slices.SortStableFunc(all, func(a, b scored) int { return cmp.Compare(a.cost, b.cost) })
	best, gap := all[0], math.Inf(1)
	text := string(convert(best.enc, sample))
	for _, other := range all[1:] {
		if other.name != best.name && string(convert(other.enc, sample)) != text {
			gap = other.cost - best.cost
			break
		}
	}
	return best.enc, Encoding{best.name, math.Round(100/(1+math.Exp(-gap/sureGap))) / 100}
}
