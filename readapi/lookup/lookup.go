package lookup

import (
	"context"
	"errors"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/internal/deadline"
	"letterhead/projections/brands"
)

// Cache is the source of an answer.
type Cache string

// Values of Cache, as in X-Cache.
const (
	Hit  Cache = "HIT"  // from the index
	Miss Cache = "MISS" // from a live crawl
)

// Caller is the account that pays for a look-up.
type Caller struct {
	AccountID string
	KeyID     string
	Plan      plan.Plan
}

// Query is the request for one look-up.
type Query struct {
	Request    commands.Request // its id makes charge and hold repeatable
	Caller     Caller
	Identifier brand.Identifier
	Refresh    bool // crawl now; ignored on plans without refresh
	Peek       bool // only check: no charge, no crawl (HEAD)
	// Reservation is a credit of the caller's that is already reserved; Do consumes it whatever the
	// outcome. Optional: without one, Do reserves a credit itself.
	Reservation *commands.Reservation
	// Once is the idempotency key of the look-up, if any. Without a reservation, Do first repeats the
	// answer that was charged under it; a caller who reserves a credit has already called Recall.
	Once *commands.Once
	// Has reports whether the caller has a record already. If it is the present one, the answer is free, even
	// without credits, and uses no idempotency key. A refresh ignores it. Optional.
	Has func(brands.Body) bool
}

// Answer is a brand that was found.
type Answer struct {
	Domain    string // parsed from the identifier, even with an error; empty for an unknown id
	Body      brands.Body
	Cache     Cache
	Charge    *commands.Receipt // nil if the answer is free
	Unchanged bool              // the caller has the record: see Query.Has
	Remaining int64             // credits left after the look-up, never below zero
}

// lookUp is Do without the answers that need no credit.
func (s *Service) lookUp(ctx context.Context, q Query) (Answer, error) {
	quick := deadline.New(ctx, s.config.Quick) // limits everything but the crawl
	defer quick.End()
	if q.Once != nil && q.Reservation == nil {
		if answer, repeated, err := s.repeat(quick, q); err != nil || repeated {
			return answer, err
		}
	}

	paid := payment{request: q.Request, accountID: q.Caller.AccountID, keyID: q.Caller.KeyID, reservation: q.Reservation}
	defer s.giveBack(ctx, &paid)
	var err error
	if paid.reservation == nil {
		if paid.reservation, err = s.parts.Credits.Reserve(quick, paid.accountID, paid.keyID); err != nil {
			return Answer{Domain: q.Identifier.Domain}, err
		}
	}

	entry, domain, err := s.find(quick, q.Identifier)
	if err != nil {
		return Answer{Domain: domain}, s.rejection(quick, &paid, err)
	}
	cause := brand.CauseLookup
	if q.Refresh && q.Caller.Plan.Refresh {
		cause = brand.CauseRefresh
	}
	if entry != nil && cause == brand.CauseLookup {
		answer, err := s.settle(quick, q, &paid, foundAt(entry))
		if !errors.Is(err, commands.ErrOlderRecord) {
			return answer, err
		}
		// Another node answered this account from the brand's stream, and the index lags.
		if paid.reservation, err = s.parts.Credits.Reserve(quick, paid.accountID, paid.keyID); err != nil {
			return Answer{Domain: domain}, err
		}
	}

	// From the brand's stream if only the index lags, else from a running crawl or a new one.
	asked := crawlQuery{request: q.Request, domain: domain, cause: cause, limits: q.Caller.crawlLimits()}
	record, err := s.crawl(ctx, quick, asked, &paid)
	if err != nil {
		return Answer{Domain: domain}, s.rejection(quick, &paid, err)
	}
	if paid.holdID == "" {
		return s.settle(quick, q, &paid, record)
	}
	return s.settle(ctx, q, &paid, record)
}
