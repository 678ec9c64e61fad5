package commands

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
)

// Rule 3.
func TestQueue_Full_IsBusyImmediately(t *testing.T) {
	w := newWorld(t)
	d := w.writer(AccountWriterConfig{Config: streamwriter.Config{MaxQueue: 3}})
	id := w.openedWith(d, 10)
	g := w.blockAppend()
	var wg sync.WaitGroup
	wg.Go(func() { w.charge(d, id) })
	<-g.reached
	for i := range 3 {
		wg.Go(func() { w.charge(d, id) })
		w.awaitQueued(d, id, i+1)
	}
	in := w.lookup(id)
	in.Reservation = w.reserve(d, id)
	if _, err := d.ChargeLookup(t.Context(), in); !errors.Is(err, ErrBusy) || errors.Is(err, ErrUnknownOutcome) {
		t.Fatalf("charge: %v", err)
	}
	close(g.open)
	wg.Wait()
	if s := w.standing(d, id); s.Balance != 6 || s.Available != 6 {
		t.Fatalf("standing %+v, want balance 6 and available 6", s)
	}
}

func TestQueue_Long_IsSplitIntoGroups(t *testing.T) {
	w, d, id := opened(t, 3000)
	before := w.log.appends.Load()
	const n = 2*streamwriter.MaxGroup + 7
	var mu sync.Mutex
	sizes := 0
	w.runTogetherWith(d, id, n, func(f *faults) {
		f.before = func(a sentAppend) error {
			mu.Lock()
			defer mu.Unlock()
			sizes = max(sizes, len(a.events))
			return nil
		}
	}, func(int) { w.charge(d, id) })
	if got := w.log.appends.Load() - before; got != 4 || sizes != streamwriter.MaxGroup {
		t.Fatalf("%d appends for one and %d charges, the largest of %d", got, n, sizes)
	}
	if l := w.ledger(id); l.standingCharges() != n+1 {
		t.Fatalf("%d charges, want %d", l.standingCharges(), n+1)
	}
}

// Many events of one command and large ones: the group closes before the append would exceed the log's limits.
func TestGroup_LargeCommands_StaysBelowLogLimits(t *testing.T) {
	w, d, id := opened(t, 2000)
	long := strings.Repeat("x", streamwriter.MaxRequestText)
	const n = 500
	w.runTogether(d, id, n, func(i int) {
		in := GrantCredits{AccountID: id, Kind: "adjustment", Credits: 1, PaymentID: fmt.Sprint(strings.Repeat("p", 500), i), GrantID: strings.Repeat("g", account.MaxTextBytes), Reason: strings.Repeat("y", account.MaxTextBytes)}
		in.Request = Request{ID: w.request().ID, Actor: long, CorrelationID: long, CausationID: long}
		if _, err := d.GrantCredits(context.Background(), in); err != nil {
			t.Error(err)
		}
	})
	for i := range account.MaxReleases + 20 {
		w.ok(d.HoldCredits(t.Context(), HoldCredits{Request: Request{ID: fmt.Sprint("h", i), Actor: "a"}, AccountID: id, Domain: "acme.com"}))
	}
	// Closing releases the maximum number of holds of one decision.
	w.ok(d.Close(t.Context(), CloseAccount{Request: Request{ID: long, Actor: long, CorrelationID: long, CausationID: long}, AccountID: id, Reason: strings.Repeat("z", account.MaxTextBytes)}))
	if l := w.ledger(id); l.released != account.MaxReleases || l.balance != 2050+n-1 {
		t.Fatalf("%d released, balance %d", l.released, l.balance)
	}
}

func TestDrain_QueuedCommands_AreFinished(t *testing.T) {
	w, d, id := openedWith(t, 10)
	g := w.blockAppend()
	var wg sync.WaitGroup
	wg.Go(func() { w.charge(d, id) })
	<-g.reached
	for i := range 5 {
		wg.Go(func() { w.charge(d, id) })
		w.awaitQueued(d, id, i+1)
	}
	drained := make(chan error)
	go func() { drained <- d.Drain(context.Background()) }()
	w.waitFor(func() bool { return errors.Is(d.accounts.With(id, func(*accountActor) {}), ErrBusy) })
	w.fails(ErrBusy)(d.ChargeLookup(t.Context(), w.lookup(id)))
	w.fails(ErrBusy)(d.Reserve(t.Context(), id, ""))
	close(g.open)
	testmust.Succeed(t, <-drained)
	wg.Wait()
	if l := w.ledger(id); l.balance != 4 {
		t.Fatalf("balance = %d, want 4", l.balance)
	}
	if n := d.accounts.Live(); n != 0 {
		t.Fatalf("%d accounts are still in memory", n)
	}
}

