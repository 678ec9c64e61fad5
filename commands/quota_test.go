package commands

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/domain/usage"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
)

var november = time.Date(2026, 11, 30, 23, 59, 59, 0, time.UTC)

func (w *world) quota(cfg streamwriter.Config, snapshots ...streamwriter.Snapshots) *QuotaWriter {
	w.Helper()
	var s streamwriter.Snapshots
	if len(snapshots) > 0 {
		s = snapshots[0]
	}
	cfg.AppendWithin = testwait.Timeout // the disk may be busy
	d := testmust.Get(NewQuotaWriter(cfg, w.log, s))(w)
	w.Cleanup(func() {
		if err := d.Drain(context.Background()); err != nil {
			w.Error(err)
		}
	})
	return d
}

// usageEvents decodes a usage stream.
func (w *world) usageEvents(stream string) (events []eventschemas.Event) {
	w.Helper()
	recs := testmust.Get(w.log.Log.ReadStream(context.Background(), stream, 0, eventlog.Forward, 4096))(w)
	for _, rec := range recs {
		ev := testmust.Get(eventschemas.Decode(rec.Type, rec.SchemaVersion, rec.Data))(w)
		events = append(events, ev)
	}
	return events
}

// usageEntries returns the entries of a usage stream, and the number of all its events.
func (w *world) usageEntries(stream string) (events int, entries []eventschemas.UsageEntry) {
	w.Helper()
	all := w.usageEvents(stream)
	for _, ev := range all {
		switch ev := ev.(type) {
		case eventschemas.LogosAllotted:
		case eventschemas.UsageTicked:
			entries = append(entries, ev.Entries...)
		default:
			w.Fatalf("%T on %s", ev, stream)
		}
	}
	return len(all), entries
}

func TestCountSearch_CountsByMonthUpToLimit(t *testing.T) {
	w := newWorld(t)
	d := w.quota(streamwriter.Config{})
	id := uuid.NewString()
	for want := int64(1); want <= 3; want++ {
		if used, err := d.CountSearch(t.Context(), id, november, 3); used != want || err != nil {
			t.Fatalf("search %d: %d, %v", want, used, err)
		}
	}
	_, err := d.CountSearch(t.Context(), id, november, 3)
	var quota *usage.QuotaExceededError
	if !errors.Is(err, ErrQuotaExceeded) || !errors.As(err, &quota) || quota.Used != 3 || quota.Limit != 3 {
		t.Fatalf("past the limit: %v", err)
	}
	if used, err := d.CountSearch(t.Context(), id, november, 4); used != 4 || err != nil {
		t.Fatalf("after an upgrade: %d, %v, want 4", used, err)
	}
	if used, err := d.CountSearch(t.Context(), id, november, plan.Unlimited); used != 5 || err != nil {
		t.Fatalf("unlimited: %d, %v, want 5", used, err)
	}
	if used, err := d.CountSearch(t.Context(), id, november.Add(time.Second), 3); used != 1 || err != nil {
		t.Fatalf("next month: %d, %v, want 1", used, err)
	}
	other := w.quota(streamwriter.Config{})
	for _, writer := range []*QuotaWriter{d, other} {
		if n, err := writer.Searches(t.Context(), id, "2026-11"); n != 5 || err != nil {
			t.Fatalf("November: %d, %v, want 5", n, err)
		}
		if n, err := writer.Searches(t.Context(), id, "2026-10"); n != 0 || err != nil {
			t.Fatalf("October: %d, %v, want 0", n, err)
		}
	}
	if events, entries := w.usageEntries("usage-" + id + "-202611"); events != 5 || !equalEntries(entries[:1], []eventschemas.UsageEntry{{AccountID: id, Month: "2026-11", Searches: 1}}) {
		t.Fatalf("%d events, %+v", events, entries)
	}
}

func TestCountSearch_Concurrent_IsOneEvent(t *testing.T) {
	w := newWorld(t)
	d := w.quota(streamwriter.Config{})
	id := uuid.NewString()
	g := w.blockAppend()
	var mu sync.Mutex
	var counted []int64
	rejected := 0
	count := func() {
		used, err := d.CountSearch(context.Background(), id, november, 31)
		mu.Lock()
		defer mu.Unlock()
		if errors.Is(err, ErrQuotaExceeded) {
			rejected++
			return
		}
		if err != nil {
			t.Error(err)
		}
		counted = append(counted, used)
	}
	var wg sync.WaitGroup
	wg.Go(count)
	<-g.reached
	for i := range 40 {
		wg.Go(count)
		w.waitFor(func() bool {
			queued := 0
			err := d.months.With(quotaKey(id, usage.MonthOf(november)), func(a *quotaActor) { queued = a.Queued() })
			return err == nil && queued == i+1
		})
	}
	close(g.open)
	wg.Wait()
	slices.Sort(counted)
	if len(counted) != 31 || counted[30] != 31 || len(slices.Compact(counted)) != 31 || rejected != 10 {
		t.Fatalf("counted %v, %d rejected", counted, rejected)
	}
	if events, entries := w.usageEntries("usage-" + id + "-202611"); events != 2 || entries[1].Searches != 30 {
		t.Fatalf("%d events, %+v", events, entries)
	}
}

