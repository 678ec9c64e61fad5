package bleveindex

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/analysis/analyzer/keyword"
	"github.com/blevesearch/bleve/v2/index/scorch"
	"github.com/blevesearch/bleve/v2/mapping"
	"letterhead/internal/searchindex"
)

// Fields of an indexed document.
const (
	fieldExact  = "x" // domain, whole names and label, each behind a letter that says which
	fieldBegins = "p" // beginnings of names, label and domain
	fieldWords  = "w" // beginnings of the name's words
	fieldTypos  = "f" // whole names and label, for the automata
	fieldOrder  = "o" // the better documents have the smaller number
	fieldStored = "d" // the document itself
)

// boltWait is how long Bleve waits for its own lock, which nobody else can hold: the folder is locked.
const boltWait = 2 * time.Second

var checkpointKey = []byte("letterhead-checkpoint")

// generation is one Bleve index.
type generation struct {
	name  string
	index bleve.Index
}

func indexMapping() mapping.IndexMapping {
	words := func() *mapping.FieldMapping {
		return &mapping.FieldMapping{Type: "text", Analyzer: keyword.Name, Index: true, SkipFreqNorm: true}
	}
	doc := bleve.NewDocumentStaticMapping()
	for _, name := range []string{fieldExact, fieldBegins, fieldWords, fieldTypos} {
		doc.AddFieldMappingsAt(name, words())
	}
	doc.AddFieldMappingsAt(fieldOrder, &mapping.FieldMapping{Type: "number", Index: true, DocValues: true})
	doc.AddFieldMappingsAt(fieldStored, &mapping.FieldMapping{Type: "text", Analyzer: keyword.Name, Store: true})
	doc.AddSubDocumentMapping("_all", bleve.NewDocumentDisabledMapping()) // nobody searches all fields at once
	m := bleve.NewIndexMapping()
	m.DefaultMapping = doc
	m.DefaultAnalyzer = keyword.Name
	return m
}

func newGeneration(path, name string) (*generation, error) {
	return guarded(name, func() (bleve.Index, error) {
		return bleve.NewUsing(path, indexMapping(), scorch.Name, scorch.Name, nil)
	})
}

func openGeneration(path, name string) (*generation, error) {
	return guarded(name, func() (bleve.Index, error) {
		return bleve.OpenUsing(path, map[string]any{"bolt_timeout": boltWait.String()})
	})
}

// guarded turns a panic of Bleve over damaged files into an error.
func guarded(name string, open func() (bleve.Index, error)) (g *generation, err error) {
	defer func() {
		if p := recover(); p != nil {
			g, err = nil, fmt.Errorf("open %s: %v", name, p)
		}
	}()
	index, err := open()
	if err != nil {
		return nil, err
	}
	g = &generation{name: name, index: index}
	if _, err := g.checkpoint(); err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

func (g *generation) close() error { return g.index.Close() }

func (g *generation) checkpoint() (uint64, error) {
	data, err := g.index.GetInternal(checkpointKey)
	if err != nil {
		return 0, fmt.Errorf("read the checkpoint: %w: %w", searchindex.ErrUnavailable, err)
	}
	if len(data) == 0 {
		return 0, nil
	}
	if len(data) != 8 {
		return 0, fmt.Errorf("the checkpoint has %d bytes", len(data))
	}
	return binary.BigEndian.Uint64(data), nil
}

// apply writes one batch. Bleve's batches are all or nothing, its internal values with its documents.
func (g *generation) apply(ctx context.Context, docs []searchindex.Document, checkpoint uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	newest, err := newestOf(docs)
	if err != nil {
		return err
	}
	before, err := g.checkpoint()
	if err != nil {
		return err
	}
	held, err := g.versions(ctx, newest)
	if err != nil {
		return err
	}
	batch := g.index.NewBatch()
	for _, d := range docs {
		if newest[d.Domain].Version != d.Version || held[d.Domain] >= d.Version {
			continue
		}
		held[d.Domain] = d.Version // a repeat inside the batch is written once
		fields, err := fieldsOf(d)
		if err != nil {
			return err
		}
		if err := batch.Index(d.Domain, fields); err != nil {
			return fmt.Errorf("index %s: %w", d.Domain, err)
		}
	}
	if checkpoint > before {
		batch.SetInternal(checkpointKey, binary.BigEndian.AppendUint64(nil, checkpoint))
	} else if batch.Size() == 0 {
		return nil
	}
	if err := g.index.Batch(batch); err != nil {
		return fmt.Errorf("write %d documents: %w: %w", batch.Size(), searchindex.ErrUnavailable, err)
	}
	return nil
}

// newestOf checks a batch and returns the newest document of each domain.
func newestOf(docs []searchindex.Document) (map[string]searchindex.Document, error) {
	if len(docs) > searchindex.MaxBatch {
		return nil, fmt.Errorf("a batch of %d documents: %w", len(docs), searchindex.ErrInvalid)
	}
	newest := make(map[string]searchindex.Document, len(docs))
	for _, d := range docs {
		if d.Domain == "" || d.Version == 0 {
			return nil, fmt.Errorf("document %q at version %d: %w", d.Domain, d.Version, searchindex.ErrInvalid)
		}
		if d.Version > newest[d.Domain].Version {
			newest[d.Domain] = d
		}
	}
	return newest, nil
}

// fieldsOf returns what Bleve indexes of a document; of a tombstone only itself, so that nothing finds it.
func fieldsOf(d searchindex.Document) (map[string]any, error) {
	stored, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("index %s: %w", d.Domain, err)
	}
	fields := map[string]any{fieldStored: string(stored)}
	if d.Gone {
		return fields, nil
	}
	k := searchindex.KeysOf(d)
	fields[fieldExact] = set(mark('d', k.Domain), mark('n', k.Full), mark('n', k.Core), mark('l', k.Label))
	fields[fieldBegins] = set(append(append(beginnings(k.Full), beginnings(k.Label)...), beginnings(k.Domain)...)...)
	var words []string
	for _, w := range k.Words {
		words = append(words, beginnings(w)...)
	}
	fields[fieldWords] = set(words...)
	fields[fieldTypos] = set(k.Full, k.Core, k.Label)
	fields[fieldOrder] = order(d.Quality, len(k.Full))
	return fields, nil
}
