package commands

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/testmust"
)

// longStream is a log with one account of n events that is slow to read.
type longStream struct {
	eventlog.Log
	id     string
	events []eventlog.Recorded

	pause    time.Duration // per page
	pages    atomic.Int64  // read forward
	reading  atomic.Int64
	most     atomic.Int64 // concurrent reads
	failures atomic.Int64 // pages to fail
}

const longBalance = 7

// newLongStream opens an account that charges until it has n events and longBalance credits.
func newLongStream(t testing.TB, n int) *longStream {
	t.Helper()
	l := &longStream{id: uuid.NewString()}
	longHistory(t, l.id, n, func(rec eventlog.Recorded) { l.events = append(l.events, rec) })
	return l
}

func longHistory(t testing.TB, id string, n int, do func(eventlog.Recorded)) {
	t.Helper()
	stream := account.Stream(id)
	at := time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	var head eventschemas.Hash
	r := uint64(0)
	add := func(ev eventschemas.Event) {
		var p eventlog.Proposed
		p, head = linked(t, stream, r, head, ev, Request{ID: fmt.Sprint("r", r), Actor: "account:test"}, at.Add(time.Duration(r)*time.Millisecond))
		do(eventlog.Recorded{Proposed: p, Stream: stream, Revision: r, Position: eventlog.Position(r + 1)})
		r++
	}
	add(eventschemas.AccountOpened{AccountID: id, Holder: "holder", Plan: "free"})
	add(eventschemas.CreditsGranted{GrantID: "g", Kind: "adjustment", Credits: int64(n-2) + longBalance})
	for i := range n - 2 {
		add(eventschemas.CreditsCharged{ChargeID: fmt.Sprint("c", i), Credits: 1, RequestID: fmt.Sprint("q", i), BrandID: testBrand, Domain: "acme.com", RecordRevision: 1})
	}
}

func (l *longStream) ReadStream(ctx context.Context, stream string, from uint64, direction eventlog.Direction, limit int) ([]eventlog.Recorded, error) {
	if direction == eventlog.Backward {
		return l.events[len(l.events)-1:], nil
	}
	l.pages.Add(1)
	if now := l.reading.Add(1); now > l.most.Load() {
		l.most.Store(now)
	}
	defer l.reading.Add(-1)
	select {
	case <-time.After(l.pause):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if l.failures.Add(-1) >= 0 {
		return nil, unavailable()
	}
	from = min(from, uint64(len(l.events)))
	return l.events[from:min(from+uint64(limit), uint64(len(l.events)))], nil
}

func (l *longStream) writer(t testing.TB, cfg AccountWriterConfig, snapshots streamwriter.Snapshots) *AccountWriter {
	t.Helper()
	d := testmust.Get(NewAccountWriter(cfg, l, snapshots))(t)
	return d
}

func drained(t testing.TB, d *AccountWriter) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := d.Drain(ctx); err != nil {
		t.Error(err)
	}
}

// Rule 8.
func TestLoading_LongStream_ContinuesInBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pages = 20
		l, kept := newLongStream(t, pages*streamwriter.TailPage-1), newMemorySnapshots()
		l.pause = time.Second
		d := l.writer(t, AccountWriterConfig{Config: streamwriter.Config{SnapshotEvery: 2 * streamwriter.TailPage / streamwriter.LoadSnapshots}}, kept)
		defer drained(t, d)
		var loading *streamwriter.LoadingError
		if _, err := d.Standing(t.Context(), l.id); !errors.As(err, &loading) || !errors.Is(err, ErrBusy) {
			t.Fatalf("the first command: %v", err)
		}
		if loading.Loaded == 0 || loading.Loaded > 6*streamwriter.TailPage || loading.Events != pages*streamwriter.TailPage-1 {
			t.Errorf("%d of %d events are loaded", loading.Loaded, loading.Events)
		}
		if loading.RetryAfter < 10*time.Second || loading.RetryAfter > 20*time.Second {
			t.Errorf("RetryAfter is %s, but loading takes 17 s more", loading.RetryAfter)
		}
		began := time.Now()
		if _, err := d.Reserve(t.Context(), l.id, ""); !errors.As(err, new(*streamwriter.LoadingError)) {
			t.Errorf("a command during the loading: %v", err)
		}
		if took := time.Since(began); took > 2*l.pause {
			t.Errorf("a command during the loading waited %s", took)
		}
		time.Sleep(loading.RetryAfter + time.Second)
		if s, err := d.Standing(t.Context(), l.id); err != nil || s.Balance != longBalance {
			t.Fatalf("after Retry-After: %+v, %v", s, err)
		}
		if n := l.pages.Load(); n != pages {
			t.Errorf("%d pages were read, want %d", n, pages)
		}
		synctest.Wait()
		kept.mu.Lock()
		defer kept.mu.Unlock()
		if kept.saves < pages/4 {
			t.Errorf("%d snapshots were saved during the loading", kept.saves)
		}
	})
}

