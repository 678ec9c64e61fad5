package searchindextest

import (
	"bufio"
	"context"
	_ "embed"
	"strconv"
	"strings"
	"testing"

	"letterhead/internal/searchindex"
)

//go:embed brands.tsv
var brandsFile string

//go:embed extra.tsv
var extraFile string

//go:embed relevance.tsv
var relevanceFile string

// Brands returns the documents that the relevance suite searches: domain, name and quality of the starter
// index. A test of the starter index keeps the file in step.
func Brands() []searchindex.Document { return documents(brandsFile) }

func documents(file string) []searchindex.Document {
	var docs []searchindex.Document
	for _, row := range rows(file) {
		quality, err := strconv.ParseFloat(row[2], 64)
		if err != nil {
			panic(err) // our own file
		}
		docs = append(docs, searchindex.Document{
			Domain: row[0], Name: row[1], Quality: quality, BrandID: "id of " + row[0],
			Version: uint64(len(docs) + 1),
		})
	}
	return docs
}

// rows reads a file of three columns between tabs.
func rows(file string) [][]string {
	var out [][]string
	for lines := bufio.NewScanner(strings.NewReader(file)); lines.Scan(); {
		if row := strings.Split(lines.Text(), "\t"); len(row) == 3 && !strings.HasPrefix(row[0], "#") {
			out = append(out, row)
		}
	}
	return out
}

// relevance asks an index what people type and compares the first hit.
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
	if len(queries) < 200 {
		t.Fatalf("%d queries, want 200 at least", len(queries))
	}
	for _, row := range queries {
		query, want, why := row[0], row[1], row[2]
		hits, err := x.Search(ctx, query, 5)
		if err != nil {
			t.Fatalf("search %q: %v", query, err)
		}
		if len(hits) == 0 || hits[0].Domain != want {
			t.Errorf("search %q (%s) found %s, want %s first", query, why, names(hits), want)
		}
	}
}

func names(hits []searchindex.Hit) string {
	var out []string
	for _, h := range hits {
		out = append(out, h.Domain)
	}
	return "[" + strings.Join(out, " ") + "]"
}
