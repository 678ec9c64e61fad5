package lookup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/projections/brandwatch"
)

// live answers for a domain that the index cannot answer, or whose caller pays for a new crawl: from
// the brand's stream if only the index lags, else from a running crawl or a new one. The work before
// the crawl is limited by quick.
func (s *Service) live(ctx, quick context.Context, q Query, domain string, refresh bool, reservation *commands.Reservation) (Answer, error) {
	nothing := Answer{Domain: domain}
	// Registered before anything else, so that no outcome can be missed.
	watch := s.changes.Watch(domain)
	defer watch.Close()
	unlock, err := s.domains.lock(quick, domain)
	if err != nil {
		return nothing, err
	}
	defer unlock()

	next, err := s.decide(quick, domain, causeOf(refresh))
	if err != nil {
		return nothing, s.rejection(quick, reservation, err)
	}
	if next.known != nil {
		unlock()
		return s.settle(quick, q, *next.known, reservation, nil)
	}
	if next.joins {
		unlock() // callers behind need not wait for the rest, which concerns only this caller
	}
	units, err := s.takeUnits(quick, s.limitsOf(q.Caller), next.joins)
	if err != nil {
		return nothing, s.rejection(quick, reservation, err)
	}
	hold, err := s.holdCredit(quick, q, domain, reservation, s.timeLeft(next.crawl))
	if err != nil {
		units.returnAll(ctx)
		return nothing, err
	}
	defer hold.release(ctx)
	if !next.joins {
		if next, err = s.request(quick, q.Request, domain, causeOf(refresh), units); err != nil {
			return nothing, err
		}
		unlock()
		if next.known != nil {
			return s.settle(ctx, q, *next.known, nil, hold)
		}
	}
	result, err := s.await(ctx, watch, domain, next.crawl)
	if err != nil {
		return nothing, err
	}
	return s.settle(ctx, q, result, nil, hold)
}

// step is the next step of a look-up of an unknown or refreshed domain: answer from a known record, or
// wait for a crawl that it joins or has to start.
type step struct {
	known *found
	crawl commands.Crawl // the running one; zero if it must be started
	joins bool
}

// decide reads the brand's stream and decides as RequestCrawl will, without appending anything. A
// crawl that is past its deadline without an outcome is expired first, and the resulting state
// decides.
//
// Errors: brand.ErrWithdrawn, *brand.RememberedError, those of the log.
func (s *Service) decide(ctx context.Context, domain, cause string) (step, error) {
	state, err := s.brands.State(ctx, domain)
	if err != nil {
		return step{}, err
	}
	if crawlID, requestedAt, allowed, ok := state.Running(); ok && s.config.Now().After(requestedAt.Add(allowed+OutcomeGrace)) {
		if err := s.brands.ExpireCrawl(ctx, domain, crawlID); err != nil {
			return step{}, err
		}
		if state, err = s.brands.State(ctx, domain); err != nil {
			return step{}, err
		}
	}
	force := cause == brand.CauseRefresh
	if state.Known() && !force {
		known := s.foundIn(state, Hit)
		return step{known: &known}, nil
	}
	events, err := state.RequestCrawl(brand.RequestCrawl{
		CrawlID: "decision only", Cause: cause, Priority: brand.PriorityLive, Allowed: s.config.CrawlTimeout, Force: force, Now: s.config.Now(),
	})
	if err != nil || len(events) > 0 {
		return step{}, err
	}
	crawlID, requestedAt, allowed, _ := state.Running()
	return step{joins: true, crawl: commands.Crawl{ID: crawlID, Joined: true, RequestedAt: requestedAt, Allowed: allowed}}, nil
}

// request starts the crawl. If another process was faster, its crawl is joined, or its record is the
// answer, and the units that were not needed are returned.
func (s *Service) request(ctx context.Context, request commands.Request, domain, cause string, units *units) (step, error) {
	crawl, err := s.brands.RequestCrawl(ctx, commands.RequestCrawl{
		Request: request, Domain: domain, Cause: cause, Priority: brand.PriorityLive, Allowed: s.config.CrawlTimeout, Force: cause == brand.CauseRefresh,
	})
	var remembered *brand.RememberedError
	switch {
	case err == nil && crawl.Joined:
		units.returnServiceUnit(ctx)
		return step{joins: true, crawl: crawl}, nil
	case err == nil:
		return step{crawl: crawl}, nil
	case errors.Is(err, brand.ErrAlreadyKnown):
		units.returnAll(ctx)
		state, err := s.brands.State(ctx, domain)
		if err != nil {
			return step{}, err
		}
		if !state.Known() { // withdrawn in the meantime
			return step{}, brand.ErrWithdrawn
		}
		known := s.foundIn(state, Hit)
		return step{known: &known}, nil
	case errors.Is(err, brand.ErrWithdrawn), errors.As(err, &remembered):
		units.returnAll(ctx)
		return step{}, err
	default:
		// It is unknown whether the crawl was requested, so its units stay taken: a limit is an upper
		// bound.
		return step{}, err
	}
}

// await waits for a crawl's outcome. It returns *CrawlError if the crawl failed or did not end in
// time, brand.ErrWithdrawn, and the errors of the log.
func (s *Service) await(ctx context.Context, watch *brandwatch.Watch, domain string, crawl commands.Crawl) (found, error) {
	waitCtx, cancel := context.WithTimeout(ctx, s.timeLeft(crawl)+OutcomeGrace)
	end, _, err := watch.Wait(waitCtx, crawl.ID)
	cancel()
	switch {
	case ctx.Err() != nil:
		return found{}, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		// No outcome was reported. Past its deadline any process may expire it; before that this does
		// nothing.
		if err := s.brands.ExpireCrawl(ctx, domain, crawl.ID); err != nil {
			return found{}, err
		}
	case err != nil:
		return found{}, fmt.Errorf("wait for crawl %s of %s: %w", crawl.ID, domain, err)
	}
	state, err := s.brands.State(ctx, domain)
	if err != nil {
		return found{}, err
	}
	if state.Withdrawn() {
		return found{}, brand.ErrWithdrawn
	}
	ended, ok := state.LastOutcome(crawl.ID)
	if !ok {
		ended.Outcome = outcomeIn(end) // others have ended since: a brand remembers the last ones only
	}
	if !ended.Succeeded() {
		if ok && state.Known() {
			s.recent.note(state.View()) // older data is kept, and shows that the refresh failed
		}
		return found{}, &CrawlError{Outcome: ended.Outcome}
	}
	return s.foundIn(state, Miss), nil
}

// timeLeft is how long a crawl may still take: never longer than one that starts now, even if it was
// joined.
func (s *Service) timeLeft(crawl commands.Crawl) time.Duration {
	if crawl.ID == "" {
		return s.config.CrawlTimeout
	}
	return max(0, min(crawl.RequestedAt.Add(crawl.Allowed).Sub(s.config.Now()), s.config.CrawlTimeout))
}

func causeOf(refresh bool) string {
	if refresh {
		return brand.CauseRefresh
	}
	return brand.CauseLookup
}

// outcomeIn returns the outcome of the crawl that an event ends; brand.Timeout if it ends none.
func outcomeIn(end eventschemas.Event) string {
	switch ev := end.(type) {
	case eventschemas.CrawlSucceeded:
		return brand.Succeeded
	case eventschemas.CrawlConfirmed:
		return brand.Confirmed
	case eventschemas.CrawlFailed:
		return ev.Outcome
	}
	return brand.Timeout
}
