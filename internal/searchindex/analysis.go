package searchindex

import (
	"strings"
	"unicode"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
	"golang.org/x/text/unicode/norm"
)

// maxWords limits the words of a name or query that are used.
const maxWords = 12

// transliterated replaces letters that canonical decomposition does not decompose, and variants of the
// same letter: final sigma, Arabic and Persian forms of yeh and kaf, teh marbuta.
var transliterated = strings.NewReplacer(
	"ß", "ss", "ø", "o", "đ", "d", "ð", "d", "ł", "l", "ı", "i", "æ", "ae", "œ", "oe", "þ", "th", "ħ", "h", "ə", "e",
	"ς", "σ", "ى", "ي", "ی", "ي", "ک", "ك", "ة", "ه",
)

// unaccented are the scripts whose marks are dropped: accents, and the vowels that Arabic and Hebrew
// rarely write. In other scripts a mark is part of the letter.
var unaccented = []*unicode.RangeTable{unicode.Latin, unicode.Greek, unicode.Cyrillic, unicode.Arabic, unicode.Hebrew}

// Fold normalizes a name for comparison: lower case, digits as 0 to 9, without marks on letters of the
// unaccented scripts, without punctuation inside words ("Booking.com" is bookingcom, "Macy's" is
// macys), and with single spaces for everything between words. Symbols and emoji are dropped.
func Fold(s string) string {
	var b strings.Builder
	marks := false // whether a following mark belongs to the previous letter
	for _, r := range norm.NFKD.String(strings.ToLower(s)) {
		switch {
		case strings.ContainsRune(inWords, r), unicode.Is(unicode.Cf, r):
		case unicode.Is(unicode.Mn, r):
			if marks {
				b.WriteRune(r)
			}
		case unicode.IsDigit(r):
			b.WriteRune(digit(r))
			marks = false
		case unicode.IsLetter(r), unicode.Is(unicode.Mc, r):
			b.WriteRune(r)
			marks = !unicode.In(r, unaccented...)
		default:
			b.WriteByte(' ')
			marks = false
		}
	}
	folded := transliterated.Replace(norm.NFKC.String(strings.ToLower(b.String())))
	return strings.Join(strings.Fields(folded), " ")
}

// inWords are dropped without splitting a word: apostrophes and dots, the marks of Hebrew
// abbreviations, and the line that lengthens an Arabic word.
const inWords = "'’.׳״ـ"

// digit returns the ASCII digit of a decimal digit of any script. The digits of each script are
// consecutive, from zero to nine.
func digit(r rune) rune {
	zero := r
	for unicode.IsDigit(zero - 1) {
		zero--
	}
	return '0' + (r-zero)%10
}

// unspaced are scripts that are written without spaces or, like Korean names, are joined with words of
// another script. A word ends where one of them begins or ends: 東京ガス is 東京 and ガス.
var unspaced = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai,
	unicode.Lao, unicode.Khmer, unicode.Myanmar}

// parts splits words where the script changes.
func parts(words []string) []string {
	var out []string
	for _, w := range words {
		begin, before := 0, noScript
		for i, r := range w {
			script := scriptOf(r)
			if script == noScript {
				continue // marks, and the sign that lengthens a kana, belong to the preceding letter
			}
			if before != noScript && script != before {
				out = append(out, w[begin:i])
				begin = i
			}
			before = script
		}
		out = append(out, w[begin:])
	}
	return out[:min(len(out), maxWords)]
}

// noScript is the script of runes that are used in all scripts.
const noScript = -1

// scriptOf returns the index of a rune's script in unspaced, or a common value for all others.
func scriptOf(r rune) int {
	if r < unicode.MaxASCII {
		return len(unspaced) // folded text has only letters and digits there
	}
	for i, t := range unspaced {
		if unicode.Is(t, r) {
			return i
		}
	}
	if unicode.IsDigit(r) || unicode.IsLetter(r) && !unicode.Is(unicode.Common, r) {
		return len(unspaced)
	}
	return noScript
}

// Keys are the search keys of a document or a query. The keys of a query are the keys of a document with
// that name; Domain and Label are set only if the text parses as a domain.
type Keys struct {
	Domain string   // registrable, lower case, in ASCII
	Label  string   // the domain without its public suffix, folded into one word
	Full   string   // the name, folded into one word
	Core   string   // Full without legal form
	Words  []string // of the core
	Typed  string   // a query without spaces as typed, in lower case, to compare with domains
}

// Empty reports whether there is nothing to search for.
func (k Keys) Empty() bool { return k.Full == "" && k.Domain == "" && k.Typed == "" }

// kanaStep is the distance in Unicode from a hiragana to the katakana of the same syllable.
const kanaStep = 'ア' - 'あ'

// katakana returns the katakana of a hiragana, and other runes unchanged.
func katakana(r rune) rune {
	if r >= 'ぁ' && r <= 'ゖ' || r == 'ゝ' || r == 'ゞ' {
		return r + kanaStep
	}
	return r
}

// hiragana returns the hiragana of a katakana, and other runes unchanged.
func hiragana(r rune) rune {
	if katakana(r-kanaStep) == r {
		return r - kanaStep
	}
	return r
}

