package elastic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"letterhead/internal/delay"
	"letterhead/internal/searchindex"
)

// Limits of writing.
const (
	// maxBulk limits the body of one bulk request in bytes, except for a single larger document.
	// Elasticsearch recommends a few megabytes.
	maxBulk = 4 << 20
	// buildWriters is the number of concurrent requests that fill a generation. The cluster processes each on one
	// thread, and syncs its log at the end of each; two of them keep it busy, measured on two cores.
	buildWriters = 2
	// minPart is the minimum number of documents of a batch that is divided among them.
	minPart = 250
	// maxDomain is the longest id that Elasticsearch accepts, in bytes.
	maxDomain = 512
	// frozenWait limits how long a writer waits for a rebuild to be published, which takes three requests.
	frozenWait = 5 * time.Second
	// frozenPoll is the interval of its checks.
	frozenPoll = 50 * time.Millisecond
	// maxFrozen is how long a generation may be seen frozen before it is thawed: longer than a rebuild
	// takes from Freeze to Publish, unless it has died.
	maxFrozen = 30 * time.Second
)

// errNotWritable means that the generation is not writable under the name that the writer knows.
var errNotWritable = errors.New("the generation is not writable")

// source is the indexed form of a document.
type source struct {
	searchindex.Document
	Exact  []string `json:"exact,omitempty"`
	Begins []string `json:"begins,omitempty"`
	Words  []string `json:"words,omitempty"`
	Typos  []string `json:"typos,omitempty"`
	Order  int64    `json:"order"`
}

// item is one pair of lines in a bulk body.
type item struct {
	domain string
	lines  []byte
}

func (x *Index) itemOf(d searchindex.Document) (item, error) {
	if len(d.Domain) > maxDomain || d.Domain[0] == checkpointID[0] || d.Version > math.MaxInt64 ||
		math.IsNaN(d.Quality) || math.IsInf(d.Quality, 0) {
		return item{}, fmt.Errorf("document %.100q at version %d of quality %v: %w", d.Domain, d.Version, d.Quality,
			searchindex.ErrInvalid)
	}
	type index struct {
		ID      string `json:"_id"`
		Version uint64 `json:"version"`
		Type    string `json:"version_type"`
	}
	head := encode(map[string]index{"index": {d.Domain, d.Version, "external"}})
	t := x.settings.analyzer.Terms(d)
	body := encode(source{d, t.Exact, t.Begins, t.Words, t.Typos, t.Order})
	lines := append(append(append(head, '\n'), body...), '\n')
	return item{d.Domain, lines}, nil
}

// itemsOf validates a batch before anything is sent.
func (x *Index) itemsOf(docs []searchindex.Document) ([]item, error) {
	newest, err := searchindex.Newest(docs)
	if err != nil {
		return nil, err
	}
	items := make([]item, len(newest))
	for i, d := range newest {
		if items[i], err = x.itemOf(d); err != nil {
			return nil, err
		}
	}
	return items, nil
}

func (x *Index) Apply(ctx context.Context, docs []searchindex.Document, checkpoint uint64) error {
	if err := x.usable(ctx); err != nil {
		return err
	}
	items, err := x.itemsOf(docs)
	if err != nil {
		return err
	}
	g, err := x.prepared(ctx)
	if err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, frozenWait)
	defer cancel()
	for {
		err := x.write(ctx, g, items, checkpoint)
		if !errors.Is(err, errNotWritable) {
			return err
		}
		if err := x.rebind(ctx, g); err != nil {
			return err
		}
		if delay.For(wait, frozenPoll) != nil {
			if ctx.Err() != nil {
				return x.client.ended(ctx, "apply", err)
			}
			return fmt.Errorf("apply: %w: a rebuild is about to be published", searchindex.ErrUnavailable)
		}
	}
}

