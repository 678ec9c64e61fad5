package commands

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/domain/usage"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
)

// allotted sums up the logo allotments of an account's stream of November.
func (w *world) allotted(id string) (requests int64, events int) {
	w.Helper()
	for _, ev := range w.usageEvents(usage.Stream(id, usage.MonthOf(november))) {
		if allotted, ok := ev.(eventschemas.LogosAllotted); ok {
			requests += allotted.Requests
			events++
		}
	}
	return requests, events
}

func usedUp(t testing.TB, err error, limit int64) {
	t.Helper()
	var quota *usage.QuotaExceededError
	if !errors.Is(err, ErrQuotaExceeded) || !errors.As(err, &quota) || quota.Limit != limit || quota.Used < limit {
		t.Fatalf("past %d: %v", limit, err)
	}
}

func TestCountLogo_LimitOfTheMonth_IsServedExactly(t *testing.T) {
	w := newWorld(t)
	d := w.quota(streamwriter.Config{})
	id := uuid.NewString()
	ask := func(n int, limit int64) {
		t.Helper()
		for i := range n {
			if err := d.CountLogo(t.Context(), id, november, limit); err != nil {
				t.Fatalf("logo %d of %d: %v", i+1, limit, err)
			}
		}
	}
	ask(5, 5)
	usedUp(t, d.CountLogo(t.Context(), id, november, 5), 5)
	ask(2, 7) // an upgrade
	usedUp(t, d.CountLogo(t.Context(), id, november, 7), 7)
	usedUp(t, d.CountLogo(t.Context(), id, november, 5), 5)
	if requests, events := w.allotted(id); requests != 7 || events != 7 {
		t.Fatalf("%d allotted by %d events", requests, events)
	}
	if err := d.CountLogo(t.Context(), id, november.Add(time.Second), 5); err != nil {
		t.Fatalf("next month: %v", err)
	}
	ask(993, 1000)
	usedUp(t, d.CountLogo(t.Context(), id, november, 1000), 1000)
	if requests, _ := w.allotted(id); requests != 1000 {
		t.Fatalf("%d allotted, want 1000", requests)
	}
	ask(100, -7)
	if n, err := d.Searches(t.Context(), id, "2026-11"); n != 0 || err != nil {
		t.Fatalf("%d searches, %v, want 0", n, err)
	}
}

// Far from the limit most requests need no append. After the limit is reached none needs a read.
func TestCountLogo_FarFromLimit_AllotsManyPerAppend(t *testing.T) {
	w := newWorld(t)
	d := w.quota(streamwriter.Config{Shared: true})
	id := uuid.NewString()
	for range 1000 {
		w.must(d.CountLogo(t.Context(), id, november, 500_000))
	}
	requests, events := w.allotted(id)
	if requests < 1000 || requests > 1000+usage.MaxLogosAhead || events > 1000/usage.MaxLogosAhead+10 {
		t.Fatalf("%d allotted by %d events", requests, events)
	}
	usedUp(t, d.CountLogo(t.Context(), id, november, 900), 900) // after a downgrade
	w.log.set(func(f *faults) {
		f.before = func(sentAppend) error { return unavailable() }
		f.reading = func(string) error { return unavailable() }
	})
	usedUp(t, d.CountLogo(t.Context(), id, november, 900), 900)
	for range requests - 1000 { // those allotted ahead
		w.must(d.CountLogo(t.Context(), id, november, 500_000))
	}
	w.failed(d.CountLogo(t.Context(), id, november, 500_000), eventlog.ErrUnavailable)
	w.log.set(func(f *faults) { f.before, f.reading = nil, nil })
}

