package elastic

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"letterhead/internal/searchindex"
)

// names builds the names of one installation and analysis version.
type names struct{ alias string }

func namesOf(alias string, version int) names { return names{fmt.Sprintf("%s_v%d", alias, version)} }

// first names a generation that is created because none is live: all nodes that create one at the same
// time use the same name.
func (n names) first(number uint64) string { return fmt.Sprintf("%s_g%06d", n.alias, number) }

// next returns a unique name for a generation of a rebuild, so that a late request, such as one to
// delete it, cannot affect another.
func (n names) next(number uint64) string { return own(n.first(number), "_") }

// indexForm matches the part of a generation's name that follows the alias.
var indexForm = regexp.MustCompile(`^_g([0-9]{6,18})(_[0-9a-f]{16})?$`)

// number returns the number in a generation's name, 0 if the name is not valid.
func (n names) number(index string) uint64 {
	rest, ok := strings.CutPrefix(index, n.alias)
	if !ok {
		return 0
	}
	parts := indexForm.FindStringSubmatch(rest)
	if parts == nil {
		return 0
	}
	number, err := strconv.ParseUint(parts[1], 10, 63)
	if err != nil || n.first(number) != n.alias+"_g"+parts[1] { // too many zeros
		return 0
	}
	return number
}

// Marks in the names of a generation's aliases.
const (
	writeMark  = "_w_"
	frozenMark = "_f_"
	buildMark  = "_b_"
)

// own returns a unique name derived from the name of an index.
func own(index, mark string) string {
	end := make([]byte, 8)
	for i := range end {
		end[i] = byte(rand.N(256))
	}
	return index + mark + hex.EncodeToString(end)
}

type generation struct {
	name   string
	number uint64
	live   bool
	write  string // write alias, "" if it is not writable
	frozen string // alias while it is frozen
	build  string // alias while it is being built
	log    string // names the log; known only of the generation that an Index writes to
}

// spent reports whether a generation is obsolete. A generation has a build alias from its creation
// until it is atomically replaced by the live alias, and never gets either again. So a generation
// without both remains so forever, however old this information is.
func (g generation) spent() bool { return !g.live && g.build == "" }

// cluster is the state of one installation and mapping version.
type cluster struct {
	all  []generation
	live *generation // nil if there is none
	last uint64      // the largest number
}

// find returns a generation by its index, nil if it does not exist.
func (c cluster) find(name string) *generation {
	for _, g := range c.all {
		if g.name == name {
			return &g
		}
	}
	return nil
}

// look reads the existing generations. Errors: searchindex.ErrUnavailable, ctx.Err(), errNames.
func (x *Index) look(ctx context.Context) (cluster, error) {
	type entry struct {
		Name    string
		Aliases []string
	}
	found, err := ask[struct{ Indices []entry }](ctx, x.client, request{
		op: "list", method: http.MethodGet, path: "/_resolve/index/" + x.names.alias + "*",
		query: "expand_wildcards=all",
	})
	if err != nil {
		return cluster{}, err
	}
	var c cluster
	for _, e := range found.Indices {
		if e.Name == x.names.alias {
			return cluster{}, fmt.Errorf("%w: %q must be an alias and is an index: something wrote to that name before the alias was made. Delete that index (DELETE /%s), or choose another alias",
				errNames, e.Name, e.Name)
		}
		g := generation{name: e.Name, number: x.names.number(e.Name)}
		for _, a := range e.Aliases {
			switch {
			case a == x.names.alias:
				g.live = true
			case strings.HasPrefix(a, e.Name+writeMark):
				g.write = a
			case strings.HasPrefix(a, e.Name+frozenMark):
				g.frozen = a
			case strings.HasPrefix(a, e.Name+buildMark):
				g.build = a
			}
		}
		if g.live && (g.number == 0 || c.live != nil) {
			return cluster{}, fmt.Errorf("%w: the alias %q wrongly refers to %q: remove it there (POST /_aliases)",
				errNames, x.names.alias, g.name)
		}
		if g.number == 0 {
			continue
		}
		c.all = append(c.all, g)
		c.last = max(c.last, g.number)
		if g.live {
			c.live = &g
		}
	}
	return c, nil
}

