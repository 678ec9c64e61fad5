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
	"github.com/blevesearch/bleve/v2/mapping"
	"letterhead/internal/searchindex"
)

// fieldNames are the fields that hold a document's terms.
var fieldNames = [...]string{
	searchindex.ExactField:  "x",
	searchindex.BeginsField: "p",
	searchindex.WordsField:  "w",
	searchindex.TyposField:  "f",
}

// Additional fields of an indexed document.
const (
	fieldOrder  = "o" // better documents have smaller numbers
	fieldStored = "d" // the document itself
)

// boltWait is how long Bleve waits for its own lock, which is never contended: the folder is locked.
const boltWait = 2 * time.Second

// Keys of internal values.
var (
	checkpointKey = []byte("letterhead-checkpoint")
	logKey        = []byte("letterhead-log")
	lastKey       = []byte("letterhead-last")
)

type generation struct {
	name  string
	log   string // names the log that it is fed from; stored with the first checkpoint
	index bleve.Index
}

func indexMapping() mapping.IndexMapping {
	words := func() *mapping.FieldMapping {
		return &mapping.FieldMapping{Type: "text", Analyzer: keyword.Name, Index: true, SkipFreqNorm: true}
	}
	doc := bleve.NewDocumentStaticMapping()
	for _, name := range fieldNames {
		doc.AddFieldMappingsAt(name, words())
	}
	doc.AddFieldMappingsAt(fieldOrder, &mapping.FieldMapping{Type: "number", Index: true, DocValues: true})
	doc.AddFieldMappingsAt(fieldStored, &mapping.FieldMapping{Type: "text", Analyzer: keyword.Name, Store: true})
	doc.AddSubDocumentMapping("_all", bleve.NewDocumentDisabledMapping()) // no query searches all fields
	m := bleve.NewIndexMapping()
	m.DefaultMapping = doc
	m.DefaultAnalyzer = keyword.Name
	return m
}

// guarded converts a panic of Bleve over damaged files to an error.
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
	log, err := index.GetInternal(logKey)
	g.log = string(log)
	if _, failed := g.checkpoint(); err != nil || failed != nil {
		return nil, errors.Join(err, failed, g.close())
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

// apply writes one batch. Bleve's batches are atomic, including its internal values.
func (g *generation) apply(ctx context.Context, docs []searchindex.Document, checkpoint uint64, last string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	newest, err := searchindex.Newest(docs)
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
	for _, d := range newest {
		if held[d.Domain] >= d.Version {
			continue
		}
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
		batch.SetInternal(logKey, []byte(g.log))
		batch.SetInternal(lastKey, []byte(last))
	} else if batch.Size() == 0 {
		return nil
	}
	if err := g.index.Batch(batch); err != nil {
		return fmt.Errorf("write %d documents: %w: %w", batch.Size(), searchindex.ErrUnavailable, err)
	}
	return nil
}

// fieldsOf returns the fields that Bleve indexes; for a tombstone only the document, so that no search finds it.
func fieldsOf(d searchindex.Document) (map[string]any, error) {
	stored, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("index %s: %w", d.Domain, err)
	}
	fields := map[string]any{fieldStored: string(stored)}
	if d.Gone {
		return fields, nil
	}
	t := searchindex.TermsOf(d)
	fields[fieldNames[searchindex.ExactField]] = t.Exact
	fields[fieldNames[searchindex.BeginsField]] = searchindex.Beginnings(t.Begins)
	fields[fieldNames[searchindex.WordsField]] = searchindex.Beginnings(t.Words)
	fields[fieldNames[searchindex.TyposField]] = t.Typos
	fields[fieldOrder] = float64(t.Order)
	return fields, nil
}
