package searchindextest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"testing"

	"letterhead/internal/searchindex"
	"letterhead/internal/testmust"
)

// An index returns a limited number of candidates for the ranking. For no query in the list does this
// omit a better brand.
func TestCandidates_IncludeBestBrands(t *testing.T) {
	docs := append(Brands(), documents(extraFile)...)
	table := newReference(docs)
	for _, row := range rows(relevanceFile) {
		t.Run(row[0], func(t *testing.T) {
			t.Parallel()
			got := testmust.Get(table.plain(t.Context(), row[0]))(t)
			if want := plain(searchindex.Rank(searchindex.ReadQuery(row[0]), docs, shown)); got != want {
				t.Errorf("found %s, and these are the best of all: %s", got, want)
			}
		})
	}
}

// An existing index is kept as long as Analysis is unchanged.
func TestAnalysis_ChangedTermsNeedNewVersion(t *testing.T) {
	sum := sha256.New()
	for _, d := range documents(extraFile) {
		testmust.Succeed(t, json.NewEncoder(sum).Encode(searchindex.TermsOf(d)))
	}
	const analysis, want = 2, "2ee485826f7d94b5"
	if got := fmt.Sprintf("%x", sum.Sum(nil)[:8]); got != want || searchindex.Analysis != analysis {
		t.Errorf("the terms of the brands in extra.tsv have checksum %s (analysis %d), want %s (%d): if TermsOf now returns other terms, raise searchindex.Analysis, and then update both here",
			got, searchindex.Analysis, want, analysis)
	}
}
