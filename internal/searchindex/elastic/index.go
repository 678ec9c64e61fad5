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
func (x *Index) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
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