// Two writers that count concurrently keep the limit together, and neither loses counts to the other.
// Rule 10.
func TestCountSearch_TwoWriters_NeverPassTheLimit(t *testing.T) {
	w := newWorld(t)
	writers := []*QuotaWriter{w.quota(streamwriter.Config{Shared: true}), w.quota(streamwriter.Config{Shared: true})}
	id := uuid.NewString()
	const limit = 200
	var mu sync.Mutex
	counted, rejected := 0, 0
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			for range 10 {
				_, err := writers[i%2].CountSearch(context.Background(), id, november, limit)
				mu.Lock()
				switch {
				case err == nil:
					counted++
				case errors.Is(err, ErrQuotaExceeded):
					rejected++
				default:
					t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, d := range writers {
		if n, err := d.Searches(t.Context(), id, "2026-11"); n != limit || err != nil {
			t.Errorf("%d searches, %v", n, err)
		}
	}
	if counted != limit || rejected != 320-limit {
		t.Fatalf("%d counted, %d rejected", counted, rejected)
	}
}

func TestCountSearch_Faults_CountEachOnce(t *testing.T) {
	w := newWorld(t)
	kept := newMemorySnapshots()
	d := w.quota(streamwriter.Config{KnowWithin: time.Second, SnapshotEvery: 2}, kept)
	id := uuid.NewString()
	count := func() (int64, error) { return d.CountSearch(t.Context(), id, november, 100) }
	w.ok(count())
	w.log.set(func(f *faults) { f.before = func(sentAppend) error { return unavailable() } })
	w.fails(eventlog.ErrUnavailable)(count())
	lost := true
	w.log.set(func(f *faults) {
		f.before = nil
		f.after = func(_ sentAppend, err error) error {
			if lost {
				lost = false
				return ambiguous()
			}
			return err
		}
	})
	if used, err := count(); used != 2 || err != nil {
		t.Fatalf("repeated after a lost reply: %d, %v, want 2", used, err)
	}
	w.log.set(func(f *faults) { f.after = func(sentAppend, error) error { return ambiguous() } })
	w.fails(ErrUnknownOutcome)(count())
	w.log.set(func(f *faults) { f.after = nil })
	if used, err := count(); used != 4 || err != nil { // the ambiguous one was stored and remains counted
		t.Fatalf("after an ambiguous append: %d, %v", used, err)
	}
	for range 300 {
		w.ok(d.CountSearch(t.Context(), id, november, -7))
	}
	w.must(d.Drain(t.Context()))
	counting := &countingLog{Log: w.log.Log}
	next := testmust.Get(NewQuotaWriter(streamwriter.Config{}, counting, kept))(t)
	if n, err := next.Searches(t.Context(), id, "2026-11"); n != 304 || err != nil || counting.events > 4 {
		t.Fatalf("%d searches, %v, after reading %d events", n, err, counting.events)
	}
	w.must(next.Drain(t.Context()))
}

func FuzzQuotaSnapshot(f *testing.F) {
	for _, seed := range []string{
		`{"counter":{"events":3,"searches":7},"last_at":"2026-11-30T23:59:59Z"}`, "", "{}", "null", `{"counter":null}`,
		`{"counter":{"searches":-1}}`, `{"counter":[]}`, `{"counter":{"events":1}}x`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		state := newQuotaState(uuid.NewString(), usage.MonthOf(november), nil)
		if err := state.UnmarshalBinary(data); err != nil {
			if state.Revisions() != 0 || state.counter.Searches() != 0 {
				t.Fatal("a rejected snapshot changed the state")
			}
			return
		}
		written, err := state.MarshalBinary()
		if err != nil {
			return // a year after 9999
		}
		again := newQuotaState(state.accountID, state.month, nil)
		if err := again.UnmarshalBinary(written); err != nil || again.Revisions() != state.Revisions() || again.counter.Searches() != state.counter.Searches() {
			t.Fatalf("%s is restored as %+v, %v", written, again.counter, err)
		}
	})
}

func TestCountSearch_InvalidAccountOrMonth_CountsNothing(t *testing.T) {
	w := newWorld(t)
	d := w.quota(streamwriter.Config{})
	for _, id := range []string{"", "node-1", "../" + uuid.NewString(), uuid.NewString() + "/2026-11"} {
		if _, err := d.CountSearch(t.Context(), id, november, 5); !errors.Is(err, account.ErrNotFound) && !errors.Is(err, account.ErrInvalid) {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, month := range []string{"", "2026", "2026-13", "2026-11-01", "202611"} {
		if _, err := d.Searches(t.Context(), uuid.NewString(), month); !errors.Is(err, account.ErrInvalid) {
			t.Errorf("%q: %v", month, err)
		}
	}
	if n := w.log.appends.Load(); n != 0 {
		t.Errorf("%d appends, want 0", n)
	}
}

func (w *world) recorder(node string) *UsageRecorder {
	w.Helper()
	r := testmust.Get(NewUsageRecorder(RecorderConfig{}, w.log, node))(w)
	return r
}

func TestRecorder_SumsUpBetweenFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.recorder("n1")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		a, b := "0a1b2c3d-0000-4000-8000-000000000001", "0a1b2c3d-0000-4000-8000-000000000002"
		early, late := november.Add(-time.Hour), november
		for range 5 {
			r.Logo(b, late)
		}
		r.Logo(a, late)
		r.Logo(a, late.Add(time.Second)) // the next month
		r.KeyUsed(a, "k2", late)
		r.KeyUsed(a, "k2", early) // out of order: the last use is kept
		r.KeyUsed(a, "k1", early)
		time.Sleep(DefaultFlushEvery)
		synctest.Wait()
		want := []eventschemas.UsageEntry{
			{AccountID: a, Month: "2026-11", Logos: 1, KeysUsed: []eventschemas.KeyUsed{{KeyID: "k1", At: early}, {KeyID: "k2", At: late}}},
			{AccountID: a, Month: "2026-12", Logos: 1},
			{AccountID: b, Month: "2026-11", Logos: 5},
		}
		events, entries := w.usageEntries("usage-node-n1")
		if events != 1 || !equalEntries(entries, want) {
			t.Fatalf("%d events: %+v", events, entries)
		}
		time.Sleep(10 * DefaultFlushEvery)
		synctest.Wait()
		if events, _ := w.usageEntries("usage-node-n1"); events != 1 {
			t.Fatalf("%d events after idle seconds, want 1", events)
		}
		r.Logo(a, late)
		cancel() // the counts in memory are appended before it ends
		testmust.Succeed(t, <-ended)
		if events, entries := w.usageEntries("usage-node-n1"); events != 2 || entries[3].Logos != 1 {
			t.Fatalf("%d events: %+v", events, entries)
		}
	})
}

