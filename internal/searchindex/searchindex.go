// Package searchindex finds brands by name or domain: the port, and the parsing of queries and the ranking of hits that
// all adapters share, so that the embedded index and a cluster give the same answers.
//
// An index holds one document per brand, under its domain. Documents carry their log position as an external version:
// an older one never replaces a newer one, so that batches may be applied again, and in any order. A withdrawn brand
// leaves a tombstone for the same reason. The checkpoint is the log position up to which everything is in the index; it
// is stored in the index with the documents, and so never gets ahead of them.
//
// Several processes may share one index if its adapter allows it. Then any of them may feed it at any time: versions
// and the checkpoint only grow, and a writer is bound to the generation with which it began. If another process has
// replaced that generation, the next Apply returns ErrReplaced, and the writer continues from Checkpoint.
//
// A generation names the log that it is fed from, from its creation on, so that an index is neither read nor written by
// a process of another log; see Use. Only a new index, and one of an earlier release, names none.
//
// Adapters: bleveindex (embedded, the default) and elastic (shared by all nodes). searchindextest
// holds the contract suite for both.
package searchindex

import (
	"context"
	"errors"
)

// Limits of an index.
const (
	// MaxBatch limits the documents of one Apply.
	MaxBatch = 5000
	// MaxLimit limits the hits of one search.
	MaxLimit = 100
	// MaxScan limits the documents of one Scan.
	MaxScan = 5000
	// MaxText limits the part of a query and of a name that is used, in runes.
	MaxText = 100
)

// Errors of an Index. Adapters wrap them with the attempted operation.
var (
	// ErrUnavailable means that the index cannot process the request now. Some documents of a batch
	// may be stored; the checkpoint is not, and applying the batch again completes it.
	ErrUnavailable = errors.New("search index is unavailable")
	// ErrReplaced means that another process has replaced this generation, or has begun another
	// rebuild. A writer reads Checkpoint and continues from there; a rebuild is void.
	ErrReplaced = errors.New("search index was replaced by another process")
	// ErrOtherLog means that the live generation names another log than Use, or, to a writer, none.
	ErrOtherLog = errors.New("search index does not belong to this log")
	// ErrInvalid means that a document has no domain or version, or that a batch or limit is out of range.
	ErrInvalid = errors.New("invalid request to the search index")
	// ErrClosed means that Close was called.
	ErrClosed = errors.New("search index is closed")
)

// Document is one brand in the index.
type Document struct {
	Domain  string  `json:"domain"` // registrable; the document's identity
	BrandID string  `json:"brand_id"`
	Name    string  `json:"name"` // "" for a brand without a name, which is then found by its domain
	Quality float64 `json:"quality"`
	Claimed bool    `json:"claimed"`
	// Popular breaks ties between equal matches.
	Popular bool `json:"popular,omitempty"`
	// Version is the log position of the brand's last change.
	Version uint64 `json:"version"`
	// Gone marks a tombstone: the brand is not found, and an older document does not restore it.
	Gone bool `json:"gone,omitempty"`
}

// Origin describes the log that a generation is fed from. An index stores the texts as they are.
type Origin struct {
	Log  string // names the log; "" if the generation names none
	Last string // names an event at or before the checkpoint; "" if none is known
	// Generation is the name of the generation. Use ignores it.
	Generation string
}

// Match is the kind of a hit.
type Match int

// Kinds of hits, the best first.
const (
	Exact  Match = iota // the query is the brand's domain, name or domain without its suffix
	Prefix              // the name, one of its words or the domain begins with the query
	Fuzzy               // similar to the query, with typing errors
)

// Hit is one search result.
type Hit struct {
	Document
	Match Match
}

// Index holds documents. All methods may be called concurrently, but Apply by only one writer.
type Index interface {
	// Use sets the log of this process: Apply, Search and Scan then return ErrOtherLog inside ErrUnavailable if the live
	// generation names another log, and Apply also if it names none. Rebuild gives a generation the name, and each
	// checkpoint is stored with the last event. Before Use, and with an empty name, nothing is checked or named.
	Use(of Origin)

	// Apply stores documents whose version is newer than the stored one, and then the checkpoint if it
	// is larger than the stored one. When it returns, searches find the documents. Errors: ErrInvalid,
	// ErrUnavailable, ErrOtherLog, ErrReplaced, ErrClosed, ctx.Err().
	Apply(ctx context.Context, docs []Document, checkpoint uint64) error

	// Checkpoint returns the largest checkpoint that was applied to the live generation, 0 for a new index, and its
	// origin, whatever its log. Later searches find everything applied before it. Errors: ErrUnavailable, ErrClosed,
	// ctx.Err().
	Checkpoint(ctx context.Context) (uint64, Origin, error)

	// Search returns at most limit hits, the best first. Any text is valid; a text without letters or
	// digits finds nothing. Errors: ErrInvalid for the limit, ErrUnavailable, ErrOtherLog, ErrClosed, ctx.Err().
	Search(ctx context.Context, text string, limit int) ([]Hit, error)

	// Scan returns documents after a domain in the order of domains, including tombstones. Errors: as Search.
	Scan(ctx context.Context, after string, limit int) ([]Document, error)

	// Rebuild starts an empty generation. Only one rebuild may be running: a second one of this Index is rejected, and
	// one of another process becomes void. Errors: ErrInvalid if one is running, ErrUnavailable, ErrClosed, ctx.Err().
	Rebuild(ctx context.Context) (Generation, error)

	// Close releases the index.
	Close() error
}

// Generation is an index that is being built while another is live.
type Generation interface {
	// Apply works as in an Index, but searches find nothing before Publish. ErrReplaced means that the rebuild is void.
	Apply(ctx context.Context, docs []Document, checkpoint uint64) error
	// Freeze stops all writes to the live generation, also by other processes, until
	// Publish or Discard, and returns its last checkpoint: a generation that was fed up to there loses
	// nothing when it becomes live. Writers wait a little in the meantime, then get ErrUnavailable.
	// The next writer eventually thaws a frozen generation whose rebuild has died. Errors: as Publish.
	Freeze(ctx context.Context) (checkpoint uint64, err error)
	// Publish atomically makes the generation live and drops the previous one. It may be called without Freeze if later
	// writes to the previous one no longer matter. Errors: ErrReplaced for a void rebuild and if the frozen generation
	// was thawed, ErrUnavailable, ErrClosed, ctx.Err(); then the previous one stays live.
	Publish(ctx context.Context) error
	// Discard drops the generation. After Publish it does nothing.
	Discard() error
}
