// Package bleveindex is the embedded search index: Bleve in one folder, without a server.
//
// The folder holds generations and a file CURRENT that names the live one; replacing that file is the swap at the end
// of a rebuild. Bleve memory-maps its files, so a damaged one would cause a crash instead of an error. Therefore Close
// writes a list of checksums next to the generation and Open verifies it. After a crash, when there is no list, Open
// checks Bleve's own checksum of each file. A generation that fails the check is dropped and an empty one started:
// everything in it comes from the log and is fed again.
//
// Candidates come from exact terms, prefixes (edge n-grams, so that a prefix costs one term whatever
// the number of brands) and Levenshtein automata; searchindex.Rank orders them.
package bleveindex

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/search/query"
	"github.com/gofrs/flock"

	"letterhead/internal/searchindex"
)

// Config configures an Index.
type Config struct {
	// Path is the index's folder. It is created if needed.
	Path string
	// Logger may be nil.
	Logger *slog.Logger
}

// Index implements searchindex.Index.
type Index struct {
	folder folder
	lock   *flock.Flock
	log    *slog.Logger

	// mu is read-locked while live is used, and write-locked while it is replaced.
	mu         sync.RWMutex
	origin     searchindex.Origin // of this process; see Use
	live       *generation
	rebuilding *Rebuild
	frozen     bool // by rebuilding
	closed     bool
}

var _ searchindex.Index = (*Index)(nil)

// Open opens the index in a folder, or creates an empty one, with checkpoint 0, if there is none or it is damaged.
// Errors: as the file system; searchindex.ErrUnavailable if another process has the index open.
func Open(ctx context.Context, cfg Config) (*Index, error) {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	x := &Index{folder: folder{cfg.Path}, log: cfg.Logger}
	err := x.begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("open search index %s: %w", cfg.Path, err)
	}
	return x, nil
}

// begin locks the folder before it reads anything: unfinished files belong to the holder of the lock.
func (x *Index) begin(ctx context.Context) error {
	if err := os.MkdirAll(x.folder.path, 0o700); err != nil {
		return err
	}
	x.lock = flock.New(x.folder.at(lockName))
	locked, err := x.lock.TryLock()
	if err != nil {
		return err
	}
	if !locked {
		return fmt.Errorf("%w: another process has it open", searchindex.ErrUnavailable)
	}
	if x.live, err = x.folder.openCurrent(ctx, x.log); err != nil {
		return errors.Join(err, x.lock.Unlock())
	}
	return nil
}

// with calls f with the live generation.
func (x *Index) with(ctx context.Context, f func(*generation) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.closed {
		return searchindex.ErrClosed
	}
	return f(x.live)
}

func (x *Index) Use(of searchindex.Origin) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.origin = of
}

// checkLog returns an error if the live generation is of another log, or is to be written and of none.
func (x *Index) checkLog(g *generation, write bool) error {
	if x.origin.Log == "" || g.log == x.origin.Log || g.log == "" && !write {
		return nil
	}
	return fmt.Errorf("%w: %w", searchindex.ErrUnavailable, searchindex.ErrOtherLog)
}

func (x *Index) Apply(ctx context.Context, docs []searchindex.Document, checkpoint uint64) error {
	return x.with(ctx, func(g *generation) error {
		if x.frozen {
			return fmt.Errorf("a rebuild is about to be published: %w", searchindex.ErrUnavailable)
		}
		if err := x.checkLog(g, true); err != nil {
			return err
		}
		return g.apply(ctx, docs, checkpoint, x.origin.Last)
	})
}

func (x *Index) Checkpoint(ctx context.Context) (at uint64, of searchindex.Origin, err error) {
	err = x.with(ctx, func(g *generation) (err error) {
		last, err := g.index.GetInternal(lastKey)
		if err != nil {
			return fmt.Errorf("read the last event: %w: %w", searchindex.ErrUnavailable, err)
		}
		of = searchindex.Origin{Log: g.log, Last: string(last), Generation: g.name}
		at, err = g.checkpoint()
		return err
	})
	return at, of, err
}

func (x *Index) Search(ctx context.Context, text string, limit int) ([]searchindex.Hit, error) {
	var hits []searchindex.Hit
	err := x.with(ctx, func(g *generation) (err error) {
		if err = x.checkLog(g, false); err != nil {
			return err
		}
		hits, err = searchindex.Find(ctx, text, limit, g.ask)
		return err
	})
	return hits, err
}

