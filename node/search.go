package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/internal/searchindex"
	"letterhead/internal/searchindex/bleveindex"
	"letterhead/internal/searchindex/elastic"
	"letterhead/projections"
	"letterhead/projections/brands"
	"letterhead/projections/engine"
	"letterhead/projections/search"
)

// Searches hold the search index of this release, and the index of the previous release until an upgrade that brought
// a new index is finished.
type Searches struct {
	editions []edition // the newest first
	format   func() int
	head     func(context.Context) (eventlog.Position, error) // of the log
	behind   func(context.Context, eventlog.Position) (time.Duration, error)
}

type edition struct {
	*search.Projection
	format int // the first data format with which searches use this index
}

// now returns the index that answers searches.
func (x *Searches) now() *search.Projection {
	for _, e := range x.editions {
		if e.format <= x.format() {
			return e.Projection
		}
	}
	return x.editions[len(x.editions)-1].Projection
}

// next returns the index that answers searches after the upgrade.
func (x *Searches) next() *search.Projection { return x.editions[0].Projection }

// Search implements readapi.Searcher.
func (x *Searches) Search(ctx context.Context, q string, limit int) ([]search.Hit, error) {
	return x.now().Search(ctx, q, limit)
}

// openSearch opens the search indices, which follow the brands table.
func openSearch(ctx context.Context, n *Node) (*Searches, error) {
	x := &Searches{format: n.Runner.Format, head: n.Stores.Log.Head, behind: n.Runner.Behind}
	for _, a := range searchindex.Analyzers() {
		if err := x.openEdition(ctx, n, a); err != nil {
			return nil, err
		}
		if a.Format <= n.Runner.Format() || n.Config.Search == config.Embedded {
			break // older indices are not used any more
		}
	}
	return x, nil
}

func (x *Searches) openEdition(ctx context.Context, n *Node, a searchindex.Analyzer) error {
	registerer := prometheus.Registerer(n.metrics)
	if len(x.editions) > 0 {
		registerer = nil // only the newest index has metrics
	}
	index, err := n.Stores.openIndex(ctx, a, registerer)
	if err != nil {
		return err
	}
	n.life.closing(index.Close)
	p, err := search.New(ctx, search.Config{
		Lead: feedsIndex(n, a.Version),
		Await: func(ctx context.Context, at eventlog.Position) error {
			return n.Runner.Await(ctx, brands.Name, at)
		},
		Log:      eventlog.Probe(n.Stores.Log),
		Accepted: n.Stores.Database.LogID(),
		Last: func(ctx context.Context) (eventlog.Mark, error) {
			folded, err := engine.ReadFoldedLog(ctx, n.Stores.Database)
			return folded.Last, err
		},
		Logger:     n.logger,
		Registerer: registerer,
	}, n.Models.Brands, index)
	if err == nil && registerer != nil {
		n.roles.Watch("search", func() (eventlog.Position, bool) { return p.Position(), p.Feeding() })
	}
	x.editions = append(x.editions, edition{p, a.Format})
	return err
}

// feedsIndex returns when this process feeds the index: nil for an index of its own, which it always feeds, and the
// leadership of a shared index. Each version of a shared index has its own leadership, so that a node of the previous
// release does not prevent this release's index from being fed. The leadership of versions up to 2 has no number.
func feedsIndex(n *Node, version int) func(ctx context.Context, name string, do func(context.Context) error) error {
	switch {
	case n.Config.Search == config.Embedded:
		return nil
	case n.Config.Has(config.RoleProjector) && version > 2:
		return func(ctx context.Context, name string, do func(context.Context) error) error {
			return n.Stores.Database.Lead(ctx, fmt.Sprintf("%s v%d", name, version), do)
		}
	case n.Config.Has(config.RoleProjector):
		return n.Stores.Database.Lead
	default:
		return func(ctx context.Context, _ string, _ func(context.Context) error) error {
			<-ctx.Done() // others feed it
			return nil
		}
	}
}

func (s *Stores) openIndex(ctx context.Context, a searchindex.Analyzer,
	registerer prometheus.Registerer) (searchindex.Index, error) {
	if s.options.Parts.Index != nil {
		return s.options.Parts.Index, nil
	}
	if s.config.Search == config.Embedded {
		open := func() (*bleveindex.Index, error) {
			return bleveindex.Open(ctx, bleveindex.Config{Path: s.config.SearchPath(), Logger: s.logger})
		}
		index, err := open()
		if err != nil || !s.config.Shared() {
			return index, err
		}
		// A loss in the index of a single node is no evidence: the database, which all nodes share, was compared.
		if err = s.compareIndex(ctx, index); !errors.Is(err, eventlog.ErrLoss) {
			return index, nil // search.New reports other errors
		}
		if err = index.Close(); err == nil {
			err = os.RemoveAll(s.config.SearchPath())
		}
		if err != nil {
			return nil, err
		}
		return open()
	}
	return elastic.Open(ctx,
		elastic.Config{URL: s.config.Search, Analyzer: a, Logger: s.logger, Registerer: registerer})
}

// Status returns the status of the index in the form of a read model's status.
func (x *Searches) Status(ctx context.Context) (engine.Status, error) {
	head, err := x.head(ctx)
	if err != nil {
		return engine.Status{}, err
	}
	at, err := x.now().Current(ctx)
	if err != nil {
		return engine.Status{}, err
	}
	status := engine.Status{Name: search.Name, State: "live", Position: at}
	if head > status.Position {
		status.Lag = uint64(head - status.Position)
		if status.Behind, err = x.behind(ctx, at); err != nil {
			return engine.Status{}, err
		}
	}
	if err := cmp.Or(x.now().Check(ctx), x.now().Err()); err != nil {
		status.State, status.Error = "set_aside", err.Error()
	}
	return status, nil
}

// Verify compares the index with the brands table.
func (x *Searches) Verify(ctx context.Context) (projections.Verification, error) {
	return x.now().Verify(ctx)
}

// Rebuild rebuilds the index.
func (x *Searches) Rebuild(ctx context.Context) error { return x.now().Rebuild(ctx) }
