package refresh

import (
	"context"
	"fmt"
	"time"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// ends selects the events that end a crawl.
var ends = eventlog.Filter{EventTypes: []string{
	eventschemas.CrawlSucceeded{}.EventType(), eventschemas.CrawlConfirmed{}.EventType(),
	eventschemas.CrawlFailed{}.EventType(),
}}

// outstanding is a crawl whose end has not been seen.
type outstanding struct {
	id       string
	deadline time.Time         // by the refresher's clock
	after    eventlog.Position // its end comes after this position
}

// opened remembers a crawl by its brand's stream, even one that was requested by another caller at the
// same time. Crawls of an earlier process are not known: right after a restart a few more may be open.
func (r *Refresher) opened(domain string, crawl commands.Crawl, after eventlog.Position) {
	r.open[brand.Stream(domain)] = outstanding{
		id: crawl.ID,
		// Counted from now: the time of the request may be from another node's clock.
		deadline: r.cfg.Now().Add(crawl.Allowed),
		// a joined crawl has no position, and was running when the brand was examined
		after: max(after, crawl.Position),
	}
}

// room waits until fewer than MaxOutstanding crawls are open: until one has ended on the log, or its
// deadline has passed. Crawls that queued behind slow ones would run out of time without an attempt.
func (r *Refresher) room(ctx context.Context) error {
	first, after := r.oldest()
	if len(r.open) < r.cfg.MaxOutstanding {
		return nil
	}
	subscription, err := r.log.Subscribe(ctx, after, ends)
	if err != nil {
		return fmt.Errorf("subscribe after position %d: %w", after, err)
	}
	defer subscription.Close()
	for len(r.open) >= r.cfg.MaxOutstanding {
		batch, err := eventlog.NextWithin(ctx, subscription, first.Sub(r.cfg.Now()))
		if err != nil {
			return fmt.Errorf("read the ends of crawls after position %d: %w", after, err)
		}
		for _, ev := range batch.Events {
			r.ended(ev)
		}
		after = max(after, batch.Position)
		first, _ = r.oldest()
	}
	return nil
}

// oldest forgets crawls whose deadline has passed. It returns the first deadline of the remaining
// crawls, and a position that precedes the end of each of them.
func (r *Refresher) oldest() (deadline time.Time, after eventlog.Position) {
	now, found := r.cfg.Now(), false
	for stream, c := range r.open {
		if !now.Before(c.deadline) {
			delete(r.open, stream)
			continue
		}
		if !found || c.deadline.Before(deadline) {
			deadline = c.deadline
		}
		if !found || c.after < after {
			after = c.after
		}
		found = true
	}
	return deadline, after
}

// ended forgets a crawl that an event ends.
func (r *Refresher) ended(recorded eventlog.Recorded) {
	open, ok := r.open[recorded.Stream]
	if !ok {
		return
	}
	ev, err := eventlog.Decode(&recorded, eventschemas.Decode)
	if err != nil {
		// Its deadline ends it.
		r.cfg.Logger.Error("the end of a crawl cannot be read", "stream", recorded.Stream,
			"revision", recorded.Revision, "error", err)
		return
	}
	if id, _ := brand.EndOf(ev); id == open.id {
		delete(r.open, recorded.Stream)
	}
}
