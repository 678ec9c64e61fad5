package refresh

import (
	"context"
	"errors"
	"fmt"
	"time"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/internal/delay"
	"letterhead/internal/warming"
)

const (
	// DefaultWarmEvery is the interval between requests for the list of an operator.
	DefaultWarmEvery = 500 * time.Millisecond

	warmPoll  = 5 * time.Second // how often a new list is looked for
	warmPause = time.Second     // between two looks at a crawl that runs
	warmWait  = 5 * time.Minute // for the end of a crawl, and until one that was lost may be repeated
	warmedBy  = "system:warm"   // the actor
)

// warm requests crawls of the lists of operators until an error occurs or ctx ends.
func (r *Refresher) warm(ctx context.Context) (came bool, err error) {
	for {
		list, err := r.cfg.Warming.Last(ctx)
		if err == nil && list.State == warming.Running {
			err = r.warmList(ctx, list)
		}
		if err != nil && !errors.Is(err, warming.ErrNone) {
			return came, err
		}
		came = true
		if err := delay.For(ctx, warmPoll); err != nil {
			return came, err
		}
	}
}

// warmList continues a list. It examines each domain twice, because a crawl that was running when its process was
// killed, or that no crawler began, ends without having tried the site. Errors: as the table's Save.
func (r *Refresher) warmList(ctx context.Context, list warming.List) error {
	domains, err := r.cfg.Warming.Domains(ctx, list.ID)
	if err != nil {
		return err
	}
	for list.Next < 2*len(domains) {
		requested, err := r.warmDomain(ctx, &list, domains[list.Next%len(domains)])
		if err != nil {
			return err
		}
		list.Next++
		if requested { // before the save, which notices that the list was cancelled
			if err := delay.For(ctx, r.cfg.WarmEvery); err != nil {
				return err
			}
		}
		if now := r.cfg.Now(); requested || now.Sub(list.ChangedAt) >= saveEvery {
			list.ChangedAt = now
			if err := r.cfg.Warming.Save(ctx, list); err != nil {
				return err
			}
		}
	}
	list.State, list.ChangedAt = warming.Done, r.cfg.Now()
	r.cfg.Logger.Info("a list was warmed", "domains", list.Total, "requested", list.Requested, "fresh", list.Fresh,
		"skipped", list.Skipped, "repeated", list.Repeated)
	return r.cfg.Warming.Save(ctx, list)
}

// warmDomain examines a domain of a list, and requests a crawl if it is due. A domain that cannot be decided on is
// skipped.
func (r *Refresher) warmDomain(ctx context.Context, list *warming.List, domain string) (requested bool, err error) {
	second, id := list.Next >= list.Total, list.CrawlID(domain, false)
	b, err := r.brands.State(ctx, domain)
	if second && err == nil {
		b, err = r.settled(ctx, domain, id)
	}
	count := func(n *int) {
		if !second {
			*n++
		}
	}
	if err == nil {
		now := r.cfg.Now()
		due, scheduled := b.NextCrawl()
		_, _, remembered := b.Remembered(now)
		_, _, _, running := b.Running()
		end, ended := b.LastOutcome(id)
		switch {
		case second && ended && end.Outcome != brand.Timeout && end.Outcome != brand.Superseded:
			return false, nil
		case running || ended && !second: // it was requested before the process was killed, or by a look-up
			count(&list.Requested)
			return false, nil
		case b.Withdrawn() || remembered:
			count(&list.Skipped)
			return false, nil
		case scheduled && now.Before(due):
			count(&list.Fresh)
			return false, nil
		}
		err = r.warmBrand(ctx, domain, list.CrawlID(domain, second))
	}
	switch {
	case isUnavailable(ctx, err):
		return false, err
	case err != nil:
		r.skipped.Inc()
		r.cfg.Logger.Error("a domain of the list to warm is skipped", "domain", domain, "error", err)
		count(&list.Skipped)
		return false, nil
	case second:
		list.Repeated++
	default:
		list.Requested++
	}
	return true, nil
}

// warmBrand requests a crawl with this id. It shares the workers of crawls in the background with due brands.
func (r *Refresher) warmBrand(ctx context.Context, domain, id string) error {
	head, err := r.log.Head(ctx)
	if err != nil {
		return fmt.Errorf("read the head of the log: %w", err)
	}
	return r.ask(ctx, candidate{domain: domain, why: "warmed", after: head, crawlID: id,
		due: func(*brand.Brand) bool { return true }, request: commands.Request{ID: id, Actor: warmedBy}})
}

// settled returns a brand when no crawl of it runs, and, if its process did not end the crawl with this id, when it may
// be repeated. It waits for either for a limited time.
func (r *Refresher) settled(ctx context.Context, domain, id string) (*brand.Brand, error) {
	for until := r.cfg.Now().Add(warmWait); ; {
		b, err := r.brands.State(ctx, domain)
		if err != nil {
			return nil, fmt.Errorf("fold brand %s: %w", domain, err)
		}
		now := r.cfg.Now()
		_, _, _, running := b.Running()
		end, _ := b.LastOutcome(id)
		lost := end.Outcome == brand.Timeout && now.Before(end.Until) && !end.Until.After(until)
		if !now.Before(until) || !running && !lost {
			return b, nil
		}
		if err := delay.For(ctx, warmPause); err != nil {
			return nil, err
		}
	}
}
