package brandwatch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/projections/brandwatch"
	"letterhead/projections/projectionstest"
)

var at = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

func open(t *testing.T, cfg brandwatch.Config) (*projectionstest.Env, *brandwatch.Tail) {
	t.Helper()
	e := projectionstest.Open(t)
	tail := testmust.Get(brandwatch.New(t.Context(), cfg, e.Log))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- tail.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return e, tail
}

func failed(crawl string) eventschemas.Event {
	return eventschemas.CrawlFailed{CrawlID: crawl, Outcome: "timeout", RememberSeconds: 300, Detail: "d"}
}

func TestWait_CrawlEnds_ReturnsItsOutcome(t *testing.T) {
	e, tail := open(t, brandwatch.Config{})
	for _, outcome := range []eventschemas.Event{
		eventschemas.CrawlSucceeded{CrawlID: "mine", FinalURL: "https://acme.com/"}, eventschemas.CrawlConfirmed{CrawlID: "mine"}, failed("mine"),
		eventschemas.BrandWithdrawn{Reason: "owner"},
	} {
		w := tail.Watch("acme.com")
		e.Events("brand-acme.com", at, eventschemas.CrawlRequested{CrawlID: "mine", Domain: "acme.com"}, failed("another's"))
		e.Events("brand-other.com", at, failed("mine")) // the same id on another brand is another crawl
		last := e.Events("brand-acme.com", at, outcome)
		ev, rec, err := w.Wait(e.Context(), "mine")
		if err != nil || ev.EventType() != outcome.EventType() || rec.Position != last || rec.Stream != "brand-acme.com" {
			t.Errorf("Wait = %v at %s %d, %v, want %s at %d", ev, rec.Stream, rec.Position, err, outcome.EventType(), last)
		}
		if ev, _, err := w.Wait(e.Context(), "another's"); err != nil || ev != failed("another's") {
			t.Errorf("the other crawl: %v, %v, want its failure", ev, err)
		}
		w.Close()
	}
	if n := tail.Open(); n != 0 {
		t.Errorf("%d watches are open, want none", n)
	}
}

func TestWait_ContextOrTailEnds_Returns(t *testing.T) {
	_, tail := open(t, brandwatch.Config{})
	w := tail.Watch("acme.com")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := w.Wait(ctx, "1"); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait = %v, want context.Canceled", err)
	}
	ended := make(chan error)
	go func() {
		_, _, err := w.Wait(context.Background(), "1")
		ended <- err
	}()
	w.Close()
	w.Close()
	if err := <-ended; !errors.Is(err, brandwatch.ErrClosed) {
		t.Errorf("wait when closed: %v, want %v", err, brandwatch.ErrClosed)
	}
}