func TestIdleAccounts_LeaveMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		kept := newMemorySnapshots()
		d := w.writer(AccountWriterConfig{Config: streamwriter.Config{IdleAfter: time.Minute}}, kept)
		busy, idle := w.openedWith(d, 5), w.openedWith(d, 5)
		r := w.reserve(d, busy)
		for range 5 {
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		if n := d.accounts.Live(); n != 1 {
			t.Fatalf("%d accounts in memory, want the one with a reservation", n)
		}
		if s := w.standing(d, busy); s.Available != 4 {
			t.Fatalf("standing %+v, want available 4", s)
		}
		in := w.lookup(busy)
		in.Reservation = r
		w.ok(d.ChargeLookup(t.Context(), in))
		for range 10 { // used occasionally, so it is kept
			time.Sleep(40 * time.Second)
			w.reserve(d, busy).Drop()
			synctest.Wait()
		}
		if n := d.accounts.Live(); n != 1 {
			t.Fatalf("%d accounts in memory, want the one in use", n)
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if n := d.accounts.Live(); n != 0 {
			t.Fatalf("%d accounts in memory after use, want 0", n)
		}
		w.charge(d, idle) // and is loaded again
		w.charge(d, busy)
	})
}

func TestLiveAccounts_AreLimited(t *testing.T) {
	w := newWorld(t)
	d := w.writer(AccountWriterConfig{Config: streamwriter.Config{MaxLive: 3}})
	ids := w.manyOpened(d, 3, 10)
	reserved := []*Reservation{w.reserve(d, ids[0]), w.reserve(d, ids[1])}
	for range 20 { // each one is evicted for the next; those with reservations are kept
		id := uuid.NewString()
		w.untilEvictable(func() error {
			_, err := d.OpenAccount(t.Context(), OpenAccount{Request: w.request(), AccountID: id, Holder: "h", Plan: "free"})
			return err
		})
		w.charge(d, id)
		if n := d.accounts.Live(); n > 3 {
			t.Fatalf("%d accounts in memory", n)
		}
	}
	for i, r := range reserved {
		in := w.lookup(ids[i])
		in.Reservation = r
		if s := w.standing(d, ids[i]); s.Available != 59 {
			t.Fatalf("standing %+v, want available 59", s)
		}
		w.ok(d.ChargeLookup(t.Context(), in))
	}
	full := []*Reservation{w.reserve(d, ids[0]), w.reserve(d, ids[1])}
	w.untilEvictable(func() error {
		r, err := d.Reserve(t.Context(), ids[2], "")
		full = append(full, r)
		return err
	})
	w.fails(ErrBusy)(d.Reserve(t.Context(), "3f0a1c52-3a43-4f06-9a35-3c1f2a5b7d10", ""))
	for _, r := range full {
		r.Drop()
	}
}

// untilEvictable retries until an account can be evicted, because an actor that has answered may not be idle yet.
func (w *world) untilEvictable(try func() error) {
	w.Helper()
	err := ErrBusy
	for started := time.Now(); errors.Is(err, ErrBusy) && time.Since(started) < waitLimit; {
		runtime.Gosched()
		err = try()
	}
	testmust.Succeed(w, err)
}

