package commands

import (
	"context"
	"errors"
	"fmt"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// refresh makes the state what the stream is: the first time from a snapshot and what follows it, later by
// reading the tail.
func (a *actor[S]) refresh() error {
	if a.corrupt != nil && time.Now().Before(a.corruptUntil) {
		return a.corrupt
	}
	// The actor's own deadline: the callers may leave, but what was read is of use to the next.
	ctx, cancel := context.WithTimeout(a.reg.ctx, a.reg.cfg.LoadWithin)
	defer cancel()
	var err error
	if before, began := a.state.Revisions(), time.Now(); a.loaded {
		err = a.readTail(ctx)
		now := time.Now()
		a.turns.seen(now, a.state.Revisions() > before, now.Sub(began))
	} else {
		err = a.load(ctx)
	}
	a.corrupt = nil
	if err != nil {
		err = storeError(fmt.Errorf("load %s: %w", a.stream, err))
		a.distrust(err)
		return err
	}
	a.dropDoubts(doubtWithin)
	a.loaded, a.stale = true, false
	a.mu.Lock()
	a.state.Publish(true)
	a.mu.Unlock()
	return nil
}

// distrust closes the fast path. A state that could only not be brought up to date stays for the next
// attempt; one that is half loaded, or met an event that cannot be, goes. What is in memory only, such as
// reservations, stays.
func (a *actor[S]) distrust(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state.Withdraw()
	a.stale = true
	if !temporary(err) {
		a.corrupt, a.corruptUntil = err, time.Now().Add(distrustFor)
	} else if a.loaded {
		return
	}
	a.state.Reset()
	a.loaded = false
}

// load folds the stream, from a snapshot when there is one that fits: one look at the snapshots and, of a
// stream that has not grown past a page since, one at the log.
func (a *actor[S]) load(ctx context.Context) error {
	// With an append in doubt every event must be looked at.
	if len(a.doubts) == 0 && a.restore(ctx) {
		err := a.readFromSnapshot(ctx)
		if err == nil || temporary(err) || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		// The snapshot is not of this stream, for example of a log that was replaced by a backup.
		a.reg.cfg.Logger.Warn("snapshot does not fit its stream, folding from the beginning", "stream", a.stream, "error", err)
		a.mu.Lock()
		a.state.Reset()
		a.mu.Unlock()
	}
	return a.readTail(ctx)
}

// readFromSnapshot folds what follows the snapshot that the state was taken from. It reads from the
// snapshot's own last event on, which shows whether the snapshot is of this stream.
func (a *actor[S]) readFromSnapshot(ctx context.Context) error {
	last := a.state.Revisions() - 1
	page, err := a.read(ctx, last, eventlog.Forward, tailPage)
	if err != nil {
		return err
	}
	switch {
	case len(page) == 0 || page[0].Revision != last:
		return fmt.Errorf("%w: the stream has no revision %d", eventlog.ErrCorrupt, last)
	case a.chain != nil && hexOf(a.chain.Head()) != page[0].Metadata.Hash:
		return &ChainError{Stream: a.stream, Revision: last, Reason: "its hash is not the snapshot's"}
	}
	a.position = page[0].Position
	for i := range page[1:] {
		if err := a.fold(&page[1+i]); err != nil {
			return err
		}
	}
	if len(page) < tailPage {
		return nil
	}
	return a.readTail(ctx)
}

// restore takes the state from a snapshot. Any fault means no snapshot.
func (a *actor[S]) restore(ctx context.Context) bool {
	if a.reg.snapshots == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, snapshotWithin)
	defer cancel()
	revision, data, found, err := a.reg.snapshots.Load(ctx, a.stream, a.reg.kind.foldVersion)
	if err != nil {
		a.reg.cfg.Logger.Warn("snapshot could not be read", "stream", a.stream, "error", err)
		return false
	}
	if !found {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.state.UnmarshalBinary(data); err != nil {
		a.reg.cfg.Logger.Warn("snapshot is not usable", "stream", a.stream, "error", err)
		a.state.Reset()
		return false
	}
	if a.state.Revisions() != revision+1 {
		a.state.Reset()
		return false
	}
	a.snapshot = a.state.Revisions()
	return true
}

// readTail folds what the stream holds past the state.
func (a *actor[S]) readTail(ctx context.Context) error {
	for {
		page, err := a.read(ctx, a.state.Revisions(), eventlog.Forward, tailPage)
		if err != nil {
			return err
		}
		for i := range page {
			if err := a.fold(&page[i]); err != nil {
				return err
			}
		}
		if len(page) < tailPage {
			return nil
		}
	}
}

// read reads one page. A call that hangs must not hold the actor up for all the time that loading may take.
func (a *actor[S]) read(ctx context.Context, from uint64, direction eventlog.Direction, limit int) ([]eventlog.Recorded, error) {
	a.reg.metrics.reads.Inc()
	ctx, cancel := context.WithTimeout(ctx, a.reg.cfg.AppendWithin)
	defer cancel()
	page, err := a.reg.log.ReadStream(ctx, a.stream, from, direction, limit)
	if err != nil {
		return nil, storeError(err)
	}
	return page, nil
}

// fold checks one stored event and applies it.
func (a *actor[S]) fold(rec *eventlog.Recorded) error {
	revision := a.state.Revisions()
	if rec.Revision != revision {
		return fmt.Errorf("%w: %s has revision %d where %d is due", eventlog.ErrCorrupt, a.stream, rec.Revision, revision)
	}
	var head eventschemas.Hash
	if a.chain != nil {
		var err error
		if head, err = nextHead(a.chain.Head(), a.stream, revision, rec); err != nil {
			return err
		}
	}
	ev, err := eventschemas.Decode(rec.Type, rec.SchemaVersion, rec.Data)
	if err != nil {
		return fmt.Errorf("revision %d of %s: %w", revision, a.stream, err)
	}
	a.state.Apply(ev, rec.OccurredAt)
	if a.chain != nil {
		a.chain.Link(head)
	}
	a.position = rec.Position
	a.settleDoubts(rec)
	return nil
}

// saveSnapshot hands the state to the saver once enough events were added: every SnapshotEvery, but no more
// often than the state has entries, so that the cost of one event stays the same however much is remembered.
// An actor that ends saves earlier, or a stream that is used now and then would be folded whole for ever.
func (a *actor[S]) saveSnapshot(ends bool) {
	revisions := a.state.Revisions()
	if a.reg.snapshots == nil || !a.loaded || a.stale || revisions <= a.snapshot {
		return
	}
	due := max(a.reg.cfg.SnapshotEvery, a.state.Remembered())
	if ends {
		due = min(due, finalSnapshot)
	}
	if revisions-a.snapshot < uint64(due) {
		return
	}
	data, err := a.state.MarshalBinary()
	if err != nil {
		a.reg.cfg.Logger.Warn("snapshot could not be written", "stream", a.stream, "error", err)
		return
	}
	a.snapshot = revisions // also when the saver has no room: the next one will do
	a.reg.saver.offer(savedState{stream: a.stream, revision: revisions - 1, state: data})
}
