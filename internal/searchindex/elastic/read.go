package elastic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"letterhead/internal/searchindex"
)

// hits is the used part of a response.
type hits struct {
	Status   int
	TimedOut bool `json:"timed_out"`
	Error    *struct{ Type, Reason string }
	Hits     struct {
		Hits []struct {
			Source struct {
				searchindex.Document
				Log string `json:"log"`
			} `json:"_source"`
		}
	}
}

// Filters for the used parts of responses.
const (
	hitsFilter  = "filter_path=status,timed_out,error.type,error.reason,hits.hits._source"
	hitsFilters = "filter_path=responses.status,responses.timed_out,responses.error.type,responses.error.reason,responses.hits.hits._source"
)

// documents returns the brands of a response. One that names another log is errOtherLog.
func (x *Index) documents(h hits) ([]searchindex.Document, error) {
	switch {
	case h.Error != nil:
		return nil, &rejection{Status: h.Status, Type: h.Error.Type, Reason: h.Error.Reason}
	case h.TimedOut:
		return nil, errors.New("the search timed out in the cluster")
	}
	docs := make([]searchindex.Document, 0, len(h.Hits.Hits))
	for _, hit := range h.Hits.Hits {
		if hit.Source.Log != "" {
			return nil, x.checkLog(hit.Source.Log)
		}
		docs = append(docs, hit.Source.Document)
	}
	return docs, nil
}

// candidates answers several questions with one request, which also asks for the name of the log. If a part failed the
// whole request is repeated: a generation may have just been dropped, and the alias already refers to the next one.
func (x *Index) candidates(ctx context.Context, asks []searchindex.Ask) ([]searchindex.Document, error) {
	var found []searchindex.Document
	_, err := x.client.do(ctx, request{
		op: "search", method: http.MethodPost, path: "/" + x.names.alias + "/_msearch", query: hitsFilters,
		body: searches(asks), lines: true, missing: true,
		accept: func(_ *request, body []byte) error {
			var answer struct{ Responses []hits }
			if err := json.Unmarshal(body, &answer); err != nil {
				return unreadable(err)
			}
			var err error
			found, err = x.allOf(answer.Responses, len(asks)+1)
			return err
		},
	})
	return found, err
}

func (x *Index) allOf(answers []hits, want int) ([]searchindex.Document, error) {
	if len(answers) != want {
		return nil, fmt.Errorf("%d answers to %d questions", len(answers), want)
	}
	var found []searchindex.Document
	for _, a := range answers {
		docs, err := x.documents(a)
		if err != nil {
			return nil, err
		}
		found = append(found, docs...)
	}
	return found, nil
}

// searches returns the body of a multi-search. An index with a missing shard must not return partial
// results: an empty result would mean that the brand does not exist.
func searches(asks []searchindex.Ask) []byte {
	var body []byte
	for _, a := range asks {
		search := encode(object{
			"size": searchindex.Candidates, "query": queryOf(a), "sort": []string{fieldOrder, fieldDomain},
			"track_total_hits": false,
		})
		body = append(body, `{"allow_partial_search_results":false}`+"\n"...)
		body = append(append(body, search...), '\n')
	}
	return append(body, `{"allow_partial_search_results":false}`+"\n"+
		`{"query":{"ids":{"values":["`+logID+`"]}}}`+"\n"...)
}

func queryOf(a searchindex.Ask) object {
	var all []object
	for _, t := range a.Terms {
		all = append(all, termQuery(t, a.Typos))
	}
	occur := "should"
	if a.All {
		occur = "filter"
	}
	return object{"bool": object{occur: all}}
}

func termQuery(t searchindex.Term, typos int) object {
	field := fieldNames[t.Field]
	if typos == 0 {
		return object{"term": object{field: t.Value}}
	}
	// The rewrite uses every term of the automaton; the default one uses the nearest fifty, which
	// loses brands if many names begin alike.
	return object{"fuzzy": object{field: object{"value": t.Value, "fuzziness": typos, "transpositions": true,
		"rewrite": "constant_score"}}}
}

// scan returns documents in the order of domains.
func (x *Index) scan(ctx context.Context, after string, limit int) ([]searchindex.Document, error) {
	search := object{
		"size": limit, "sort": []string{fieldDomain}, "track_total_hits": false,
		"query": object{"exists": object{"field": fieldDomain}}, // not the checkpoint
	}
	if after != "" {
		search["search_after"] = []string{after}
	}
	answer, err := ask[hits](ctx, x.client, request{
		op: "scan", method: http.MethodPost, path: "/" + x.names.alias + "/_search",
		query: "allow_partial_search_results=false&" + hitsFilter, body: encode(search), missing: true,
	})
	if err != nil {
		return nil, err
	}
	docs, err := x.documents(answer)
	if err != nil {
		return nil, fmt.Errorf("scan: %w: %w", searchindex.ErrUnavailable, err)
	}
	return docs, nil
}

// Ids of documents that are no brands. No domain begins like them.
const (
	checkpointID = "~checkpoint"
	logID        = "~log"
)

// saved is the content of a document that is no brand.
type saved struct {
	Checkpoint uint64
	Last, Log  string
	index      string // the generation
}

// savedIn returns a document of a generation, or of the generation with an alias; the zero value if there is none yet.
// Reading by id returns the latest write; the checkpoint is written after its documents were refreshed.
func (x *Index) savedIn(ctx context.Context, name, id string) (saved, error) {
	body, err := x.client.do(ctx, request{
		op: "checkpoint", method: http.MethodGet, path: "/" + name + "/_doc/" + id,
		query: "filter_path=_index,found,_source,error.type,error.reason", missing: true, starting: id == logID,
	})
	if no, ok := errors.AsType[*rejection](err); ok && no.document != nil {
		body, err = no.document, nil
	}
	if err != nil {
		return saved{}, err
	}
	var found struct {
		Index  string `json:"_index"`
		Source saved  `json:"_source"`
	}
	if err := json.Unmarshal(body, &found); err != nil || found.Index == "" {
		return saved{}, fmt.Errorf("checkpoint: %w: the response is invalid", searchindex.ErrUnavailable)
	}
	found.Source.index = found.Index
	return found.Source, nil
}

// logOf returns the name of the log of a generation, or of the generation with an alias. The generation may be new.
func (x *Index) logOf(ctx context.Context, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	s, err := x.savedIn(ctx, name, logID)
	return s.Log, err
}
