package searchindex

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of documents and queries.
const (
	// MaxBeginning is the longest indexed prefix, in runes. Longer queries search for their first
	// runes, and the ranking compares the rest.
	MaxBeginning = 16
	// Candidates is how many documents are ranked per question: enough that the order by quality, in
	// which an index returns them, does not omit the best-ranked ones.
	Candidates = 64
	// maxTypoText is the longest text, in runes, that is compared with typing errors; automata grow with the text.
	maxTypoText = 40
)

// Analysis is the version of the terms under which documents are indexed: Fold, the legal forms,
// TermsOf. Increment it with every change of these. Adapters name their indices after it, and an index
// of another version is rebuilt from the log.
const Analysis = 2

// Analyzer is one version of the analysis.
type Analyzer struct {
	Version int
	// Format is the first data format in which searches use this version. Until it is in use, if nodes
	// of two releases share an index, each version has a separate index and both are fed.
	Format int
	Terms  func(Document) Terms
	Find   func(
		ctx context.Context, text string, limit int, ask func(context.Context, []Ask) ([]Document, error),
	) ([]Hit, error)
}

// Analyzers returns the analyzers of this release: the current one first, then the analyzer of the previous
// release if it differs.
func Analyzers() []Analyzer {
	return []Analyzer{{Version: Analysis, Format: 1, Terms: TermsOf, Find: Find}}
}

// Field is one of the lists of terms under which a document is indexed.
type Field int

// Fields of a document.
const (
	ExactField  Field = iota // domain, whole names and label, each with a prefix letter for its kind
	BeginsField              // prefixes of names, label and domain
	WordsField               // prefixes of the name's words
	TyposField               // whole names and label
)

// Terms are the terms under which a document is found. An adapter indexes all prefixes of Begins and
// Words up to MaxBeginning runes.
type Terms struct {
	Exact, Begins, Words, Typos []string
	// Order sorts candidates, ascending, like Rank: popular brands first, then the better record, then the shorter
	// name.
	Order int64
}

// TermsOf returns the terms of a document; none for a tombstone.
func TermsOf(d Document) Terms {
	if d.Gone {
		return Terms{}
	}
	k := KeysOf(d)
	return Terms{
		Exact:  set(mark('d', k.Domain), mark('n', k.Full), mark('n', k.Core), mark('l', k.Label)),
		Begins: set(k.Full, k.Core, k.Label, k.Domain),
		Words:  set(k.Words...),
		Typos:  set(k.Full, k.Core, k.Label),
		Order:  order(d, utf8.RuneCountInString(k.Core)),
	}
}

// Ask is one question for candidates. An adapter returns at most Candidates documents, ordered by
// Order and then by domain, without tombstones.
type Ask struct {
	Terms []Term
	All   bool // a document must have every term; otherwise any of them is enough
	Typos int  // allowed typing errors in the terms; swapped letters count as one
}

// Term is a value in a field.
type Term struct {
	Field Field
	Value string
}

// Find answers a search from the candidates that an adapter returns. It asks for exact matches and
// prefixes, and for typing errors only if those gave no exact match and too few hits. Errors:
// ErrInvalid for the limit, and the errors of the adapter.
func Find(ctx context.Context, text string, limit int,
	ask func(context.Context, []Ask) ([]Document, error)) ([]Hit, error) {
	if limit < 1 || limit > MaxLimit {
		return nil, fmt.Errorf("search for at most %d: %w", limit, ErrInvalid)
	}
	k := ReadQuery(text)
	if k.Empty() {
		return []Hit{}, nil
	}
	found, err := ask(ctx, k.asks(Keys.plainAsks))
	if err != nil {
		return nil, err
	}
	hits := Rank(k, found, limit)
	if len(hits) == limit || len(hits) > 0 && hits[0].Match == Exact {
		return hits, nil
	}
	further := k.asks(Keys.typoAsks)
	if len(further) == 0 {
		return hits, nil
	}
	more, err := ask(ctx, further)
	if err != nil {
		return nil, err
	}
	return Rank(k, append(found, more...), limit), nil
}

// asks returns the questions of a query, and of the same words in the other kana.
func (k Keys) asks(of func(Keys) []Ask) []Ask {
	out := of(k)
	for _, other := range []func(rune) rune{katakana, hiragana} {
		if o := k.mapped(other); o.Full != k.Full || o.Typed != k.Typed {
			out = append(out, of(o)...)
		}
	}
	return out
}

