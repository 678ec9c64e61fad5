package streamwriter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
)

// refresh brings the state up to date with the stream: the first time from a snapshot and the events
// after it, later by reading the tail. A stream that is too long to be loaded within LoadWithin
// continues to load in the background: the error is then a *LoadingError.
func (a *Actor[S]) refresh() error {
	if a.corrupt != nil && time.Now().Before(a.corruptUntil) {
		return a.corrupt
	}
	// The deadlines are the actor's: callers may leave, but the events read are of use to the next ones.
	before, began := a.state.Revisions(), time.Now()
	if !a.loaded {
		err := a.load(a.all.ctx, began.Add(a.all.cfg.LoadWithin))
		if errors.Is(err, errMoreToLoad) {
			return a.loadLater(began, before)
		}
		return a.refreshed(err)
	}
	ctx, cancel := context.WithTimeout(a.all.ctx, a.all.cfg.LoadWithin)
	defer cancel()
	err := a.readTail(ctx, time.Time{})
	now := time.Now()
	a.fairness.seen(now, a.state.Revisions() > before, now.Sub(began))
	return a.refreshed(err)
}

// refreshed records whether the state matches the stream.
func (a *Actor[S]) refreshed(err error) error {
	a.corrupt = nil
	if err != nil {
		err = storeError(fmt.Errorf("load %s: %w", a.stream, err))
		a.invalidate(err)
		return err
	}
	a.dropAmbiguous(AmbiguousFor)
	a.loaded, a.stale = true, false
	a.mu.Lock()
	a.state.Publish(true)
	a.mu.Unlock()
	return nil
}

// invalidate closes the fast path. If only the store failed, the folded events are kept for the next attempt; if the
// stream is corrupt, they are dropped. State that is only in memory, such as reservations, is kept.
func (a *Actor[S]) invalidate(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state.Withdraw()
	a.stale = true
	if Temporary(err) {
		return
	}
	a.corrupt, a.corruptUntil = err, time.Now().Add(DistrustFor)
	a.resetLocked()
}

// resetLocked returns to the state before the first event.
func (a *Actor[S]) resetLocked() {
	a.state.Reset()
	a.loaded, a.snapshot = false, 0
}

func (a *Actor[S]) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.resetLocked()
}

// load folds the stream, from a snapshot if one fits: one read of the snapshots and, for a stream that
// has not grown by more than a page since, one read of the log. Events that were folded before an
// error are kept, and the next call continues after them. It returns errMoreToLoad after the first
// page that ends later than until; each page has its own deadline.
func (a *Actor[S]) load(ctx context.Context, until time.Time) error {
	if a.state.Revisions() == 0 && a.restore(ctx) {
		end, err := a.readFromSnapshot(ctx)
		switch {
		case err == nil && end:
			return nil
		case err == nil:
			return a.readTail(ctx, until)
		case Temporary(err) || ctx.Err() != nil:
			a.reset() // it is not yet known whether the snapshot fits
			return errors.Join(err, ctx.Err())
		}
		// The snapshot is of another stream, for example if a backup replaced the log.
		a.all.metrics.snapshots.WithLabelValues("unfit").Inc()
		a.all.cfg.Logger.Error("snapshot does not fit its stream, folding from the beginning",
			"stream", a.stream, "error", err)
		a.reset()
	}
	return a.readTail(ctx, until)
}

// readFromSnapshot reads the snapshot's last event, which shows whether the snapshot belongs to this
// stream, and the rest of its page. It reports whether that was the end of the stream.
func (a *Actor[S]) readFromSnapshot(ctx context.Context) (end bool, err error) {
	last := a.state.Revisions() - 1
	page, err := a.read(ctx, last, eventlog.Forward, TailPage)
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
	return len(page) < TailPage, nil
}