// write stores documents, refreshes the index, and then stores the checkpoint, all in one generation.
func (x *Index) write(ctx context.Context, g generation, items []item, checkpoint uint64) error {
	if own := x.used().Log; g.write == "" || own != "" && g.log != own { // frozen when bound, or another log's
		return errNotWritable
	}
	if err := x.bulk(ctx, g, items, true); err != nil {
		return err
	}
	return x.putCheckpoint(ctx, g, checkpoint)
}

// bulk stores documents, with as many requests as their size takes. visible means that searches must
// find them when it returns, including documents that an earlier request left unrefreshed.
func (x *Index) bulk(ctx context.Context, g generation, items []item, visible bool) error {
	if len(items) == 0 {
		return nil
	}
	for len(items) > 0 {
		n, size := 0, 0
		for n < len(items) && (n == 0 || size+len(items[n].lines) <= maxBulk) {
			size += len(items[n].lines)
			n++
		}
		last := n == len(items)
		// The refresh of the last request covers all of them: there is one shard.
		if err := x.bulkPart(ctx, g, items[:n], visible && last); err != nil {
			return err
		}
		items = items[n:]
	}
	return nil
}

// bulkApart stores documents of a generation that is being built, which no search reads yet, with several concurrent
// requests. Each document is in one of them, and has a version, so their order does not matter.
func (x *Index) bulkApart(ctx context.Context, g generation, items []item) error {
	var group sync.WaitGroup
	var wrong [buildWriters]error
	for i, part := range parts(items) {
		group.Go(func() { wrong[i] = x.bulk(ctx, g, part, false) })
	}
	group.Wait()
	return errors.Join(wrong[:]...)
}

// parts divides items among at most buildWriters requests.
func parts(items []item) [][]item {
	size := max((len(items)+buildWriters-1)/buildWriters, minPart)
	return slices.Collect(slices.Chunk(items, size))
}

// bulkPart sends one bulk request, and retries the items that were rejected temporarily.
func (x *Index) bulkPart(ctx context.Context, g generation, items []item, refresh bool) error {
	all := len(items)
	_, err := x.client.do(ctx, request{
		op: "bulk", method: http.MethodPost, path: "/" + g.write + "/_bulk", body: bulkBody(items), lines: true,
		write: true,
		query: fmt.Sprintf("require_alias=true&refresh=%t&filter_path=items.index.status,items.index.error.type,items.index.error.reason", refresh),
		accept: func(r *request, answer []byte) error {
			rejected, cause, err := rejectedItems(items, answer)
			if err != nil || len(rejected) == 0 {
				return err
			}
			items, r.body = rejected, bulkBody(rejected)
			return fmt.Errorf("%d of %d documents were rejected, among them %s: %w",
				len(rejected), all, rejected[0].domain, cause)
		},
	})
	return notWritable(err)
}

func bulkBody(items []item) []byte {
	size := 0
	for _, i := range items {
		size += len(i.lines)
	}
	body := make([]byte, 0, size)
	for _, i := range items {
		body = append(body, i.lines...)
	}
	return body
}

