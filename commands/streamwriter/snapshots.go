package streamwriter

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of saving and loading snapshots.
const (
	// FinalSnapshot is the number of new events from which an ending actor saves a last snapshot.
	FinalSnapshot = 256
	// maxSavesWaiting and maxSaveBytes limit the states that wait to be saved; further ones are
	// skipped, but a state larger than maxSaveBytes is accepted if no other is waiting.
	maxSavesWaiting = 64
	maxSaveBytes    = 64 << 20
	// LoadSnapshots multiplies SnapshotEvery while a stream is loaded: 262,144 events by default, some seconds of work.
	LoadSnapshots = 64
	// snapshotWithin limits the read of a snapshot; without one the stream is folded.
	snapshotWithin = 5 * time.Second
	// saveWithin limits one save.
	saveWithin = time.Minute
)

// Snapshots is a disposable store of folded states: losing them costs time, never data. It is
// implemented by internal/sqlstore.
type Snapshots interface {
	// Load returns the state of a stream after the event with the returned revision, as saved by this version of the
	// fold. Errors: sqlstore.ErrSnapshotDamaged for a state that differs from what was saved.
	Load(ctx context.Context, stream string, foldVersion int) (revision uint64, state []byte, found bool, err error)
	// Save stores a state. An older revision never replaces a newer one.
	Save(ctx context.Context, stream string, foldVersion int, revision uint64, state []byte) error
	// Discard deletes an unusable state, so that an older revision can be saved.
	Discard(ctx context.Context, stream string, foldVersion int) error
}

type savedState struct {
	stream   string
	revision uint64 // of the last event in it
	state    []byte
}

// saver writes snapshots in the background, one at a time.
type saver struct {
	queue   chan savedState
	waiting atomic.Int64 // bytes
	done    chan struct{}
	once    sync.Once
}

func newSaver(to Snapshots, foldVersion int, logger *slog.Logger, m *metrics) *saver {
	s := &saver{queue: make(chan savedState, maxSavesWaiting), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for snap := range s.queue {
			// No request waits for it, so it has its own deadline.
			ctx, cancel := context.WithTimeout(context.Background(), saveWithin)
			err := to.Save(ctx, snap.stream, foldVersion, snap.revision, snap.state)
			cancel()
			s.waiting.Add(-int64(len(snap.state)))
			if err != nil {
				m.snapshots.WithLabelValues("failed").Inc()
				logger.Warn("snapshot could not be saved", "stream", snap.stream,
					"revision", snap.revision, "error", err)
				continue
			}
			m.snapshots.WithLabelValues("saved").Inc()
		}
	}()
	return s
}

// offer queues a state, or skips it if the store is too slow.
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

// close waits for the queued saves. No state may be offered afterwards.
func (s *saver) close() {
	if s == nil {
		return
	}
	s.once.Do(func() { close(s.queue) })
	<-s.done
}