func TestLoading_CommandWithLongDeadline_WaitsForStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLongStream(t, 20*streamwriter.TailPage)
		l.pause = time.Second
		d := l.writer(t, AccountWriterConfig{}, nil)
		defer drained(t, d)
		if s, err := d.Standing(streamwriter.WaitForLoading(t.Context()), l.id); err != nil || s.Balance != longBalance {
			t.Fatalf("%+v, %v", s, err)
		}
		ctx, cancel := context.WithTimeout(streamwriter.WaitForLoading(t.Context()), time.Second)
		defer cancel()
		other := l.writer(t, AccountWriterConfig{}, nil)
		defer drained(t, other)
		if _, err := other.Standing(ctx, l.id); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("past its deadline: %v", err)
		}
	})
}

// No event that was read is lost if a request ends or if the log fails occasionally.
func TestLoading_KeepsItsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pages = 20
		l := newLongStream(t, pages*streamwriter.TailPage-1)
		l.pause = time.Second
		d := l.writer(t, AccountWriterConfig{Config: streamwriter.Config{LoadWithin: time.Hour}}, nil)
		defer drained(t, d)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := d.Standing(ctx, l.id); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		time.Sleep(2500 * time.Millisecond)
		l.failures.Store(1)
		time.Sleep(time.Second)
		l.failures.Store(1)
		if _, err := d.Standing(t.Context(), l.id); !errors.Is(err, eventlog.ErrUnavailable) {
			t.Fatal(err)
		}
		if s, err := d.Standing(t.Context(), l.id); err != nil || s.Balance != longBalance {
			t.Fatalf("%+v, %v", s, err)
		}
		if n := l.pages.Load(); n != pages+2 {
			t.Errorf("%d pages were read, want %d and two that failed", n, pages)
		}
	})
}

// The background loading meets an unavailable log: it ends, and the next command continues.
func TestLoading_LogFailsInBackground_NextCommandContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pages = 20
		l := newLongStream(t, pages*streamwriter.TailPage-1)
		l.pause = time.Second
		d := l.writer(t, AccountWriterConfig{}, nil)
		defer drained(t, d)
		if _, err := d.Standing(t.Context(), l.id); !errors.As(err, new(*streamwriter.LoadingError)) {
			t.Fatal(err)
		}
		l.failures.Store(1)
		time.Sleep(time.Minute)
		read := l.pages.Load()
		if read > 8 {
			t.Errorf("%d pages were read although the log had failed", read)
		}
		if s, err := d.Standing(streamwriter.WaitForLoading(t.Context()), l.id); err != nil || s.Balance != longBalance {
			t.Fatalf("%+v, %v", s, err)
		}
		if n := l.pages.Load(); n != pages+1 { // one failed
			t.Errorf("%d pages were read", n)
		}
	})
}

