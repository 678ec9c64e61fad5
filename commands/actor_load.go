package commands

import (
	"context"
	"errors"
	"fmt"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
)

// refresh makes the state what the stream is: the first time from a snapshot and what follows it, later by
// reading the tail. A stream that is too long to be loaded within LoadWithin goes on being loaded in the
// background: the error is then a *LoadingError.
func (a *actor[S]) refresh() error {
	if a.corrupt != nil && time.Now().Before(a.corruptUntil) {
		return a.corrupt
	}
	// The actor's own deadlines: the callers may leave, but what was read is of use to the next.
	before, began := a.state.Revisions(), time.Now()
	if !a.loaded {
		err := a.load(a.reg.ctx, began.Add(a.reg.cfg.LoadWithin))
		if errors.Is(err, errMoreToLoad) {
			return a.loadLater(began, before)
		}
		return a.refreshed(err)
	}
	ctx, cancel := context.WithTimeout(a.reg.ctx, a.reg.cfg.LoadWithin)
	defer cancel()
	err := a.readTail(ctx, time.Time{})
	now := time.Now()
	a.turns.seen(now, a.state.Revisions() > before, now.Sub(began))
	return a.refreshed(err)
}

// refreshed notes whether the state is what the stream is.
func (a *actor[S]) refreshed(err error) error {
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

// distrust closes the fast path. What was folded of the stream stays for the next attempt when the store only
// failed; when the stream holds what it must not, it goes. What is in memory only, such as reservations, stays.
func (a *actor[S]) distrust(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state.Withdraw()
	a.stale = true
	if temporary(err) {
		return
	}
	a.corrupt, a.corruptUntil = err, time.Now().Add(distrustFor)
	a.resetLocked()
}

// resetLocked goes back to before the first event.
func (a *actor[S]) resetLocked() {
	a.state.Reset()
	a.loaded, a.snapshot = false, 0
}

func (a *actor[S]) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.resetLocked()
}

// load folds the stream, from a snapshot when there is one that fits: one look at the snapshots and, of a
// stream that has not grown past a page since, one at the log. What was folded before an error is a part of
// the stream: the next call goes on behind it. It returns errMoreToLoad after the first page past until; each page
// has a deadline of its own.
func (a *actor[S]) load(ctx context.Context, until time.Time) error {
	if a.state.Revisions() == 0 && a.restore(ctx) {
		end, err := a.readFromSnapshot(ctx)
		switch {
		case err == nil && end:
			return nil
		case err == nil:
			return a.readTail(ctx, until)
		case temporary(err) || ctx.Err() != nil:
			a.reset() // it is not known yet whether the snapshot fits
			return errors.Join(err, ctx.Err())
		}
		// The snapshot is not of this stream, for example of a log that was replaced by a backup.
		a.reg.metrics.snapshots.WithLabelValues("unfit").Inc()
		a.reg.cfg.Logger.Error("snapshot does not fit its stream, folding from the beginning", "stream", a.stream, "error", err)
		a.reset()
	}
	return a.readTail(ctx, until)
}

// readFromSnapshot reads the last event of the snapshot that the state was taken from, which shows whether the
// snapshot is of this stream, and the rest of its page. It reports whether that was the end of the stream.
func (a *actor[S]) readFromSnapshot(ctx context.Context) (end bool, err error) {
	last := a.state.Revisions() - 1
	page, err := a.read(ctx, last, eventlog.Forward, tailPage)
	if err != nil {
		return false, err
	}
	switch {
	case len(page) == 0 || page[0].Revision != last:
		return false, fmt.Errorf("%w: the stream has no revision %d", eventlog.ErrCorrupt, last)
	case a.chain != nil && hexOf(a.chain.Head()) != page[0].Metadata.Hash:
		return false, &ChainError{Stream: a.stream, Revision: last, Reason: "its hash is not the snapshot's"}
	}
	a.position = page[0].Position
	for i := range page[1:] {
		if err := a.fold(&page[1+i]); err != nil {
			return false, err
		}
	}
	return len(page) < tailPage, nil
}

// restore takes the state from a snapshot. Any fault means no snapshot.
func (a *actor[S]) restore(ctx context.Context) bool {
	if a.reg.snapshots == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, snapshotWithin)
	defer cancel()
	revision, data, found, err := a.reg.snapshots.Load(ctx, a.stream, a.reg.kind.foldVersion)
	if err != nil && !errors.Is(err, sqlstore.ErrSnapshotDamaged) {
		a.reg.cfg.Logger.Warn("snapshot could not be read", "stream", a.stream, "error", err)
		return false
	}
	if err == nil && !found {
		return false
	}
	// With an append in doubt every event from there on must be looked at.
	for _, d := range a.doubts {
		if err == nil && d.revision <= revision {
			return false
		}
	}
	if err == nil {
		err = a.adopt(revision, data)
	}
	if err == nil {
		return true
	}
	a.reg.metrics.snapshots.WithLabelValues("damaged").Inc()
	a.reg.cfg.Logger.Error("snapshot is not usable, folding the stream from its beginning", "stream", a.stream, "error", err)
	if err := a.reg.snapshots.Discard(ctx, a.stream, a.reg.kind.foldVersion); err != nil {
		a.reg.cfg.Logger.Warn("snapshot could not be discarded", "stream", a.stream, "error", err)
	}
	return false
}

// adopt makes a snapshot the state, or leaves the state as before the first event.
func (a *actor[S]) adopt(revision uint64, data []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.state.UnmarshalBinary(data)
	if err == nil && a.state.Revisions() != revision+1 {
		err = fmt.Errorf("it holds %d events and was saved as of revision %d", a.state.Revisions(), revision)
	}
	if err != nil {
		a.resetLocked()
		return err
	}
	a.snapshot = a.state.Revisions()
	return nil
}

// errMoreToLoad: there was no time for all of the stream.
var errMoreToLoad = fmt.Errorf("%w: the stream is longer than could be read in time", ErrBusy)

// readTail folds what the stream holds past the state.
func (a *actor[S]) readTail(ctx context.Context, until time.Time) error {
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
		if !a.loaded {
			a.saveSnapshot(false)
		}
		if !until.IsZero() && !time.Now().Before(until) {
			return errMoreToLoad
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

// saveSnapshot hands the state to the saver once enough events were added: every SnapshotEvery, more seldom
// while the stream is loaded, but no more often than the state has entries, so that the cost of one event stays
// the same however much is remembered. An actor that ends saves earlier, or a stream that is used now and then
// would be folded whole for ever.
func (a *actor[S]) saveSnapshot(ends bool) {
	revisions := a.state.Revisions()
	if a.reg.snapshots == nil || a.loaded && a.stale || revisions <= a.snapshot {
		return
	}
	every := a.reg.cfg.SnapshotEvery
	if !a.loaded {
		every *= loadSnapshots
	}
	due := max(every, a.state.Remembered())
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
