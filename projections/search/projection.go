// Package search keeps the search index current and answers searches.
//
// It follows the read model of brands and not the log: what is found is what a lookup would answer, and the
// fold exists once. The index takes the position of a brand's last change as its version and the position
// up to which it is fed as its checkpoint, which trails the brands table; after a crash the missing part is
// fed again and changes nothing that is there.
package search

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/eventlog"
	"letterhead/internal/searchindex"
	"letterhead/projections"
	"letterhead/projections/brands"
)

// Name of the read model.
const Name = "search"

// Defaults and limits.
const (
	// batch is how many brands are read and indexed at once.
	batch = brands.MaxPage
	// DefaultPoll is how long to wait before the brands are asked again, when nobody tells that they moved.
	DefaultPoll = 100 * time.Millisecond
	// calm is the shortest time between two questions that found nothing: the brands table moves with every
	// charge, and a brand changes with few of them.
	calm = 10 * time.Millisecond
	// retryFirst and retryLast bound the pause after a failure; it doubles in between.
	retryFirst = 100 * time.Millisecond
	retryLast  = 30 * time.Second
	// closing bounds the last write of the checkpoint.
	closing = 5 * time.Second
)

// Source is where the documents come from: the read model of brands.
type Source interface {
	// Changed returns brands that changed after a position, in that order, and up to where all were returned;
	// see brands.Model.
	Changed(ctx context.Context, after eventlog.Position, limit int) ([]brands.Doc, eventlog.Position, error)
}

