package account_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

// A client that kept disconnecting caused 300,000 reversals within a day, all of which the account remembers.
// They took 112 MB of memory, and the snapshot was too large to store.
func TestManyReversals_TakeLittleRoom(t *testing.T) {
	const n = 300_000
	id := uuid.NewString()
	begin := time.Date(2026, 11, 3, 0, 0, 0, 0, time.UTC)
	charge := func(i int) string { return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, i)).String() }
	before := heap()
	a := account.New(id)
	a.Apply(eventschemas.AccountOpened{AccountID: id, Holder: "holder", Plan: "free"}, begin)
	for i := range n {
		a.Apply(eventschemas.ChargeReversed{ChargeID: charge(i), Credits: 1, RequestID: "r", Reason: account.ReasonClientGone}, begin.Add(time.Duration(i)*280*time.Millisecond))
	}
	used := heap() - before
	if a.Remembered() != n {
		t.Fatalf("%d reversals are remembered", a.Remembered())
	}
	if used > 120*n {
		t.Errorf("each reversal takes %d bytes of memory", used/n)
	}
	data := testmust.Get(a.MarshalBinary())(t)
	if len(data) > 32*n {
		t.Errorf("each reversal takes %d bytes of the snapshot", len(data)/n)
	}
	t.Logf("%d reversals: %d MiB in memory, %d MiB in a snapshot", n, used>>20, len(data)>>20)
	restored := account.New(id)
	testmust.Succeed(t, restored.UnmarshalBinary(data))
	again, err := restored.MarshalBinary()
	if err != nil || string(again) != string(data) {
		t.Errorf("the restored account has a different snapshot (%v)", err)
	}
	// Each reversal is remembered, but only for ReversalWindow.
	last := begin.Add((n - 1) * 280 * time.Millisecond)
	for _, i := range []int{0, n / 2, n - 1} {
		out, err := restored.Reverse(account.Reverse{ChargeID: charge(i), Credits: 1, ChargedAt: last, RequestID: "r", Reason: account.ReasonOperator}, last)
		if err != nil || !out.Repeated {
			t.Errorf("reversal %d is not known: %+v, %v", i, out, err)
		}
	}
	restored.Apply(eventschemas.PlanChanged{To: "growth"}, last.Add(account.ReversalWindow))
	if restored.Remembered() != 0 {
		t.Errorf("%d reversals are remembered after ReversalWindow", restored.Remembered())
	}
	runtime.KeepAlive(a)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestUnmarshal_DamagedReversals_Fails(t *testing.T) {
	a := account.New("a")
	for name, packed := range map[string]string{"a cut key": "AAAA", "no time": "AAAAAAAAAAAAAAAAAAAAAA=="} {
		state := fmt.Sprintf(`{"fold_version":%d,"id":"a","head":"%064d","reversed":%q}`, account.FoldVersion, 0, packed)
		if err := a.UnmarshalBinary([]byte(state)); err == nil {
			t.Errorf("%s: UnmarshalBinary accepted %s", name, state)
		}
	}
}
