package bleveindex

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/search/query"

	"letterhead/internal/searchindex"
)

func (g *generation) ask(ctx context.Context, asks []searchindex.Ask) ([]searchindex.Document, error) {
	var found []searchindex.Document
	for _, a := range asks {
		docs, err := g.candidates(ctx, queryOf(a))
		if err != nil {
			return nil, err
		}
		found = append(found, docs...)
	}
	return found, nil
}

func queryOf(a searchindex.Ask) query.Query {
	var all []query.Query
	for _, t := range a.Terms {
		all = append(all, termQuery(t, a.Typos))
	}
	if a.All {
		return bleve.NewConjunctionQuery(all...)
	}
	return bleve.NewDisjunctionQuery(all...)
}

func termQuery(t searchindex.Term, typos int) query.Query {
	field := fieldNames[t.Field]
	if typos == 0 {
		q := bleve.NewTermQuery(t.Value)
		q.SetField(field)
		return q
	}
	q := bleve.NewFuzzyQuery(t.Value)
	q.SetField(field)
	q.SetFuzziness(typos)
	return q
}

// candidates returns the best documents for a query.
func (g *generation) candidates(ctx context.Context, q query.Query) ([]searchindex.Document, error) {
	req := bleve.NewSearchRequestOptions(q, searchindex.Candidates, 0, false)
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

// versions returns the stored versions of some documents.
func (g *generation) versions(ctx context.Context, docs []searchindex.Document) (map[string]uint64, error) {
	held := make(map[string]uint64, len(docs))
	if len(docs) == 0 {
		return held, nil
	}
	ids := make([]string, 0, len(docs))
	for _, d := range docs {
		ids = append(ids, d.Domain)
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