// Config of a Projection. The zero value is complete.
type Config struct {
	// Await waits until the source stands at a position or past it. Without it the source is asked every
	// Poll; with it Poll is only the longest wait after it failed.
	Await func(ctx context.Context, at eventlog.Position) error
	// Head returns the end of the log. With it, New empties an index that stands past it: such an index was
	// fed from another log, and would never be corrected because versions only grow.
	Head func(ctx context.Context) (eventlog.Position, error)
	// Poll is 100 ms unless set.
	Poll       time.Duration
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

func (c Config) withDefaults() Config {
	if c.Poll == 0 {
		c.Poll = DefaultPoll
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate reports everything that is wrong with the configuration.
func (c Config) Validate() error {
	if c.Poll < 0 {
		return fmt.Errorf("search: Poll is %s", c.Poll)
	}
	return nil
}

// Projection feeds an index and searches it.
type Projection struct {
	cfg     Config
	source  Source
	index   searchindex.Index
	metrics *metrics

	// feed is held by who writes to the index or compares it.
	feed sync.Mutex
	// saved is the checkpoint that the index has; under feed.
	saved eventlog.Position

	mu      sync.Mutex
	at      eventlog.Position // everything up to here is found
	err     error             // why it stands still
	changed chan struct{}     // closed at the next change; nil while nobody waits
}

// New returns a projection that goes on where the index stands. Errors: those of Validate, of Head and of
// the index.
func New(ctx context.Context, cfg Config, source Source, index searchindex.Index) (*Projection, error) {
	err := cfg.Validate()
	if source == nil || index == nil {
		err = errors.Join(err, errors.New("search: source and index are needed"))
	}
	if err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	at, err := startOf(ctx, cfg, index)
	if err != nil {
		return nil, fmt.Errorf("open search: %w", err)
	}
	p := &Projection{cfg: cfg, source: source, index: index, saved: at, at: at}
	if p.metrics, err = newMetrics(cfg.Registerer, p.Position); err != nil {
		return nil, err
	}
	return p, nil
}

// startOf returns where the index stands, after it was emptied if that is past the log's end.
func startOf(ctx context.Context, cfg Config, index searchindex.Index) (eventlog.Position, error) {
	stands, err := index.Checkpoint(ctx)
	if err != nil || cfg.Head == nil {
		return eventlog.Position(stands), err
	}
	head, err := cfg.Head(ctx)
	if err != nil || eventlog.Position(stands) <= head {
		return eventlog.Position(stands), err
	}
	cfg.Logger.Warn("search index is of another log and will be built again", "position", stands, "head", head)
	g, err := index.Rebuild(ctx)
	if err != nil {
		return 0, err
	}
	return 0, errors.Join(g.Publish(ctx), g.Discard())
}

// Run feeds the index until ctx ends, and returns nil then. Failures are tried again, with growing pauses.
func (p *Projection) Run(ctx context.Context) error {
	pause := retryFirst
	for ctx.Err() == nil {
		fed, err := p.step(ctx)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, projections.ErrNotReady): // a first start: the brands table is being built
			sleep(ctx, p.cfg.Poll)
		case err != nil:
			p.fail(err)
			p.cfg.Logger.Warn("search index stands still", "position", p.Position(), "error", err, "again_in", pause)
			sleep(ctx, pause)
			pause = min(2*pause, retryLast)
		default:
			pause = retryFirst
			if fed == 0 {
				p.idle(ctx)
			}
		}
	}
	return p.save(ctx)
}

// idle waits until the source may have moved.
func (p *Projection) idle(ctx context.Context) {
	if p.cfg.Await == nil {
		sleep(ctx, p.cfg.Poll)
		return
	}
	sleep(ctx, calm)
	if err := p.cfg.Await(ctx, p.Position()+1); err != nil {
		sleep(ctx, p.cfg.Poll)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// step feeds one batch and returns how many brands it had.
func (p *Projection) step(ctx context.Context) (int, error) {
	p.feed.Lock()
	defer p.feed.Unlock()
	docs, upTo, err := p.source.Changed(ctx, p.Position(), batch)
	if err != nil {
		return 0, err
	}
	return len(docs), p.take(ctx, docs, upTo)
}

// take indexes brands. Without any there is nothing to write: the checkpoint may trail, and the position
// moves with every event of any kind.
func (p *Projection) take(ctx context.Context, docs []brands.Doc, upTo eventlog.Position) error {
	if len(docs) > 0 {
		if err := p.index.Apply(ctx, documents(docs), uint64(upTo)); err != nil {
			return err
		}
		p.saved = upTo
		p.metrics.indexed.Add(float64(len(docs)))
	}
	p.reach(upTo)
	return nil
}

// save writes the checkpoint when Run ends, so that the next start has nothing to look for.
func (p *Projection) save(ctx context.Context) error {
	p.feed.Lock()
	defer p.feed.Unlock()
	at := p.Position()
	if at == p.saved {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing) // Run ends because ctx did
	defer cancel()
	if err := p.index.Apply(ctx, nil, uint64(at)); err != nil {
		return fmt.Errorf("save the search index's checkpoint: %w", err)
	}
	p.saved = at
	return nil
}

func documents(docs []brands.Doc) []searchindex.Document {
	out := make([]searchindex.Document, len(docs))
	for i, d := range docs {
		out[i] = document(d)
	}
	return out
}

func document(d brands.Doc) searchindex.Document {
	if d.Gone {
		return searchindex.Document{Domain: d.Domain, Version: uint64(d.Position), Gone: true}
	}
	return searchindex.Document{
		Domain: d.Domain, BrandID: d.BrandID, Name: d.Name, Quality: d.QualityScore, Claimed: d.Claimed,
		Version: uint64(d.Position),
	}
}

// Position is that up to which all changes of brands are found.
func (p *Projection) Position() eventlog.Position {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at
}

// Err is why the index stands still, nil while it is fed.
func (p *Projection) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *Projection) reach(at eventlog.Position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.err = max(p.at, at), nil
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// restart is reach for an index that was built anew: it may stand before the one it replaces.
func (p *Projection) restart(at eventlog.Position) {
	p.saved = at
	p.mu.Lock()
	p.at = at
	p.mu.Unlock()
	p.reach(at)
}

func (p *Projection) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
	p.metrics.failures.Inc()
}

// WaitFor waits until everything up to a position is found. It does not give up when feeding fails, because
// that is tried again: the caller's ctx is the bound. Errors: ctx.Err(), with the failure if there is one.
func (p *Projection) WaitFor(ctx context.Context, at eventlog.Position) error {
	for {
		p.mu.Lock()
		if p.at >= at {
			p.mu.Unlock()
			return nil
		}
		if p.changed == nil {
			p.changed = make(chan struct{})
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), p.Err())
		}
	}
}
