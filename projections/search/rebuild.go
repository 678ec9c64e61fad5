package search

import (
	"context"
	"errors"
	"fmt"

	"letterhead/internal/eventlog"
	"letterhead/internal/searchindex"
	"letterhead/projections"
	"letterhead/projections/brands"
)

// Rebuild feeds an empty generation of the index from the first brand on, while the present one answers and
// is fed, and swaps when it has caught up. What was built is dropped when ctx ends before. Errors: those of
// the source and of the index, ctx.Err().
func (p *Projection) Rebuild(ctx context.Context) (err error) {
	g, err := p.index.Rebuild(ctx)
	if err != nil {
		return fmt.Errorf("rebuild the search index: %w", err)
	}
	defer func() {
		if discard := g.Discard(); discard != nil {
			err = errors.Join(err, fmt.Errorf("drop the half-built search index: %w", discard))
		}
	}()
	at, err := p.fill(ctx, g, 0)
	if err != nil {
		return fmt.Errorf("rebuild the search index: %w", err)
	}
	// What came meanwhile, and then nothing more until the swap.
	p.feed.Lock()
	defer p.feed.Unlock()
	if at, err = p.fill(ctx, g, at); err != nil {
		return fmt.Errorf("rebuild the search index: %w", err)
	}
	if err := g.Publish(ctx); err != nil {
		return fmt.Errorf("rebuild the search index: %w", err)
	}
	p.restart(at)
	return nil
}

// fill feeds a generation until the source has no more.
func (p *Projection) fill(ctx context.Context, g searchindex.Generation, at eventlog.Position) (eventlog.Position, error) {
	for {
		docs, upTo, err := p.source.Changed(ctx, at, batch)
		if err != nil {
			return at, err
		}
		if err := g.Apply(ctx, documents(docs), uint64(upTo)); err != nil {
			return at, err
		}
		if at = upTo; len(docs) < batch {
			return at, nil
		}
	}
}

// Verify compares the index with the brands, in both directions and every field, at one position; feeding
// rests meanwhile. Errors: those of the source and of the index, ctx.Err(). What was found is in the
// Verification.
func (p *Projection) Verify(ctx context.Context) (projections.Verification, error) {
	p.feed.Lock()
	defer p.feed.Unlock()
	want, at, err := p.expected(ctx)
	if err != nil {
		return projections.Verification{}, fmt.Errorf("verify the search index: %w", err)
	}
	v := projections.Verification{Name: Name, Position: at, Rows: int64(len(want))}
	for after := ""; ; {
		held, err := p.index.Scan(ctx, after, searchindex.MaxScan)
		if err != nil {
			return projections.Verification{}, fmt.Errorf("verify the search index: %w", err)
		}
		if len(held) == 0 {
			break
		}
		for _, d := range held {
			if w, ok := want[d.Domain]; !ok {
				v.Difference = differ(v.Difference, d.Domain, show(d), "none")
			} else if w != d {
				v.Difference = differ(v.Difference, d.Domain, show(d), show(w))
			}
			delete(want, d.Domain)
		}
		after = held[len(held)-1].Domain
	}
	for domain, w := range want {
		v.Difference = differ(v.Difference, domain, "none", show(w))
	}
	return v, nil
}

// expected returns what the index must hold, after it was fed up to the same position.
func (p *Projection) expected(ctx context.Context) (map[string]searchindex.Document, eventlog.Position, error) {
	want := make(map[string]searchindex.Document)
	keep := func(docs []brands.Doc) {
		for _, d := range docs {
			want[d.Domain] = document(d)
		}
	}
	at := eventlog.Position(0)
	for more := true; more; {
		docs, upTo, err := p.source.Changed(ctx, at, batch)
		if err != nil {
			return nil, 0, err
		}
		keep(docs)
		at, more = upTo, len(docs) == batch
	}
	for more := true; more; {
		docs, upTo, err := p.source.Changed(ctx, p.Position(), batch)
		if err != nil {
			return nil, 0, err
		}
		if err := p.take(ctx, docs, upTo); err != nil {
			return nil, 0, err
		}
		keep(docs)
		more = len(docs) == batch
	}
	return want, p.Position(), nil
}

// differ keeps the difference with the smallest domain, so that the same state gives the same report.
func differ(before *projections.Difference, domain, live, rebuilt string) *projections.Difference {
	if before != nil && before.Key <= domain {
		return before
	}
	return &projections.Difference{Table: Name, Key: domain, Live: live, Rebuilt: rebuilt}
}

func show(d searchindex.Document) string {
	if d.Gone {
		return fmt.Sprintf("gone at %d", d.Version)
	}
	return fmt.Sprintf("%q, id %s, quality %v, claimed %v at %d", d.Name, d.BrandID, d.Quality, d.Claimed, d.Version)
}