// restore takes the state from a snapshot. Any failure counts as no snapshot.
func (a *Actor[S]) restore(ctx context.Context) bool {
	if a.all.snapshots == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, snapshotWithin)
	defer cancel()
	revision, data, found, err := a.all.snapshots.Load(ctx, a.stream, a.all.kind.FoldVersion)
	if err != nil && !errors.Is(err, sqlstore.ErrSnapshotDamaged) {
		a.all.cfg.Logger.Warn("snapshot could not be read", "stream", a.stream, "error", err)
		return false
	}
	if err == nil && !found {
		return false
	}
	// While an append is ambiguous every event from its revision on must be examined.
	for _, d := range a.ambiguous {
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
	a.all.metrics.snapshots.WithLabelValues("damaged").Inc()
	a.all.cfg.Logger.Error("snapshot is not usable, folding the stream from its beginning",
		"stream", a.stream, "error", err)
	if err := a.all.snapshots.Discard(ctx, a.stream, a.all.kind.FoldVersion); err != nil {
		a.all.cfg.Logger.Warn("snapshot could not be discarded", "stream", a.stream, "error", err)
	}
	return false
}

// adopt makes a snapshot the state, or resets the state to before the first event.
func (a *Actor[S]) adopt(revision uint64, data []byte) error {
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

// errMoreToLoad is returned when there was no time for the whole stream.
var errMoreToLoad = fmt.Errorf("%w: the stream is longer than could be read in time", ErrBusy)

// readTail folds the events of the stream that follow the state.
func (a *Actor[S]) readTail(ctx context.Context, until time.Time) error {
	for {
		page, err := a.read(ctx, a.state.Revisions(), eventlog.Forward, TailPage)
		if err != nil {
			return err
		}
		for i := range page {
			if err := a.fold(&page[i]); err != nil {
				return err
			}
		}
		if len(page) < TailPage {
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

// read reads one page. Its deadline keeps a call that hangs from using up all the time for loading.
func (a *Actor[S]) read(ctx context.Context, from uint64, direction eventlog.Direction,
	limit int) ([]eventlog.Recorded, error) {
	a.all.metrics.reads.Inc()
	ctx, cancel := context.WithTimeout(ctx, a.all.cfg.AppendWithin)
	defer cancel()
	page, err := a.all.log.ReadStream(ctx, a.stream, from, direction, limit)
	if err != nil {
		return nil, storeError(err)
	}
	return page, nil
}

// fold checks one stored event and applies it.
func (a *Actor[S]) fold(rec *eventlog.Recorded) error {
	revision := a.state.Revisions()
	if rec.Revision != revision {
		return fmt.Errorf("%w: %s has revision %d, want %d", eventlog.ErrCorrupt, a.stream, rec.Revision, revision)
	}
	var head Hash
	if a.chain != nil {
		var err error
		if head, err = a.all.kind.Chain.Check(a.chain.Head(), a.stream, revision, rec); err != nil {
			return err
		}
	}
	ev, err := a.all.kind.Decode(rec.Type, rec.SchemaVersion, rec.Data)
	if err != nil {
		return fmt.Errorf("revision %d of %s: %w", revision, a.stream, err)
	}
	a.state.Apply(ev, rec.OccurredAt)
	if a.chain != nil {
		a.chain.Link(head)
	}
	a.position = rec.Position
	a.resolveAmbiguous(rec)
	return nil
}

// saveSnapshot passes the state to the saver once enough events were added: every SnapshotEvery, less
// often while the stream is loaded, but no more often than the state has entries, so that the cost per
// event stays the same however much is remembered. An actor that ends saves earlier; otherwise an
// occasionally used stream would always be folded whole.
func (a *Actor[S]) saveSnapshot(ends bool) {
	revisions := a.state.Revisions()
	if a.all.snapshots == nil || a.loaded && a.stale || revisions <= a.snapshot {
		return
	}
	every := a.all.cfg.SnapshotEvery
	if !a.loaded {
		every *= LoadSnapshots
	}
	due := max(every, a.state.Remembered())
	if ends {
		due = min(due, FinalSnapshot)
	}
	if revisions-a.snapshot < uint64(due) {
		return
	}
	data, err := a.state.MarshalBinary()
	if err != nil {
		a.all.cfg.Logger.Warn("snapshot could not be written", "stream", a.stream, "error", err)
		return
	}
	a.snapshot = revisions // even if the saver has no room: the next one will do
	a.all.saver.offer(savedState{stream: a.stream, revision: revisions - 1, state: data})
}
