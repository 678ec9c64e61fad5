package search

import (
	"context"
	"errors"
	"fmt"
	"time"

	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/searchindex"
	"letterhead/projections"
)

// levelWait limits how long a rebuild waits, with the index frozen, until this node's brands table has
// reached the index's position. It is well below the time after which a writer thaws the index.
const levelWait = 10 * time.Second

// Rebuild feeds an empty generation of the index from the first brand on, while the present one answers and is fed, and
// swaps when it has caught up. If ctx ends earlier the new generation is dropped. With a shared index, any node may
// rebuild; an earlier rebuild of another node is then void. Errors: as the source and of the index, ctx.Err().
func (p *Projection) Rebuild(ctx context.Context) (err error) {
	if _, err := p.replaceable(ctx); err != nil {
		return fmt.Errorf("rebuild the search index: %w", err)
	}
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
	// Feed the changes of the meantime; then this process and all others write nothing more until the swap.
	if err := p.hold(ctx); err != nil {
		return fmt.Errorf("rebuild the search index: %w", err)
	}
	defer p.release()
	if at, err = p.level(ctx, g, at); err != nil {
		return fmt.Errorf("rebuild the search index: %w", err)
	}
	if err := g.Publish(ctx); err != nil {
		return fmt.Errorf("rebuild the search index: %w", err)
	}
	p.restart(at)
	return nil
}

// replaceable reports whether the index is of an earlier state of the log. Errors: it is of another log, or, if other
// processes share it, that is unknown.
func (p *Projection) replaceable(ctx context.Context) (earlier bool, err error) {
	_, err = p.inspect(ctx)
	if !p.shared || err == errUnnamed || err == errEarlier || errors.Is(err, eventlog.ErrLoss) {
		return err == errEarlier, nil
	}
	return false, err
}

// level freezes the live generation and feeds the new one up to its position.
func (p *Projection) level(ctx context.Context, g searchindex.Generation,
	at eventlog.Position) (eventlog.Position, error) {
	stood, err := g.Freeze(ctx)
	if err != nil {
		return at, err
	}
	goal := eventlog.Position(stood)
	earlier, err := p.replaceable(ctx) // now no other process can replace it
	if err != nil {
		return at, err
	} else if earlier {
		goal = 0 // of other positions
	}
	for began := time.Now(); ; {
		if at, err = p.fill(ctx, g, at); err != nil || at >= goal || p.cfg.Lead == nil {
			return at, err
		}
		if time.Since(began) >= levelWait {
			break
		}
		_ = delay.For(ctx, p.cfg.Poll)
	}
	if p.cfg.Log != nil {
		if end, err := p.cfg.Log.End(ctx); err != nil || end < goal {
			return at, err // the index was fed from events that are lost, which this rebuild corrects
		}
	}
	return at, fmt.Errorf("%w: the index is at position %d, but the brands of this node are only at %d",
		searchindex.ErrUnavailable, goal, at)
}

// fill feeds a generation until the source has no more.
func (p *Projection) fill(ctx context.Context, g searchindex.Generation,
	at eventlog.Position) (eventlog.Position, error) {
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

// Verify compares the index with the brands, in both directions and every field. Feeding continues;
// brands that changed after Verify began may be indexed in any of their later states. Errors: those of
// the source and of the index, ctx.Err(). The result is in the Verification.
func (p *Projection) Verify(ctx context.Context) (projections.Verification, error) {
	v, err := p.verify(ctx)
	if err != nil {
		return projections.Verification{}, fmt.Errorf("verify the search index: %w", err)
	}
	return v, nil
}

func (p *Projection) verify(ctx context.Context) (projections.Verification, error) {
	want, at, err := p.expected(ctx, 0)
	if err != nil {
		return projections.Verification{}, err
	}
	if err := p.catchUp(ctx, at); err != nil {
		return projections.Verification{}, err
	}
	v := projections.Verification{Name: Name, Position: at, Rows: int64(len(want))}
	var newer []searchindex.Document
	for after := ""; ; {
		held, err := p.index.Scan(ctx, after, searchindex.MaxScan)
		if err != nil {
			return projections.Verification{}, err
		}
		if len(held) == 0 {
			break
		}
		for _, d := range held {
			if w, ok := want[d.Domain]; d.Version > uint64(at) {
				newer = append(newer, d)
			} else if !ok {
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
	if len(newer) > 0 {
		v.Difference, err = p.verifyNewer(ctx, v.Difference, newer, at)
	}
	return v, err
}

// verifyNewer compares documents of versions after the position that Verify uses. Their brands must have changed since.
// If one changed again, its indexed state can no longer be checked, and the next change replaces it.
func (p *Projection) verifyNewer(ctx context.Context, found *projections.Difference, newer []searchindex.Document,
	at eventlog.Position) (*projections.Difference, error) {
	changed, _, err := p.expected(ctx, at)
	if err != nil {
		return found, err
	}
	for _, d := range newer {
		w, ok := changed[d.Domain]
		switch {
		case !ok:
			found = differ(found, d.Domain, show(d), fmt.Sprintf("no change after %d", at))
		case d.Version > w.Version, d.Version == w.Version && d != w:
			found = differ(found, d.Domain, show(d), show(w))
		}
	}
	return found, nil
}

// expected returns the documents that the index must have for brands that changed after a position, and up to where.
func (p *Projection) expected(ctx context.Context,
	at eventlog.Position) (map[string]searchindex.Document, eventlog.Position, error) {
	want := make(map[string]searchindex.Document)
	for {
		docs, upTo, err := p.source.Changed(ctx, at, batch)
		if err != nil {
			return nil, 0, err
		}
		for _, d := range docs {
			want[d.Domain] = document(d)
		}
		if at = upTo; len(docs) < batch {
			return want, at, nil
		}
	}
}

// catchUp feeds the index up to a position unless the feeder has already done so. Any process may.
func (p *Projection) catchUp(ctx context.Context, to eventlog.Position) error {
	if _, err := p.Current(ctx); err != nil {
		return err
	}
	for p.Position() < to {
		_, err := p.step(ctx)
		if errors.Is(err, searchindex.ErrReplaced) {
			err = p.join(ctx, false)
		}
		if err != nil {
			return err
		}
	}
	return nil
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
	return fmt.Sprintf("%q, id %s, quality %v, claimed %v, popular %v at %d",
		d.Name, d.BrandID, d.Quality, d.Claimed, d.Popular, d.Version)
}