func TestCountLogo_ConcurrentNearLimit_ServesExactlyTheRest(t *testing.T) {
	w := newWorld(t)
	writers := []*QuotaWriter{w.quota(streamwriter.Config{Shared: true}), w.quota(streamwriter.Config{Shared: true})}
	id := uuid.NewString()
	const limit = 99 // below 100 none is allotted ahead, so no writer holds any
	var served, rejected atomic.Int64
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for range 10 {
				switch err := writers[i%2].CountLogo(context.Background(), id, november, limit); {
				case err == nil:
					served.Add(1)
				case errors.Is(err, ErrQuotaExceeded):
					rejected.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if requests, _ := w.allotted(id); served.Load() != limit || rejected.Load() != 160-limit || requests != limit {
		t.Fatalf("%d served, %d rejected, %d allotted", served.Load(), rejected.Load(), requests)
	}
}

// Several writers on one log, sequential and concurrent requests, callers who leave, requests that are
// returned, appends that fail or whose outcome is unknown, writers that are killed with their allotments, and
// limits that are raised.
// Rule 10.
func TestCountLogo_KillsOfSeveralNodes_NeverPassTheLimit(t *testing.T) {
	w := newWorld(t)
	rapid.Check(t, func(r *rapid.T) {
		id := uuid.NewString()
		limit := rapid.SampledFrom([]int64{0, 1, 5, 120, 700, 1500}).Draw(r, "limit")
		writers := make([]*QuotaWriter, 3)
		open := func() *QuotaWriter {
			d := testmust.Get(NewQuotaWriter(streamwriter.Config{Shared: true, KnowWithin: time.Millisecond}, w.log, nil))(r)
			return d
		}
		end := func(d *QuotaWriter) {
			testmust.Succeed(r, d.Drain(context.Background()))
		}
		for i := range writers {
			writers[i] = open()
		}
		var served atomic.Int64
		ask := func(ctx context.Context, d *QuotaWriter) error {
			err := d.CountLogo(ctx, id, november, limit)
			if err == nil {
				served.Add(1)
			}
			return err
		}
		for range rapid.IntRange(1, 10).Draw(r, "steps") {
			i := rapid.IntRange(0, 2).Draw(r, "writer")
			switch rapid.SampledFrom([]string{"one by one", "one by one", "at once", "leave", "kill", "lost", "ambiguous", "upgrade", "return"}).Draw(r, "step") {
			case "return":
				for range rapid.IntRange(1, 60).Draw(r, "n") {
					if ask(context.Background(), writers[i]) == nil {
						writers[i].ReturnLogo(id, november)
						served.Add(-1)
					}
				}
			case "one by one":
				for range rapid.IntRange(1, 20).Draw(r, "n") {
					if err := ask(context.Background(), writers[i]); err != nil && !errors.Is(err, ErrQuotaExceeded) {
						r.Fatal(err)
					}
				}
			case "at once":
				var wg sync.WaitGroup
				for n := range rapid.IntRange(1, 150).Draw(r, "n") {
					wg.Go(func() { _ = ask(context.Background(), writers[n%3]) }) // a conflict that cannot be resolved is ErrBusy
				}
				wg.Wait()
			case "leave":
				var wg sync.WaitGroup
				ctx, cancel := context.WithCancel(context.Background())
				w.log.set(func(f *faults) { f.after = func(_ sentAppend, err error) error { cancel(); return err } })
				for range 5 {
					wg.Go(func() { _ = ask(ctx, writers[i]) })
				}
				wg.Wait()
				cancel()
				w.log.set(func(f *faults) { f.after = nil })
			case "kill": // its allotments are lost
				end(writers[i])
				writers[i] = open()
			case "lost":
				w.log.set(func(f *faults) { f.before = func(sentAppend) error { return unavailable() } })
				_ = ask(context.Background(), writers[i])
				w.log.set(func(f *faults) { f.before = nil })
			case "ambiguous":
				w.log.set(func(f *faults) { f.after = func(sentAppend, error) error { return ambiguous() } })
				_ = ask(context.Background(), writers[i])
				w.log.set(func(f *faults) { f.after = nil })
			case "upgrade":
				limit += rapid.Int64Range(0, 500).Draw(r, "by")
			}
			if requests, _ := w.allotted(id); requests > limit || served.Load() > requests {
				r.Fatalf("%d served, %d allotted, limit %d", served.Load(), requests, limit)
			}
		}
		for _, d := range writers { // each uses its allotments, and then all that remain
			var wg sync.WaitGroup
			for range 100 {
				wg.Go(func() {
					for {
						err := ask(context.Background(), d)
						if errors.Is(err, ErrQuotaExceeded) {
							return
						}
						if err != nil {
							w.Errorf("%v", err)
							return
						}
					}
				})
			}
			wg.Wait()
			end(d)
		}
		if requests, _ := w.allotted(id); requests != limit || served.Load() > limit {
			r.Fatalf("at the end %d served, %d allotted, limit %d", served.Load(), requests, limit)
		}
	})
}

// If a caller has left, the next request uses the allotment.
func TestCountLogo_CallerLeft_NextRequestUsesIt(t *testing.T) {
	w := newWorld(t)
	d := w.quota(streamwriter.Config{Shared: true})
	id := uuid.NewString()
	ctx, cancel := context.WithCancel(t.Context())
	w.log.set(func(f *faults) { f.after = func(_ sentAppend, err error) error { cancel(); return err } })
	w.failed(d.CountLogo(ctx, id, november, 1), context.Canceled)
	w.log.set(func(f *faults) { f.after = nil })
	if n, err := d.Searches(t.Context(), id, "2026-11"); n != 0 || err != nil { // queued behind it, because the writer is shared
		t.Fatal(n, err)
	}
	w.must(d.CountLogo(t.Context(), id, november, 1))
	usedUp(t, d.CountLogo(t.Context(), id, november, 1), 1)
}

// The next request uses an allotment that was not served, even at the limit of the month, and needs no append.
func TestReturnLogo_NextRequestUsesIt(t *testing.T) {
	w := newWorld(t)
	d := w.quota(streamwriter.Config{})
	id := uuid.NewString()
	d.ReturnLogo(id, november) // an account unknown to the writer
	for range 5 {
		w.must(d.CountLogo(t.Context(), id, november, 5))
	}
	usedUp(t, d.CountLogo(t.Context(), id, november, 5), 5)
	d.ReturnLogo(id, november)
	d.ReturnLogo(id, november)
	for range 2 {
		w.must(d.CountLogo(t.Context(), id, november, 5))
	}
	usedUp(t, d.CountLogo(t.Context(), id, november, 5), 5)
	d.ReturnLogo(id, november)
	usedUp(t, d.CountLogo(t.Context(), id, november, 4), 4) // the limit was lowered
	if requests, events := w.allotted(id); requests != 5 || events != 5 {
		t.Errorf("%d allotted by %d events", requests, events)
	}
}

func TestAllotments_TooManyAccounts_ForgetOne(t *testing.T) {
	var h allotments
	month := usage.MonthOf(november)
	for range maxAllotments + 10 {
		h.note(allotmentOf{account: uuid.NewString(), month: month}, 10, 1, 1)
	}
	if len(h.of) != maxAllotments {
		t.Fatalf("%d accounts are remembered", len(h.of))
	}
}

func TestCountLogo_InvalidAccount_AllotsNothing(t *testing.T) {
	w := newWorld(t)
	d := w.quota(streamwriter.Config{})
	for _, id := range []string{"", "node-1", "../" + uuid.NewString()} {
		if err := d.CountLogo(t.Context(), id, november, plan.Unlimited); !errors.Is(err, account.ErrNotFound) && !errors.Is(err, account.ErrInvalid) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// The allotments of an ambiguous append that was abandoned are never served, because it may not have been stored.
func TestCountLogo_AbandonedAmbiguousAppend_ServesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.quota(streamwriter.Config{KnowWithin: time.Millisecond})
		id := uuid.NewString()
		w.log.set(func(f *faults) {
			f.before = func(sentAppend) error { // it is never stored, and from now on the stream cannot be read
				w.log.set(func(f *faults) { f.reading = func(string) error { return unavailable() } })
				return ambiguous()
			}
		})
		w.failed(d.CountLogo(t.Context(), id, november, 5), ErrUnknownOutcome)
		time.Sleep(streamwriter.AmbiguousUnreadFor + time.Minute)
		w.log.set(func(f *faults) { f.before, f.reading = nil, nil })
		for range 5 {
			w.must(d.CountLogo(t.Context(), id, november, 5))
		}
		usedUp(t, d.CountLogo(t.Context(), id, november, 5), 5)
		if requests, _ := w.allotted(id); requests != 5 {
			t.Errorf("5 served, %d allotted, want 5", requests)
		}
	})
}

// The limit holds across restarts and nodes, and begins again each day.
func TestCountKeylessCrawl_LimitOfTheDay_IsServedExactly(t *testing.T) {
	w := newWorld(t)
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	count := func(d *QuotaWriter, at time.Time, n int) {
		t.Helper()
		for range n {
			w.must(d.CountKeylessCrawl(t.Context(), at, 5))
		}
	}
	first := w.quota(streamwriter.Config{Shared: true})
	count(first, noon, 3)
	first.ReturnKeylessCrawl(noon)
	count(first, noon, 1)
	restarted := w.quota(streamwriter.Config{Shared: true})
	count(restarted, noon, 2)
	usedUp(t, restarted.CountKeylessCrawl(t.Context(), noon.Add(11*time.Hour), 5), 5)
	usedUp(t, first.CountKeylessCrawl(t.Context(), noon, 5), 5)
	count(restarted, noon.Add(12*time.Hour), 5)
	usedUp(t, restarted.CountKeylessCrawl(t.Context(), noon.Add(13*time.Hour), 5), 5)
}
