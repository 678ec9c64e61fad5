package readapi_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"letterhead/commands"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/node"
	"letterhead/workers/crawl"
)

// scriptedCrawler reads requested crawls from the log and ends them as its script says.
type scriptedCrawler struct {
	t      testing.TB
	log    eventlog.Log
	brands *commands.Brands
	noted  crawl.Noted

	mu      sync.Mutex
	absent  map[string]bool // domains whose crawls it does not begin
	script  map[string]func(ctx context.Context, crawl eventschemas.CrawlRequested) ending
	seen    []eventschemas.CrawlRequested
	arrived chan struct{} // closed and replaced with each crawl that is seen

	// otherwise ends crawls of domains without a script; nil if there should be none. Set before the first crawl.
	otherwise func(ctx context.Context, crawl eventschemas.CrawlRequested) ending
}

// ending is the outcome of a crawl; the zero ending means that it does not end.
type ending struct {
	record  *eventschemas.Record
	outcome string // of a failure
}

// startCrawler starts a crawler, which runs until the test ends.
func startCrawler(t testing.TB, n *node.Node, now func() time.Time) *scriptedCrawler {
	noted := testmust.Get(crawl.NewAttempts(t.Context(), n.Stores.Database, now))(t)
	c := &scriptedCrawler{t: t, log: n.Stores.Log, brands: n.Writers.Brands, noted: noted, arrived: make(chan struct{}), absent: map[string]bool{},
		script: map[string]func(context.Context, eventschemas.CrawlRequested) ending{}}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := c.run(ctx); err != nil && ctx.Err() == nil {
			t.Errorf("the crawler ended: %v", err)
		}
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return c
}

// finds makes crawls of a domain succeed.
func (c *scriptedCrawler) finds(domain string, r eventschemas.Record) {
	c.does(domain, func(context.Context, eventschemas.CrawlRequested) ending { return ending{record: &r} })
}

// fails makes crawls of a domain fail.
func (c *scriptedCrawler) fails(domain, outcome string) {
	c.does(domain, func(context.Context, eventschemas.CrawlRequested) ending { return ending{outcome: outcome} })
}

// gets sets whether the crawler gets the crawls of a domain; not if the broker is down.
func (c *scriptedCrawler) gets(domain string, does bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.absent[domain] = !does
}

func (c *scriptedCrawler) does(domain string, f func(context.Context, eventschemas.CrawlRequested) ending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.script[domain] = f
}

// of returns the crawls of a domain so far.
func (c *scriptedCrawler) of(domain string) []eventschemas.CrawlRequested {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []eventschemas.CrawlRequested
	for _, r := range c.seen {
		if r.Domain == domain {
			all = append(all, r)
		}
	}
	return all
}

// sees waits until a crawl of a domain was requested.
func (c *scriptedCrawler) sees(domain string) eventschemas.CrawlRequested {
	c.t.Helper()
	deadline := time.After(waitLimit)
	for {
		c.mu.Lock()
		arrived := c.arrived
		c.mu.Unlock()
		if all := c.of(domain); len(all) > 0 {
			return all[len(all)-1]
		}
		select {
		case <-arrived:
		case <-deadline:
			c.t.Fatalf("no crawl of %s was requested", domain)
		}
	}
}

