package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/internal/searchindex"
	"letterhead/internal/searchindex/bleveindex"
	"letterhead/internal/searchindex/elastic"
	"letterhead/projections"
	"letterhead/projections/brands"
	"letterhead/projections/search"
)

// openSearch opens the search index, which follows the brands table.
func (s *service) openSearch(ctx context.Context) error {
	index, err := s.openIndex(ctx)
	if err != nil {
		return err
	}
	s.closing(index.Close)
	s.search, err = search.New(ctx, search.Config{
		Lead:       s.feedsIndex(),
		Await:      func(ctx context.Context, at eventlog.Position) error { return s.runner.Await(ctx, brands.Name, at) },
		Head:       eventlog.Probe(s.log).End,
		Logger:     s.logger,
		Registerer: s.metrics,
	}, s.brandReader, index)
	return err
}

// feedsIndex says when this process feeds the index: its own always, one that nodes share while it leads.
func (s *service) feedsIndex() func(ctx context.Context, name string, do func(context.Context) error) error {
	switch {
	case s.config.Search == config.Embedded:
		return nil
	case s.config.Has(config.RoleProjector):
		return s.store.Lead
	default:
		return func(ctx context.Context, _ string, _ func(context.Context) error) error {
			<-ctx.Done() // others feed it
			return nil
		}
	}
}

func (s *service) openIndex(ctx context.Context) (searchindex.Index, error) {
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
	return elastic.Open(ctx, elastic.Config{URL: s.config.Search, Logger: s.logger, Registerer: s.metrics})
}

// searchStatus says how the search index is doing, in the words of the other read models.
func (s *service) searchStatus(ctx context.Context) (projections.Status, error) {
	head, err := s.log.Head(ctx)
	if err != nil {
		return projections.Status{}, err
	}
	at, err := s.search.Current(ctx)
	if err != nil {
		return projections.Status{}, err
	}
	status := projections.Status{Name: search.Name, State: "live", Position: at}
	if head > status.Position {
		status.Lag = uint64(head - status.Position)
	}
	if err := s.search.Err(); err != nil {
		status.State, status.Error = "set_aside", err.Error()
	}
	return status, nil
}

// verifySearch compares the index with the brands table, and prints what it found.
func (s *service) verifySearch(ctx context.Context, e *environment, asJSON bool) error {
	v, err := s.search.Verify(ctx)
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
