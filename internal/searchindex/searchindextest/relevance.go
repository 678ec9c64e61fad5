package searchindextest

import (
	"bufio"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"letterhead/internal/searchindex"
)

//go:embed brands.tsv
var brandsFile string

//go:embed extra.tsv
var extraFile string

//go:embed relevance.tsv
var relevanceFile string

// Brands returns the documents of the relevance suite: domain, name and quality of the starter index,
// whose brands are popular. A test of the starter index keeps the file in sync.
func Brands() []searchindex.Document {
	docs := documents(brandsFile)
	for i := range docs {
		docs[i].Popular = true
	}
	return docs
}

func documents(file string) []searchindex.Document {
	var docs []searchindex.Document
	for _, row := range rows(file) {
		quality, err := strconv.ParseFloat(row[2], 64)
		if err != nil {
			panic(err) // embedded file
		}
		docs = append(docs, searchindex.Document{
			Domain: row[0], Name: row[1], Quality: quality, BrandID: "id of " + row[0],
			Version: uint64(len(docs) + 1),
		})
	}
	return docs
}

// rows parses a file of three tab-separated columns.
func rows(file string) [][]string {
	var out [][]string
	for lines := bufio.NewScanner(strings.NewReader(file)); lines.Scan(); {
		if row := strings.Split(lines.Text(), "\t"); len(row) == 3 && !strings.HasPrefix(row[0], "#") {
			out = append(out, row)
		}
	}
	return out
}

// minQueries detects a damaged list.
const minQueries = 340

// relevance searches for what people type and compares the first hit.
func relevance(t *testing.T, open Opener) {
	ctx := context.Background()
	x := open(t, "relevance")
	defer closeIndex(t, x)
	for version, docs := range [][]searchindex.Document{Brands(), documents(extraFile)} {
		if err := x.Apply(ctx, docs, uint64(version+1)); err != nil {
			t.Fatal(err)
		}
	}
	queries := rows(relevanceFile)
	if len(queries) < minQueries {
		t.Fatalf("%d queries, want %d at least", len(queries), minQueries)
	}
	table := newReference(append(Brands(), documents(extraFile)...))
	var group errgroup.Group
	group.SetLimit(askers)
	for _, row := range queries {
		group.Go(func() error {
			query, want, why := row[0], row[1], row[2]
			hits, err := x.Search(ctx, query, shown)
			if err != nil {
				return fmt.Errorf("search %q: %w", query, err)
			}
			if !answers(hits, want) {
				t.Errorf("search %q (%s) found %s, want %s first", query, why, names(hits), want)
			}
			same, err := table.plain(ctx, query)
			if err != nil {
				return fmt.Errorf("search %q in memory: %w", query, err)
			}
			if got := plain(hits); got != same {
				t.Errorf("search %q (%s) found %s, and every index must find %s", query, why, got, same)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

const (
	// shown is the number of hits that are compared.
	shown = 10
	// askers is the number of concurrent queries: an index of another process answers each with a delay.
	askers = 8
)

// answers reports whether hits match the expectation in relevance.tsv.
func answers(hits []searchindex.Hit, want string) bool {
	if want == "-" {
		return len(hits) == 0
	}
	if not, ok := strings.CutPrefix(want, "!"); ok {
		return len(hits) == 0 || hits[0].Domain != not
	}
	domain, exact := strings.CutPrefix(want, "=")
	return len(hits) > 0 && hits[0].Domain == domain && (!exact || hits[0].Match == searchindex.Exact)
}

// plain formats the hits without typing errors.
func plain(hits []searchindex.Hit) string {
	return names(slices.DeleteFunc(slices.Clone(hits), func(h searchindex.Hit) bool { return h.Match == searchindex.Fuzzy }))
}

func names(hits []searchindex.Hit) string {
	var out []string
	for _, h := range hits {
		out = append(out, h.Domain)
	}
	return "[" + strings.Join(out, " ") + "]"
}
