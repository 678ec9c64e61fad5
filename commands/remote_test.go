package commands

import (
	"context"
	"slices"
	"sync"
	"time"

	"letterhead/internal/eventlog"
)

// remoteLog reaches a store over a network, in virtual time: calls take time to travel, commits are
// sequential, and events cost time at both ends. Every node has its own remoteLog of one remoteStore.
type remoteLog struct {
	eventlog.Log // nil: only the methods below are called
	store        *remoteStore
	travel       time.Duration // one way
	perEvent     time.Duration // to write or read one on the node

	appends, reads, lost int // of one actor
}

// remoteStore contains streams. The token of lock represents the store's single writer.
type remoteStore struct {
	lock   chan struct{}
	commit time.Duration

	mu      sync.Mutex // never held during a pause
	streams map[string][]eventlog.Recorded
	last    eventlog.Position
}

func newRemoteStore(commit time.Duration) *remoteStore {
	return &remoteStore{lock: make(chan struct{}, 1), commit: commit, streams: map[string][]eventlog.Recorded{}}
}

func (l *remoteLog) Append(_ context.Context, stream string, expected eventlog.Expected, events []eventlog.Proposed) (eventlog.Appended, error) {
	l.appends++
	time.Sleep(time.Duration(len(events))*l.perEvent + l.travel)
	done, err := l.store.append(stream, expected, events)
	time.Sleep(l.travel)
	if err != nil {
		l.lost++
	}
	return done, err
}

func (s *remoteStore) append(stream string, expected eventlog.Expected, events []eventlog.Proposed) (eventlog.Appended, error) {
	s.lock <- struct{}{}
	defer func() { <-s.lock }()
	at := expected.Next()
	if int(at) != len(s.events(stream)) {
		return eventlog.Appended{}, &eventlog.WrongRevisionError{Stream: stream, Expected: expected}
	}
	time.Sleep(s.commit)
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.streams[stream]
	for _, p := range events {
		s.last++
		all = append(all, eventlog.Recorded{Proposed: p, Stream: stream, Revision: uint64(len(all)), Position: s.last})
	}
	s.streams[stream] = all
	return eventlog.Appended{FirstRevision: at, LastRevision: uint64(len(all)) - 1, Position: s.last}, nil
}

func (s *remoteStore) events(stream string) []eventlog.Recorded {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams[stream]
}

// ReadStream reads forward, the only direction that writers use.
func (l *remoteLog) ReadStream(_ context.Context, stream string, from uint64, _ eventlog.Direction, limit int) ([]eventlog.Recorded, error) {
	l.reads++
	time.Sleep(l.travel)
	all := l.store.events(stream)
	page := slices.Clone(all[min(int(from), len(all)):min(int(from)+limit, len(all))])
	time.Sleep(l.travel + time.Duration(len(page))*l.perEvent/2)
	return page, nil
}
