package lookup

import (
	"context"

	"letterhead/internal/ratelimit"
)

// Counters of live crawls: one per account, and one of the whole service.
const scopeCrawls = "crawls"

var serviceCrawls = ratelimit.Key{Scope: "service-crawls", ID: "all"}

// crawlLimit is a counter and its limit of live crawls per minute.
type crawlLimit struct {
	key ratelimit.Key
	max int64
}

func (s *Service) limitsOf(caller Caller) []crawlLimit {
	return []crawlLimit{{key: ratelimit.Key{Scope: scopeCrawls, ID: caller.AccountID}, max: int64(caller.Plan.CrawlsPerMinute)}}
}

// units are the units that a request took of the live-crawl limits.
type units struct {
	service *Service
	taken   []takenUnit
}

type takenUnit struct {
	key      ratelimit.Key
	decision ratelimit.Decision
}

// takeUnits takes a unit of each of the caller's limits, and one of the service's live crawls unless
// the crawl is already running. Errors: *LimitError, ratelimit.ErrUnavailable, ctx.Err(); then nothing
// is taken.
func (s *Service) takeUnits(ctx context.Context, limits []crawlLimit, joins bool) (*units, error) {
	if !joins {
		limits = append(limits, crawlLimit{key: serviceCrawls, max: int64(s.config.CrawlsPerMinute)})
	}
	u := &units{service: s}
	for _, limit := range limits {
		decision, err := s.counters.Take(ctx, limit.key, 1, limit.max)
		if err == nil && !decision.Allowed {
			err = &LimitError{Service: limit.key == serviceCrawls, Decision: decision}
		}
		if err != nil {
			u.returnAll(ctx)
			return nil, err
		}
		u.taken = append(u.taken, takenUnit{limit.key, decision})
	}
	return u, nil
}

// returnAll returns the units of a crawl that turned out not to be needed. It takes at most ReturnWithin:
// the domain's lock and the answer wait for it.
func (u *units) returnAll(ctx context.Context) { u.giveBack(ctx, u.taken) }

// returnServiceUnit returns the unit that only the caller who starts a crawl takes.
func (u *units) returnServiceUnit(ctx context.Context) {
	for _, t := range u.taken {
		if t.key == serviceCrawls {
			u.giveBack(ctx, []takenUnit{t})
		}
	}
}

func (u *units) giveBack(ctx context.Context, back []takenUnit) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ReturnWithin) // also after the request's end
	defer cancel()
	for _, t := range back {
		if err := u.service.counters.Give(ctx, t.key, 1, t.decision); err != nil {
			u.service.config.Logger.WarnContext(ctx, "unit of a live-crawl limit is not returned", "scope", t.key.Scope, "error", err)
		}
	}
}
