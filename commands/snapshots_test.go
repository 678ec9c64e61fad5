package commands

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
)

// memorySnapshots keeps the last saved state. Tests can replace the state that it returns.
type memorySnapshots struct {
	mu       sync.Mutex
	kept     map[string]keptSnapshot
	saves    int
	discards int
	saved    chan struct{} // one for each save
	err      error
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

func (m *memorySnapshots) Discard(_ context.Context, stream string, _ int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.discards++
	delete(m.kept, stream)
	return m.err
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

// The largest snapshot that the limits allow, with the longest domains, fits into the store and leaves space for
// permanent entries.
func TestSnapshot_FullAccount_FitsStore(t *testing.T) {
	const room = 1 << 20
	id := uuid.NewString()
	a := account.New(id)
	at := time.Date(2026, 11, 3, 9, 30, 0, 123456000, time.UTC)
	domain := strings.Repeat("a", 249) + ".com"
	a.Begin()
	a.Apply(eventschemas.AccountOpened{AccountID: id, Holder: "holder", Plan: "free"}, at)
	for i := range account.MaxOpenHolds {
		a.Apply(eventschemas.CreditsHeld{HoldID: uuid.NewString(), Credits: 1, Deadline: at, RequestID: strings.Repeat("r", 36), Domain: domain}, at.Add(time.Duration(i)*time.Microsecond))
	}
	for i := range account.MaxIdempotencyKeys + 1 {
		a.Apply(eventschemas.CreditsCharged{
			ChargeID: uuid.NewString(), Credits: 1, RequestID: "r", BrandID: testBrand, Domain: domain, RecordRevision: 1 << 40,
			IdempotencyKeyHash: fmt.Sprintf("%032x%032x", i, i), RequestHash: fmt.Sprintf("%064x", i),
		}, at.Add(time.Duration(i)*time.Microsecond))
	}
	for i := range account.MaxKeptCharges + 1 {
		a.Apply(eventschemas.ChargeKept{ChargeID: uuid.NewString(), RequestID: "r"}, at.Add(time.Duration(i)*time.Microsecond))
	}
	a.Commit()
	want := account.MaxOpenHolds + account.MaxIdempotencyKeys + account.MaxRecentCharges + account.MaxKeptCharges
	if n := a.Remembered(); n != want {
		t.Fatalf("%d entries, want %d", n, want)
	}
	data := testmust.Get(a.MarshalBinary())(t)
	if len(data) > sqlstore.MaxSnapshotBytes-room {
		t.Fatalf("%d bytes, the store takes %d", len(data), sqlstore.MaxSnapshotBytes)
	}
	t.Logf("%d bytes", len(data))
	testmust.Succeed(t, account.New(id).UnmarshalBinary(data))
}
