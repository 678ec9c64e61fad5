// Package searchindex finds brands by name or domain: the port, and what every adapter shares of the
// reading of a query and the order of hits, so that the embedded index and a cluster answer alike.
//
// An index holds one document for each brand, under its domain. Documents carry the log position they come
// from as an external version: an older one never replaces a newer one, so that batches may be applied
// again, and in any order. A brand that was withdrawn leaves a tombstone for the same reason. The
// checkpoint says up to which log position everything is in; it is stored in the index, with the documents,
// and so can only trail them.
//
// Adapters: bleve (embedded, the default). searchindextest holds the suite that each of them passes.
package searchindex

import (
	"context"
	"errors"
)

// Limits of an index.
const (
	// MaxBatch bounds the documents of one Apply.
	MaxBatch = 5000
	// MaxLimit bounds the hits of one search.
	MaxLimit = 100
	// MaxScan bounds the documents of one Scan.
	MaxScan = 5000
	// MaxText bounds what is looked at of a query and of a name, in runes.
	MaxText = 100
)

// Errors of an Index. Adapters wrap them with what was attempted.
var (
	// ErrUnavailable: the index could not do it now. Nothing is half done.
	ErrUnavailable = errors.New("search index is unavailable")
	// ErrInvalid: a document without a domain or version, or a batch or limit past its bound.
	ErrInvalid = errors.New("invalid request to the search index")
	// ErrClosed: Close was called.
	ErrClosed = errors.New("search index is closed")
)

// Document is one brand as a search sees it.
type Document struct {
	Domain  string  `json:"domain"` // registrable; the document's identity
	BrandID string  `json:"brand_id"`
	Name    string  `json:"name"` // "" for a brand without one, which is then found by its domain
	Quality float64 `json:"quality"`
	Claimed bool    `json:"claimed"`
	// Version is the log position of the brand's last change.
	Version uint64 `json:"version"`
	// Gone makes a tombstone: the brand is not found, and an older document does not bring it back.
	Gone bool `json:"gone,omitempty"`
}

// Match says how a hit came about.
type Match int

// Kinds of hits, the best first.
const (
	Exact  Match = iota // the query is the brand's domain, name or domain without its suffix
	Prefix              // the name, one of its words or the domain begins with the query
	Fuzzy               // close to the query, with a typing error
)

// Hit is one found brand.
type Hit struct {
	Document
	Match Match
}

// Index holds documents. All methods may be called at once from several goroutines; Apply by one writer.
type Index interface {
	// Apply stores documents whose version is newer than what the index holds, and the checkpoint when it is
	// ahead of the stored one: all of it or nothing. Errors: ErrInvalid, ErrUnavailable, ErrClosed, ctx.Err().
	Apply(ctx context.Context, docs []Document, checkpoint uint64) error

	// Checkpoint returns the largest checkpoint that was applied, 0 for a new index. Errors: ErrUnavailable,
	// ErrClosed, ctx.Err().
	Checkpoint(ctx context.Context) (uint64, error)

	// Search returns at most limit hits, the best first. No text is an error; what says nothing finds
	// nothing. Errors: ErrInvalid for the limit, ErrUnavailable, ErrClosed, ctx.Err().
	Search(ctx context.Context, text string, limit int) ([]Hit, error)

	// Scan returns documents behind a domain in the order of domains, tombstones too. Errors: as Search.
	Scan(ctx context.Context, after string, limit int) ([]Document, error)

	// Rebuild begins an empty generation beside the one that answers. Only one may be under way. Errors:
	// ErrInvalid when one is, ErrUnavailable, ErrClosed, ctx.Err().
	Rebuild(ctx context.Context) (Generation, error)

	// Close releases the index.
	Close() error
}

// Generation is an index that is being built beside the one that answers.
type Generation interface {
	// Apply is that of an Index.
	Apply(ctx context.Context, docs []Document, checkpoint uint64) error
	// Publish makes the generation the index in one step and drops the one before. Errors: ErrUnavailable,
	// ErrClosed, ctx.Err(); then the one before still answers.
	Publish(ctx context.Context) error
	// Discard drops the generation. After Publish it does nothing.
	Discard() error
}
