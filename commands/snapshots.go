package commands

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of saving and loading snapshots.
const (
	// finalSnapshot is how many events an actor that ends must have added for a last snapshot.
	finalSnapshot = 256
	// maxSavesWaiting and maxSaveBytes bound the states that wait to be saved; further ones are left out, but
	// one that is larger than maxSaveBytes is taken when no other waits.
	maxSavesWaiting = 64
	maxSaveBytes    = 64 << 20
	// loadSnapshots is how many times SnapshotEvery lies between two snapshots while a stream is loaded:
	// 262,144 events by default, some seconds of work.
	loadSnapshots = 64
	// snapshotWithin bounds the look for a snapshot: folding the stream is the way without one.
	snapshotWithin = 5 * time.Second
	// saveWithin bounds one save.
	saveWithin = time.Minute
)

// Snapshots is a disposable store of folded states: losing them costs time, never data. It is
// internal/sqlstore's.
type Snapshots interface {
	// Load returns the state of a stream after the event with the returned revision, as it was saved by this
	// version of the fold. Errors: sqlstore.ErrSnapshotDamaged for one that is not as it was saved.
	Load(ctx context.Context, stream string, foldVersion int) (revision uint64, state []byte, found bool, err error)
	// Save keeps a state. An older revision never replaces a newer one.
	Save(ctx context.Context, stream string, foldVersion int, revision uint64, state []byte) error
	// Discard deletes a state that cannot be used, so that an older revision can be saved.
	Discard(ctx context.Context, stream string, foldVersion int) error
}

type savedState struct {
	stream   string
	revision uint64 // of the last event in it
	state    []byte
}

// saver writes snapshots beside the commands, one at a time.
type saver struct {
	queue   chan savedState
	waiting atomic.Int64 // bytes
	done    chan struct{}
	once    sync.Once
}

func newSaver(to Snapshots, foldVersion int, logger *slog.Logger, m *deskMetrics) *saver {
	s := &saver{queue: make(chan savedState, maxSavesWaiting), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for snap := range s.queue {
			// No request waits for it; it has its own deadline.
			ctx, cancel := context.WithTimeout(context.Background(), saveWithin)
			err := to.Save(ctx, snap.stream, foldVersion, snap.revision, snap.state)
			cancel()
			s.waiting.Add(-int64(len(snap.state)))
			if err != nil {
				m.snapshots.WithLabelValues("failed").Inc()
				logger.Warn("snapshot could not be saved", "stream", snap.stream, "revision", snap.revision, "error", err)
				continue
			}
			m.snapshots.WithLabelValues("saved").Inc()
		}
	}()
	return s
}

// offer queues a state, or leaves it out when the store is too slow.
func (s *saver) offer(snap savedState) {
	size := int64(len(snap.state))
	if before := s.waiting.Add(size) - size; before > 0 && before+size > maxSaveBytes {
		s.waiting.Add(-size)
		return
	}
	select {
	case s.queue <- snap:
	default:
		s.waiting.Add(-size)
	}
}

// close waits for what is queued. No state may be offered any more.
func (s *saver) close() {
	if s == nil {
		return
	}
	s.once.Do(func() { close(s.queue) })
	<-s.done
}
