package brands

import (
	"context"
	"fmt"
	"slices"
	"time"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

const (
	// crawlPage is the number of events that Crawls reads at a time; few streams are longer.
	crawlPage = 32
	// maxCrawlEvents limits the events that one call of Crawls reads. A batch of 100 domains that were unknown before
	// it needs a few hundred.
	maxCrawlEvents = 8192
)

// Wait is a credit that was held while a request waited for a crawl.
type Wait struct {
	Domain string
	// RequestID and Actor belong to the hold.
	RequestID, Actor string
	Held             eventlog.Position // of the hold
	Closed           eventlog.Position // of its capture or release; 0 while it is open
	Until            time.Time         // events from this time on are not shown; zero = all are
}

// Crawl is the crawl that a request waited for. It has no content of the record that the crawl found, and does not
// identify other requests that waited for it.
type Crawl struct {
	Domain  string `json:"domain"`
	CrawlID string `json:"crawl_id"`
	Joined  bool   `json:"joined"` // another request had started it
	Cause   string `json:"cause"`
	// Outcome is Running or an outcome of the package brand.
	Outcome   string `json:"outcome"`
	Requested Moment `json:"requested"`
	Ended     Moment `json:"ended,omitzero"` // zero while the crawl runs
}

// Running is the outcome of a crawl that has not ended.
const Running = "running"

// Moment says when an event occurred, and where it is in the log and in its stream.
type Moment struct {
	At       time.Time         `json:"at"`
	Position eventlog.Position `json:"position"`
	Revision uint64            `json:"revision"`
}

// Crawls returns the crawls that requests waited for, in the order of the waits. It leaves out a crawl if the log does
// not have it, if the brand is withdrawn, and if maxCrawlEvents events were read before it was found. Errors: as the
// log.
func Crawls(ctx context.Context, log eventlog.Log, waits []Wait) ([]Crawl, error) {
	found := []Crawl{}
	left := maxCrawlEvents
	for i := range waits {
		events, err := crawlEvents(ctx, log, &waits[i], &left)
		if err != nil {
			return nil, fmt.Errorf("get the crawl of %s for the hold at position %d: %w",
				waits[i].Domain, waits[i].Held, err)
		}
		if c := waitedFor(&waits[i], events); c != nil {
			found = append(found, *c)
		}
	}
	return found, nil
}

// crawlEvent is the beginning or the end of a crawl.
type crawlEvent struct {
	Moment
	crawlID string
	outcome string // of an end
	cause   string // of a beginning
	live    bool   // a beginning with the live priority
	own     bool   // a beginning by the request that waits
}

// crawlEvents returns what happened to the crawls of a brand since the last beginning before the hold; nil if the brand
// is withdrawn. It reads the stream backward, so that a long one costs little, and takes what it reads from left.
func crawlEvents(ctx context.Context, log eventlog.Log, w *Wait, left *int) ([]crawlEvent, error) {
	var events []crawlEvent
	for from := uint64(eventlog.End); *left > 0; {
		page, err := log.ReadStream(ctx, brand.Stream(w.Domain), from, eventlog.Backward, min(crawlPage, *left))
		if err != nil || len(page) == 0 {
			return nil, err
		}
		*left -= len(page)
		for i := range page {
			e, err := crawlEventOf(&page[i], w)
			switch {
			case err != nil:
				return nil, fmt.Errorf("event at position %d: %w", page[i].Position, err)
			case page[i].Type == eventschemas.BrandWithdrawn{}.EventType():
				return nil, nil
			case e.crawlID != "" && (w.Until.IsZero() || e.At.Before(w.Until)):
				events = append(events, e)
			}
			if page[i].Revision == 0 || e.cause != "" && e.Position < w.Held {
				slices.Reverse(events)
				return events, nil
			}
		}
		from = page[len(page)-1].Revision - 1
	}
	return nil, nil
}

// crawlEventOf returns the zero crawlEvent for other events.
func crawlEventOf(e *eventlog.Recorded, w *Wait) (crawlEvent, error) {
	switch e.Type {
	case eventschemas.CrawlRequested{}.EventType(), eventschemas.CrawlSucceeded{}.EventType(),
		eventschemas.CrawlConfirmed{}.EventType(), eventschemas.CrawlFailed{}.EventType():
	default:
		return crawlEvent{}, nil
	}
	body, err := eventschemas.Decode(e.Type, e.SchemaVersion, e.Data)
	out := crawlEvent{Moment: Moment{e.OccurredAt.UTC(), e.Position, e.Revision}}
	if ev, ok := body.(eventschemas.CrawlRequested); ok {
		out.crawlID, out.cause, out.live = ev.CrawlID, ev.Cause, ev.Priority == brand.PriorityLive
		out.own = e.Metadata.RequestID == w.RequestID && e.Metadata.Actor == w.Actor
		return out, err
	}
	out.crawlID, out.outcome = brand.EndOf(body)
	return out, err
}

// waitedFor returns the crawl that a request waited for: the one that it started, or the first of those that ran during
// the wait. A request never waits for a bulk crawl, which a live one replaces. Positions decide, because clocks of
// nodes differ.
func waitedFor(w *Wait, events []crawlEvent) *Crawl {
	var found *Crawl
	for i, e := range events {
		if e.cause == "" || !e.live || w.Closed > 0 && e.Position > w.Closed {
			continue
		}
		c := Crawl{Domain: w.Domain, CrawlID: e.crawlID, Joined: !e.own, Cause: e.cause, Outcome: Running,
			Requested: e.Moment}
		if !c.end(w, events[i+1:]) {
			continue
		}
		if e.own {
			return &c
		}
		if found == nil {
			found = &c
		}
	}
	return found
}

// end sets the end that the request saw, and reports whether the crawl ran after the hold. A crawl that timed out may
// succeed later: of several ends, the request saw the last one before its hold was closed.
func (c *Crawl) end(w *Wait, later []crawlEvent) bool {
	for _, e := range later {
		if e.crawlID != c.CrawlID || e.outcome == "" {
			continue
		}
		if e.Position < w.Held {
			return false
		}
		if c.Outcome != Running && w.Closed > 0 && e.Position > w.Closed {
			break
		}
		c.Outcome, c.Ended = e.outcome, e.Moment
	}
	return true
}

// Meaning explains the crawl to the account whose request waited for it.
func (c *Crawl) Meaning() string {
	begin := fmt.Sprintf("The site of %s was crawled for this request. ", c.Domain)
	if c.Joined {
		begin = fmt.Sprintf("The request waited for a crawl of the site of %s that another request had started. ",
			c.Domain)
	}
	return begin + map[string]string{
		Running:           "The crawl had not ended.",
		brand.Succeeded:   "The crawl succeeded.",
		brand.Confirmed:   "The crawl confirmed the data that was known.",
		brand.Timeout:     "The crawl did not end in time.",
		brand.NotBegun:    "The service did not begin the crawl in time, or could not store its result.",
		brand.Blocked:     "The site blocked the crawl.",
		brand.FetchFailed: "The site could not be fetched.",
		brand.DNS:         "The domain does not exist.",
		brand.NoData:      "The crawl found no data about a brand.",
	}[c.Outcome]
}
