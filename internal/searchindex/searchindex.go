// Package searchindex finds brands by name or domain: the port, and what every adapter shares of the
// reading of a query and the order of hits, so that the embedded index and a cluster answer alike.
//
// An index holds one document for each brand, under its domain. Documents carry the log position they come
// from as an external version: an older one never replaces a newer one, so that batches may be applied
// again, and in any order. A brand that was withdrawn leaves a tombstone for the same reason. The
// checkpoint says up to which log position everything is in; it is stored in the index, with the documents,
// and so can only trail them.
//
// Several processes may hold one index when its adapter says so. Then any of them may feed it at any time:
// versions and the checkpoint only grow, and a writer is bound to the generation that it began with. When
// another process has replaced that generation, the next Apply is refused with ErrReplaced, and the writer
// goes on from Checkpoint.
//
// Adapters: bleveindex (embedded, the default) and elastic (shared by all nodes). searchindextest holds the
// suite that each of them passes.
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
	// ErrUnavailable: the index could not do it now. Of a batch some documents may be in; the checkpoint is
	// not, and applying the batch again completes it.
	ErrUnavailable = errors.New("search index is unavailable")
	// ErrReplaced: another process has put another generation in the place of this one, or began another
	// rebuild. A writer reads Checkpoint and goes on from there; a rebuild is void.
	ErrReplaced = errors.New("search index was replaced by another process")
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
	// Popular decides among hits that match equally well.
	Popular bool `json:"popular,omitempty"`
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
	// Apply stores documents whose version is newer than what the index holds, and then the checkpoint when
	// it is ahead of the stored one. When it returns, searches find the documents. Errors: ErrInvalid,
	// ErrUnavailable, ErrReplaced, ErrClosed, ctx.Err().
	Apply(ctx context.Context, docs []Document, checkpoint uint64) error

	// Checkpoint returns the largest checkpoint that was applied to the generation that answers, 0 for a new
	// index. Searches that begin afterwards find what was applied before it. Errors: ErrUnavailable,
	// ErrClosed, ctx.Err().
	Checkpoint(ctx context.Context) (uint64, error)

	// Search returns at most limit hits, the best first. No text is an error; what says nothing finds
	// nothing. Errors: ErrInvalid for the limit, ErrUnavailable, ErrClosed, ctx.Err().
	Search(ctx context.Context, text string, limit int) ([]Hit, error)

	// Scan returns documents behind a domain in the order of domains, tombstones too. Errors: as Search.
	Scan(ctx context.Context, after string, limit int) ([]Document, error)

	// Rebuild begins an empty generation beside the one that answers. Only one may be under way: a second of
	// this Index is refused, one that another process has begun becomes void. Errors: ErrInvalid when one is
	// under way, ErrUnavailable, ErrClosed, ctx.Err().
	Rebuild(ctx context.Context) (Generation, error)

	// Close releases the index.
	Close() error
}

// Generation is an index that is being built beside the one that answers.
type Generation interface {
	// Apply is that of an Index, but nothing is found before Publish. ErrReplaced: the rebuild is void.
	Apply(ctx context.Context, docs []Document, checkpoint uint64) error
	// Freeze stops all writes to the generation that answers, those of other processes too, until Publish or
	// Discard, and returns its last checkpoint: a generation that was fed up to there loses nothing when it
	// takes the place. Whoever writes meanwhile waits a little, then gets ErrUnavailable. A frozen generation
	// whose rebuild has died is thawed by the next writer after a while. Errors: as Publish.
	Freeze(ctx context.Context) (checkpoint uint64, err error)
	// Publish makes the generation the index in one step and drops the one before. It may be called without
	// Freeze when what is written to the one before does not matter any more. Errors: ErrReplaced for a void
	// rebuild and when the frozen generation was thawed, ErrUnavailable, ErrClosed, ctx.Err(); then the one
	// before still answers.
	Publish(ctx context.Context) error
	// Discard drops the generation. After Publish it does nothing.
	Discard() error
}