func (c *scriptedCrawler) run(ctx context.Context) error {
	sub, err := c.log.Subscribe(ctx, 0, eventlog.Filter{EventTypes: []string{eventschemas.CrawlRequested{}.EventType()}})
	if err != nil {
		return err
	}
	defer sub.Close()
	var crawls sync.WaitGroup
	defer crawls.Wait()
	for {
		batch, err := sub.Next(ctx)
		if err != nil {
			return err
		}
		for _, recorded := range batch.Events {
			ev, err := eventschemas.Decode(recorded.Type, recorded.SchemaVersion, recorded.Data)
			if err != nil {
				return err
			}
			crawl := ev.(eventschemas.CrawlRequested)
			c.mu.Lock()
			absent := c.absent[crawl.Domain]
			c.mu.Unlock()
			if !absent {
				if _, err := c.noted.Begin(ctx, crawl.CrawlID, "the only one"); err != nil {
					return err
				}
			}
			c.mu.Lock()
			c.seen = append(c.seen, crawl)
			act := c.script[crawl.Domain]
			if act == nil {
				act = c.otherwise
			}
			close(c.arrived)
			c.arrived = make(chan struct{})
			c.mu.Unlock()
			if absent {
				continue
			}
			if act == nil {
				c.t.Errorf("crawl of %s, which the test did not script", crawl.Domain)
				continue
			}
			crawls.Go(func() { c.end(ctx, crawl, act(ctx, crawl)) })
		}
	}
}

func (c *scriptedCrawler) end(ctx context.Context, crawl eventschemas.CrawlRequested, e ending) {
	request := commands.Request{ID: crawl.CrawlID, Actor: "system:crawler"}
	var err error
	switch {
	case e.record != nil:
		err = c.brands.SucceedCrawl(ctx, commands.SucceedCrawl{Request: request, Domain: crawl.Domain, CrawlID: crawl.CrawlID, Record: *e.record, FinalURL: "https://" + crawl.Domain + "/"})
	case e.outcome != "":
		err = c.brands.FailCrawl(ctx, commands.FailCrawl{Request: request, Domain: crawl.Domain, CrawlID: crawl.CrawlID, Outcome: e.outcome, Detail: "as the script says"})
	}
	if err != nil && ctx.Err() == nil {
		c.t.Errorf("end the crawl of %s: %v", crawl.Domain, err)
	}
}

// spentAway is the domain of charges that a test uses to bring an account to a balance.
const spentAway = "spent.com"

// record returns a complete record with a logo, every field filled.
func record(name string) eventschemas.Record {
	text := func(s string) *string { return &s }
	number := func(n int) *int { return &n }
	asset := func(format string) eventschemas.Asset {
		return eventschemas.Asset{ID: strings.Repeat("ab", 32), Format: format, Background: text("transparent"), Width: number(512), Height: number(256), Size: 1234}
	}
	return eventschemas.Record{
		Name: text(name), Description: text("What " + name + " does."), LongDescription: text("What " + name + " does, at length."),
		Links:   []eventschemas.Link{{Name: "github", URL: "https://github.com/" + name}},
		Logos:   []eventschemas.Logo{{Type: "logo", Theme: text("dark"), Formats: []eventschemas.Asset{asset("svg"), asset("png")}, Tags: []string{}}},
		Colors:  []eventschemas.Color{{Hex: "#0b57d0", Type: "accent", Brightness: 81}},
		Fonts:   []eventschemas.Font{{Name: "Inter", Type: "title", Origin: "google", OriginID: text("inter"), Weights: []int{400, 700}}},
		Images:  []eventschemas.Image{{Type: "banner", Formats: []eventschemas.Asset{asset("jpeg")}, Tags: []string{}}},
		OGImage: text("https://" + name + ".com/og.png"),
		Company: &eventschemas.Company{
			Employees: number(51), FoundedYear: number(1999), Kind: text("PRIVATELY_HELD"),
			Location:   &eventschemas.Location{City: text("Berlin"), Country: text("Germany"), CountryCode: text("DE")},
			Industries: []eventschemas.Industry{{ID: "1", Name: "Software", Slug: "software", Emoji: "💾", Score: 0.9, Parent: &eventschemas.IndustryParent{ID: "0", Name: "Technology", Slug: "technology", Emoji: "💻"}}},
			Tickers:    []string{},
		},
		QualityScore: 0.83, Complete: true,
	}
}

// plainRecord has no logo.
func plainRecord(name string) eventschemas.Record {
	r := record(name)
	r.Logos = []eventschemas.Logo{}
	return r
}