func equalEntries(a, b []eventschemas.UsageEntry) bool {
	return slices.EqualFunc(a, b, func(x, y eventschemas.UsageEntry) bool {
		return x.AccountID == y.AccountID && x.Month == y.Month && x.Logos == y.Logos && x.Searches == y.Searches &&
			slices.EqualFunc(x.KeysUsed, y.KeysUsed, func(p, q eventschemas.KeyUsed) bool { return p.KeyID == q.KeyID && p.At.Equal(q.At) })
	})
}

// In the end each count is on the stream exactly once, whatever faults the log has.
func TestRecorder_Faults_LoseAndRepeatNothing(t *testing.T) {
	w := newWorld(t)
	id := uuid.NewString()
	first := w.recorder("n1")
	first.Logo(id, november)
	w.must(first.flush(t.Context()))
	r := w.recorder("n1") // after a restart it continues after the existing events
	for _, fault := range []func(f *faults){
		func(f *faults) { f.before = func(sentAppend) error { return unavailable() } },
		func(f *faults) { f.before = func(sentAppend) error { return ambiguous() } },
		func(f *faults) { f.after = func(sentAppend, error) error { return ambiguous() } },
		func(f *faults) { f.reading = func(string) error { return unavailable() } },
	} {
		r.Logo(id, november)
		w.log.set(fault)
		failed := r.flush(t.Context())
		r.Logo(id, november)
		w.log.set(func(f *faults) { f.before, f.after, f.reading = nil, nil, nil })
		if err := r.flush(t.Context()); err != nil {
			t.Fatalf("after %v: %v", failed, err)
		}
	}
	// Another process with the same name takes the revision.
	first.Logo(id, november)
	w.must(first.flush(t.Context()))
	r.Logo(id, november)
	w.must(r.flush(t.Context()))
	_, entries := w.usageEntries("usage-node-n1")
	sum := int64(0)
	for _, e := range entries {
		sum += e.Logos
	}
	if sum != 1+4*2+2 {
		t.Fatalf("%d logos on the stream: %+v", sum, entries)
	}
}

