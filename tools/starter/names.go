package main

import (
	"strings"

	"golang.org/x/net/publicsuffix"

	"letterhead/internal/searchindex"
)

// fit is how well a name matches a domain; larger is better.
type fit int

const (
	unlike    fit = iota // nothing in common
	related              // one begins, ends or contains the other, or the name's first word is the label
	initialed            // the label is the initials of a name of several words
	decorated            // the same except for words such as get-, -group, -js
	sameAlias            // another name of the product is the domain's label
	sameName             // the product's own name is the domain's label
)

func (f fit) String() string {
	return [...]string{"unlike", "related", "initials", "decorated", "same alias", "same name"}[f]
}

// Shortest parts that are significant if one name is found inside another.
const (
	minPrefix = 4
	minInside = 6
	minWord   = 3
)

// spellings returns the spellings of a name as one word of a domain: "AT&T" is att and atandt, "Notepad++" is notepad
// and notepadplusplus, "Three.js" is threejs and threedotjs.
func spellings(name string) []string {
	seen := map[string]bool{}
	var out []string
	for _, and := range []string{"", "and", "n"} {
		for _, plus := range []string{"", "plus"} {
			for _, dot := range []string{"", "dot"} {
				s := strings.NewReplacer("&", and, "+", plus, ".", dot).Replace(name)
				s = strings.ReplaceAll(searchindex.Fold(s), " ", "")
				if s != "" && !seen[s] {
					seen[s] = true
					out = append(out, s)
				}
			}
		}
	}
	return out
}

// Words that a domain adds to a name without changing its owner ("getbootstrap", "expressjs", "redditinc"), and words
// of company names that domains omit ("Etihad Airways", "Khronos Group"). Product lines (-cloud,
// -music) are in neither list: the cloud of a company is not the company.
var (
	domainLeading  = []string{"get", "use", "try", "join", "go", "my", "the", "with", "we", "team"}
	domainTrailing = []string{
		"app", "hq", "js", "lang", "project", "group", "corp", "inc", "co", "company", "labs", "software", "systems",
		"global", "online", "web", "dev", "io", "ai", "tech", "technologies", "db", "cms", "cars", "motors", "bank",
		"airlines", "airways", "us", "usa", "uk", "international", "framework", "editor", "network", "tv", "security",
	}
	nameLeading  = []string{"the", "project"}
	nameTrailing = []string{
		"app", "js", "lang", "project", "group", "groupe", "corp", "corporation", "inc", "co", "company", "labs",
		"foundation", "software", "systems", "technologies", "technology", "ai", "db", "linux", "cms", "airlines",
		"airways", "bank", "motors", "international", "initiative",
	}
)

// bare removes one leading and one trailing word of the lists, but never everything.
func bare(s string, leading, trailing []string) string {
	for _, l := range leading {
		if rest, ok := strings.CutPrefix(s, l); ok && len(rest) >= minWord {
			s = rest
			break
		}
	}
	for _, t := range trailing {
		if rest, ok := strings.CutSuffix(s, t); ok && len(rest) >= minWord {
			return rest
		}
	}
	return s
}

// labels returns the domain's label, without its public suffix, and the whole
// domain as one word, because some names include the suffix ("bit.ly").
func labels(domain string) (label, whole string) {
	suffix, _ := publicsuffix.PublicSuffix(domain)
	label = strings.TrimSuffix(domain, "."+suffix)
	flat := strings.NewReplacer("-", "", ".", "")
	return flat.Replace(label), flat.Replace(domain)
}

// fitOf compares one name with a domain. It never returns sameAlias: only the
// caller knows whether the name is the product's own.
func fitOf(name, domain string) fit {
	label, whole := labels(domain)
	bareLabel := bare(label, domainLeading, domainTrailing)
	best := unlike
	for _, s := range spellings(name) {
		bareName := bare(s, nameLeading, nameTrailing)
		switch {
		case s == label, s == whole:
			return sameName
		case bareName == bareLabel, bareName == label, s == bareLabel:
			best = max(best, decorated)
		case overlaps(s, label):
			best = max(best, related)
		}
	}
	if best < initialed && initials(name) == label {
		best = initialed
	}
	if best == unlike && firstWordIs(name, label) {
		best = related
	}
	return best
}

// overlaps reports whether one of two words begins, ends or contains the other.
func overlaps(a, b string) bool {
	if len(a) < len(b) {
		a, b = b, a
	}
	if len(b) >= minPrefix && (strings.HasPrefix(a, b) || strings.HasSuffix(a, b)) {
		return true
	}
	return len(b) >= minInside && strings.Contains(a, b)
}

// initials returns the first letters of a name of two or more words.
func initials(name string) string {
	words := strings.Fields(searchindex.Fold(name))
	if len(words) < 2 {
		return ""
	}
	var b strings.Builder
	for _, w := range words {
		for _, r := range w {
			b.WriteRune(r)
			break
		}
	}
	return b.String()
}

// contraction reports whether a short form keeps the first letter of a name and omits others ("bsky").
func contraction(short, long string) bool {
	if short == "" || !strings.HasPrefix(long, short[:1]) {
		return false
	}
	for _, r := range short {
		i := strings.IndexRune(long, r)
		if i < 0 {
			return false
		}
		long = long[i+1:]
	}
	return true
}

// firstWordIs reports whether a name of several words begins with the label ("Hilton Hotels & Resorts").
func firstWordIs(name, label string) bool {
	words := strings.Fields(searchindex.Fold(name))
	return len(words) > 1 && words[0] == label && len(label) >= minWord
}

// kitWords mark a domain that contains a brand's guidelines or press kit, not the brand's own site.
var kitWords = []string{"brand", "guideline", "designsystem", "presskit", "logos", "media", "help", "sales", "assets"}

// kitSuffixes are top-level domains with the same use.
var kitSuffixes = map[string]bool{"design": true, "brand": true, "media": true, "press": true}

// isKit reports whether a domain only contains the guidelines of a name.
func isKit(name, domain string) bool {
	label, _ := labels(domain)
	suffix, _ := publicsuffix.PublicSuffix(domain)
	var own strings.Builder
	for _, s := range spellings(name) {
		own.WriteString(s)
	}
	if kitSuffixes[suffix] && !strings.HasSuffix(strings.ToLower(name), suffix) {
		return true
	}
	for _, w := range kitWords {
		if strings.Contains(label, w) && !strings.Contains(own.String(), w) {
			return true
		}
	}
	return false
}
