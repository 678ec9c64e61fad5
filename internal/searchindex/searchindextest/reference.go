package searchindextest

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"letterhead/internal/searchindex"
)

// reference answers questions according to the contract of Ask, from a table in memory. It does not
// support typing errors.
type reference map[searchindex.Term][]searchindex.Document

func newReference(docs []searchindex.Document) reference {
	r := reference{}
	for _, d := range docs {
		t := searchindex.TermsOf(d)
		for field, values := range map[searchindex.Field][]string{
			searchindex.ExactField:  t.Exact,
			searchindex.BeginsField: searchindex.Beginnings(t.Begins),
			searchindex.WordsField:  searchindex.Beginnings(t.Words),
		} {
			for _, v := range values {
				term := searchindex.Term{Field: field, Value: v}
				r[term] = append(r[term], d)
			}
		}
	}
	return r
}

// plain formats the hits without typing errors.
func (r reference) plain(ctx context.Context, query string) (string, error) {
	hits, err := searchindex.Find(ctx, query, shown, r.ask)
	return plain(hits), err
}

func (r reference) ask(_ context.Context, asks []searchindex.Ask) ([]searchindex.Document, error) {
	var found []searchindex.Document
	for _, a := range asks {
		if a.Typos == 0 {
			found = append(found, r.answer(a)...)
		}
	}
	return found, nil
}

func (r reference) answer(a searchindex.Ask) []searchindex.Document {
	has := map[searchindex.Document]int{} // number of matching terms
	for _, t := range a.Terms {
		for _, d := range r[t] {
			has[d]++
		}
	}
	var docs []searchindex.Document
	for d, n := range has {
		if !a.All || n == len(a.Terms) {
			docs = append(docs, d)
		}
	}
	slices.SortFunc(docs, func(a, b searchindex.Document) int {
		return cmp.Or(cmp.Compare(searchindex.TermsOf(a).Order, searchindex.TermsOf(b).Order), strings.Compare(a.Domain, b.Domain))
	})
	return docs[:min(len(docs), searchindex.Candidates)]
}