func TestLiveAccounts_ManyMoreThanLimit_ChargeOnce(t *testing.T) {
	w := newWorld(t)
	d := w.writer(AccountWriterConfig{Config: streamwriter.Config{MaxLive: 4}})
	ids := w.manyOpened(w.writer(AccountWriterConfig{}), 12, 1000)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for n := range 40 {
				id := ids[(i+n)%len(ids)]
				for {
					_, err := d.ChargeLookup(context.Background(), w.lookup(id))
					if err == nil {
						break
					}
					if !errors.Is(err, ErrBusy) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	total := 0
	for _, id := range ids {
		total += w.ledger(id).standingCharges()
	}
	if total != 16*40 {
		t.Fatalf("%d charges on the ledgers", total)
	}
}

// snapshotWorld charges n times on a writer that saves a snapshot every 16 events, and ends it.
func snapshotWorld(t *testing.T, kept *memorySnapshots, n int) (*world, string) {
	w := newWorld(t)
	d := w.writer(AccountWriterConfig{Config: streamwriter.Config{SnapshotEvery: 16}}, kept)
	id := w.opened(d, int64(n))
	for range n {
		w.charge(d, id)
	}
	w.drain(d)
	return w, id
}

// readsOf counts the events that are read to load an account into memory.
func (w *world) readsOf(id string, snapshots streamwriter.Snapshots) (events int, balance int64) {
	w.Helper()
	counting := &countingLog{Log: w.log.Log}
	d := testmust.Get(NewAccountWriter(AccountWriterConfig{}, counting, snapshots))(w)
	s := w.standing(d, id)
	w.drain(d)
	return counting.events, s.Balance
}

type countingLog struct {
	eventlog.Log
	events int
}

func (c *countingLog) ReadStream(ctx context.Context, stream string, from uint64, direction eventlog.Direction, limit int) ([]eventlog.Recorded, error) {
	events, err := c.Log.ReadStream(ctx, stream, from, direction, limit)
	c.events += len(events)
	return events, err
}

func TestLoad_Snapshot_ReadsOnlyTheTail(t *testing.T) {
	kept := newMemorySnapshots()
	w, id := snapshotWorld(t, kept, 1000)
	events, balance := w.readsOf(id, kept)
	if balance != 50 || events > 1+16 {
		t.Fatalf("balance %d after reading %d events", balance, events)
	}
	whole, balance := w.readsOf(id, nil)
	if balance != 50 || whole != 1003 {
		t.Fatalf("balance %d after reading %d events without snapshots, want 50 and 1003", balance, whole)
	}
}

func TestLoad_UnusableSnapshots_AreIgnored(t *testing.T) {
	kept := newMemorySnapshots()
	w, id := snapshotWorld(t, kept, 100)
	_, other := snapshotWorld(t, newMemorySnapshots(), 3)
	stream := account.Stream(id)
	good := kept.kept[stream]
	recs, events := w.events(id)
	end := uint64(len(recs) - 1)
	// forged returns the state after some events of the account and grants that it did not get.
	forged := func(events, grants int, all []eventschemas.Event) []byte {
		state := account.New(id)
		for i := range events {
			state.Apply(all[i], recs[i].OccurredAt)
		}
		for range grants {
			state.Apply(eventschemas.CreditsGranted{GrantID: "g", Kind: "adjustment", Credits: 1000}, recs[0].OccurredAt)
		}
		text, err := state.MarshalBinary()
		w.must(err)
		return text
	}
	for name, bad := range map[string]keptSnapshot{
		"another version of the fold": {good.foldVersion + 1, good.revision, good.state},
		"past the stream's end":       {good.foldVersion, 5000, good.state},
		"of another revision":         {good.foldVersion, good.revision - 1, good.state},
		"garbage":                     {good.foldVersion, good.revision, []byte("{")},
		"empty":                       {good.foldVersion, good.revision, nil},
		// The hash chain does not match.
		"of another history": {good.foldVersion, good.revision, forged(0, int(good.revision)+1, nil)},
		// No events follow, so no tail shows that it belongs to another history.
		"of another history, at the stream's end": {good.foldVersion, end, forged(0, len(recs), nil)},
		// The log was replaced by an older backup; the database with the snapshots was not.
		"of a longer history": {good.foldVersion, end + 5, forged(len(recs), 5, events)},
		"of another account":  {good.foldVersion, good.revision, []byte(strings.ReplaceAll(string(good.state), id, other))},
	} {
		kept.kept[stream] = bad
		if _, balance := w.readsOf(id, kept); balance != 50 {
			t.Errorf("%s: balance %d, want 50", name, balance)
		}
	}
	kept.kept[stream] = good
	kept.err = errTest
	if _, balance := w.readsOf(id, kept); balance != 50 {
		t.Errorf("unreadable: balance %d, want 50", balance)
	}
}

func TestSnapshots_SaveFails_CommandsSucceed(t *testing.T) {
	kept := newMemorySnapshots()
	kept.err = errTest
	w, id := snapshotWorld(t, kept, 40)
	if l := w.ledger(id); l.balance != 50 {
		t.Fatalf("balance = %d, want 50", l.balance)
	}
}

// Commands on an account whose stream was tampered with fail, and the error contains the revision.
func TestLoad_TamperedStream_Fails(t *testing.T) {
	good := newWorld(t)
	d := good.writer(AccountWriterConfig{})
	id := good.opened(d, 0)
	for range 3 {
		good.charge(d, id)
	}
	recs, _ := good.events(id)
	for name, tamper := range map[string]func(events []eventlog.Proposed){
		"an amount":     func(e []eventlog.Proposed) { e[1].Data = []byte(strings.Replace(string(e[1].Data), "50", "99", 1)) },
		"a request id":  func(e []eventlog.Proposed) { e[3].Metadata.RequestID = "another" },
		"a time":        func(e []eventlog.Proposed) { e[3].OccurredAt = e[3].OccurredAt.Add(time.Microsecond) },
		"a hash":        func(e []eventlog.Proposed) { e[4].Metadata.Hash = strings.Repeat("0", 64) },
		"an event type": func(e []eventlog.Proposed) { e[0].Type = "AccountClosed" },
	} {
		t.Run(name, func(t *testing.T) {
			// Not openLog, because its checks would fail.
			w := &world{TB: t, log: &faults{Log: &plainLog{}}}
			events := make([]eventlog.Proposed, len(recs))
			for i, rec := range recs {
				events[i] = rec.Proposed
			}
			tamper(events)
			w.log.Log = &plainLog{stream: account.Stream(id), events: events}
			n, err := Chain.Verify(t.Context(), w.log, account.Stream(id))
			var broken *streamwriter.ChainError
			if !errors.Is(err, streamwriter.ErrChainBroken) || !errors.Is(err, eventlog.ErrCorrupt) || !errors.As(err, &broken) || broken.Revision != uint64(n) {
				t.Fatalf("verify: %d events, %v", n, err)
			}
			writer := w.writer(AccountWriterConfig{})
			if _, err := writer.Reserve(t.Context(), id, ""); !errors.Is(err, streamwriter.ErrChainBroken) {
				t.Fatalf("reserve: %v", err)
			}
			if _, err := writer.ChargeLookup(t.Context(), w.lookup(id)); !errors.Is(err, eventlog.ErrCorrupt) {
				t.Fatalf("charge: %v", err)
			}
		})
	}
}

// plainLog is one read-only stream.
type plainLog struct {
	eventlog.Log
	stream string
	events []eventlog.Proposed
}

func (p *plainLog) ReadStream(_ context.Context, _ string, from uint64, direction eventlog.Direction, limit int) ([]eventlog.Recorded, error) {
	if direction == eventlog.Backward {
		from = uint64(len(p.events) - 1)
	}
	var out []eventlog.Recorded
	for i := from; i < uint64(len(p.events)) && len(out) < limit; i++ {
		out = append(out, eventlog.Recorded{Proposed: p.events[i], Stream: p.stream, Revision: i, Position: eventlog.Position(i + 1)})
	}
	return out, nil
}

func TestWriters_Metrics(t *testing.T) {
	w := newWorld(t)
	registry := prometheus.NewRegistry()
	d := w.writer(AccountWriterConfig{Config: streamwriter.Config{Registerer: registry, SnapshotEvery: 4}}, newMemorySnapshots())
	id := w.openedWith(d, 45)
	for name, want := range map[string]float64{
		"letterhead_desk_events_total":         7,
		"letterhead_desk_live_streams":         1,
		"letterhead_desk_conflicts_total":      0,
		"letterhead_desk_handed_back_total":    0,
		"letterhead_desk_reads_total":          1,
		"letterhead_desk_append_retries_total": 0,
	} {
		if got := metric(t, registry, name); got != want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	// The account was opened, then charged five times.
	for name, want := range map[string]float64{"letterhead_desk_command_seconds": 5, "letterhead_desk_group_commands": 6} {
		if got := metric(t, registry, name); got != want {
			t.Errorf("%s has %v samples, want %v", name, got, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	w.log.set(func(f *faults) {
		f.after = func(sentAppend, error) error {
			cancel()
			return nil
		}
	})
	w.fails(context.Canceled)(d.ChargeLookup(ctx, w.lookup(id)))
	w.drain(d)
	if got := metric(t, registry, "letterhead_desk_handed_back_total"); got != 1 {
		t.Errorf("%v compensated", got)
	}
	if _, err := NewAccountWriter(AccountWriterConfig{Config: streamwriter.Config{Registerer: registry}}, w.log, nil); err == nil {
		t.Error("two account writers share their metrics")
	}
	if _, err := NewQuotaWriter(streamwriter.Config{Registerer: registry}, w.log, nil); err != nil {
		t.Errorf("a quota writer with the same registry: %v", err)
	}
}

// metric returns the sum of a counter or gauge, or the samples of a histogram, over its labels.
func metric(t *testing.T, registry *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families := testmust.Get(registry.Gather())(t)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
		return sum
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func TestNew_NoLogOrNode_Fails(t *testing.T) {
	w := newWorld(t)
	for name, make := range map[string]func() error{
		"account, no log":          func() error { _, err := NewAccountWriter(AccountWriterConfig{}, nil, nil); return err },
		"usage, no log":            func() error { _, err := NewQuotaWriter(streamwriter.Config{}, nil, nil); return err },
		"recorder, negative pause": func() error { _, err := NewUsageRecorder(RecorderConfig{FlushEvery: -1}, w.log, "n"); return err },
		"recorder, no node":        func() error { _, err := NewUsageRecorder(RecorderConfig{}, w.log, ""); return err },
	} {
		if make() == nil {
			t.Errorf("no error for %s", name)
		}
	}
}
