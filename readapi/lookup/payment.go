package lookup

import (
	"context"
	"time"

	"letterhead/commands"
	"letterhead/domain/plan"
	"letterhead/projections/brands"
)

// payment is the credit of a look-up: reserved in memory, and held on the account's stream while a crawl runs. It ends
// by a charge or by giveBack.
type payment struct {
	request     commands.Request
	accountID   string
	keyID       string
	reservation *commands.Reservation
	holdID      string // of the open hold; "" if there is none
}

// rejection returns why a look-up is rejected: lack of credits, which has precedence, or the given reason.
func (s *Service) rejection(ctx context.Context, paid *payment, reason error) error {
	if err := s.parts.Credits.Confirm(ctx, paid.reservation); err != nil {
		return err
	}
	return reason
}

// hold turns the reservation into a hold that outlives this process, for work of at most the given duration.
func (s *Service) hold(ctx context.Context, paid *payment, domain string, work time.Duration) error {
	hold, err := s.parts.Credits.HoldCredits(ctx, commands.HoldCredits{
		Request: paid.request, AccountID: paid.accountID, Reservation: paid.reservation, Domain: domain,
		Work: work + OutcomeGrace, KeyID: paid.keyID,
	})
	paid.reservation, paid.holdID = nil, hold.ID // the reservation is consumed even by an error
	return err
}

// giveBack drops the reservation and releases the hold. If that fails within a moment or before the request ends, it
// continues in the background. If that fails, too, any account writer that touches the account, or the sweeper,
// releases the hold after its deadline.
func (s *Service) giveBack(ctx context.Context, paid *payment) {
	paid.reservation.Drop()
	if paid.holdID == "" {
		return
	}
	release := commands.ReleaseHold{Request: paid.request, AccountID: paid.accountID, HoldID: paid.holdID}
	paid.holdID = ""
	err := ctx.Err()
	if err == nil {
		within, cancel := context.WithTimeout(ctx, releaseWithin)
		defer cancel()
		err = s.parts.Credits.ReleaseHold(within, release)
	}
	if err != nil {
		err = s.parts.Credits.ReleaseUndelivered(release)
	}
	if err != nil {
		s.config.Logger.WarnContext(ctx, "hold is not released before its deadline", "request_id", paid.request.ID,
			"account", paid.accountID, "hold", release.HoldID, "error", err)
	}
}

// found is a record that can be sent.
type found struct {
	cache    Cache
	id       string
	domain   string
	revision uint64 // of the brand stream
	logo     bool
	looks    brands.Looks // of a record from the brand's stream
	body     brands.Body
	stream   bool // it was read from the brand's stream
}

// foundAt takes the record from the index.
func foundAt(entry *brands.Entry) found {
	return found{
		cache: Hit, id: entry.ID, domain: entry.Domain, revision: entry.Revision, logo: entry.HasLogo, body: entry.Body,
	}
}

// settle charges for the record, unless it is free: from the reservation, or from the hold if there was a crawl.
func (s *Service) settle(ctx context.Context, q Query, paid *payment, f found) (Answer, error) {
	answer := Answer{Domain: f.domain, Body: f.body, Cache: f.cache}
	if plan.LookupIsFree(f.logo) {
		if err := s.rejection(ctx, paid, nil); err != nil {
			return Answer{Domain: f.domain}, err
		}
		s.giveBack(ctx, paid)
		return s.free(ctx, q, answer)
	}
	receipt, err := s.parts.Credits.ChargeLookup(ctx, commands.ChargeLookup{
		Request: q.Request, AccountID: q.Caller.AccountID, Reservation: paid.reservation,
		BrandID: f.id, Domain: f.domain, RecordRevision: f.revision, FromStream: f.stream, HoldID: paid.holdID,
		KeyID: q.Caller.KeyID, Once: q.Once,
	})
	if err != nil {
		return Answer{Domain: f.domain}, err
	}
	if receipt.Repeated && q.Once != nil {
		// Another look-up with the key was faster, and its charged record is the answer of both. The
		// hold is still open, and is given back.
		answer, err = s.Repeat(ctx, receipt)
		answer.Cache = f.cache
		return answer, err
	}
	paid.holdID = "" // captured
	answer.Charge, answer.Remaining = &receipt, max(0, receipt.Remaining)
	return answer, nil
}

// free completes an answer that costs nothing.
func (s *Service) free(ctx context.Context, q Query, answer Answer) (Answer, error) {
	var err error
	answer.Remaining, err = s.Credits(ctx, q.Caller.AccountID)
	return answer, err
}

// Credits returns the value of X-Credits-Remaining: the balance, never below zero.
func (s *Service) Credits(ctx context.Context, accountID string) (int64, error) {
	standing, err := s.parts.Credits.Standing(ctx, accountID)
	if err != nil {
		return 0, err
	}
	return max(0, standing.Remaining), nil
}

// Reverse reverses the charge of an answer that was never sent, because its caller left before the first byte. The
// reversal continues after the request's end. A repeat charged nothing, so there is nothing to reverse.
func (s *Service) Reverse(ctx context.Context, q Query, answer Answer) {
	if answer.Charge == nil || answer.Charge.Repeated {
		return
	}
	err := s.parts.Credits.ReverseUndelivered(commands.UndeliveredCharge{
		Request: q.Request, AccountID: q.Caller.AccountID, KeyID: q.Caller.KeyID, Receipt: *answer.Charge,
	})
	if err != nil {
		// Support finds the charge in the ledger by the request's id.
		s.config.Logger.ErrorContext(ctx, "charge of a caller who left is not reversed", "request_id", q.Request.ID,
			"account", q.Caller.AccountID, "charge", answer.Charge.ChargeID, "error", err)
	}
}
