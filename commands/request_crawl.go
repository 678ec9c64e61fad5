package commands

import (
	"context"
	"time"

	"github.com/google/uuid"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// RequestCrawl is the command to crawl a brand's site.
type RequestCrawl struct {
	Request  Request
	CrawlID  string // a new one when empty; with an id, repeating the request starts one crawl
	Domain   string
	Cause    string        // brand.CauseLookup …
	Priority string        // brand.PriorityLive, brand.PriorityBulk
	Allowed  time.Duration // for the work
	Force    bool          // a paid refresh: even if the brand is known or a failure is remembered
}

// Crawl is the crawl that answers a request: a new one, or, Joined, one that was running.
type Crawl struct {
	ID          string
	Joined      bool
	RequestedAt time.Time
	Allowed     time.Duration
	Position    eventlog.Position // of the request in the log; 0 when joined
}

// RequestCrawl starts a crawl or joins the running one: of several racing callers, one appends and the others join.
//
// Errors: brand.ErrAlreadyKnown (the record exists; read it), *brand.RememberedError (a failure is
// answered without a crawl), brand.ErrWithdrawn, brand.ErrInvalidCrawl, and the errors of update.
func (b *Brands) RequestCrawl(ctx context.Context, in RequestCrawl) (Crawl, error) {
	id := in.CrawlID
	if id == "" {
		id = uuid.NewString()
	}
	var out Crawl
	done, err := b.update(ctx, in.Domain, in.Request,
		id, func(state *brand.Brand, now time.Time) ([]eventschemas.Event, error) {
			events, err := state.RequestCrawl(brand.RequestCrawl{CrawlID: id, Cause: in.Cause, Priority: in.Priority,
				Allowed: in.Allowed, Force: in.Force, Now: now})
			out = Crawl{ID: id, RequestedAt: now, Allowed: in.Allowed}
			if running, requestedAt, allowed, ok := state.Running(); err == nil && len(events) == 0 && ok {
				out = Crawl{ID: running, Joined: true, RequestedAt: requestedAt, Allowed: allowed}
			}
			return events, err
		})
	if err != nil {
		return Crawl{}, err
	}
	if !done.Repeated {
		out.Position = done.Position
	}
	return out, nil
}
