package commands

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Limits of saving snapshots.
const (
	// finalSnapshot is how many events an actor that ends must have added for a last snapshot.
	finalSnapshot = 256
	// maxSavesWaiting bounds the states that wait to be saved; further ones are left out.
	maxSavesWaiting = 64
	// snapshotWithin bounds the look for a snapshot: folding the stream is the way without one.
	snapshotWithin = 2 * time.Second
	// saveWithin bounds one save.
	saveWithin = 10 * time.Second
)

// Snapshots is a disposable store of folded states: losing them costs time, never data. It is
// internal/sqlstore's.
type Snapshots interface {
	// Load returns the state of a stream after the event with the returned revision, as it was saved by this
	// version of the fold.
	Load(ctx context.Context, stream string, foldVersion int) (revision uint64, state []byte, found bool, err error)
	// Save keeps a state. An older revision never replaces a newer one.
	Save(ctx context.Context, stream string, foldVersion int, revision uint64, state []byte) error
}

type savedState struct {
	stream   string
	revision uint64 // of the last event in it
	state    []byte
}

// saver writes snapshots beside the commands, one at a time.
type saver struct {
	queue chan savedState
	done  chan struct{}
	once  sync.Once
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
	select {
	case s.queue <- snap:
	default:
	}
}

// close waits for what is queued. Nobody may offer any more.
func (s *saver) close() {
	if s == nil {
		return
	}
	s.once.Do(func() { close(s.queue) })
	<-s.done
}
