package lookup

import (
	"context"
	"time"

	"letterhead/commands"
)

// openHold is a credit held for the possible answer of a crawl. It ends by release, unless a charge
// has captured it.
type openHold struct {
	service *Service
	query   Query
	id      string
	open    bool
}

// holdCredit turns the reservation into a hold that outlives this process, for work of at most the
// given duration.
func (s *Service) holdCredit(ctx context.Context, q Query, domain string, reservation *commands.Reservation, work time.Duration) (*openHold, error) {
	hold, err := s.credits.HoldCredits(ctx, commands.HoldCredits{
		Request: q.Request, AccountID: q.Caller.AccountID, Reservation: reservation, Domain: domain, Work: work + OutcomeGrace,
	})
	if err != nil {
		return nil, err
	}
	return &openHold{service: s, query: q, id: hold.ID, open: true}, nil
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

// release releases the hold. If that fails within a moment or before the request ends, it continues
// in the background. If that fails, too, any account writer that touches the account, or the sweeper,
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
		err = h.service.credits.ReleaseHold(within, release)
	}
	if err != nil {
		err = h.service.credits.ReleaseUndelivered(release)
	}
	if err != nil {
		h.service.config.Logger.WarnContext(ctx, "hold is not released before its deadline", "request_id", h.query.Request.ID,
			"account", h.query.Caller.AccountID, "hold", h.id, "error", err)
	}
}
