package lookup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/internal/ratelimit"
	"letterhead/projections/brandwatch"
)

// Counters of live crawls: one per account, and one of the whole service.
const scopeCrawls = "crawls"

var serviceCrawls = ratelimit.Key{Scope: "service-crawls", ID: "all"}

// errShareUsedUp means that an address has caused its share of the day's crawls for callers without a key.
var errShareUsedUp = errors.New("the share of the address is used up")

// crawlLimit is a counter and its limit of live crawls per minute.
type crawlLimit struct {
	key ratelimit.Key
	max int64
}

func (c Caller) crawlLimits() []crawlLimit {
	return []crawlLimit{{key: ratelimit.Key{Scope: scopeCrawls, ID: c.AccountID}, max: int64(c.Plan.CrawlsPerMinute)}}
}

// crawlQuery is the request for a record that the index does not have, or that the caller wants to be crawled again.
type crawlQuery struct {
	request commands.Request
	domain  string
	cause   string       // brand.CauseLookup …
	limits  []crawlLimit // of the caller
	keyless int64        // limit of the day's crawls for callers without a key; 0 for one with a key
	share   []crawlLimit // of these crawls, in a day, for the caller's address, if it has one
}

// crawl returns the record in the brand's stream if only the index lags, or else the result of a running crawl or a new
// one, which continues when ctx ends. The work before the crawl is limited by quick. A crawl turns paid into a hold;
// paid is nil for a logo.
//
// Errors: *LimitError, commands.ErrQuotaExceeded; *CrawlError, ErrNotCrawled, *brand.RememberedError, brand.ErrWithdrawn;
// ratelimit.ErrUnavailable; those of Credits, of the log and of the database; ctx.Err().
func (s *Service) crawl(ctx, quick context.Context, q crawlQuery, paid *payment) (found, error) {
	// Registered before anything else, so that no outcome can be missed.
	watch := s.parts.Changes.Watch(q.domain)
	defer watch.Close()
	unlock, err := s.domains.lock(quick, q.domain)
	if err != nil {
		return found{}, err
	}
	defer unlock()

	next, err := s.decide(quick, q)
	if err != nil || next.known {
		return next.record, err
	}
	if next.crawl.Joined {
		unlock() // callers behind need not wait for the rest, which concerns only this caller
	}
	units, err := s.takeUnits(quick, q, next.crawl.Joined)
	if err != nil {
		return found{}, err
	}
	if paid != nil {
		if err := s.hold(quick, paid, q.domain, s.timeLeft(next.crawl)); err != nil {
			units.giveBack(ctx, false)
			return found{}, err
		}
	}
	if !next.crawl.Joined {
		if next, err = s.request(quick, q, units); err != nil || next.known {
			return next.record, err
		}
		unlock()
	}
	return s.await(ctx, watch, q.domain, next.crawl)
}

// step is the next step of a request for an unknown or refreshed domain: answer from a known record, wait for a crawl
// that it joined or started, or start one.
type step struct {
	known  bool
	record found
	crawl  commands.Crawl // zero if it must be started
}

func (s *Service) knownIn(state *brand.Brand) step {
	return step{known: true, record: s.foundIn(state, Hit)}
}

// decide reads the brand's stream and decides as RequestCrawl will, without appending anything. A crawl that is past
// its deadline without an outcome is expired first, and the resulting state decides.
//
// Errors: brand.ErrWithdrawn, *brand.RememberedError, those of the log.
func (s *Service) decide(ctx context.Context, q crawlQuery) (step, error) {
	state, err := s.parts.Brands.State(ctx, q.domain)
	if err != nil {
		return step{}, err
	}
	if crawlID, ok := state.Overdue(s.config.Now(), OutcomeGrace); ok {
		if err := s.parts.Brands.ExpireCrawl(ctx, q.domain, crawlID); err != nil {
			return step{}, err
		}
		if state, err = s.parts.Brands.State(ctx, q.domain); err != nil {
			return step{}, err
		}
	}
	next, err := state.Next(brand.RequestCrawl{
		CrawlID: "decision only", Cause: q.cause, Priority: brand.PriorityLive, Allowed: s.config.CrawlTimeout,
		Force: q.cause == brand.CauseRefresh, Now: s.config.Now(),
	})
	if err != nil || next == brand.StartCrawl {
		return step{}, err
	}
	if next == brand.AnswerRecord {
		return s.knownIn(state), nil
	}
	crawlID, requestedAt, allowed, _ := state.Running()
	return step{crawl: commands.Crawl{ID: crawlID, Joined: true, RequestedAt: requestedAt, Allowed: allowed}}, nil
}

// request starts the crawl. If another process was faster, its crawl is joined, or its record is the
// answer, and the units that were not needed are returned.
func (s *Service) request(ctx context.Context, q crawlQuery, units *units) (step, error) {
	crawl, err := s.parts.Brands.RequestCrawl(ctx, commands.RequestCrawl{
		Request: q.request, Domain: q.domain, Cause: q.cause, Priority: brand.PriorityLive,
		Allowed: s.config.CrawlTimeout, Force: q.cause == brand.CauseRefresh,
	})
	switch {
	case err == nil:
		if crawl.Joined {
			units.giveBack(ctx, true)
		}
		return step{crawl: crawl}, nil
	case errors.Is(err, brand.ErrAlreadyKnown):
		units.giveBack(ctx, false)
		state, err := s.parts.Brands.State(ctx, q.domain)
		if err != nil {
			return step{}, err
		}
		if !state.Known() { // withdrawn in the meantime
			return step{}, brand.ErrWithdrawn
		}
		return s.knownIn(state), nil
	case errors.Is(err, brand.ErrWithdrawn), errors.As(err, new(*brand.RememberedError)):
		units.giveBack(ctx, false)
	default:
		// It is unknown whether the crawl was requested, so its units stay taken: a limit is an upper bound.
	}
	return step{}, err
}

