package readapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/internal/ratelimit"
	"letterhead/projections/changes"
)

// live answers for a domain that the index cannot answer, or whose caller pays for a new crawl: from
// the brand's stream if only the index lags, else from a running crawl or a new one. The work before
// the crawl is limited by quick.
func (l *Lookup) live(ctx, quick context.Context, q Query, domain string, refresh bool, reservation *commands.Reservation) (Answer, error) {
	nothing := Answer{Domain: domain}
	// Registered before anything else, so that no outcome can be missed.
	watch := l.changes.Watch(domain)
	defer watch.Close()
	leave, err := l.gates.enter(quick, domain)
	if err != nil {
		return nothing, err
	}
	defer leave()

	next, err := l.decide(quick, domain, causeOf(refresh))
	if err != nil {
		return nothing, l.refuse(quick, reservation, err)
	}
	if next.known != nil {
		leave()
		return l.settle(quick, q, *next.known, reservation, nil)
	}
	if next.joins {
		leave() // callers behind need not wait for the rest, which concerns only this caller
	}
	units, err := l.takeUnits(quick, l.limitsOf(q.Caller), next.joins)
	if err != nil {
		return nothing, l.refuse(quick, reservation, err)
	}
	hold, err := l.holdCredit(quick, q, domain, reservation, l.timeLeft(next.crawl))
	if err != nil {
		units.giveBack(ctx)
		return nothing, err
	}
	defer hold.release(ctx)
	if !next.joins {
		if next, err = l.request(quick, q.Request, domain, causeOf(refresh), units); err != nil {
			return nothing, err
		}
		leave()
		if next.known != nil {
			return l.settle(ctx, q, *next.known, nil, hold)
		}
	}
	result, err := l.await(ctx, watch, domain, next.crawl)
	if err != nil {
		return nothing, err
	}
	return l.settle(ctx, q, result, nil, hold)
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
func (l *Lookup) decide(ctx context.Context, domain, cause string) (step, error) {
	state, err := l.brands.State(ctx, domain)
	if err != nil {
		return step{}, err
	}
	if crawlID, requestedAt, allowed, ok := state.Running(); ok && l.now().After(requestedAt.Add(allowed+outcomeGrace)) {
		if err := l.brands.ExpireCrawl(ctx, domain, crawlID); err != nil {
			return step{}, err
		}
		if state, err = l.brands.State(ctx, domain); err != nil {
			return step{}, err
		}
	}
	force := cause == brand.CauseRefresh
	if state.Known() && !force {
		known := l.foundIn(state, Hit)
		return step{known: &known}, nil
	}
	events, err := state.RequestCrawl(brand.RequestCrawl{
		CrawlID: "decision only", Cause: cause, Lane: brand.LaneLive, Allowed: l.timeout, Force: force, Now: l.now(),
	})
	if err != nil || len(events) > 0 {
		return step{}, err
	}
	crawlID, requestedAt, allowed, _ := state.Running()
	return step{joins: true, crawl: commands.Crawl{ID: crawlID, Joined: true, RequestedAt: requestedAt, Allowed: allowed}}, nil
}

// request starts the crawl. If another process was faster, its crawl is joined, or its record is the
// answer, and the units that were not needed are returned.
func (l *Lookup) request(ctx context.Context, request commands.Request, domain, cause string, units *units) (step, error) {
	crawl, err := l.brands.RequestCrawl(ctx, commands.RequestCrawl{
		Request: request, Domain: domain, Cause: cause, Lane: brand.LaneLive, Allowed: l.timeout, Force: cause == brand.CauseRefresh,
	})
	var remembered *brand.RememberedError
	switch {
	case err == nil && crawl.Joined:
		units.giveBackService(ctx)
		return step{joins: true, crawl: crawl}, nil
	case err == nil:
		return step{crawl: crawl}, nil
	case errors.Is(err, brand.ErrAlreadyKnown):
		units.giveBack(ctx)
		state, err := l.brands.State(ctx, domain)
		if err != nil {
			return step{}, err
		}
		if !state.Known() { // withdrawn in the meantime
			return step{}, brand.ErrWithdrawn
		}
		known := l.foundIn(state, Hit)
		return step{known: &known}, nil
	case errors.Is(err, brand.ErrWithdrawn), errors.As(err, &remembered):
		units.giveBack(ctx)
		return step{}, err
	default:
		// It is unknown whether the crawl was requested, so its units stay taken: a limit is an upper
		// bound.
		return step{}, err
	}
}

// await waits for a crawl's outcome. It returns *CrawlError if the crawl failed or did not end in
// time, brand.ErrWithdrawn, and the errors of the log.
func (l *Lookup) await(ctx context.Context, watch *changes.Watch, domain string, crawl commands.Crawl) (found, error) {
	waitCtx, cancel := context.WithTimeout(ctx, l.timeLeft(crawl)+outcomeGrace)
	_, _, err := watch.Wait(waitCtx, crawl.ID)
	cancel()
	switch {
	case ctx.Err() != nil:
		return found{}, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		// No outcome was reported. Past its deadline any process may expire it; before that this does
		// nothing.
		if err := l.brands.ExpireCrawl(ctx, domain, crawl.ID); err != nil {
			return found{}, err
		}
	case err != nil:
		return found{}, fmt.Errorf("wait for crawl %s of %s: %w", crawl.ID, domain, err)
	}
	state, err := l.brands.State(ctx, domain)
	if err != nil {
		return found{}, err
	}
	if state.Withdrawn() {
		return found{}, brand.ErrWithdrawn
	}
	ended, ok := state.LastOutcome(crawl.ID)
	switch {
	case !ok:
		return found{}, &CrawlError{Outcome: brand.Timeout}
	case !ended.Succeeded():
		if state.Known() {
			l.recent.note(state.View()) // older data is kept, and shows that the refresh failed
		}
		return found{}, &CrawlError{Outcome: ended.Outcome}
	}
	return l.foundIn(state, Miss), nil
}

// timeLeft is how long a crawl may still take: never longer than one that starts now, even if it was
// joined.
func (l *Lookup) timeLeft(crawl commands.Crawl) time.Duration {
	if crawl.ID == "" {
		return l.timeout
	}
	return max(0, min(crawl.RequestedAt.Add(crawl.Allowed).Sub(l.now()), l.timeout))
}

func causeOf(refresh bool) string {
	if refresh {
		return brand.CauseRefresh
	}
	return brand.CauseLookup
}

// Counters of live crawls: one per account, and one of the whole service.
const scopeCrawls = "crawls"

var serviceCrawls = ratelimit.Key{Scope: "service-crawls", ID: "all"}

// crawlLimit is a counter and its limit of live crawls per minute.
type crawlLimit struct {
	key ratelimit.Key
	max int64
}

func (l *Lookup) limitsOf(caller Caller) []crawlLimit {
	return []crawlLimit{{key: ratelimit.Key{Scope: scopeCrawls, ID: caller.AccountID}, max: int64(caller.Plan.CrawlsPerMinute)}}
}

// units are the units that a request took of the live-crawl limits.
type units struct {
	lookup *Lookup
	taken  []takenUnit
}

type takenUnit struct {
	key      ratelimit.Key
	decision ratelimit.Decision
}

// takeUnits takes a unit of each of the caller's limits, and one of the service's live crawls unless
// the crawl is already running. Errors: *LimitError, ratelimit.ErrUnavailable, ctx.Err(); then nothing
// is taken.
func (l *Lookup) takeUnits(ctx context.Context, limits []crawlLimit, joins bool) (*units, error) {
	if !joins {
		limits = append(limits, crawlLimit{key: serviceCrawls, max: l.ceiling})
	}
	u := &units{lookup: l}
	for _, limit := range limits {
		decision, err := l.counters.Take(ctx, limit.key, 1, limit.max)
		if err == nil && !decision.Allowed {
			err = &LimitError{Service: limit.key == serviceCrawls, Decision: decision}
		}
		if err != nil {
			u.giveBack(ctx)
			return nil, err
		}
		u.taken = append(u.taken, takenUnit{limit.key, decision})
	}
	return u, nil
}

// giveBack returns the units of a crawl that turned out not to be needed. It takes at most giveWithin:
// the domain's gate and the answer wait for it.
func (u *units) giveBack(ctx context.Context) { u.give(ctx, u.taken) }

// giveBackService returns the unit that only the caller who starts a crawl takes.
func (u *units) giveBackService(ctx context.Context) {
	for _, t := range u.taken {
		if t.key == serviceCrawls {
			u.give(ctx, []takenUnit{t})
		}
	}
}

func (u *units) give(ctx context.Context, back []takenUnit) {
	ctx, cancel := afterwards(ctx, giveWithin)
	defer cancel()
	for _, t := range back {
		if err := u.lookup.counters.Give(ctx, t.key, 1, t.decision); err != nil {
			u.lookup.log.WarnContext(ctx, "unit of a live-crawl limit is not handed back", "scope", t.key.Scope, "error", err)
		}
	}
}

// openHold is a credit held for the possible answer of a crawl. It ends by release, unless a charge
// has captured it.
type openHold struct {
	lookup *Lookup
	query  Query
	id     string
	open   bool
}

// holdCredit turns the reservation into a hold that outlives this process, for work of at most the
// given duration.
func (l *Lookup) holdCredit(ctx context.Context, q Query, domain string, reservation *commands.Reservation, work time.Duration) (*openHold, error) {
	hold, err := l.desk.HoldCredits(ctx, commands.HoldCredits{
		Request: q.Request, AccountID: q.Caller.AccountID, Reservation: reservation, Domain: domain, Work: work + outcomeGrace,
	})
	if err != nil {
		return nil, err
	}
	return &openHold{lookup: l, query: q, id: hold.ID, open: true}, nil
}

// holdID returns the id of the hold that a charge captures, or "" for a look-up without a hold.
func (h *openHold) holdID() string {
	if h == nil {
		return ""
	}
	return h.id
}

func (h *openHold) captured() {
	if h != nil {
		h.open = false
	}
}

// release releases the hold. If that fails within a moment or before the request ends, the desk does
// it in the background. If that fails, too, any desk that touches the account, or the sweeper,
// releases it after the hold's deadline.
func (h *openHold) release(ctx context.Context) {
	if h == nil || !h.open {
		return
	}
	h.open = false
	release := commands.ReleaseHold{Request: h.query.Request, AccountID: h.query.Caller.AccountID, HoldID: h.id}
	err := ctx.Err()
	if err == nil {
		within, cancel := context.WithTimeout(ctx, releaseWithin)
		defer cancel()
		err = h.lookup.desk.ReleaseHold(within, release)
	}
	if err != nil {
		err = h.lookup.desk.ReleaseUndelivered(release)
	}
	if err != nil {
		h.lookup.log.WarnContext(ctx, "hold is not released before its deadline", "request_id", h.query.Request.ID,
			"account", h.query.Caller.AccountID, "hold", h.id, "error", err)
	}
}
