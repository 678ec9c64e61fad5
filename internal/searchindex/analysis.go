package searchindex

import (
	"net/url"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
	"golang.org/x/text/unicode/norm"
)

// maxWords bounds the words that are looked at of a name or query.
const maxWords = 12

// letters that canonical decomposition does not take apart.
var transliterated = strings.NewReplacer(
	"ß", "ss", "ø", "o", "đ", "d", "ð", "d", "ł", "l", "ı", "i", "æ", "ae", "œ", "oe", "þ", "th", "ħ", "h",
)

// Fold brings a name into the form in which names are compared: lower case, without accents on Latin, Greek
// and Cyrillic letters, without marks inside words ("Booking.com" is bookingcom, "Macy's" is macys), and
// with single spaces for all that stands between words.
func Fold(s string) string {
	var b strings.Builder
	plain := false // the letter before is of a script whose accents are dropped
	for _, r := range norm.NFKD.String(strings.ToLower(s)) {
		switch {
		case unicode.Is(unicode.Mn, r):
			if !plain {
				b.WriteRune(r)
			}
		case unicode.IsLetter(r), unicode.IsDigit(r), unicode.Is(unicode.Mc, r):
			b.WriteRune(r)
			plain = unicode.In(r, unicode.Latin, unicode.Greek, unicode.Cyrillic)
		case r == '\'', r == '’', r == '.':
		default:
			b.WriteByte(' ')
			plain = false
		}
	}
	folded := transliterated.Replace(norm.NFKC.String(strings.ToLower(b.String())))
	return strings.Join(strings.Fields(folded), " ")
}

// legalForms are words at the end of a company's name that people leave out. Dots are gone by then.
var legalForms = wordSet(`
	ab ag aktiengesellschaft aps as asa bv co company corp corporation doo gmbh holding holdings inc incorporated kft
	kg kgaa kk limited llc llp lp ltd ltda mbh nv oy oyj plc pte pty pvt sa sab sarl sas se sl spa sro srl zrt
`)

func wordSet(s string) map[string]bool {
	set := make(map[string]bool)
	for _, w := range strings.Fields(s) {
		set[w] = true
	}
	return set
}

// core takes legal forms off the end of a name and "and" out of its middle, but never all of it.
func core(words []string) []string {
	out := slices.Clone(words)
	for len(out) > 1 && (legalForms[out[len(out)-1]] || out[len(out)-1] == "and") {
		out = out[:len(out)-1]
	}
	if n := len(out); n > 3 && out[n-3] == "sp" && out[n-2] == "z" && out[n-1] == "oo" { // sp. z o.o.
		out = out[:n-3]
	}
	if len(out) > 1 {
		out = slices.DeleteFunc(out, func(w string) bool { return w == "and" })
	}
	return out
}

// Keys are the words under which a document or a query stands. A query has those of a document that would
// bear its text as its name; Domain and Label only when the text reads as a domain.
type Keys struct {
	Domain string   // registrable, lower case, in ASCII
	Label  string   // the domain without its public suffix, folded into one word
	Full   string   // the name, folded into one word
	Core   string   // the same without legal form
	Words  []string // of the core
	Typed  string   // of a query without spaces: what was typed, in lower case, to compare with domains
}

// Empty says whether nothing is left to look for.
func (k Keys) Empty() bool { return k.Full == "" && k.Domain == "" && k.Typed == "" }

func nameKeys(text string) Keys {
	words := strings.Fields(Fold(cut(text)))
	words = words[:min(len(words), maxWords)]
	inner := core(words)
	return Keys{Full: strings.Join(words, ""), Core: strings.Join(inner, ""), Words: inner}
}

// KeysOf returns the keys of a document.
func KeysOf(d Document) Keys {
	k := nameKeys(d.Name)
	k.Domain = d.Domain
	k.Label = labelOf(d.Domain)
	return k
}

// ReadQuery returns the keys of a query.
func ReadQuery(text string) Keys {
	k := nameKeys(text)
	typed := strings.ToLower(strings.TrimSpace(cut(text)))
	if strings.ContainsFunc(typed, unicode.IsSpace) {
		return k
	}
	if domain, ok := domainOf(typed); ok {
		k.Domain, k.Label = domain, labelOf(domain)
	}
	k.Typed = strings.TrimPrefix(typed, "www.")
	return k
}

func cut(s string) string {
	s = strings.ToValidUTF8(s, " ")
	n := 0
	for i := range s {
		if n == MaxText {
			return s[:i]
		}
		n++
	}
	return s
}

// domainOf reads a text as a domain or an address of a page on it. The suffix must be one that exists:
// "next.js" is a name and not a domain.
func domainOf(typed string) (string, bool) {
	if !strings.Contains(typed, "://") {
		typed = "//" + typed
	}
	u, err := url.Parse(typed)
	if err != nil || u.Host == "" {
		return "", false
	}
	host, err := idna.Lookup.ToASCII(strings.TrimSuffix(u.Hostname(), "."))
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

// labelOf returns a domain without its public suffix as one folded word, in its own script.
func labelOf(domain string) string {
	suffix, _ := publicsuffix.PublicSuffix(domain)
	label := strings.TrimSuffix(domain, "."+suffix)
	if own, err := idna.ToUnicode(label); err == nil {
		label = own
	}
	return strings.ReplaceAll(Fold(strings.ReplaceAll(label, "-", " ")), " ", "")
}
