// Package elastic is the search index that several nodes share: an Elasticsearch cluster, version 8.
//
// # Names
//
// With the alias "brands" and mapping version 1 the cluster contains:
//
//	brands_v1              alias    the live generation; every read goes through it
//	brands_v1_g000007_…    index    one generation; the very first has no random suffix
//	brands_v1_g…_b_…       alias    of a generation that is being built
//	brands_v1_g…_w_…       alias    of a writable generation; every write goes through it
//	brands_v1_g…_f_…       alias    of a frozen generation, in place of the write alias
//	brands_v1              template common settings of all generations
//
// Writes require that their name is an alias, so that no write ever creates an index: neither under the alias's name
// nor under the name of a generation that was just dropped. The random suffix of an alias distinguishes the periods in
// which a generation is writable; the random suffix of an index prevents a late request for a dropped generation from
// affecting another. Nodes of another mapping version use a different alias and different generations, so that two
// releases can run at the same time; the operator deletes the indices of versions that are no longer used.
//
// # Writing
//
// A document's external version is its log position; a conflict means that the index holds a newer one, and counts as
// success. The checkpoint is a separate document with its value as external version: it only grows, is written after
// its documents were refreshed, and always to the generation that received these documents. So any number of writers,
// including a former leader, maintain one invariant in each generation: all changes of brands in the log up to the
// checkpoint are in the index and searchable. A withdrawn brand leaves a tombstone, because Elasticsearch forgets the
// version of a deleted document after index.gc_deletes.
//
// # The log of an index
//
// The document ~log names the log of a generation. A rebuild writes it first, and it never changes: a writer reads it
// when it binds to the generation, and each search asks for it in the same request. The checkpoint's document names an
// event before it. The mapping's _meta has neither, because nodes of release 0.1.0 reject one that they do not know.
//
// # Rebuilding
//
// Freeze atomically removes the write alias from the live generation and then sets a write block, whose response means
// that all running writes have ended. Its checkpoint is then final. Publish moves the read alias, but only if the
// generation is still frozen by the same rebuild. In the same step it removes the build alias from its own generation.
// To delete a generation that is being built, because its rebuild is over or void, a node first removes this alias, and
// spares the generation if the alias is missing: so when a Publish and a Discard, or two rebuilds, race, one loses and
// does nothing. A writer that finds a generation frozen for longer than half a minute thaws it; the rebuild, if it is
// still alive, then fails.
//
// # Searching
//
// The search terms of a brand are computed in Go, by the parent package, for both adapters alike,
// including letter folding and parts of domains; the index's analyzer only creates the edge n-grams.
// Candidates come from term and fuzzy queries without scores, and searchindex.Rank orders them.
package elastic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"letterhead/internal/searchindex"
	"letterhead/internal/telemetry"
)

// Limits of an open index.
const (
	// openTimeout limits how long Open tries to reach the cluster.
	openTimeout = 15 * time.Second
	// closeTimeout limits the cleanup at the end.
	closeTimeout = 10 * time.Second
	// maxRaces limits how often a step is restarted because another node was faster.
	maxRaces = 5
)

// errNames means that names in the cluster are in use or changed in a way that an operator must fix.
var errNames = errors.New("search index has the wrong names")

// Index implements searchindex.Index.
type Index struct {
	settings settings
	names    names
	client   *client
	log      *slog.Logger

	// preparing has an entry while a goroutine creates the template and the first generation.
	preparing chan struct{}
	origin    atomic.Pointer[searchindex.Origin] // of this process; see Use

	mu         sync.Mutex
	bound      *generation // the one that Apply writes to; nil until the cluster was reached
	rebuilding *Rebuild
	thaw       thaw
	closed     bool
}

var _ searchindex.Index = (*Index)(nil)

// Open opens the index of a cluster, and creates it if there is none. An unreachable cluster is not an
// error: the index returns ErrUnavailable until it is reachable. Errors: all errors of the
// configuration, without the URL, which may contain a password; conditions that waiting does not fix:
// rejected credentials, a server that is not Elasticsearch, names that are in use.
func Open(ctx context.Context, cfg Config) (*Index, error) {
	s, err := cfg.read()
	if err != nil {
		return nil, err
	}
	m := newMetrics()
	c, err := newClient(s, m)
	if err != nil {
		return nil, err
	}
	x := &Index{settings: s, names: namesOf(s.alias, s.analyzer.Version), client: c, log: s.logger,
		preparing: make(chan struct{}, 1)}
	x.Use(searchindex.Origin{})
	look, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	_, err = x.prepared(look)
	if err != nil && ctx.Err() == nil && !lasting(err) {
		x.log.Warn("search index is unreachable; retrying later", "alias", x.names.alias, "error", err)
		err = nil
	}
	if err == nil {
		// Last: after an earlier failure Open may be retried with the same registry.
		err = telemetry.Register(cfg.Registerer, m.seconds, m.retries)
	}
	if err != nil {
		s.transport.CloseIdleConnections()
		return nil, fmt.Errorf("open the search index %s: %w", x.names.alias, err)
	}
	return x, nil
}

// lasting reports whether an error remains until an operator acts. If an index is missing, another node has just swapped
// it away.
func lasting(err error) bool {
	var no *rejection
	return errors.Is(err, errNames) || errors.Is(err, errForeign) ||
		errors.As(err, &no) && !passing(no.Status) && no.Type != noIndex
}

// usable returns an error if the index is closed or the context has ended.
func (x *Index) usable(ctx context.Context) error { return unless(ctx, &x.mu, &x.closed) }

// unless returns an error if the context has ended, or if closed, which mu guards, is true.
func unless(ctx context.Context, mu sync.Locker, closed *bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	mu.Lock()
	defer mu.Unlock()
	if *closed {
		return searchindex.ErrClosed
	}
	return nil
}

