package elastic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"letterhead/internal/searchindex"
)

// Limits of an open index.
const (
	// openTimeout bounds how long Open looks for the cluster.
	openTimeout = 15 * time.Second
	// closeTimeout bounds the clearing up at the end.
	closeTimeout = 10 * time.Second
	// maxRaces bounds how often a step is begun again because another node was faster.
	maxRaces = 5
)

// errNames: names in the cluster are taken or changed in a way that only a person can put right.
var errNames = errors.New("search index has the wrong names")

// Index implements searchindex.Index.
type Index struct {
	settings settings
	names    names
	client   *client
	log      *slog.Logger

	// preparing has an entry while somebody makes the template and the first generation.
	preparing chan struct{}

	mu         sync.Mutex
	bound      *generation // the one that Apply writes to; nil until the cluster was reached
	rebuilding *Rebuild
	thaw       thaw
	closed     bool
}

var _ searchindex.Index = (*Index)(nil)

// Open opens the index of a cluster, and makes it when there is none. A cluster that cannot be reached now
// is no error: the index then answers ErrUnavailable until it can. Errors: all that is wrong with the settings,
// without the URL, which may hold a password; what waiting does not mend: credentials that are refused, a server
// that is not Elasticsearch, names that are taken.
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
	x := &Index{settings: s, names: namesOf(s.alias, s.analyzer.Version), client: c, log: s.logger, preparing: make(chan struct{}, 1)}
	look, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	_, err = x.prepared(look)
	if err != nil && ctx.Err() == nil && !lasting(err) {
		x.log.Warn("search index cannot be reached and will be tried again", "alias", x.names.alias, "error", err)
		err = nil
	}
	if err == nil {
		err = m.register(cfg.Registerer) // last: what fails before may be tried again with the same registry
	}
	if err != nil {
		s.transport.CloseIdleConnections()
		return nil, fmt.Errorf("open the search index %s: %w", x.names.alias, err)
	}
	return x, nil
}

// lasting says whether an error stays until a person does something.
func lasting(err error) bool {
	var no *refusal
	return errors.Is(err, errNames) || errors.Is(err, errForeign) || errors.As(err, &no) && !passing(no.Status)
}

// usable refuses what cannot be asked any more.
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

// prepared returns the generation that this Index writes to, and finds or makes it the first time.
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
		return generation{}, x.client.ended(ctx, "prepare", errors.New("another caller asks the cluster already"))
	}
	if x.mu.Lock(); x.bound != nil {
		defer x.mu.Unlock()
		return *x.bound, nil
	}
	x.mu.Unlock()
	if err := x.putTemplate(ctx); err != nil {
		return generation{}, err
	}
	live, err := x.ensure(ctx)
	if err != nil {
		return generation{}, err
	}
	if err := x.checkMapping(ctx, live.name); err != nil {
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

// ensure returns the generation that answers, and makes an empty one when there is none. Its name is the
// same on two nodes that do so at once, so that one of them makes it and the other finds it.
func (x *Index) ensure(ctx context.Context) (generation, error) {
	for range maxRaces {
		c, err := x.look(ctx)
		if err != nil {
			return generation{}, err
		}
		if c.live != nil {
			x.clear(ctx, c)
			return *c.live, nil
		}
		g := generation{name: x.names.first(c.last + 1), number: c.last + 1, live: true}
		g.write = own(g.name, writeMark)
		err = x.create(ctx, g, object{g.write: object{}, x.names.alias: object{}}, object{})
		if err == nil {
			return g, nil
		}
		if !isRefusal(err, alreadyExists) {
			return generation{}, err
		}
	}
	return generation{}, fmt.Errorf("%w: other nodes make it at the same time", searchindex.ErrUnavailable)
}

// clear drops the generations before the one that answers, also those that are still being built: numbers
// only grow, and nobody needs these any more.
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

// end drops a generation that does not answer, in whatever state it is.
func (x *Index) end(ctx context.Context, g generation) error {
	if g.spent() {
		return x.drop(ctx, g)
	}
	return x.abandon(ctx, g)
}

// create makes an index, in one step with its aliases.
func (x *Index) create(ctx context.Context, g generation, aliases, settings object) error {
	body, err := json.Marshal(object{"aliases": aliases, "settings": settings})
	if err != nil {
		return err
	}
	return x.acknowledged(ctx, request{op: "create", method: http.MethodPut, path: "/" + g.name, body: body, write: true})
}

// Search implements searchindex.Index.
func (x *Index) Search(ctx context.Context, text string, limit int) ([]searchindex.Hit, error) {
	if err := x.usable(ctx); err != nil {
		return nil, err
	}
	return x.settings.analyzer.Find(ctx, text, limit, x.candidates)
}

// Scan implements searchindex.Index.
func (x *Index) Scan(ctx context.Context, after string, limit int) ([]searchindex.Document, error) {
	if err := x.usable(ctx); err != nil {
		return nil, err
	}
	if limit < 1 || limit > searchindex.MaxScan {
		return nil, fmt.Errorf("scan at most %d: %w", limit, searchindex.ErrInvalid)
	}
	return x.scan(ctx, after, limit)
}

// Checkpoint implements searchindex.Index.
func (x *Index) Checkpoint(ctx context.Context) (uint64, error) {
	if err := x.usable(ctx); err != nil {
		return 0, err
	}
	// A writer's position must be of the generation that it is bound to, or of a later one: then the next
	// Apply is refused. So the binding comes first.
	bound, err := x.prepared(ctx)
	if err != nil {
		return 0, err
	}
	at, index, err := x.checkpointOf(ctx, x.names.alias)
	if err != nil {
		return 0, err
	}
	if n := x.names.number(index); n < bound.number {
		return 0, fmt.Errorf("checkpoint: %w: a node of the cluster still answers from %s", searchindex.ErrUnavailable, index)
	}
	return at, nil
}

// Close implements searchindex.Index. A rebuild under way is discarded.
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
