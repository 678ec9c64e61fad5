package searchindextest

import (
	"testing"

	"letterhead/internal/searchindex"
)

// An index brings a bounded part of what it holds to the ranking. Of no query in the list a better brand is left
// out by that.
func TestNothingBetterIsLeftOut(t *testing.T) {
	docs := append(Brands(), documents(extraFile)...)
	table := newReference(docs)
	for _, row := range rows(relevanceFile) {
		t.Run(row[0], func(t *testing.T) {
			t.Parallel()
			got, err := table.plain(t.Context(), row[0])
			if err != nil {
				t.Fatal(err)
			}
			if want := plain(searchindex.Rank(searchindex.ReadQuery(row[0]), docs, shown)); got != want {
				t.Errorf("found %s, and these are the best of all: %s", got, want)
			}
		})
	}
}