func TestLoading_Drain_KeepsLoadedEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pages = 20
		l, kept := newLongStream(t, pages*streamwriter.TailPage-1), newMemorySnapshots()
		l.pause = time.Second
		for i := range 10 {
			d := l.writer(t, AccountWriterConfig{}, kept)
			_, err := d.Standing(t.Context(), l.id)
			drained(t, d)
			if err == nil {
				if i < 2 || l.pages.Load() > 2*pages {
					t.Errorf("the stream was loaded by process %d with %d pages", i+1, l.pages.Load())
				}
				return
			}
			if !errors.As(err, new(*streamwriter.LoadingError)) {
				t.Fatal(err)
			}
		}
		t.Error("the stream was never loaded")
	})
}

func TestLoading_ManyLongStreams_AreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLongStream(t, 20*streamwriter.TailPage)
		l.pause = time.Second
		d := l.writer(t, AccountWriterConfig{}, nil)
		defer drained(t, d)
		// The same stream under the names of several accounts.
		kind := accountStreams(false)
		kind.Open = func(string) (string, *accountState, error) {
			return account.Stream(l.id), newAccountState(l.id, false), nil
		}
		var err error
		if d.accounts, err = streamwriter.New(streamwriter.Config{}, kind, l, nil); err != nil {
			t.Fatal(err)
		}
		const accounts = 5
		var all sync.WaitGroup
		for i := range accounts {
			all.Go(func() {
				if _, err := d.Standing(t.Context(), fmt.Sprint(i)); !errors.As(err, new(*streamwriter.LoadingError)) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		l.most.Store(0)
		for i := range accounts {
			all.Go(func() {
				if s, err := d.Standing(streamwriter.WaitForLoading(t.Context()), fmt.Sprint(i)); err != nil || s.Balance != longBalance {
					t.Errorf("%+v, %v", s, err)
				}
			})
		}
		all.Wait()
		if most := l.most.Load(); most > streamwriter.MaxLoads {
			t.Errorf("%d streams were loaded concurrently", most)
		}
	})
}

// A damaged snapshot is not used, is logged, and is replaced.
// Rule 1.
func TestLoad_DamagedSnapshot_IsReplaced(t *testing.T) {
	kept := newMemorySnapshots()
	w, id := snapshotWorld(t, kept, 1000)
	stream := account.Stream(id)
	bad := kept.kept[stream]
	bad.state = []byte("not what was saved")
	bad.revision += 1 << 40
	kept.kept[stream] = bad
	if events, balance := w.readsOf(id, kept); balance != 50 || events != 1003 || kept.discards != 1 {
		t.Fatalf("balance %d after reading %d events, %d discarded, want 50, 1003 and 1", balance, events, kept.discards)
	}
	if events, balance := w.readsOf(id, kept); balance != 50 || events > 1+streamwriter.FinalSnapshot || kept.discards != 1 {
		t.Fatalf("the next load: balance %d after reading %d events, %d discarded", balance, events, kept.discards)
	}
}

// BenchmarkLoadLongStream loads an account of b.N × 100,000 events without a snapshot from a file,
// while commands that do not wait for it are rejected.
func BenchmarkLoadLongStream(b *testing.B) {
	const events = 100_000
	log := testmust.Get(sqlite.Open(context.Background(), sqlite.Config{Path: filepath.Join(b.TempDir(), "events.db")}))(b)
	defer log.Close()
	id := uuid.NewString()
	var batch []eventlog.Proposed
	var first uint64
	put := func() {
		err := log.Import(context.Background(), []eventlog.Run{{Stream: account.Stream(id), Expected: eventlog.After(first), Events: batch}})
		testmust.Succeed(b, err)
		first += uint64(len(batch))
		batch = batch[:0]
	}
	longHistory(b, id, events*b.N, func(rec eventlog.Recorded) {
		if batch = append(batch, rec.Proposed); len(batch) == 512 {
			put()
		}
	})
	put()
	d := testmust.Get(NewAccountWriter(AccountWriterConfig{}, log, newMemorySnapshots()))(b)
	defer drained(b, d)
	b.ResetTimer()
	if s, err := d.Standing(streamwriter.WaitForLoading(context.Background()), id); err != nil || s.Balance != longBalance {
		b.Fatalf("%+v, %v", s, err)
	}
	b.StopTimer()
	b.ReportMetric(float64(events*b.N)/b.Elapsed().Seconds(), "events/s")
}
