package bleveindex

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/search/query"

	"letterhead/internal/searchindex"
)

// Limits of a search.
const (
	// maxBeginning is the longest indexed beginning, in runes. Longer queries look for their first runes, and
	// the ranking sees the rest.
	maxBeginning = 16
	// candidates is how many documents of one kind are ranked: enough that the order by quality, which Bleve
	// applies, does not lose what the ranking would put on top.
	candidates = 64
	// maxTypoText is the longest text, in runes, that is compared with typing errors; automata grow with it.
	maxTypoText = 40
)

// mark puts a letter before a value, which keeps kinds of values in one field apart.
func mark(kind byte, value string) string {
	if value == "" {
		return ""
	}
	return string(kind) + value
}

// set returns the values once each, without empty ones.
func set(values ...string) []string {
	slices.Sort(values)
	values = slices.Compact(values)
	if len(values) > 0 && values[0] == "" {
		values = values[1:]
	}
	return values
}

// beginnings returns all beginnings of a text up to maxBeginning runes.
func beginnings(s string) []string {
	var out []string
	for i := range s {
		if i > 0 {
			out = append(out, s[:i])
		}
		if len(out) == maxBeginning {
			return out
		}
	}
	if s != "" {
		out = append(out, s)
	}
	return out
}

func beginning(s string) string {
	n := 0
	for i := range s {
		if n == maxBeginning {
			return s[:i]
		}
		n++
	}
	return s
}

// order is the number that candidates are sorted by: quality, the best first, then the length of the name.
func order(quality float64, length int) float64 {
	const steps, longest = 10_000, 999
	if !(quality >= 0 && quality <= 1) { // also what is not a number
		quality = 0
	}
	return (steps-math.Round(quality*steps))*(longest+1) + float64(min(length, longest))
}

// search looks for exact matches and beginnings, and for typing errors when that found no exact match and
// too little.
func (g *generation) search(ctx context.Context, k searchindex.Keys, limit int) ([]searchindex.Hit, error) {
	if k.Empty() {
		return []searchindex.Hit{}, nil
	}
	var found []searchindex.Document
	for _, q := range []query.Query{exactQuery(k), beginsQuery(k), wordsQuery(k)} {
		docs, err := g.candidates(ctx, q)
		if err != nil {
			return nil, err
		}
		found = append(found, docs...)
	}
	hits := searchindex.Rank(k, found, limit)
	if len(hits) == limit || len(hits) > 0 && hits[0].Match == searchindex.Exact {
		return hits, nil
	}
	for _, q := range append(typoQueries(k), leadingQuery(k)) {
		docs, err := g.candidates(ctx, q)
		if err != nil {
			return nil, err
		}
		found = append(found, docs...)
	}
	return searchindex.Rank(k, found, limit), nil
}

func terms(field string, values ...string) []query.Query {
	var out []query.Query
	for _, v := range set(values...) {
		t := bleve.NewTermQuery(v)
		t.SetField(field)
		out = append(out, t)
	}
	return out
}

func exactQuery(k searchindex.Keys) query.Query {
	return bleve.NewDisjunctionQuery(terms(fieldExact,
		mark('d', k.Domain), mark('d', k.Typed), mark('n', k.Full), mark('n', k.Core), mark('l', k.Full), mark('l', k.Core))...)
}

func beginsQuery(k searchindex.Keys) query.Query {
	all := terms(fieldBegins, beginning(k.Full), beginning(k.Core), beginning(k.Typed))
	// The same label under another suffix counts as a beginning.
	return bleve.NewDisjunctionQuery(append(all, terms(fieldExact, mark('l', k.Label), mark('n', k.Label))...)...)
}

func wordsQuery(k searchindex.Keys) query.Query {
	var all []query.Query
	for _, w := range k.Words {
		all = append(all, terms(fieldWords, beginning(w))...)
	}
	if len(all) == 0 {
		return bleve.NewMatchNoneQuery()
	}
	return bleve.NewConjunctionQuery(all...)
}

// leadingQuery looks for names that a query begins with.
func leadingQuery(k searchindex.Keys) query.Query {
	var marked []string
	for _, l := range k.Leading() {
		marked = append(marked, mark('n', l))
	}
	return bleve.NewDisjunctionQuery(terms(fieldExact, marked...)...)
}

// typoQueries returns automata over whole names, then over their beginnings.
func typoQueries(k searchindex.Keys) []query.Query {
	text := []rune(k.TypoText())
	allowed := searchindex.MaxTypos(len(text))
	if allowed == 0 || len(text) > maxTypoText {
		return nil
	}
	fuzzy := func(field string, text []rune) query.Query {
		q := bleve.NewFuzzyQuery(string(text))
		q.SetField(field)
		q.SetFuzziness(allowed)
		return q
	}
	out := []query.Query{fuzzy(fieldTypos, text)}
	if len(text) >= searchindex.MinTypoStart {
		out = append(out, fuzzy(fieldBegins, text[:min(len(text), maxBeginning)]))
	}
	return out
}

// candidates returns the best documents that a query finds, in no order that matters.
func (g *generation) candidates(ctx context.Context, q query.Query) ([]searchindex.Document, error) {
	req := bleve.NewSearchRequestOptions(q, candidates, 0, false)
	req.Score = "none"
	req.Fields = []string{fieldStored}
	req.SortBy([]string{fieldOrder, "_id"})
	return g.run(ctx, req)
}

// scan returns documents in the order of domains.
func (g *generation) scan(ctx context.Context, after string, limit int) ([]searchindex.Document, error) {
	req := bleve.NewSearchRequestOptions(bleve.NewMatchAllQuery(), limit, 0, false)
	req.Score = "none"
	req.Fields = []string{fieldStored}
	req.SortBy([]string{"_id"})
	if after != "" {
		req.SetSearchAfter([]string{after})
	}
	return g.run(ctx, req)
}

// versions returns the versions that are held of some documents.
func (g *generation) versions(ctx context.Context, docs map[string]searchindex.Document) (map[string]uint64, error) {
	held := make(map[string]uint64, len(docs))
	if len(docs) == 0 {
		return held, nil
	}
	ids := make([]string, 0, len(docs))
	for id := range docs {
		ids = append(ids, id)
	}
	req := bleve.NewSearchRequestOptions(bleve.NewDocIDQuery(ids), len(ids), 0, false)
	req.Score = "none"
	req.Fields = []string{fieldStored}
	found, err := g.run(ctx, req)
	for _, d := range found {
		held[d.Domain] = d.Version
	}
	return held, err
}

func (g *generation) run(ctx context.Context, req *bleve.SearchRequest) ([]searchindex.Document, error) {
	res, err := g.index.SearchInContext(ctx, req)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("search: %w: %w", searchindex.ErrUnavailable, err)
	}
	docs := make([]searchindex.Document, 0, len(res.Hits))
	for _, hit := range res.Hits {
		stored, _ := hit.Fields[fieldStored].(string)
		var d searchindex.Document
		if err := json.Unmarshal([]byte(stored), &d); err != nil {
			return nil, fmt.Errorf("document %s: %w: %w", hit.ID, searchindex.ErrUnavailable, err)
		}
		docs = append(docs, d)
	}
	return docs, nil
}
