package main

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
	"letterhead/projections/brands"
	"letterhead/projections/engine"
	"letterhead/projections/search"
)

// searches are the search indices of this release: one, and while an upgrade that brought another is not finished that
// of the release before.
type searches struct {
	editions []edition // the newest first
	format   func() int
}

type edition struct {
	*search.Projection
	format int // searches are answered from it from this data format on
}

// now is what searches are answered from.
func (x *searches) now() *search.Projection {
	for _, e := range x.editions {
		if e.format <= x.format() {
			return e.Projection
		}
	}
	return x.editions[len(x.editions)-1].Projection
}

// next is what they will be answered from when the upgrade is finished.
func (x *searches) next() *search.Projection { return x.editions[0].Projection }

// Search implements readapi.Searcher.
func (x *searches) Search(ctx context.Context, q string, limit int) ([]search.Hit, error) {
	return x.now().Search(ctx, q, limit)
}

// openSearch opens the search indices, which follow the brands table.
func (s *service) openSearch(ctx context.Context) error {
	s.search = &searches{format: s.runner.Format}
	for _, a := range searchindex.Analyzers() {
		if err := s.openEdition(ctx, a); err != nil {
			return err
		}
		if a.Format <= s.runner.Format() || s.config.Search == config.Embedded {
			return nil // older ones are of no use any more
		}
	}
	return nil
}

func (s *service) openEdition(ctx context.Context, a searchindex.Analyzer) error {
	registerer := prometheus.Registerer(s.metrics)
	if len(s.search.editions) > 0 {
		registerer = nil // the figures are those of the newest
	}
	index, err := s.openIndex(ctx, a, registerer)
	if err != nil {
		return err
	}
	s.closing(index.Close)
	p, err := search.New(ctx, search.Config{
		Lead:       s.feedsIndex(a.Version),
		Await:      func(ctx context.Context, at eventlog.Position) error { return s.runner.Await(ctx, brands.Name, at) },
		Head:       eventlog.Probe(s.log).End,
		Logger:     s.logger,
		Registerer: registerer,
	}, s.brandReader, index)
	if err == nil && registerer != nil {
		s.roles.Watch("search", func() (eventlog.Position, bool) { return p.Position(), p.Feeding() })
	}
	s.search.editions = append(s.search.editions, edition{p, a.Format})
	return err
}

// feedsIndex says when this process feeds the index: its own always, one that nodes share while it leads. Each version
// of a shared index has a leadership of its own, so that a node of the release before does not keep this release's from
// being fed. Up to version 2 that had no number.
func (s *service) feedsIndex(version int) func(ctx context.Context, name string, do func(context.Context) error) error {
	switch {
	case s.config.Search == config.Embedded:
		return nil
	case s.config.Has(config.RoleProjector) && version > 2:
		return func(ctx context.Context, name string, do func(context.Context) error) error {
			return s.store.Lead(ctx, fmt.Sprintf("%s v%d", name, version), do)
		}
	case s.config.Has(config.RoleProjector):
		return s.store.Lead
	default:
		return func(ctx context.Context, _ string, _ func(context.Context) error) error {
			<-ctx.Done() // others feed it
			return nil
		}
	}
}

func (s *service) openIndex(ctx context.Context, a searchindex.Analyzer, registerer prometheus.Registerer) (searchindex.Index, error) {
	if s.config.Search == config.Embedded {
		open := func() (*bleveindex.Index, error) {
			return bleveindex.Open(ctx, bleveindex.Config{Path: s.config.SearchPath(), Logger: s.logger})
		}
		index, err := open()
		if err != nil || !s.config.Shared() {
			return index, err
		}
		// An index of this node alone is no evidence: the database, which all nodes share, has been compared.
		lost, err := searchLoss(ctx, index, eventlog.Probe(s.log))
		if lost == nil && err == nil {
			return index, nil
		}
		if err = errors.Join(err, index.Close()); err == nil {
			err = os.RemoveAll(s.config.SearchPath())
		}
		if err != nil {
			return nil, err
		}
		return open()
	}
	return elastic.Open(ctx, elastic.Config{URL: s.config.Search, Analyzer: a, Logger: s.logger, Registerer: registerer})
}

// searchStatus says how the search index is doing, in the words of the other read models.
func (s *service) searchStatus(ctx context.Context) (engine.Status, error) {
	head, err := s.log.Head(ctx)
	if err != nil {
		return engine.Status{}, err
	}
	at, err := s.search.now().Current(ctx)
	if err != nil {
		return engine.Status{}, err
	}
	status := engine.Status{Name: search.Name, State: "live", Position: at}
	if head > status.Position {
		status.Lag = uint64(head - status.Position)
	}
	if err := s.search.now().Err(); err != nil {
		status.State, status.Error = "set_aside", err.Error()
	}
	return status, nil
}

// verifySearch compares the index with the brands table, and prints what it found.
func (s *service) verifySearch(ctx context.Context, e *environment, asJSON bool) error {
	v, err := s.search.now().Verify(ctx)
	if err != nil {
		return err
	}
	word := "agrees"
	if !v.OK() {
		word = "differs: " + v.Difference.String()
	}
	if asJSON {
		err = printJSON(e.stdout, map[string]any{"name": v.Name, "rows": v.Rows, "position": v.Position, "ok": v.OK(), "difference": v.Difference})
	} else {
		_, err = fmt.Fprintf(e.stdout, "%-9s %s (%d rows at position %d)\n", v.Name, word, v.Rows, v.Position)
	}
	if err == nil && !v.OK() {
		err = fmt.Errorf("%s %s", v.Name, word)
	}
	return err
}