// addAlias is an action of an _aliases call, which is atomic.
func addAlias(index, alias string) object {
	return object{"add": object{"index": index, "alias": alias}}
}

// removeAlias fails the whole call if the alias does not exist.
func removeAlias(index, alias string) object {
	return object{"remove": object{"index": index, "alias": alias, "must_exist": true}}
}

func (x *Index) aliases(ctx context.Context, op string, actions ...object) error {
	return x.change(ctx, op, http.MethodPost, "/_aliases", object{"actions": actions})
}

// change sends a request that changes the cluster's state, which all nodes must acknowledge. body may be nil.
func (x *Index) change(ctx context.Context, op, method, path string, body object) error {
	r := request{op: op, method: method, path: path, write: true}
	if body != nil {
		r.body = encode(body)
	}
	answer, err := ask[struct{ Acknowledged bool }](ctx, x.client, r)
	if err == nil && !answer.Acknowledged {
		err = fmt.Errorf("%s: %w: not all nodes of the cluster have acknowledged it yet",
			op, searchindex.ErrUnavailable)
	}
	return err
}

// abandon deletes a generation that is being built, unless it was published first: either abandon or
// the publication removes the build alias.
func (x *Index) abandon(ctx context.Context, g generation) error {
	err := x.aliases(ctx, "abandon", removeAlias(g.name, g.build))
	if isRejection(err, noIndex) {
		return nil
	}
	if isRejection(err, noAlias) {
		// Published, or abandoned: by another node, or by this one if this is the repeat of a request
		// whose response was lost.
		c, look := x.look(ctx)
		if look != nil {
			return errors.Join(err, look)
		}
		if now := c.find(g.name); now == nil || !now.spent() {
			return nil
		}
	} else if err != nil {
		return err
	}
	g.build = ""
	return x.drop(ctx, g)
}

// drop deletes an obsolete generation; a missing one is not an error.
func (x *Index) drop(ctx context.Context, g generation) error {
	if !g.spent() {
		return fmt.Errorf("drop: %s is live or being built", g.name)
	}
	err := x.change(ctx, "drop", http.MethodDelete, "/"+g.name, nil)
	if isRejection(err, noIndex) {
		return nil
	}
	return err
}

// block rejects writes to an index. Elasticsearch responds when all running writes have ended. If the
// index has the block already, it cannot report so (nothing acknowledged, no index named) and is asked
// again: in the meantime the index takes no writes, because it has no write alias.
func (x *Index) block(ctx context.Context, index string) error {
	for range 2 {
		answer, err := ask[struct {
			Acknowledged       bool
			ShardsAcknowledged bool `json:"shards_acknowledged"`
			Indices            []struct{ Blocked bool }
		}](ctx, x.client,
			request{op: "freeze", method: http.MethodPut, path: "/" + index + "/_block/write", write: true})
		switch {
		case err != nil:
			return err
		case answer.Acknowledged && answer.ShardsAcknowledged:
			return nil
		case len(answer.Indices) > 0:
			return fmt.Errorf("freeze: %w: not all copies of %s reject writes yet", searchindex.ErrUnavailable, index)
		}
		if err := x.unblock(ctx, index); err != nil {
			return err
		}
	}
	return fmt.Errorf("freeze: %w: another rebuild freezes %s at the same time", searchindex.ErrUnavailable, index)
}

func (x *Index) unblock(ctx context.Context, index string) error {
	return x.configure(ctx, "thaw", index, object{"index.blocks.write": nil})
}

func (x *Index) configure(ctx context.Context, op, index string, settings object) error {
	return x.change(ctx, op, http.MethodPut, "/"+index+"/_settings", settings)
}

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

// encode returns a body or a part of one. All of them are texts, numbers that JSON can represent, lists and maps.
func encode(value any) []byte {
	text, _ := json.Marshal(value)
	return text
}

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
