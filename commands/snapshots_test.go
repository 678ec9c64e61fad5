package commands

import (
	"context"
	"sync"
)

// memorySnapshots keeps what was saved last, and can be told what to give back.
type memorySnapshots struct {
	mu    sync.Mutex
	kept  map[string]keptSnapshot
	saves int
	saved chan struct{} // one for each save
	err   error
}

type keptSnapshot struct {
	foldVersion int
	revision    uint64
	state       []byte
}

func newMemorySnapshots() *memorySnapshots {
	return &memorySnapshots{kept: map[string]keptSnapshot{}, saved: make(chan struct{}, 10_000)}
}

func (m *memorySnapshots) Load(_ context.Context, stream string, foldVersion int) (uint64, []byte, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.kept[stream]
	if m.err != nil || !ok || s.foldVersion != foldVersion {
		return 0, nil, false, m.err
	}
	return s.revision, s.state, true, nil
}

func (m *memorySnapshots) Save(_ context.Context, stream string, foldVersion int, revision uint64, state []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	m.saves++
	m.kept[stream] = keptSnapshot{foldVersion: foldVersion, revision: revision, state: state}
	m.saved <- struct{}{}
	return nil
}