func (x *Index) Scan(ctx context.Context, after string, limit int) ([]searchindex.Document, error) {
	if limit < 1 || limit > searchindex.MaxScan {
		return nil, fmt.Errorf("scan at most %d: %w", limit, searchindex.ErrInvalid)
	}
	var docs []searchindex.Document
	err := x.with(ctx, func(g *generation) (err error) {
		if err = x.checkLog(g, false); err != nil {
			return err
		}
		docs, err = g.run(ctx, bleve.NewMatchAllQuery(), limit, []string{"_id"}, after)
		return err
	})
	return docs, err
}

// Close implements searchindex.Index. A running rebuild is discarded.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return nil
	}
	x.closed = true
	var err error
	if x.rebuilding != nil {
		err = x.rebuilding.drop()
		x.rebuilding = nil
	}
	return errors.Join(err, x.folder.seal(x.live), x.lock.Unlock())
}

// Rebuild is a generation that is being built.
type Rebuild struct {
	index *Index
	g     *generation
	over  bool // guarded by index.mu
}

var _ searchindex.Generation = (*Rebuild)(nil)

func (x *Index) Rebuild(ctx context.Context) (searchindex.Generation, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.closed:
		return nil, searchindex.ErrClosed
	case x.rebuilding != nil:
		return nil, fmt.Errorf("a rebuild is in progress: %w", searchindex.ErrInvalid)
	}
	g, err := x.folder.begin()
	if err != nil {
		return nil, fmt.Errorf("begin a rebuild of the search index: %w", err)
	}
	g.log = x.origin.Log
	x.rebuilding = &Rebuild{index: x, g: g}
	return x.rebuilding, nil
}

func (r *Rebuild) Apply(ctx context.Context, docs []searchindex.Document, checkpoint uint64) error {
	r.index.mu.RLock()
	defer r.index.mu.RUnlock()
	if r.over {
		return searchindex.ErrClosed
	}
	return r.g.apply(ctx, docs, checkpoint, r.index.origin.Last)
}

func (r *Rebuild) Freeze(ctx context.Context) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	x := r.index
	x.mu.Lock()
	defer x.mu.Unlock()
	if r.over {
		return 0, searchindex.ErrClosed
	}
	x.frozen = true
	return x.live.checkpoint()
}

func (r *Rebuild) Publish(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	x := r.index
	x.mu.Lock()
	defer x.mu.Unlock()
	if r.over {
		return searchindex.ErrClosed
	}
	if err := x.folder.setCurrent(r.g.name); err != nil {
		return fmt.Errorf("publish the rebuilt search index: %w: %w", searchindex.ErrUnavailable, err)
	}
	old := x.live
	x.live, x.rebuilding, x.frozen, r.over = r.g, nil, false, true
	if err := errors.Join(old.close(), x.folder.remove(old.name)); err != nil {
		// The new generation is live; the next start removes the rest of the old one.
		x.log.Warn("old search index not removed", "generation", old.name, "error", err)
	}
	return nil
}

func (r *Rebuild) Discard() error {
	x := r.index
	x.mu.Lock()
	defer x.mu.Unlock()
	if r.over {
		return nil
	}
	x.rebuilding, x.frozen = nil, false
	return r.drop()
}

func (r *Rebuild) drop() error {
	r.over = true
	return errors.Join(r.g.close(), r.index.folder.remove(r.g.name))
}

func (g *generation) ask(ctx context.Context, asks []searchindex.Ask) ([]searchindex.Document, error) {
	var found []searchindex.Document
	for _, a := range asks {
		docs, err := g.run(ctx, queryOf(a), searchindex.Candidates, []string{fieldOrder, "_id"}, "")
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
	found, err := g.run(ctx, bleve.NewDocIDQuery(ids), len(ids), nil, "")
	for _, d := range found {
		held[d.Domain] = d.Version
	}
	return held, err
}

// run returns at most limit documents, in an order unless that is nil, after a domain unless that is empty.
func (g *generation) run(ctx context.Context, q query.Query, limit int, order []string,
	after string) ([]searchindex.Document, error) {
	req := bleve.NewSearchRequestOptions(q, limit, 0, false)
	req.Score = "none"
	req.Fields = []string{fieldStored}
	if order != nil {
		req.SortBy(order)
	}
	if after != "" {
		req.SetSearchAfter([]string{after})
	}
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