// Two processes use the same node name by mistake.
func TestRecorder_SharedName_LosesNothing(t *testing.T) {
	const flushes = 40
	w := newWorld(t)
	id := uuid.NewString()
	var wg sync.WaitGroup
	for range 2 {
		r := w.recorder("n1")
		wg.Go(func() {
			for range flushes {
				r.Logo(id, november)
				_ = r.flush(t.Context()) // too many races: the next flush retries
			}
			if err := r.lastFlush(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	_, entries := w.usageEntries("usage-node-n1")
	sum := int64(0)
	for _, e := range entries {
		sum += e.Logos
	}
	if sum != 2*flushes {
		t.Errorf("%d logos on the stream, want %d", sum, 2*flushes)
	}
}

// The last flush survives a short outage of the log.
func TestRecorder_LastFlush_IsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.recorder("n1")
		r.Logo(uuid.NewString(), november)
		away := 5
		w.log.set(func(f *faults) {
			f.before = func(sentAppend) error {
				if away--; away >= 0 {
					return unavailable()
				}
				return nil
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w.must(r.Run(ctx))
		if events, _ := w.usageEntries("usage-node-n1"); events != 1 {
			t.Errorf("%d events, want 1", events)
		}
	})
}

// The count that a writer has seen is a lower bound that needs no read; the exact count of all nodes needs one.
// Rule 7.
func TestSearches_OfOtherNode_AreCounted(t *testing.T) {
	w := newWorld(t)
	var writers [2]*QuotaWriter
	for i := range writers {
		d := testmust.Get(NewQuotaWriter(streamwriter.Config{Shared: true}, w.log, nil))(t)
		t.Cleanup(func() {
			if err := d.Drain(context.Background()); err != nil {
				t.Error(err)
			}
		})
		writers[i] = d
	}
	id, month := uuid.NewString(), "2026-11"
	for i := range 6 {
		if used, err := writers[i%2].CountSearch(t.Context(), id, november, 6); err != nil || used != int64(i+1) {
			t.Fatal(used, err)
		}
		reads := w.log.reads.Load()
		seen, err := writers[(i+1)%2].SearchesSeen(t.Context(), id, month)
		if err != nil || seen > int64(i+1) || i > 0 && (seen < int64(i) || w.log.reads.Load() != reads) {
			t.Fatalf("after %d searches the other writer has seen %d, with %d reads: %v", i+1, seen, w.log.reads.Load()-reads, err)
		}
		if all, err := writers[(i+1)%2].Searches(t.Context(), id, month); err != nil || all != int64(i+1) {
			t.Fatal(all, err)
		}
	}
	for _, d := range writers {
		w.fails(ErrQuotaExceeded)(d.CountSearch(t.Context(), id, november, 6))
	}
}

func TestRecorder_ManyCounts_AreSplitIntoEvents(t *testing.T) {
	w := newWorld(t)
	r := w.recorder("n1")
	const accounts = 5*maxTickEntries + 3
	for range accounts {
		id := uuid.NewString()
		r.Logo(id, november)
		for range 4 {
			r.KeyUsed(id, uuid.NewString(), november)
		}
	}
	w.must(r.flush(t.Context()))
	events, entries := w.usageEntries("usage-node-n1")
	keys := 0
	for _, e := range entries {
		keys += len(e.KeysUsed)
	}
	if len(entries) != accounts || keys != 4*accounts || events < accounts*4/maxTickKeys {
		t.Fatalf("%d entries with %d keys in %d events", len(entries), keys, events)
	}
}

func TestRecorder_TooManyCounts_AreDropped(t *testing.T) {
	w := newWorld(t)
	r := w.recorder("n1")
	id := uuid.NewString()
	for i := range maxRecorded + 100 {
		r.KeyUsed(id, strconv.Itoa(i), november)
	}
	r.Logo(id, november) // known accounts are still counted
	r.Logo(uuid.NewString(), november)
	if r.size > maxRecorded || len(r.entries) != 1 || r.entries[entryKey{id, usage.MonthOf(november)}].logos != 1 {
		t.Fatalf("size %d, %d entries", r.size, len(r.entries))
	}
}