// mapped returns the keys with other letters. Names are compared in katakana, but indexed as they are written.
func (k Keys) mapped(letter func(rune) rune) Keys {
	if !strings.ContainsFunc(k.Full+k.Label+k.Typed, func(r rune) bool { return letter(r) != r }) {
		return k
	}
	words := make([]string, len(k.Words))
	for i, w := range k.Words {
		words[i] = strings.Map(letter, w)
	}
	return Keys{Domain: k.Domain, Label: strings.Map(letter, k.Label), Full: strings.Map(letter, k.Full),
		Core: strings.Map(letter, k.Core), Words: words, Typed: strings.Map(letter, k.Typed)}
}

func nameKeys(text string) Keys {
	words := strings.Fields(Fold(text))
	words = words[:min(len(words), maxWords)]
	inner := core(words)
	return Keys{Full: strings.Join(words, ""), Core: strings.Join(inner, ""), Words: parts(inner)}
}

// KeysOf returns the keys of a document. If the name is the domain with its dots ("Chess.com"), its
// core is the label: the suffix matters as little as a legal form.
func KeysOf(d Document) Keys {
	k := nameKeys(cut(d.Name))
	k.Domain = d.Domain
	k.Label = labelOf(d.Domain)
	own := OwnScript(d.Domain)
	if strings.Contains(strings.ToLower(d.Name), own) && k.Core == fold(own) && k.Label != "" {
		k.Core, k.Words = k.Label, parts([]string{k.Label})
	}
	return k
}

// ReadQuery returns the keys of a query. Of a URL or an e-mail address only the domain counts.
func ReadQuery(text string) Keys {
	text = cut(text)
	a := addressOf(text)
	domain, ok := domainOf(a.host)
	switch {
	case ok && a.more:
		return Keys{Domain: domain, Label: labelOf(domain), Typed: domain}
	case ok:
		k := nameKeys(a.host)
		k.Domain, k.Label, k.Typed = domain, labelOf(domain), a.host
		return k
	case a.scheme: // typed up to somewhere in the host
		text = a.host
	}
	k := nameKeys(text)
	typed := strings.ToLower(strings.TrimSpace(text))
	if k.Full != "" && !strings.ContainsFunc(typed, unicode.IsSpace) {
		k.Typed = strings.TrimPrefix(typed, "www.")
	} else if domain, ok := namedDomain(text, k); ok {
		k.Domain, k.Label = domain, labelOf(domain)
	}
	return k
}

// namedDomain parses the domain in "Amazon.com, Inc.", where it is the whole name except for the legal form.
func namedDomain(text string, k Keys) (string, bool) {
	first, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	first = strings.TrimRight(first, ",")
	if !strings.Contains(first, ".") || k.Core != fold(first) {
		return "", false
	}
	return domainOf(strings.ToLower(first))
}

// fold is Fold with spaces removed.
func fold(s string) string { return strings.ReplaceAll(Fold(s), " ", "") }

func cut(s string) string { return firstRunes(strings.ToValidUTF8(s, " "), MaxText) }

// firstRunes returns at most the first n runes of a text.
func firstRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// address is a text parsed as a URL or an e-mail address.
type address struct {
	host   string // in lower case, without www; may be empty
	scheme bool   // preceded by "https://", "http://" or "//"
	more   bool   // preceded by this or other text, or followed by text
}

// addressOf extracts the host from a text: a domain, a URL, or an e-mail address, alone, after mailto:
// or in angle brackets after a name.
func addressOf(text string) (a address) {
	s := strings.TrimSpace(strings.ToLower(norm.NFKC.String(text))) // full-width letters and dots
	if _, inner, ok := strings.Cut(s, "<"); ok && strings.HasSuffix(inner, ">") {
		s, a.more = strings.TrimSuffix(inner, ">"), true
	}
	if rest, ok := strings.CutPrefix(s, "mailto:"); ok {
		s, a.more = rest, true
	}
	for _, scheme := range []string{"https://", "http://", "//"} {
		if rest, ok := strings.CutPrefix(s, scheme); ok {
			s, a.scheme, a.more = rest, true, true
			break
		}
	}
	if i := strings.IndexAny(s, `/?#\`); i >= 0 {
		s, a.more = strings.TrimSpace(s[:i]), true
	}
	if i := strings.LastIndexByte(s, '@'); i > 0 {
		s, a.more = s[i+1:], true
	}
	if host, port, ok := strings.Cut(s, ":"); ok && strings.Trim(port, "0123456789") == "" {
		s, a.more = host, true
	}
	s = strings.TrimSuffix(strings.ReplaceAll(s, "。", "."), ".")
	a.host = strings.TrimPrefix(s, "www.")
	return a
}

// domainOf returns the registrable domain of a host. Its suffix must exist: "next.js" is a name, not a domain.
func domainOf(host string) (string, bool) {
	if host == "" || strings.ContainsFunc(host, unicode.IsSpace) {
		return "", false
	}
	host, err := idna.Lookup.ToASCII(host)
	if err != nil {
		return "", false
	}
	suffix, icann := publicsuffix.PublicSuffix(host)
	if !icann && !strings.Contains(suffix, ".") {
		return "", false
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(host)
	return domain, err == nil
}

// labelOf returns a domain without its public suffix as one folded word, in its native script.
func labelOf(domain string) string {
	suffix, _ := publicsuffix.PublicSuffix(domain)
	return fold(OwnScript(strings.TrimSuffix(domain, "."+suffix)))
}

// OwnScript converts a domain, or a label of one, from punycode to its native script.
func OwnScript(domain string) string {
	if own, err := idna.ToUnicode(domain); err == nil {
		return own
	}
	return domain
}
