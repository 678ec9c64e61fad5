package backup

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"letterhead/internal/assets"
	"letterhead/internal/eventlog"
)

// maxRounds bounds how often a pass during the operation of a server looks for new events.
const maxRounds = 8

// Migrated is the result of one pass of a migration.
type Migrated struct {
	Final       bool              `json:"final"`
	Events      uint64            `json:"events"`  // in the target
	Present     uint64            `json:"present"` // of these, copied by an earlier pass
	Accounts    uint64            `json:"accounts"`
	ChainEvents uint64            `json:"chain_events"` // of a final pass; every chain is valid
	Source      eventlog.Position `json:"source_position"`
	Position    eventlog.Position `json:"position"` // the target's head
	Names       uint64            `json:"names"`
	Assets      uint64            `json:"assets"`     // in the source
	NewAssets   uint64            `json:"new_assets"` // copied by this pass
	Snapshots   uint64            `json:"snapshots"`  // saved by a final pass for accounts with long streams
}

// Migrate copies a log, with its names and assets, to another one that is empty or was filled
// by an earlier pass. A pass that is not final may run while the source is in use: it copies the existing
// events, so that the final pass, during which the source must not change, is short. A final pass also
// verifies every hash chain, copies the names and saves the positions of completed work.
//
// Errors: ErrNotEmpty (this pass wrote nothing), ErrForeignWriter, ErrDiffers, *commands.ChainError, the errors of
// both sides, ctx.Err(). After any of them except ErrNotEmpty a later pass continues.
func Migrate(ctx context.Context, cfg Config, final bool, from Source, to Target) (out Migrated, err error) {
	cfg = cfg.withDefaults()
	out.Final = final
	if from.Without != nil && !final {
		return out, errors.New(
			"streams can be omitted only in a final pass: while the source is in use, one of them may become a brand")
	}
	c := newCopier(cfg, origin{}, to.Log)
	c.readers = readersAt(from.Readers)
	if err := c.until(ctx, from); err != nil {
		return out, err
	}
	if err := c.compare(ctx, StageCheck); err != nil {
		return out, err
	}
	out.Present = c.compared
	if err := to.begin(ctx); err != nil {
		return out, err
	}
	if to.Assets != nil {
		if out.Assets, out.NewAssets, err = copyStore(ctx, cfg, from.Assets, to.Assets); err != nil {
			return out, err
		}
	}
	for round := 1; ; round++ {
		head := c.from.head
		if err := c.appendRest(ctx); err != nil {
			return out, err
		}
		out.Events, out.Accounts, out.Source = c.compared, uint64(len(c.accounts)), c.source
		if err := c.until(ctx, from); err != nil {
			return out, err
		}
		moved := c.from.head != head
		if moved && final {
			return out, fmt.Errorf("the source changed during the final copy; stop the server and migrate again: %w",
				ErrDiffers)
		}
		if !moved || round == maxRounds {
			break
		}
	}
	if !final {
		return out, nil
	}
	if out.ChainEvents, err = c.verifiedChains(); err != nil {
		return out, err
	}
	if out.Names, err = copyNames(ctx, cfg, from.Names, to.Names); err != nil {
		return out, err
	}
	if out.Position, err = finishTarget(ctx, cfg, to, c.readers.inTarget()); err != nil {
		return out, err
	}
	out.Snapshots, err = leaveSnapshots(ctx, cfg, to, c.long)
	return out, err
}

// until sets the end of the origin to the log's head.
func (c *copier) until(ctx context.Context, from Source) error {
	head, err := headOf(ctx, from.Log, c.cfg.RetryAfter)
	if err != nil {
		return fmt.Errorf("read the source: %w", err)
	}
	if from.Without != nil && from.Without.head != head {
		return fmt.Errorf(
			"the source changed after the streams to omit were selected; stop the server and migrate again: %w",
			ErrDiffers)
	}
	all := logFeed{log: from.Log, until: head, retryAfter: c.cfg.RetryAfter, keep: from.Without.others()}
	c.from = all.origin()
	return nil
}

func copyNames(ctx context.Context, cfg Config, from, to Names) (n uint64, err error) {
	if from == nil || to == nil {
		return 0, nil
	}
	err = eachPage(ctx, from, func(page []Name) error {
		if err := retry(ctx, cfg.RetryAfter, func() error { return to.PutAll(ctx, page) }); err != nil {
			return err
		}
		n += uint64(len(page))
		cfg.Progress(Progress{Stage: StageNames, Done: n})
		return nil
	})
	return n, err
}

// copyStore copies the assets that the other store lacks, several at a time. It omits damaged assets, which
// cannot be served either.
func copyStore(ctx context.Context, cfg Config, from, to *assets.Store) (all, copied uint64, err error) {
	var mu sync.Mutex // of the numbers, and of Progress
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(copiers)
	for o, err := range from.List(ctx) {
		group.Go(func() error {
			new := false
			if err == nil {
				err = retry(ctx, cfg.RetryAfter, func() (err error) {
					new, err = copyOne(ctx, from, to, o)
					return err
				})
			}
			if err != nil {
				return fmt.Errorf("copy asset %s: %w", o.ID, err)
			}
			mu.Lock()
			defer mu.Unlock()
			all++
			if new {
				copied++
			}
			cfg.Progress(Progress{Stage: StageAssets, Done: all})
			return nil
		})
	}
	err = group.Wait()
	return all, copied, err
}

func copyOne(ctx context.Context, from, to *assets.Store, o assets.Object) (copied bool, err error) {
	if there, err := to.Has(ctx, o.ID, o.Ext); err != nil || there {
		return false, err
	}
	data, err := from.Read(ctx, o.ID, o.Ext)
	if errors.Is(err, assets.ErrNotFound) { // deleted after it was listed
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if assets.Verify(o.ID, data) != nil {
		return false, nil
	}
	_, err = to.Put(ctx, data, o.Ext)
	return err == nil, err
}
