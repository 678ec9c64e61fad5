package refresh

import (
	"context"
	"errors"
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
)

// warm requests crawls of the lists of operators until an error occurs or ctx ends.
func (r *Refresher) warm(ctx context.Context) (came bool, err error) {
	for ; ; came = true {
		list, err := r.cfg.Warming.Last(ctx)
		if err == nil && list.State == warming.Running {
			err = r.warmList(ctx, list)
		}
		if err != nil && !errors.Is(err, warming.ErrNone) {
			return came, err
		}
		if err := delay.For(ctx, warmPoll); err != nil {
			return came, err
		}
	}
}

// warmList continues a list. It examines each domain twice, because a crawl that was running when its process was
// killed, or that no crawler began, ends without having tried the site.
func (r *Refresher) warmList(ctx context.Context, list warming.List) error {
	domains, err := r.cfg.Warming.Domains(ctx, list.ID)
	for err == nil && list.State == warming.Running {
		var requested bool
		switch {
		case list.Examined < len(domains):
			requested, err = r.warmDomain(ctx, &list, domains[list.Examined], false)
			list.Examined++
		case list.Rechecked < len(domains):
			requested, err = r.warmDomain(ctx, &list, domains[list.Rechecked], true)
			list.Rechecked++
		default:
			list.State = warming.Done
		}
		if err == nil && requested { // before the save, which notices that the list was cancelled
			err = delay.For(ctx, r.cfg.WarmEvery)
		}
		now := r.cfg.Now().UTC()
		if err == nil && (requested || list.State == warming.Done || now.Sub(list.ChangedAt) >= saveEvery) {
			list.ChangedAt = now
			err = r.cfg.Warming.Save(ctx, list)
		}
	}
	return err
}

// warmDomain examines a domain of a list, and requests a crawl if it is due. A domain that cannot be decided on is
// skipped.
func (r *Refresher) warmDomain(ctx context.Context, list *warming.List, domain string, second bool) (bool, error) {
	counted, err := r.warmBrand(ctx, list, domain, second)
	if isUnavailable(ctx, err) || errors.Is(err, warming.ErrNone) {
		return false, err
	}
	if err != nil {
		r.skipped.Inc()
		r.cfg.Logger.Error("a domain of a list is skipped", "domain", domain, "error", err)
		counted = &list.Skipped
	}
	if second && counted != &list.Repeated {
		return false, nil
	}
	*counted++
	return err == nil && (counted == &list.Requested || second), nil
}

// warmBrand requests a crawl of a brand if it is due, and returns the count of the list that it belongs to.
func (r *Refresher) warmBrand(ctx context.Context, list *warming.List, domain string, second bool) (*int, error) {
	id := list.CrawlID(domain, false)
	b, err := r.settled(ctx, list, domain, second)
	if err != nil {
		return nil, err
	}
	now := r.cfg.Now()
	due, scheduled := b.NextCrawl()
	_, _, remembered := b.Remembered(now)
	_, _, _, running := b.Running()
	end, ended := b.LastOutcome(id)
	switch {
	case running || ended && (!second || end.Outcome != brand.Timeout && end.Outcome != brand.Superseded):
		return &list.Requested, nil // before the process was killed, or by a look-up
	case b.Withdrawn() || remembered:
		return &list.Skipped, nil
	case scheduled && now.Before(due):
		return &list.Fresh, nil
	}
	head, err := r.log.Head(ctx)
	if err != nil {
		return nil, err
	}
	id = list.CrawlID(domain, second)
	err = r.ask(ctx, candidate{domain: domain, why: "warmed", after: head, crawlID: id,
		due: func(*brand.Brand) bool { return r.current(ctx, list) == nil }, request: commands.Request{ID: id, Actor: "system:warm"}})
	if second {
		return &list.Repeated, err
	}
	return &list.Requested, err
}

// current returns warming.ErrNone if a list has been cancelled or replaced.
func (r *Refresher) current(ctx context.Context, list *warming.List) error {
	last, err := r.cfg.Warming.Last(ctx)
	if err == nil && (last.ID != list.ID || last.State != warming.Running) {
		err = warming.ErrNone
	}
	return err
}

// settled returns a brand. If wait, it waits for a limited time until no crawl of it runs, and, if the list's crawl was
// lost, until that may be repeated. Errors: warming.ErrNone if the list is cancelled meanwhile.
func (r *Refresher) settled(ctx context.Context, list *warming.List, domain string, wait bool) (*brand.Brand, error) {
	id := list.CrawlID(domain, false)
	for until := r.cfg.Now().Add(warmWait); ; {
		b, err := r.brands.State(ctx, domain)
		if err != nil || !wait {
			return b, err
		}
		now := r.cfg.Now()
		_, _, _, running := b.Running()
		end, _ := b.LastOutcome(id)
		lost := end.Outcome == brand.Timeout && now.Before(end.Until) && !end.Until.After(until)
		if !now.Before(until) || !running && !lost {
			return b, nil
		}
		if err := errors.Join(delay.For(ctx, warmPause), r.current(ctx, list)); err != nil {
			return nil, err
		}
	}
}
