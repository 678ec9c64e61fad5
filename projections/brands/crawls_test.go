package brands_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/projections/brands"
	"letterhead/projections/projectionstest"
)

func succeeded(crawl string) eventschemas.Event {
	return eventschemas.CrawlSucceeded{CrawlID: crawl, Record: record("Acme"), FinalURL: "https://acme.com/"}
}

func failed(crawl, outcome string) eventschemas.Event {
	return eventschemas.CrawlFailed{CrawlID: crawl, Outcome: outcome, RememberSeconds: 300, Detail: "for operators"}
}

func bulk(crawl string) eventschemas.Event {
	return eventschemas.CrawlRequested{CrawlID: crawl, Domain: "acme.com", Cause: brand.CauseSchedule, Priority: brand.PriorityBulk, AllowedMS: 8500}
}

// own marks the beginning of a crawl by the request that waits.
type own struct{ eventschemas.Event }

func TestCrawls_OrderOfEvents_DecidesWhichIsShown(t *testing.T) {
	const held, closed = "held", "closed" // places in the log
	for name, c := range map[string]struct {
		log  []any
		want string
	}{
		"own":                            {[]any{held, own{requested("1", "acme.com")}, succeeded("1"), closed}, "1 succeeded false"},
		"joined":                         {[]any{requested("1", "acme.com"), held, failed("1", brand.DNS), closed}, "1 dns true"},
		"joined after the hold":          {[]any{held, requested("1", "acme.com"), failed("1", brand.NoData), closed}, "1 no_data true"},
		"ended before":                   {[]any{requested("1", "acme.com"), succeeded("1"), held, closed}, ""},
		"requested after":                {[]any{held, closed, requested("1", "acme.com"), succeeded("1")}, ""},
		"one before, own, one after":     {[]any{requested("1", "acme.com"), failed("1", brand.Timeout), held, own{requested("2", "acme.com")}, eventschemas.CrawlConfirmed{CrawlID: "2"}, closed, requested("3", "acme.com"), succeeded("3")}, "2 confirmed false"},
		"another follows the joined":     {[]any{requested("1", "acme.com"), held, failed("1", brand.Blocked), requested("2", "acme.com"), succeeded("2"), closed}, "1 blocked true"},
		"another precedes the own":       {[]any{requested("1", "acme.com"), held, failed("1", brand.Timeout), own{requested("2", "acme.com")}, succeeded("2"), closed}, "2 succeeded false"},
		"bulk crawl is superseded":       {[]any{bulk("1"), held, own{requested("2", "acme.com")}, succeeded("2"), closed}, "2 succeeded false"},
		"bulk crawl follows":             {[]any{held, bulk("1"), closed}, ""},
		"ends after the client left":     {[]any{held, own{requested("1", "acme.com")}, closed, succeeded("1")}, "1 succeeded false"},
		"late success":                   {[]any{held, own{requested("1", "acme.com")}, failed("1", brand.Timeout), closed, succeeded("1")}, "1 timeout false"},
		"late success within the wait":   {[]any{held, own{requested("1", "acme.com")}, failed("1", brand.Timeout), succeeded("1"), closed}, "1 succeeded false"},
		"late success of an earlier":     {[]any{requested("1", "acme.com"), failed("1", brand.Timeout), held, succeeded("1"), closed}, ""},
		"runs":                           {[]any{held, own{requested("1", "acme.com")}}, "1 running false"},
		"runs, joined":                   {[]any{requested("1", "acme.com"), held}, "1 running true"},
		"withdrawn after":                {[]any{held, own{requested("1", "acme.com")}, succeeded("1"), closed, eventschemas.BrandWithdrawn{Reason: "owner"}}, ""},
		"no events":                      {[]any{held, closed}, ""},
		"imported and claimed meanwhile": {[]any{imported("acme.com", "A"), held, own{requested("1", "acme.com")}, eventschemas.BrandClaimed{}, succeeded("1"), closed, eventschemas.BrandClaimed{}}, "1 succeeded false"},
	} {
		t.Run(name, func(t *testing.T) {
			e := projectionstest.Open(t)
			w := brands.Wait{Domain: "acme.com", RequestID: "req_own", Actor: "account:own"}
			for i, step := range c.log {
				g := projectionstest.Group{Stream: "brand-acme.com", At: at.Add(time.Duration(i) * time.Second), RequestID: "req_own", Actor: "account:other"}
				switch step := step.(type) {
				case string:
					p := e.Events("account-own", g.At, eventschemas.AccountSuspended{Reason: "place"})
					if step == held {
						w.Held = p
					} else {
						w.Closed = p
					}
					continue
				case own:
					g.Actor, g.Events = "account:own", []eventschemas.Event{step.Event}
				case eventschemas.Event:
					g.Events = []eventschemas.Event{step}
				}
				e.Append(g)
			}
			got := testmust.Get(brands.Crawls(t.Context(), e.Log, []brands.Wait{w}))(t)
			var shown string
			for _, c := range got {
				shown += fmt.Sprint(c.CrawlID, " ", c.Outcome, " ", c.Joined)
				if c.Meaning() == "" || c.Cause != brand.CauseLookup || c.Requested.At.IsZero() || (c.Outcome == brands.Running) != (c.Ended == brands.Moment{}) {
					t.Errorf("crawl %+v: %s", c, c.Meaning())
				}
			}
			if shown != c.want {
				t.Errorf("shown is %q, want %q", shown, c.want)
			}
		})
	}
}

func TestCrawls_Until_HidesLaterEnd(t *testing.T) {
	e := projectionstest.Open(t)
	const stream = "brand-acme.com"
	held := e.Events("account-own", at, eventschemas.AccountSuspended{Reason: "place"})
	e.Events(stream, at.Add(time.Second), requested("1", "acme.com"))
	e.Events(stream, at.Add(3*time.Second), succeeded("1"))
	for until, want := range map[time.Duration]string{time.Second: "", 2 * time.Second: brands.Running, 3 * time.Second: brands.Running, 4 * time.Second: brand.Succeeded} {
		got, err := brands.Crawls(t.Context(), e.Log, []brands.Wait{{Domain: "acme.com", Held: held, Until: at.Add(until)}})
		if err != nil || len(got) > 1 || len(got) == 0 != (want == "") || len(got) == 1 && got[0].Outcome != want {
			t.Errorf("until %s: %+v, %v, want %q", until, got, err, want)
		}
	}
}

func TestCrawls_LongStream_IsReadUpToLimit(t *testing.T) {
	e := projectionstest.Open(t)
	held := e.Events("account-own", at, eventschemas.AccountSuspended{Reason: "place"})
	e.Events("brand-acme.com", at, requested("1", "acme.com"), failed("1", brand.DNS))
	waits := []brands.Wait{{Domain: "acme.com", Held: held}}
	later := slices.Repeat([]eventschemas.Event{eventschemas.OverrideRemoved{Field: "name"}}, eventlog.MaxAppendEvents)
	for n, want := range []int{1, 1, 1, 1, 1, 1, 1, 1, 0} { // the ninth time, 8192 events follow
		got, err := brands.Crawls(t.Context(), e.Log, waits)
		if err != nil || len(got) != want {
			t.Errorf("with %d later events: %+v, %v; want %d crawls", n*len(later), got, err, want)
		}
		e.Events("brand-acme.com", at, later...)
	}
}
