package searchindex

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// level is the quality of a match; smaller is better.
type level int

const (
	sameDomain level = iota
	sameBoth         // the name and the label: of two brands with one name, the one whose domain matches
	sameName
	sameLabel
	nameBegins  // the name begins with the query
	hostBegins  // the label or domain begins with the query
	coreBegins  // name or label begin with the query without its legal form, which may be the beginning of a name
	wordsBegin  // words of the name begin with the query's, or the label matches under another suffix
	typo        // the name or label, with typing errors
	nameAndMore // the query begins with the whole name, and more words follow
	typoBegins  // the name or label begins with the query, with typing errors
	noMatch
)

// MaxTypos returns the number of typing errors that a text of n runes may have: the same as Elasticsearch's AUTO.
func MaxTypos(n int) int {
	switch {
	case n < 3:
		return 0
	case n < 6:
		return 1
	default:
		return 2
	}
}

// Rank orders candidates for a query, drops those that do not match, and returns at most limit of
// them. Within one kind of match it orders by fewer typing errors, then popularity, then, if the query
// has a legal form, the same form, then the better record, then the shorter name, then the domain,
// which is unique. Adapters return more candidates than requested and leave the order to Rank.
func Rank(query Keys, candidates []Document, limit int) []Hit {
	type ranked struct {
		hit   Hit
		level level
		typos int
		form  bool // the query and the name have the same legal form
		size  int
	}
	var found []ranked
	query = query.mapped(katakana)
	for _, d := range candidates {
		if d.Gone {
			continue
		}
		keys := KeysOf(d).mapped(katakana)
		l, typos := compare(query, keys)
		if l == noMatch {
			continue
		}
		form := query.Full != query.Core && query.Full == keys.Full
		found = append(found, ranked{Hit{d, matchOf(l)}, l, typos, form, utf8.RuneCountInString(keys.Core)})
	}
	slices.SortFunc(found, func(a, b ranked) int {
		return cmp.Or(
			cmp.Compare(a.level, b.level),
			cmp.Compare(a.typos, b.typos),
			first(a.hit.Popular, b.hit.Popular),
			first(a.form, b.form),
			cmp.Compare(b.hit.Quality, a.hit.Quality),
			cmp.Compare(a.size, b.size),
			strings.Compare(a.hit.Domain, b.hit.Domain),
		)
	})
	found = slices.CompactFunc(found, func(a, b ranked) bool { return a.hit.Domain == b.hit.Domain })
	hits := make([]Hit, 0, min(limit, len(found)))
	for _, f := range found[:min(limit, len(found))] {
		hits = append(hits, f.hit)
	}
	return hits
}

// first orders true before false.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

func matchOf(l level) Match {
	switch {
	case l <= sameLabel:
		return Exact
	case l <= wordsBegin:
		return Prefix
	default:
		return Fuzzy
	}
}

// compare returns how well a document matches, and the number of typing errors.
func compare(q, d Keys) (level, int) {
	switch {
	case q.Domain != "" && q.Domain == d.Domain, q.Typed != "" && q.Typed == d.Domain:
		return sameDomain, 0
	case same(q.Full, d.Full), same(q.Full, d.Core), same(q.Core, d.Core), same(q.Core, d.Full):
		if d.Label == d.Full || d.Label == d.Core {
			return sameBoth, 0
		}
		return sameName, 0
	case same(q.Full, d.Label), same(q.Core, d.Label):
		return sameLabel, 0
	case begins(d.Full, q.Full), begins(d.Core, q.Full):
		return nameBegins, 0
	case begins(d.Label, q.Full), begins(d.Domain, q.Typed):
		return hostBegins, 0
	case begins(d.Full, q.Core), begins(d.Core, q.Core), begins(d.Label, q.Core):
		return coreBegins, 0
	case same(q.Label, d.Label), same(q.Label, d.Full), wordsOf(q.Words, d.Words):
		return wordsBegin, 0
	}
	l, typos := compareTypos(q, d)
	if more := q.wordsAfter(d.Core); more > 0 && l != typo {
		return nameAndMore, more
	}
	return l, typos
}

// Leading returns the proper prefixes of a query of several words, each joined to one word.
func (k Keys) Leading() []string {
	var out []string
	for i := 1; i < len(k.Words); i++ {
		out = append(out, strings.Join(k.Words[:i], ""))
	}
	return out
}

// wordsAfter returns how many words of a query follow a name, 0 if it does not begin with the name.
func (k Keys) wordsAfter(name string) int {
	for i, leading := range k.Leading() {
		if leading == name {
			return len(k.Words) - i - 1
		}
	}
	return 0
}

func same(a, b string) bool         { return a != "" && a == b }
func begins(text, with string) bool { return with != "" && strings.HasPrefix(text, with) }

// wordsOf reports whether each of the query's words begins a different word of the name.
func wordsOf(query, name []string) bool {
	if len(query) == 0 || len(query) > len(name) {
		return false
	}
	used := make([]bool, len(name))
next:
	for _, q := range query {
		for i, w := range name {
			if !used[i] && strings.HasPrefix(w, q) {
				used[i] = true
				continue next
			}
		}
		return false
	}
	return true
}

// MinTypoStart is the length, in runes, from which a query is compared with prefixes of names allowing
// typing errors: nearly every name matches a shorter one.
const MinTypoStart = 5

// compareTypos compares with typing errors. Only the label of a domain is compared, so that a long
// suffix does not allow more errors.
func compareTypos(q, d Keys) (level, int) {
	text := []rune(q.TypoText())
	allowed := MaxTypos(len(text))
	if allowed == 0 {
		return noMatch, 0
	}
	best, found := allowed+1, noMatch
	for _, key := range []string{d.Full, d.Core, d.Label} {
		whole, start := distance(text, []rune(key), allowed)
		if whole <= allowed && (found != typo || whole < best) {
			best, found = whole, typo
		}
		if found != typo && start <= allowed && start < best && len(text) >= MinTypoStart {
			best, found = start, typoBegins
		}
	}
	return found, best
}

// TypoText returns the part of a query that may contain typing errors.
func (k Keys) TypoText() string {
	if k.Label != "" {
		return k.Label
	}
	return k.Core
}

// distance returns the number of typing errors (an extra, missing or wrong letter, or two swapped
// ones) between a text and a key, and between the text and the nearest prefix of the key. Numbers
// beyond bound become bound+1. It is the optimal string alignment distance, over runes.
func distance(text, key []rune, bound int) (whole, start int) {
	far := bound + 1
	if len(text) == 0 || len(key) == 0 || len(text) > len(key)+bound {
		return far, far
	}
	longer := len(key) > len(text)+bound
	if longer {
		key = key[:len(text)+bound]
	}
	before, last, row := make([]int, len(key)+1), make([]int, len(key)+1), make([]int, len(key)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(text); i++ {
		row[0] = i
		least := i
		for j := 1; j <= len(key); j++ {
			cost := 1
			if text[i-1] == key[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && text[i-1] == key[j-2] && text[i-2] == key[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
			least = min(least, row[j])
		}
		if least > bound {
			return far, far
		}
		before, last, row = last, row, before
	}
	whole, start = min(last[len(key)], far), min(slices.Min(last), far)
	if longer {
		whole = far
	}
	return whole, start
}
