package node

import (
	"context"
	"errors"
	"fmt"
	"os"

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

// searches holds the search index of this release, and the index of the previous release until an upgrade that brought
// a new index is finished.
type searches struct {
	editions []edition // the newest first
	format   func() int
}

type edition struct {
	*search.Projection
	format int // the first data format with which searches use this index
}

// now returns the index that answers searches.
func (x *searches) now() *search.Projection {
	for _, e := range x.editions {
		if e.format <= x.format() {
			return e.Projection
		}
	}
	return x.editions[len(x.editions)-1].Projection
}

// next returns the index that answers searches after the upgrade.
func (x *searches) next() *search.Projection { return x.editions[0].Projection }

// Search implements readapi.Searcher.
func (x *searches) Search(ctx context.Context, q string, limit int) ([]search.Hit, error) {
	return x.now().Search(ctx, q, limit)
}

// openSearch opens the search indices, which follow the brands table.
func (n *Node) openSearch(ctx context.Context) error {
	n.search = &searches{format: n.Runner.Format}
	for _, a := range searchindex.Analyzers() {
		if err := n.openEdition(ctx, a); err != nil {
			return err
		}
		if a.Format <= n.Runner.Format() || n.Config.Search == config.Embedded {
			return nil // older indices are not used any more
		}
	}
	return nil
}

func (n *Node) openEdition(ctx context.Context, a searchindex.Analyzer) error {
	registerer := prometheus.Registerer(n.metrics)
	if len(n.search.editions) > 0 {
		registerer = nil // only the newest index has metrics
	}
	index, err := n.openIndex(ctx, a, registerer)
	if err != nil {
		return err
	}
	n.closing(index.Close)
	p, err := search.New(ctx, search.Config{
		Lead:       n.feedsIndex(a.Version),
		Await:      func(ctx context.Context, at eventlog.Position) error { return n.Runner.Await(ctx, brands.Name, at) },
		Head:       eventlog.Probe(n.Log).End,
		Logger:     n.logger,
		Registerer: registerer,
	}, n.BrandReader, index)
	if err == nil && registerer != nil {
		n.roles.Watch("search", func() (eventlog.Position, bool) { return p.Position(), p.Feeding() })
	}
	n.search.editions = append(n.search.editions, edition{p, a.Format})
	return err
}

// feedsIndex returns when this process feeds the index: nil for an index of its own, which it always feeds, and the
// leadership of a shared index. Each version of a shared index has its own leadership, so that a node of the previous
// release does not prevent this release's index from being fed. The leadership of versions up to 2 has no number.
func (n *Node) feedsIndex(version int) func(ctx context.Context, name string, do func(context.Context) error) error {
	switch {
	case n.Config.Search == config.Embedded:
		return nil
	case n.Config.Has(config.RoleProjector) && version > 2:
		return func(ctx context.Context, name string, do func(context.Context) error) error {
			return n.Store.Lead(ctx, fmt.Sprintf("%s v%d", name, version), do)
		}
	case n.Config.Has(config.RoleProjector):
		return n.Store.Lead
	default:
		return func(ctx context.Context, _ string, _ func(context.Context) error) error {
			<-ctx.Done() // others feed it
			return nil
		}
	}
}

func (n *Node) openIndex(ctx context.Context, a searchindex.Analyzer, registerer prometheus.Registerer) (searchindex.Index, error) {
	if n.parts.Index != nil {
		return n.parts.Index, nil
	}
	if n.Config.Search == config.Embedded {
		open := func() (*bleveindex.Index, error) {
			return bleveindex.Open(ctx, bleveindex.Config{Path: n.Config.SearchPath(), Logger: n.logger})
		}
		index, err := open()
		if err != nil || !n.Config.Shared() {
			return index, err
		}
		// A loss in the index of a single node is no evidence: the database, which all nodes share, was compared.
		lost, err := searchLoss(ctx, index, eventlog.Probe(n.Log))
		if lost == nil && err == nil {
			return index, nil
		}
		if err = errors.Join(err, index.Close()); err == nil {
			err = os.RemoveAll(n.Config.SearchPath())
		}
		if err != nil {
			return nil, err
		}
		return open()
	}
	return elastic.Open(ctx, elastic.Config{URL: n.Config.Search, Analyzer: a, Logger: n.logger, Registerer: registerer})
}

// SearchStatus returns the status of the search index in the form of a read model's status.
func (n *Node) SearchStatus(ctx context.Context) (engine.Status, error) {
	head, err := n.Log.Head(ctx)
	if err != nil {
		return engine.Status{}, err
	}
	at, err := n.search.now().Current(ctx)
	if err != nil {
		return engine.Status{}, err
	}
	status := engine.Status{Name: search.Name, State: "live", Position: at}
	if head > status.Position {
		status.Lag = uint64(head - status.Position)
	}
	if err := n.search.now().Err(); err != nil {
		status.State, status.Error = "set_aside", err.Error()
	}
	return status, nil
}

// VerifySearch compares the search index with the brands table.
func (n *Node) VerifySearch(ctx context.Context) (projections.Verification, error) {
	return n.search.now().Verify(ctx)
}

// RebuildSearch rebuilds the search index.
func (n *Node) RebuildSearch(ctx context.Context) error { return n.search.now().Rebuild(ctx) }
