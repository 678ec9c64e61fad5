package refresh_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
	"letterhead/projections"
	"letterhead/projections/brands"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
	"letterhead/workers/refresh"
)

const day = 24 * time.Hour

// crawled makes look-ups whose crawls find records, complete or not.
func (w *world) crawled(complete bool, domains ...string) {
	w.t.Helper()
	for _, d := range domains {
		w.finds(d, w.live(d), complete)
		w.kept = append(w.kept, d)
	}
}

// finds ends a crawl with a record.
func (w *world) finds(domain, crawlID string, complete bool) {
	w.t.Helper()
	name := "Crawled"
	err := w.SucceedCrawl(w.t.Context(), commands.SucceedCrawl{
		Request: who, Domain: domain, CrawlID: crawlID, FinalURL: "https://" + domain + "/",
		Record: eventschemas.Record{Name: &name, Complete: complete, Company: eventschemas.EmptyCompany()},
	})
	testmust.Succeed(w.t, err)
}

func TestSchedule_DueRecords_AreCrawled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.crawled(true, "ready.com")
		w.crawled(false, "partial.com")
		stop := w.run(refresh.Config{Poll: time.Hour})
		time.Sleep(5 * time.Hour)
		w.exactly(0, "nothing is due yet")
		time.Sleep(4 * time.Hour)
		got := w.exactly(1, "after hours")[0]
		if got.Domain != "partial.com" || got.Priority != brand.PriorityBulk || got.Cause != brand.CauseSchedule || got.Force {
			t.Errorf("requested %+v, want partial.com with bulk priority", got)
		}
		w.finds("partial.com", got.ID, true)
		time.Sleep(27 * day)
		w.exactly(0, "both records are complete")
		time.Sleep(9 * day)
		if n := len(w.got()); n != 2 {
			t.Errorf("after weeks %d crawls were requested, want both", n)
		}
		stop()
	})
}

func TestSchedule_CrawlFails_IsRetriedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.crawled(true, "acme.com")
		stop := w.run(refresh.Config{Poll: time.Minute})
		time.Sleep(36 * day)
		w.fails(w.exactly(1, "when it is due")[0]) // no_data is remembered for a day
		time.Sleep(day - time.Minute)
		w.exactly(0, "the failure is remembered")
		time.Sleep(12 * time.Hour)
		w.exactly(1, "after it")
		stop()
	})
}

func TestSchedule_Backlog_IsCrawledAtTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 30 {
			w.crawled(false, fmt.Sprintf("d%02d.com", i))
		}
		time.Sleep(30 * day) // no refresher ran for a month
		stop := w.run(refresh.Config{Every: 10 * time.Second, MaxOutstanding: 30})
		time.Sleep(95 * time.Second)
		w.exactly(10, "in 95 seconds")
		time.Sleep(time.Hour)
		w.exactly(20, "in an hour")
		stop()
	})
}

func TestOpenCrawls_BothKindsShareTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.crawled(false, "old1.com", "old2.com", "old3.com")
		w.imported("new1.com", "new2.com", "new3.com")
		w.charge("new1.com", "new2.com", "new3.com")
		time.Sleep(30 * day)
		stop := w.run(refresh.Config{MaxOutstanding: 2})
		time.Sleep(time.Second)
		first := w.exactly(2, "at first")
		w.fails(first[0])
		time.Sleep(time.Second)
		w.exactly(1, "one ended")
		stop()
	})
}

func TestSchedule_Unreadable_IsRetried(t *testing.T) {
	for _, fault := range []error{errors.New("disk on fire"), projections.ErrNotReady} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.crawled(false, "acme.com")
			w.unlisted.Store(&fault)
			time.Sleep(day)
			stop := w.run(refresh.Config{})
			time.Sleep(time.Hour)
			w.exactly(0, fault.Error())
			w.unlisted.Store(nil)
			time.Sleep(time.Hour)
			w.exactly(1, "it can be read again")
			stop()
		})
	}
}

func TestSchedule_UnreadableBrand_IsSkipped(t *testing.T) {
	w := newWorld(t)
	w.crawled(false, "bad.com", "good.com")
	w.kept = nil
	w.raw("brand-bad.com", eventschemas.BrandClaimed{}, 1, `{"damaged":`)
	r := testmust.Get(refresh.New(refresh.Config{Now: func() time.Time { return time.Now().Add(30 * day) }}, w.log, w, w, listed{"bad.com", "good.com"}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	if in := w.next(); in.Domain != "good.com" {
		t.Errorf("requested a crawl of %s, want good.com", in.Domain)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// listed is a schedule that always lists these domains as due.
type listed []string

func (l listed) Due(_ context.Context, now time.Time, after brands.Due, _ int) (all []brands.Due, _ error) {
	for _, d := range l {
		if d > after.Domain {
			all = append(all, brands.Due{At: now, Domain: d})
		}
	}
	return all, nil
}

// The whole path: events, the read model's list, the request.
func TestSchedule_ReadModel_DeliversDueBrands(t *testing.T) {
	w := newWorld(t)
	w.crawled(false, "acme.com")
	e := projectionstest.Open(t)
	model := testmust.Get(brands.New(brands.Config{}, e.Store))(t)
	t.Cleanup(model.Close)
	name := "Acme"
	e.Events("brand-acme.com", time.Now().UTC(), eventschemas.BrandDiscovered{BrandID: brand.ID("acme.com").String(), Domain: "acme.com"},
		eventschemas.CrawlRequested{CrawlID: "1", Domain: "acme.com", Cause: brand.CauseLookup, Priority: brand.PriorityLive, AllowedMS: 8500},
		eventschemas.CrawlSucceeded{CrawlID: "1", FinalURL: "https://acme.com/", Record: eventschemas.Record{Name: &name, Company: eventschemas.EmptyCompany()}})
	runner, _ := e.Start(engine.Config{}, model)
	e.CatchUp(runner)
	r := testmust.Get(refresh.New(refresh.Config{Now: func() time.Time { return time.Now().Add(day) }}, w.log, w, w, model))(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	if in := w.next(); in.Domain != "acme.com" {
		t.Errorf("asked for %s", in.Domain)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
