package searchindex

import (
	"context"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// Limits of what is indexed and asked.
const (
	// MaxBeginning is the longest indexed beginning, in runes. Longer queries look for their first runes, and
	// the ranking sees the rest.
	MaxBeginning = 16
	// Candidates is how many documents are ranked of one question: enough that the order by quality, in which
	// an index returns them, does not lose what the ranking would put on top.
	Candidates = 64
	// maxTypoText is the longest text, in runes, that is compared with typing errors; automata grow with it.
	maxTypoText = 40
)

// Analysis is the version of what documents are indexed under: Fold, the legal forms, TermsOf. It grows with
// every change of these; adapters name their indices after it, and an index of another version is built anew
// from the log.
const Analysis = 2

// Analyzer is one version of the analysis.
type Analyzer struct {
	Version int
	// Format is the data format with which searches begin to be answered by this version. Until it is in force, where
	// nodes of two releases share an index, each version has an index of its own, and both are fed.
	Format int
	Terms  func(Document) Terms
	Find   func(ctx context.Context, text string, limit int, ask func(context.Context, []Ask) ([]Document, error)) ([]Hit, error)
}

// Analyzers returns those of this release: the current one first, then that of the release before if it was another.
func Analyzers() []Analyzer {
	return []Analyzer{{Version: Analysis, Format: 1, Terms: TermsOf, Find: Find}}
}

// Field names one of the lists of terms under which a document is indexed.
type Field int

// Fields of a document.
const (
	ExactField  Field = iota // domain, whole names and label, each behind a letter that says which
	BeginsField              // beginnings of names, label and domain
	WordsField               // beginnings of the name's words
	TyposField               // whole names and label
)

// Terms are what a document is found by. Of Begins and Words an adapter indexes all beginnings of up to
// MaxBeginning runes.
type Terms struct {
	Exact, Begins, Words, Typos []string
	// Order sorts candidates, ascending, as Rank does: the popular first, then the better record, then the
	// shorter name.
	Order int64
}

// TermsOf returns what a document is found by; of a tombstone nothing.
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

// Ask is one question for candidates. An adapter returns at most Candidates documents, those of the smallest
// Order first and equals by domain, without tombstones.
type Ask struct {
	Terms []Term
	All   bool // a document must have every term; else any of them is enough
	Typos int  // typing errors that the terms may have, swapped letters counting as one
}

// Term is a value in a field.
type Term struct {
	Field Field
	Value string
}

// Find answers a search with the candidates that an adapter brings for some questions. It asks for exact
// matches and beginnings, and for typing errors only when that found no exact match and too little.
// Errors: ErrInvalid for the limit, and those of the adapter.
func Find(ctx context.Context, text string, limit int, ask func(context.Context, []Ask) ([]Document, error)) ([]Hit, error) {
	if limit < 1 || limit > MaxLimit {
		return nil, fmt.Errorf("search for at most %d: %w", limit, ErrInvalid)
	}
	k := ReadQuery(text)
	if k.Empty() {
		return []Hit{}, nil
	}
	found, err := ask(ctx, k.plainAsks())
	if err != nil {
		return nil, err
	}
	hits := Rank(k, found, limit)
	if len(hits) == limit || len(hits) > 0 && hits[0].Match == Exact {
		return hits, nil
	}
	further := k.typoAsks()
	if len(further) == 0 {
		return hits, nil
	}
	more, err := ask(ctx, further)
	if err != nil {
		return nil, err
	}
	return Rank(k, append(found, more...), limit), nil
}

func (k Keys) plainAsks() []Ask {
	// The domain by itself: however many bear it as a name, the brand that is there must not be lost among them.
	domain := terms(ExactField, mark('d', k.Domain))
	exact := terms(ExactField, mark('d', k.Typed), mark('n', k.Full), mark('n', k.Core), mark('l', k.Full), mark('l', k.Core))
	begins := terms(BeginsField, beginning(k.Full), beginning(k.Typed))
	// The same label under another suffix counts as a beginning.
	begins = append(begins, terms(ExactField, mark('l', k.Label), mark('n', k.Label))...)
	var words []string
	for _, w := range k.Words {
		words = append(words, beginning(w))
	}
	var core []Term // by itself: of "UAB Med" it is "med", and what begins so must not crowd out what begins like the whole
	if k.Core != k.Full {
		core = terms(BeginsField, beginning(k.Core))
	}
	return asking(Ask{Terms: domain}, Ask{Terms: exact}, Ask{Terms: begins}, Ask{Terms: core}, Ask{Terms: terms(WordsField, words...), All: true})
}

// typoAsks looks for whole names with typing errors, then for their beginnings, then for names that the
// query begins with.
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

// asking leaves out questions without terms.
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

// mark puts a letter before a value, which keeps kinds of values in one field apart.
func mark(kind byte, value string) string {
	if value == "" {
		return ""
	}
	return string(kind) + value
}

// set returns the values once each, sorted, without empty ones.
func set(values ...string) []string {
	values = slices.Clone(values)
	slices.Sort(values)
	values = slices.Compact(values)
	if len(values) > 0 && values[0] == "" {
		values = values[1:]
	}
	return values
}

// Beginnings returns all beginnings of some texts up to MaxBeginning runes, once each.
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

func beginning(s string) string {
	n := 0
	for i := range s {
		if n == MaxBeginning {
			return s[:i]
		}
		n++
	}
	return s
}

func order(d Document, length int) int64 {
	const steps, longest = 10_000, 999
	quality := d.Quality
	if !(quality >= 0 && quality <= 1) { // also what is not a number
		quality = 0
	}
	place := steps - int64(math.Round(quality*steps))
	if !d.Popular {
		place += steps + 1
	}
	return place*(longest+1) + int64(min(length, longest))
}

// Newest checks a batch and returns the newest document of each domain, in the order of the batch. Errors:
// ErrInvalid.
func Newest(docs []Document) ([]Document, error) {
	if len(docs) > MaxBatch {
		return nil, fmt.Errorf("a batch of %d documents: %w", len(docs), ErrInvalid)
	}
	at := make(map[string]int, len(docs)) // where the newest of a domain stands in newest
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
