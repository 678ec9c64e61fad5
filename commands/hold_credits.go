package commands

import (
	"context"
	"time"

	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// HoldCredits is the command to hold the price of a look-up for work whose outcome is not known yet.
type HoldCredits struct {
	Request     Request
	AccountID   string
	Reservation *Reservation // optional; consumed whatever the outcome
	Domain      string
	Work        time.Duration // how long the work may take
	KeyID       string        // optional: the API key of the request
}

// Hold is the durably reserved price of a look-up.
type Hold struct {
	ID       string
	Deadline time.Time // account.HoldGrace after the deadline of the work
}

// HoldCredits reserves the price of a look-up by an event. The hold ends by ChargeLookup, by ReleaseHold, or as
// overdue. The same request for the same domain is a repeat and returns the same hold.
//
// Errors: as ChargeLookup, and account.ErrTooManyHolds.
func (d *AccountWriter) HoldCredits(ctx context.Context, in HoldCredits) (Hold, error) {
	if err := in.Request.Validate(); err != nil {
		in.Reservation.Drop()
		return Hold{}, err
	}
	stream := account.Stream(in.AccountID)
	c := &holdCommand{work: in.Work, in: account.Hold{
		HoldID: eventschemas.EventID(stream, in.Request.ID, eventschemas.CreditsHeld{}.EventType(),
			in.Domain).String(),
		Credits: d.price, RequestID: in.Request.ID, Domain: in.Domain, KeyID: in.KeyID,
	}}
	if err := d.spend(ctx, in.AccountID, in.Request, c, &c.spending, in.Reservation); err != nil {
		return Hold{}, err
	}
	return Hold{ID: c.in.HoldID, Deadline: c.in.Deadline}, nil
}

type holdCommand struct {
	spending
	work     time.Duration
	in       account.Hold
	repeated bool
}

func (c *holdCommand) Decide(s *accountState, now time.Time) (streamwriter.Decision, error) {
	var err error
	if c.in.Deadline, err = account.HoldUntil(now, c.work); err != nil {
		return streamwriter.Decision{}, err
	}
	out, err := s.Hold(c.in, c.others(s), now)
	c.repeated = out.Repeated
	return streamwriter.Decision{Events: out.Events}, err
}

func (c *holdCommand) Applied(s *accountState) {
	if !c.repeated {
		c.take(s)
		return
	}
	if deadline, ok := s.HoldDeadline(c.in.HoldID); ok {
		c.in.Deadline = deadline
	}
}

func (c *holdCommand) Undone(s *accountState) { c.giveBack(s) }

func (c *holdCommand) Finished(a *accountActor, _ error, _ eventlog.Position) { c.end(a.State()) }

// Compensation releases the hold, since its caller will not capture it.
func (c *holdCommand) Compensation() *compensation {
	if c.repeated {
		return nil
	}
	id := c.in.HoldID
	return compensate(Request{ID: c.in.RequestID, Actor: actorAccountWriter},
		func(s *accountState, now time.Time) (account.Outcome, error) {
			return s.Release(id, now)
		})
}

// ReleaseHold is the command to release the rest of a hold.
type ReleaseHold struct {
	Request   Request
	AccountID string
	HoldID    string
}

// ReleaseHold releases the rest of a hold. A hold that has ended is a repeat. Errors:
// account.ErrUnknownHold, account.ErrInvalid, ErrInvalidRequest, and the errors of AccountWriter.
func (d *AccountWriter) ReleaseHold(ctx context.Context, in ReleaseHold) error {
	_, err := d.decide(ctx, in.Request, in.AccountID, func(s *accountState, now time.Time) (account.Outcome, error) {
		return s.Release(in.HoldID, now)
	})
	return err
}

// ReleaseUndelivered releases a hold as a compensation, for a caller who cannot wait for ReleaseHold, as
// ReverseUndelivered reverses a charge. Errors: as ReverseUndelivered.
func (d *AccountWriter) ReleaseUndelivered(in ReleaseHold) error {
	if err := in.Request.Validate(); err != nil {
		return err
	}
	return d.accounts.Compensate(in.AccountID,
		*compensate(in.Request, func(s *accountState, now time.Time) (account.Outcome, error) {
			return s.Release(in.HoldID, now)
		}))
}

// ReleaseOverdue releases the holds of an account whose deadline has passed, at most
// account.MaxReleases of them, and returns how many. Every command on the account does so as well;
// this is for unused accounts. Errors: as AccountWriter.
func (d *AccountWriter) ReleaseOverdue(ctx context.Context, accountID string) (int, error) {
	c := &overdueCommand{}
	if err := d.accounts.Do(ctx, accountID, Request{Actor: actorAccountWriter}, c); err != nil {
		return 0, err
	}
	return c.n, nil
}

// overdueCommand counts the holds that its group releases.
type overdueCommand struct {
	streamwriter.PlainCommand[*accountState]
	n int
}

func (c *overdueCommand) Decide(s *accountState, _ time.Time) (streamwriter.Decision, error) {
	if s.Status() == "" {
		return streamwriter.Decision{}, account.ErrNotFound
	}
	c.n = s.expired
	return streamwriter.Decision{Joined: s.expired > 0}, nil
}
