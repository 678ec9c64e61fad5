package commands

import (
	"context"
	"time"

	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
)

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
	err := d.accounts.Do(ctx, accountID, Request{Actor: actorAccountWriter}, c)
	return c.released(err), err
}

// overdueCommand counts the holds that its group releases.
type overdueCommand struct {
	streamwriter.PlainCommand[*accountState]
	n int
}

func (c *overdueCommand) released(err error) int {
	if err != nil {
		return 0
	}
	return c.n
}

func (c *overdueCommand) Decide(s *accountState, _ time.Time) (streamwriter.Decision, error) {
	if s.Status() == "" {
		return streamwriter.Decision{}, account.ErrNotFound
	}
	c.n = s.expired
	return streamwriter.Decision{Joined: s.expired > 0}, nil
}
