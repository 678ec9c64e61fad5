package backup

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"golang.org/x/sync/errgroup"

	"letterhead/eventschemas"
	"letterhead/internal/assets"
	"letterhead/internal/eventlog"
)

// copyAssets copies the assets of a segment to the backup, and records for each whether it exists.
func (r *run) copyAssets(ctx context.Context, refs []assetRef) error {
	if len(r.remembered)+len(refs) > maxRemembered {
		clear(r.remembered)
	}
	var mu sync.Mutex // of sum
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(copiers)
	for i := range refs {
		ref := &refs[i]
		if _, known := r.remembered[assetKey{ref.id, ref.ext}]; known {
			ref.present = true
			mu.Lock()
			r.sum.KnownAssets++
			mu.Unlock()
			continue
		}
		group.Go(func() error {
			found, err := r.copyAsset(ctx, ref)
			if err != nil {
				return fmt.Errorf("back up asset %s: %w", ref.hex(), err)
			}
			mu.Lock()
			defer mu.Unlock()
			r.sum.count(ref, found)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, ref := range refs {
		if ref.present {
			r.remembered[assetKey{ref.id, ref.ext}] = struct{}{}
		}
	}
	return nil
}

// found is the result of copying an asset.
type found struct {
	known, damaged bool
	copied         int64 // bytes
}

func (s *Summary) count(ref *assetRef, f found) {
	switch {
	case f.known:
		s.KnownAssets++
	case f.damaged:
		if len(s.DamagedAssets) < maxListed {
			s.DamagedAssets = append(s.DamagedAssets, ref.hex())
		}
	case ref.present:
		s.NewAssets++
		s.AssetBytes += f.copied
	default:
		s.MissingAssets++
	}
}

func (r *run) copyAsset(ctx context.Context, ref *assetRef) (f found, err error) {
	if f.known, err = r.to.has(ctx, ref.name()); err != nil || f.known {
		ref.present = f.known
		return f, err
	}
	var data []byte
	err = retry(ctx, r.cfg.RetryAfter, func() (err error) {
		data, err = r.from.Assets.Read(ctx, ref.hex(), ref.ext)
		return err
	})
	if errors.Is(err, assets.ErrNotFound) {
		return f, nil
	}
	if err == nil {
		err = assets.Verify(ref.hex(), data)
	}
	if errors.Is(err, assets.ErrDamaged) {
		f.damaged = true // the ledger is backed up anyway
		return f, nil
	}
	if err != nil {
		return f, err
	}
	f.copied, ref.present = int64(len(data)), true
	return f, r.to.put(ctx, ref.name(), data)
}

// assetReader returns a function that reads the assets of a segment, most of them only for the first of several
// segments, and verifies their bytes. It calls do concurrently. Errors: ErrDamaged.
func (r *restore) assetReader(do func(assetRef, []byte) error) func(context.Context, *segment) error {
	seen := map[assetKey]struct{}{}
	return func(ctx context.Context, s *segment) error {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(copiers)
		for _, ref := range s.assets {
			k := assetKey{ref.id, ref.ext}
			if _, known := seen[k]; known || !ref.present {
				continue
			}
			if len(seen) == maxRemembered {
				clear(seen)
			}
			seen[k] = struct{}{}
			group.Go(func() error {
				data, err := r.from.get(ctx, ref.name(), assets.MaxBytes)
				if errors.Is(err, fs.ErrNotExist) {
					return fmt.Errorf("%w: %s is missing", ErrDamaged, ref.name())
				}
				if err == nil && assets.Verify(ref.hex(), data) != nil {
					err = fmt.Errorf("%w: %s is damaged", ErrDamaged, ref.name())
				}
				if err != nil {
					return err
				}
				return do(ref, data)
			})
		}
		return group.Wait()
	}
}

// putAssets stores the images first, so that a server started by mistake after half a restore serves no
// record without its logo.
func (r *restore) putAssets(ctx context.Context) error {
	for _, s := range r.m.Segments {
		r.out.Missing += uint64(s.Missing)
	}
	if r.to.Assets == nil {
		return nil
	}
	var mu sync.Mutex // of out, and of Progress
	put := r.assetReader(func(ref assetRef, data []byte) error {
		err := retry(ctx, r.cfg.RetryAfter, func() error {
			_, err := r.to.Assets.Put(ctx, data, ref.ext)
			return err
		})
		if err != nil {
			return fmt.Errorf("restore asset %s: %w", ref.hex(), err)
		}
		mu.Lock()
		defer mu.Unlock()
		r.out.Assets++
		r.cfg.Progress(Progress{Stage: StageAssets, Done: r.out.Assets})
		return nil
	})
	return r.eachSegment(ctx, true, put)
}

// references calls found for every asset that an event refers to. A damaged event refers to nothing,
// because it cannot be served either.
//
// Errors: ErrNewer.
func references(e *eventlog.Recorded, found func(assetKey)) error {
	switch e.Type {
	case eventschemas.CrawlSucceeded{}.EventType(), eventschemas.BrandImported{}.EventType(),
		eventschemas.FieldOverridden{}.EventType():
	default:
		return nil
	}
	ev, err := eventschemas.Decode(e.Type, e.SchemaVersion, e.Data)
	switch {
	case errors.Is(err, eventschemas.ErrUnknownVersion), errors.Is(err, eventschemas.ErrUnknownType):
		return fmt.Errorf("%s, revision %d: %w: %w", e.Stream, e.Revision, ErrNewer, err)
	case err != nil:
		return nil
	}
	switch ev := ev.(type) {
	case eventschemas.CrawlSucceeded:
		ofRecord(ev.Record.Logos, ev.Record.Images, found)
	case eventschemas.BrandImported:
		ofRecord(ev.Record.Logos, ev.Record.Images, found)
	case eventschemas.FieldOverridden:
		ofOverride(ev, found)
	}
	return nil
}

// ofOverride reads a value as the record will, which also ignores values of another type.
func ofOverride(ev eventschemas.FieldOverridden, found func(assetKey)) {
	var logos []eventschemas.Logo
	var images []eventschemas.Image
	switch ev.Field {
	case "logos":
		if json.Unmarshal(ev.Value, &logos) != nil {
			return
		}
	case "images":
		if json.Unmarshal(ev.Value, &images) != nil {
			return
		}
	}
	ofRecord(logos, images, found)
}

func ofRecord(logos []eventschemas.Logo, images []eventschemas.Image, found func(assetKey)) {
	each := func(formats []eventschemas.Asset) {
		for _, a := range formats {
			_, known := assets.ContentType(a.Format)
			id, err := hex.DecodeString(a.ID)
			if err != nil || !known || !assets.ValidID(a.ID) {
				continue // no store can hold it
			}
			found(assetKey{id: [32]byte(id), ext: a.Format})
		}
	}
	for _, l := range logos {
		each(l.Formats)
	}
	for _, i := range images {
		each(i.Formats)
	}
}