// await waits for a crawl's outcome. It returns *CrawlError if the crawl failed or did not end in
// time, ErrNotCrawled, brand.ErrWithdrawn, and the errors of the log and of the database.
func (s *Service) await(ctx context.Context, watch *brandwatch.Watch, domain string,
	crawl commands.Crawl) (found, error) {
	waitCtx, cancel := context.WithTimeout(ctx, s.timeLeft(crawl)+OutcomeGrace)
	end, _, err := watch.Wait(waitCtx, crawl.ID)
	cancel()
	switch {
	case ctx.Err() != nil:
		return found{}, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		// No outcome was reported. Past its deadline any process may expire it; before that this does nothing.
		if err := s.parts.Brands.ExpireCrawl(ctx, domain, crawl.ID); err != nil {
			return found{}, err
		}
	case err != nil:
		return found{}, fmt.Errorf("wait for crawl %s of %s: %w", crawl.ID, domain, err)
	}
	state, err := s.parts.Brands.State(ctx, domain)
	if err != nil {
		return found{}, err
	}
	if state.Withdrawn() {
		return found{}, brand.ErrWithdrawn
	}
	ended, ok := state.LastOutcome(crawl.ID)
	if !ok {
		_, outcome := brand.EndOf(end) // others have ended since: a brand remembers the last ones only
		ended.Outcome = cmp.Or(outcome, brand.Timeout)
	}
	if !ended.Succeeded() {
		if ok && state.Known() {
			s.recent.note(state.View()) // older data is kept, and shows that the refresh failed
		}
		if ended.NotBegun || ended.Outcome == brand.NotBegun {
			return found{}, ErrNotCrawled
		}
		return found{}, &CrawlError{Outcome: ended.Outcome}
	}
	return s.foundIn(state, Miss), nil
}

// timeLeft is how long a crawl may still take: never longer than one that starts now, even if it was joined.
func (s *Service) timeLeft(crawl commands.Crawl) time.Duration {
	if crawl.ID == "" {
		return s.config.CrawlTimeout
	}
	return max(0, min(crawl.RequestedAt.Add(crawl.Allowed).Sub(s.config.Now()), s.config.CrawlTimeout))
}

// units are the units that a request took of the live-crawl limits.
type units struct {
	logger *slog.Logger
	taken  []takenUnit
}

type takenUnit struct {
	scope    string
	starting bool // taken only by the caller who starts a crawl
	give     func(context.Context) error
}

// takeUnits takes a unit of each of the caller's limits, and one of the service's live crawls unless
// the crawl is already running. Errors: *LimitError; for a logo always ratelimit.ErrUnavailable, for a look-up also
// ctx.Err(); without a key errShareUsedUp and those of Keyless. Then nothing is taken.
func (s *Service) takeUnits(ctx context.Context, q crawlQuery, joins bool) (*units, error) {
	u := &units{logger: s.config.Logger}
	limits := q.limits
	if !joins {
		// The share is first, so that an address that has used it up takes no unit of others.
		limits = append(slices.Concat(q.share, limits), crawlLimit{key: serviceCrawls, max: int64(s.config.CrawlsPerMinute)})
	}
	for _, limit := range limits {
		counters, scope := s.parts.Counters, limit.key.Scope
		if scope == scopeKeylessShares {
			counters = s.shares
		}
		decision, err := counters.Take(ctx, limit.key, 1, limit.max)
		switch {
		case err == nil && !decision.Allowed && scope == scopeKeylessShares:
			err = errShareUsedUp
		case err == nil && !decision.Allowed:
			err = &LimitError{Service: limit.key == serviceCrawls, Decision: decision}
		case err != nil && q.cause == brand.CauseLogo:
			err = fmt.Errorf("take units of the logo crawls: %w: %w", ratelimit.ErrUnavailable, err)
		}
		if err != nil {
			u.giveBack(ctx, false)
			return nil, err
		}
		starting := scope == serviceCrawls.Scope || scope == scopeKeylessShares
		u.taken = append(u.taken, takenUnit{scope, starting, func(ctx context.Context) error {
			return counters.Give(ctx, limit.key, 1, decision)
		}})
	}
	if q.keyless > 0 && !joins { // last, because a unit of the day is durable, and rejections by the others must not take any
		at := s.config.Now()
		if err := s.parts.Keyless.CountKeylessCrawl(ctx, at, q.keyless); err != nil {
			u.giveBack(ctx, false)
			return nil, err
		}
		u.taken = append(u.taken, takenUnit{"keyless-crawls", true, func(context.Context) error {
			s.parts.Keyless.ReturnKeylessCrawl(at)
			return nil
		}})
	}
	return u, nil
}

// giveBack returns the units of a crawl that turned out not to be needed, or only those for starting it. It takes at
// most ReturnWithin: the domain's lock and the answer wait for it.
func (u *units) giveBack(ctx context.Context, onlyStarting bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ReturnWithin) // also after the request's end
	defer cancel()
	for _, t := range u.taken {
		if onlyStarting && !t.starting {
			continue
		}
		if err := t.give(ctx); err != nil {
			u.logger.WarnContext(ctx, "unit of a live-crawl limit is not returned", "scope", t.scope, "error", err)
		}
	}
}