// rejectedItems returns the items to retry, and why the first of them was rejected. A permanently rejected
// item is an error.
func rejectedItems(items []item, body []byte) (rejected []item, cause, err error) {
	var answer struct {
		Items []struct {
			Index struct {
				Status int
				Error  *struct{ Type, Reason string }
			}
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, nil, unreadable(err)
	}
	if len(answer.Items) != len(items) {
		return nil, nil, fmt.Errorf("%d results of %d documents", len(answer.Items), len(items))
	}
	for i, a := range answer.Items {
		if a.Index.Error == nil && a.Index.Status > 0 || a.Index.Status == http.StatusConflict {
			continue
		}
		no := &rejection{Status: a.Index.Status}
		if a.Index.Error != nil {
			no.Type, no.Reason = a.Index.Error.Type, a.Index.Error.Reason
		}
		if !passing(no.Status) {
			return nil, nil, fmt.Errorf("document %s: %w", items[i].domain, no)
		}
		if cause == nil {
			cause = no
		}
		rejected = append(rejected, items[i])
	}
	return rejected, cause, nil
}

// notWritable returns errNotWritable for errors that mean that a generation is not writable, and other
// errors unchanged.
func notWritable(err error) error {
	if isRejection(err, noIndex) || isRejection(err, blocked) {
		return fmt.Errorf("%w: %w", errNotWritable, err)
	}
	return err
}

// putCheckpoint stores the checkpoint, unless the generation has an equal or larger one.
func (x *Index) putCheckpoint(ctx context.Context, g generation, checkpoint uint64) error {
	if checkpoint == 0 {
		return nil
	}
	if checkpoint > math.MaxInt64 {
		return fmt.Errorf("checkpoint %d: %w", checkpoint, searchindex.ErrInvalid)
	}
	content := object{fieldCheckpoint: checkpoint}
	if last := x.used().Last; last != "" {
		content[fieldLast] = last
	}
	err := x.save(ctx, g, checkpointID, fmt.Sprintf("version=%d&version_type=external&", checkpoint), content)
	if isRejection(err, conflict) {
		return nil
	}
	return notWritable(err)
}

// save stores a document that is no brand.
func (x *Index) save(ctx context.Context, g generation, id, query string, content object) error {
	_, err := x.client.do(ctx, request{op: "save", method: http.MethodPut, path: "/" + g.write + "/_doc/" + id,
		write: true, query: query + "require_alias=true", body: encode(content)})
	return err
}

// thaw is a writer's state of a frozen generation. Clocks of nodes are not compared: each counts from
// when it first saw the generation frozen.
type thaw struct {
	frozen string // the alias
	since  time.Time
}

// rebind determines why a generation is not writable. It returns nil if it may soon be writable again,
// and searchindex.ErrReplaced after it has bound the Index to another generation.
func (x *Index) rebind(ctx context.Context, g generation) error {
	c, err := x.look(ctx)
	if err != nil {
		return err
	}
	if c.live == nil { // it was deleted; the log is fed again
		x.mu.Lock()
		x.bound = nil
		x.mu.Unlock()
		if _, err := x.prepared(ctx); err != nil {
			return err
		}
		return fmt.Errorf("apply: %w: %s no longer exists", searchindex.ErrReplaced, g.name)
	}
	live := *c.live
	if live.log, err = x.logOf(ctx, live.name); err != nil {
		return err
	}
	switch own := x.used().Log; {
	case own != "" && (g.log != own || live.log != own): // not to be thawed
		if live.name == g.name {
			return fmt.Errorf("apply: %w", errOtherLog)
		}
	case live.frozen != "":
		return x.thawOld(ctx, live)
	case live.write == g.write: // blocked by a rebuild that was thawed before it got so far, or by an operator
		return x.unblock(ctx, live.name)
	case live.write == "":
		return fmt.Errorf("apply: %w: %s has lost its write alias; a rebuild creates another generation",
			searchindex.ErrUnavailable, live.name)
	}
	x.bind(live)
	return fmt.Errorf("apply: %w: %s replaced %s", searchindex.ErrReplaced, live.name, g.name)
}

// thawOld thaws a generation that has been frozen for too long.
func (x *Index) thawOld(ctx context.Context, g generation) error {
	x.mu.Lock()
	if x.thaw.frozen != g.frozen {
		x.thaw = thaw{g.frozen, time.Now()}
	}
	old := time.Since(x.thaw.since) >= maxFrozen
	x.mu.Unlock()
	if !old {
		return nil
	}
	x.log.Warn("thawing a search index that an unfinished rebuild froze", "index", g.name)
	err := x.unfreeze(ctx, g)
	if isRejection(err, noAlias) || isRejection(err, noIndex) {
		return nil // another writer was faster
	}
	return err
}

// unfreeze makes a generation writable again. It moves the aliases first: from then on the rebuild
// that froze it cannot be published.
func (x *Index) unfreeze(ctx context.Context, g generation) error {
	err := x.aliases(ctx, "thaw", removeAlias(g.name, g.frozen), addAlias(g.name, own(g.name, writeMark)))
	if err != nil {
		return err
	}
	return x.unblock(ctx, g.name)
}
