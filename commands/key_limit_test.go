package commands

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/apikey"
	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/testmust"
)

// keyWith issues a key with a limit.
func (w *world) keyWith(d *AccountWriter, id string, limit int64, period string) (keyID string) {
	w.Helper()
	keyID = fmt.Sprint("key-", w.request().ID)
	key := testmust.Get(apikey.Parse(testmust.Get(apikey.Generate(apikey.Secret, rand.Reader))(w)))(w)
	w.ok(d.IssueKey(context.Background(), IssueKey{Request: w.request(), AccountID: id, KeyID: keyID, Key: key}))
	w.ok(d.LimitKey(context.Background(), LimitKey{w.request(), id, keyID, limit, period}))
	return keyID
}

// spendWith looks up with a key, and with or without a hold, as a look-up does.
func (w *world) spendWith(d *AccountWriter, id, keyID string, crawls bool) error {
	r, err := d.Reserve(context.Background(), id, keyID)
	if err != nil {
		return err
	}
	in := w.lookup(id)
	in.KeyID, in.Reservation, in.FromStream = keyID, r, true
	if crawls {
		h, err := d.HoldCredits(context.Background(), HoldCredits{Request: in.Request, AccountID: id, Reservation: r, Domain: in.Domain,
			Work: time.Minute, KeyID: keyID})
		if err != nil {
			return err
		}
		in.Reservation, in.HoldID = nil, h.ID
	}
	_, err = d.ChargeLookup(context.Background(), in)
	return err
}

// Clients of three nodes spend exactly the limit of a key, while another key of the account spends on.
// Rules 1, 3.
func TestNodes_LimitedKey_SpendsExactlyTheLimit(t *testing.T) {
	const limit, callers = 100, 64
	n := newNodes(t, 3, 0, esdbtest.Config{})
	id := n.openedWith(n.writers[0], 1000)
	keyID := n.keyWith(n.writers[0], id, limit, "total")
	var paid, others atomic.Int64
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			d := n.writers[i%len(n.writers)]
			for {
				err := n.spendWith(d, id, keyID, i%2 == 0)
				var lack *account.InsufficientCreditsError
				switch {
				case errors.As(err, &lack) && lack.KeyLimit == limit && lack.KeyUsed == limit && lack.Available > 0:
					if n.spendWith(d, id, "another key", false) == nil {
						others.Add(1)
					}
					return
				case err == nil:
					paid.Add(1)
				case !errors.Is(err, ErrBusy):
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if l := n.ledger(id); paid.Load() != limit || others.Load() != callers || l.balance != 1000-limit-callers {
		t.Errorf("the key spent %d, others %d, the balance is %d", paid.Load(), others.Load(), l.balance)
	}
}

// Another writer continues the count, from a snapshot and without one, and ignores a snapshot of the fold before.
func TestLimitedKey_NextWriter_ContinuesTheCount(t *testing.T) {
	w := newWorld(t)
	kept := newMemorySnapshots()
	d := w.writer(AccountWriterConfig{Config: streamwriter.Config{SnapshotEvery: 1}}, kept)
	id := w.openedWith(d, 50)
	keyID := w.keyWith(d, id, 3, "month")
	w.must(w.spendWith(d, id, keyID, false))
	w.drain(d)
	older := newMemorySnapshots()
	older.kept[account.Stream(id)] = keptSnapshot{foldVersion: account.OldestFoldVersion, state: []byte("{}")}
	for i, snapshots := range []*memorySnapshots{kept, older} {
		next := w.writer(AccountWriterConfig{}, snapshots)
		limit, ok := w.standing(next, id).KeyLimits.Of(keyID, time.Now())
		if want := int64(1 + i); !ok || limit.Used() != want || limit.Credits != 3 {
			t.Fatalf("writer %d: %+v, want %d used", i, limit, want)
		}
		w.must(w.spendWith(next, id, keyID, true))
		w.drain(next)
	}
	last := w.writer(AccountWriterConfig{})
	w.failed(w.spendWith(last, id, keyID, false), account.ErrInsufficientCredits)
}

// A caller who leaves gets the credit of the key's limit back.
func TestLimitedKey_UndeliveredCharge_IsGivenBack(t *testing.T) {
	w, d, id := opened(t, 0)
	keyID := w.keyWith(d, id, 1, "total")
	in := w.lookup(id)
	in.KeyID = keyID
	receipt := w.charged(d, in)
	w.failed(w.spendWith(d, id, keyID, false), account.ErrInsufficientCredits)
	w.must(d.ReverseUndelivered(UndeliveredCharge{Request: in.Request, AccountID: id, KeyID: keyID, Receipt: receipt}))
	w.drain(d)
	next := w.writer(AccountWriterConfig{})
	w.must(w.spendWith(next, id, keyID, false))
	w.failed(w.spendWith(next, id, keyID, false), account.ErrInsufficientCredits)
}

// Nodes of the previous release would not enforce a limit.
func TestLimitKey_BeforeTheUpgradeIsFinished_IsRefused(t *testing.T) {
	previous := eventschemas.NewEncoder(func() int { return eventschemas.Format - 1 })
	if _, err := previous.Encode(eventschemas.KeyLimitSet{KeyID: "k", Limit: 1, Period: "day"}); !errors.Is(err, eventschemas.ErrNotYet) {
		t.Errorf("encode for the previous release: %v", err)
	}
}