// prepared returns the generation that this Index writes to, which it finds or creates the first time.
func (x *Index) prepared(ctx context.Context) (generation, error) {
	x.mu.Lock()
	bound := x.bound
	x.mu.Unlock()
	if bound != nil {
		return *bound, nil
	}
	select {
	case x.preparing <- struct{}{}:
		defer func() { <-x.preparing }()
	case <-ctx.Done():
		return generation{}, x.client.ended(ctx, "prepare", errors.New("waited for a request of another caller"))
	}
	if x.mu.Lock(); x.bound != nil {
		defer x.mu.Unlock()
		return *x.bound, nil
	}
	x.mu.Unlock()
	live, err := x.ensure(ctx)
	if err != nil {
		return generation{}, err
	}
	if err := x.checkMapping(ctx, live.name); err != nil {
		return generation{}, err
	}
	if live.log, err = x.logOf(ctx, live.name); err != nil {
		return generation{}, err
	}
	x.bind(live)
	return live, nil
}

func (x *Index) bind(g generation) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.bound = &g
}

func (x *Index) Use(of searchindex.Origin) { x.origin.Store(&of) }

func (x *Index) used() searchindex.Origin { return *x.origin.Load() }

var errOtherLog = fmt.Errorf("%w: %w", searchindex.ErrUnavailable, searchindex.ErrOtherLog)

// checkLog returns errOtherLog if a generation that names a log is of another one than this process.
func (x *Index) checkLog(log string) error {
	if own := x.used().Log; own != "" && log != "" && log != own {
		return errOtherLog
	}
	return nil
}

// ensure returns the live generation, and creates an empty one if there is none. Two nodes that do so
// at the same time use the same name, so one of them creates it and the other finds it.
func (x *Index) ensure(ctx context.Context) (generation, error) {
	for range maxRaces {
		c, err := x.look(ctx)
		if err != nil {
			return generation{}, err
		}
		if c.live != nil {
			return *c.live, nil
		}
		if err := x.putTemplate(ctx); err != nil {
			return generation{}, err
		}
		g := generation{name: x.names.first(c.last + 1), number: c.last + 1, live: true}
		g.write = own(g.name, writeMark)
		err = x.create(ctx, g, object{g.write: object{}, x.names.alias: object{}}, object{})
		if err == nil {
			return g, nil
		}
		if !isRejection(err, alreadyExists) {
			return generation{}, err
		}
	}
	return generation{}, fmt.Errorf("%w: other nodes create it at the same time", searchindex.ErrUnavailable)
}

// clear drops the generations before the live one, including those that are still being built: numbers
// only grow, so they are obsolete.
func (x *Index) clear(ctx context.Context, c cluster) {
	for _, g := range c.all {
		if c.live == nil || !after(*c.live, g) {
			continue
		}
		if err := x.end(ctx, g); err != nil {
			x.log.Warn("old search index not removed", "index", g.name, "error", err)
		}
	}
}

// end drops a generation that is not live, in any state.
func (x *Index) end(ctx context.Context, g generation) error {
	if g.spent() {
		return x.drop(ctx, g)
	}
	return x.abandon(ctx, g)
}

// create creates an index together with its aliases.
func (x *Index) create(ctx context.Context, g generation, aliases, settings object) error {
	return x.change(ctx, "create", http.MethodPut, "/"+g.name, object{"aliases": aliases, "settings": settings})
}

func (x *Index) Search(ctx context.Context, text string, limit int) ([]searchindex.Hit, error) {
	if err := x.usable(ctx); err != nil {
		return nil, err
	}
	return x.settings.analyzer.Find(ctx, text, limit, x.candidates)
}

func (x *Index) Scan(ctx context.Context, after string, limit int) ([]searchindex.Document, error) {
	if err := x.usable(ctx); err != nil {
		return nil, err
	}
	if limit < 1 || limit > searchindex.MaxScan {
		return nil, fmt.Errorf("scan at most %d: %w", limit, searchindex.ErrInvalid)
	}
	if x.used().Log != "" {
		log, err := x.logOf(ctx, x.names.alias)
		if err = cmp.Or(err, x.checkLog(log)); err != nil {
			return nil, err
		}
	}
	return x.scan(ctx, after, limit)
}

func (x *Index) Checkpoint(ctx context.Context) (uint64, searchindex.Origin, error) {
	var of searchindex.Origin
	if err := x.usable(ctx); err != nil {
		return 0, of, err
	}
	// A writer's position must be the position of its bound generation or of a later one: then the next Apply
	// is rejected. So the binding comes first.
	bound, err := x.prepared(ctx)
	if err != nil {
		return 0, of, err
	}
	saved, err := x.savedIn(ctx, x.names.alias, checkpointID)
	if err != nil {
		return 0, of, err
	}
	if n := x.names.number(saved.index); n < bound.number {
		return 0, of, fmt.Errorf("checkpoint: %w: a node of the cluster still reads %s", searchindex.ErrUnavailable,
			saved.index)
	}
	of = searchindex.Origin{Log: bound.log, Last: saved.Last, Generation: saved.index}
	if saved.index != bound.name {
		of.Log, err = x.logOf(ctx, saved.index)
	}
	return saved.Checkpoint, of, err
}

// Close implements searchindex.Index. A running rebuild is discarded.
func (x *Index) Close() error {
	x.mu.Lock()
	if x.closed {
		x.mu.Unlock()
		return nil
	}
	x.closed = true
	rebuilding := x.rebuilding
	x.mu.Unlock()
	var err error
	if rebuilding != nil {
		err = rebuilding.Discard()
	}
	x.settings.transport.CloseIdleConnections()
	return err
}