func (k Keys) plainAsks() []Ask {
	// The domain is a separate question: many brands with that name must not crowd out the brand at the domain.
	domain := terms(ExactField, mark('d', k.Domain))
	exact := terms(ExactField, mark('d', k.Typed), mark('n', k.Full), mark('n', k.Core), mark('l', k.Full),
		mark('l', k.Core))
	begins := terms(BeginsField, beginning(k.Full), beginning(k.Typed))
	// The same label under another suffix counts as a prefix match.
	begins = append(begins, terms(ExactField, mark('l', k.Label), mark('n', k.Label))...)
	var words []string
	for _, w := range k.Words {
		words = append(words, beginning(w))
	}
	// a separate question: of "UAB Med" it is "med", and names that begin with it must not crowd out names that begin
	// with the whole
	var core []Term
	if k.Core != k.Full {
		core = terms(BeginsField, beginning(k.Core))
	}
	return asking(Ask{Terms: domain}, Ask{Terms: exact}, Ask{Terms: begins}, Ask{Terms: core},
		Ask{Terms: terms(WordsField, words...), All: true})
}

// typoAsks searches for whole names with typing errors, then for their prefixes, then for names that
// are a prefix of the query.
func (k Keys) typoAsks() []Ask {
	var asks []Ask
	text := []rune(k.TypoText())
	if allowed := MaxTypos(len(text)); allowed > 0 && len(text) <= maxTypoText {
		asks = append(asks, Ask{Terms: terms(TyposField, string(text)), Typos: allowed})
		if len(text) >= MinTypoStart {
			asks = append(asks, Ask{Terms: terms(BeginsField, beginning(string(text))), Typos: allowed})
		}
	}
	var leading []string
	for _, l := range k.Leading() {
		leading = append(leading, mark('n', l))
	}
	return asking(append(asks, Ask{Terms: terms(ExactField, leading...)})...)
}

// asking drops questions without terms.
func asking(asks ...Ask) []Ask {
	return slices.DeleteFunc(asks, func(a Ask) bool { return len(a.Terms) == 0 })
}

func terms(field Field, values ...string) []Term {
	var out []Term
	for _, v := range set(values...) {
		out = append(out, Term{field, v})
	}
	return out
}

// mark adds a prefix letter that distinguishes kinds of values in one field.
func mark(kind byte, value string) string {
	if value == "" {
		return ""
	}
	return string(kind) + value
}

// set returns the distinct non-empty values, sorted.
func set(values ...string) []string {
	values = slices.Clone(values)
	slices.Sort(values)
	values = slices.Compact(values)
	if len(values) > 0 && values[0] == "" {
		values = values[1:]
	}
	return values
}

// Beginnings returns the distinct prefixes of texts up to MaxBeginning runes.
func Beginnings(texts []string) []string {
	var out []string
	for _, s := range texts {
		whole := beginning(s)
		for i := range whole {
			if i > 0 {
				out = append(out, whole[:i])
			}
		}
		out = append(out, whole)
	}
	return set(out...)
}

func beginning(s string) string { return firstRunes(s, MaxBeginning) }

func order(d Document, length int) int64 {
	const steps, longest = 10_000, 999
	quality := d.Quality
	if !(quality >= 0 && quality <= 1) { // also rejects NaN
		quality = 0
	}
	place := steps - int64(math.Round(quality*steps))
	if !d.Popular {
		place += steps + 1
	}
	return place*(longest+1) + int64(min(length, longest))
}

// Newest validates a batch and returns the newest document of each domain, in the order of the batch.
// Errors: ErrInvalid.
func Newest(docs []Document) ([]Document, error) {
	if len(docs) > MaxBatch {
		return nil, fmt.Errorf("a batch of %d documents: %w", len(docs), ErrInvalid)
	}
	at := make(map[string]int, len(docs)) // index in newest of each domain
	newest := make([]Document, 0, len(docs))
	for _, d := range docs {
		if d.Domain == "" || d.Version == 0 {
			return nil, fmt.Errorf("document %q at version %d: %w", d.Domain, d.Version, ErrInvalid)
		}
		i, held := at[d.Domain]
		switch {
		case !held:
			at[d.Domain] = len(newest)
			newest = append(newest, d)
		case d.Version > newest[i].Version:
			newest[i] = d
		}
	}
	return newest, nil
}

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
