package elastic

import (
	"context"
	"fmt"
	"net/http"
	"reflect"

	"letterhead/internal/searchindex"
)

// fieldNames are the fields that hold a document's terms.
var fieldNames = [...]string{
	searchindex.ExactField:  "exact",
	searchindex.BeginsField: "begins",
	searchindex.WordsField:  "words",
	searchindex.TyposField:  "typos",
}

// Additional fields of a document, beyond its terms and the fields of searchindex.Document.
const (
	fieldDomain     = "domain"
	fieldOrder      = "order"      // better documents have smaller numbers
	fieldCheckpoint = "checkpoint" // only in the document that holds the checkpoint
	fieldLast       = "last"       // there, too
	fieldLog        = "log"        // only in the document that names the log
)

// Settings of an index.
const (
	// liveRefresh is the maximum delay until a write is visible without an explicit refresh: Apply refreshes.
	liveRefresh = "1s"
	// buildRefresh is used for a generation that is being built: no refresh until it is published.
	buildRefresh = "-1"
	// templatePriority is higher than the priority of typical catch-all templates.
	templatePriority = 500
)

type object = map[string]any

// meta marks the indices that were created from this template.
func (x *Index) meta() object { return object{"letterhead_mapping": x.settings.analyzer.Version} }

// template returns the common settings of all generations.
func (x *Index) template() object {
	keyword := object{"type": "keyword", "doc_values": false, "norms": false}
	// One token for a whole text, split into its prefixes. Queries search for tokens.
	beginnings := object{"type": "text", "analyzer": "beginnings", "search_analyzer": "keyword",
		"index_options": "docs", "norms": false}
	stored := func(kind string) object { return object{"type": kind, "index": false, "doc_values": false} }
	return object{
		"index_patterns": []string{x.names.alias + "_g*"},
		"priority":       templatePriority,
		"_meta":          x.meta(),
		"template": object{
			"settings": object{
				"number_of_shards":   1, // a million brands take a few hundred megabytes
				"number_of_replicas": x.settings.replicas,
				"refresh_interval":   liveRefresh,
				"analysis": object{
					"filter": object{"beginnings": object{"type": "edge_ngram", "min_gram": 1,
						"max_gram": searchindex.MaxBeginning}},
					"analyzer": object{"beginnings": object{"type": "custom", "tokenizer": "keyword",
						"filter": []string{"beginnings"}}},
				},
			},
			"mappings": object{
				"_meta":   x.meta(),
				"dynamic": "strict",
				// The terms are computed from the log, never read.
				"_source": object{"excludes": []string{"exact", "begins", "words", "typos", fieldOrder}},
				"properties": object{
					fieldDomain:     object{"type": "keyword"},
					"brand_id":      stored("keyword"),
					"name":          stored("keyword"),
					"quality":       stored("double"),
					"claimed":       stored("boolean"),
					"popular":       stored("boolean"),
					"version":       stored("long"),
					"gone":          stored("boolean"),
					"exact":         keyword,
					"begins":        beginnings,
					"words":         beginnings,
					"typos":         keyword,
					fieldOrder:      object{"type": "long"},
					fieldCheckpoint: stored("long"),
					fieldLast:       stored("keyword"),
					fieldLog:        stored("keyword"),
				},
			},
		},
	}
}

// putTemplate stores the template. Two nodes that open at the same time store the same.
func (x *Index) putTemplate(ctx context.Context) error {
	return x.change(ctx, "template", http.MethodPut, "/_index_template/"+x.names.alias, x.template())
}

// checkMapping checks that an index was created from our template.
func (x *Index) checkMapping(ctx context.Context, index string) error {
	found, err := ask[map[string]struct {
		Mappings struct {
			Meta map[string]any `json:"_meta"`
		}
	}](ctx, x.client, request{op: "mapping", method: http.MethodGet, path: "/" + index + "/_mapping"})
	if err != nil {
		return err
	}
	want := map[string]any{"letterhead_mapping": float64(x.settings.analyzer.Version)}
	if got := found[index].Mappings.Meta; !reflect.DeepEqual(got, want) {
		return fmt.Errorf("%w: the index %q has a mapping that is not ours: it was created or changed by hand. Delete it (DELETE /%s); it is fed again from the log",
			errNames, index, index)
	}
	return nil
}