func TestWatch_TooMany_AreRejected(t *testing.T) {
	e, tail := open(t, brandwatch.Config{MaxWatches: 2})
	a, b, c := tail.Watch("a.com"), tail.Watch("a.com"), tail.Watch("b.com")
	if _, _, err := c.Wait(t.Context(), "1"); !errors.Is(err, brandwatch.ErrTooMany) {
		t.Errorf("third watch: %v, want %v", err, brandwatch.ErrTooMany)
	}
	c.Close()
	if tail.Open() != 2 {
		t.Errorf("%d are open", tail.Open())
	}
	// A watch keeps only the last outcomes.
	for i := range 100 {
		e.Events("brand-a.com", at, failed(fmt.Sprint(i)))
	}
	for _, w := range []*brandwatch.Watch{a, b} {
		if ev, _, err := w.Wait(e.Context(), "99"); err != nil || ev != failed("99") {
			t.Errorf("the last outcome: %v, %v, want its failure", ev, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := a.Wait(ctx, "0"); !errors.Is(err, context.Canceled) {
		t.Errorf("the first of a hundred outcomes is still stored: %v, want %v", err, context.Canceled)
	}
	a.Close()
	b.Close()
	d := tail.Watch("b.com")
	defer d.Close()
	e.Events("brand-b.com", at, failed("1"))
	if _, _, err := d.Wait(e.Context(), "1"); err != nil {
		t.Errorf("a watch after others were closed: %v", err)
	}
}

// A watch that is registered before the outcome is appended sees it, even if many other watches open and close in the
// meantime.
func TestWatch_BeforeCrawl_MissesNoOutcome(t *testing.T) {
	e, tail := open(t, brandwatch.Config{})
	const brands, waiters, rounds = 5, 4, 10
	var group sync.WaitGroup
	for b := range brands {
		domain := fmt.Sprintf("b%d.com", b)
		group.Go(func() {
			for round := range rounds {
				crawl := fmt.Sprint(round)
				var waiting sync.WaitGroup
				for range waiters {
					w := tail.Watch(domain)
					waiting.Go(func() {
						defer w.Close()
						if ev, _, err := w.Wait(e.Context(), crawl); err != nil || ev != failed(crawl) {
							t.Errorf("%s crawl %s: %v, %v, want its failure", domain, crawl, ev, err)
						}
					})
				}
				e.Events("brand-"+domain, at, failed(crawl))
				waiting.Wait()
			}
		})
	}
	group.Wait()
	if n := tail.Open(); n != 0 {
		t.Errorf("%d watches are open, want none", n)
	}
}

// Events appended between New and Run are delivered.
func TestTail_StartsAtHeadOfLog(t *testing.T) {
	e := projectionstest.Open(t)
	e.Events("brand-a.com", at, failed("old"))
	tail := testmust.Get(brandwatch.New(t.Context(), brandwatch.Config{}, e.Log))(t)
	w := tail.Watch("a.com")
	defer w.Close()
	e.Events("brand-a.com", at, failed("new"))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- tail.Run(ctx) }()
	if ev, _, err := w.Wait(e.Context(), "new"); err != nil || ev != failed("new") {
		t.Errorf("Wait = %v, %v, want the outcome of crawl new", ev, err)
	}
	short, stop := context.WithCancel(t.Context())
	stop()
	if _, _, err := w.Wait(short, "old"); !errors.Is(err, context.Canceled) {
		t.Errorf("an outcome before the start: %v, want %v", err, context.Canceled)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// The tail remembers the withdrawals that it has seen, even if more events follow on the brand's stream.
func TestWithdrawn_ReportsWithdrawnBrands(t *testing.T) {
	e, tail := open(t, brandwatch.Config{})
	w, other := tail.Watch("acme.com"), tail.Watch("other.com")
	defer w.Close()
	defer other.Close()
	if tail.Withdrawn("acme.com") {
		t.Error("the withdrawal is reported before it was appended")
	}
	e.Events("brand-acme.com", at, eventschemas.BrandWithdrawn{Reason: "owner"}, failed("1"))
	e.Events("brand-other.com", at, failed("1"))
	if _, _, err := other.Wait(e.Context(), "1"); err != nil {
		t.Fatal(err)
	}
	if !tail.Withdrawn("acme.com") || tail.Withdrawn("other.com") {
		t.Errorf("Withdrawn = %v, of the other brand %v", tail.Withdrawn("acme.com"), tail.Withdrawn("other.com"))
	}
}

// recorder is a Follower that records its calls.
type recorder struct {
	events   []eventlog.Position
	followed chan eventlog.Position
}

func (f *recorder) Event(_ string, at eventlog.Position)                 { f.events = append(f.events, at) }
func (f *recorder) Followed(_ eventlog.Position, upTo eventlog.Position) { f.followed <- upTo }

// A requested crawl changes no response, so a frequently requested brand stays in the cache while it is crawled.
func TestFollower_CrawlRequest_IsSkipped(t *testing.T) {
	f := &recorder{followed: make(chan eventlog.Position, 100)}
	e, _ := open(t, brandwatch.Config{Follower: f})
	e.Events("brand-acme.com", at, eventschemas.CrawlRequested{CrawlID: "1", Domain: "acme.com"})
	outcome := e.Events("brand-acme.com", at, failed("1"))
	last := e.Events("brand-acme.com", at, eventschemas.CrawlRequested{CrawlID: "2", Domain: "acme.com"})
	for upTo := range f.followed {
		if upTo >= last {
			break
		}
	}
	if !slices.Equal(f.events, []eventlog.Position{outcome}) {
		t.Errorf("the follower received events at %d, want only the outcome at %d", f.events, outcome)
	}
}
