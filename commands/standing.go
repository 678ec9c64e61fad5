package commands

import (
	"context"
	"time"

	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/domain/usage"
	"letterhead/internal/eventlog"
)

// Standing is the current state of an account.
type Standing struct {
	Plan      plan.ID
	Status    string // account.Active …
	Balance   int64
	Remaining int64 // the balance, never below zero
	// Available is the amount that the next requests can spend: the balance minus holds and
	// reservations, never below zero, or the balance itself if that is negative.
	Available int64
	Month     string // the current one, YYYY-MM, UTC
	Lookups   int64  // charges minus reversals of that month
	OpenHolds int
	KeyLimits account.KeyLimits
}

// Standing returns the state of an account after every answer that was sent: by this node, and with
// Shared set by every node. Errors: as AccountWriter.
func (d *AccountWriter) Standing(ctx context.Context, accountID string) (Standing, error) {
	if err := ctx.Err(); err != nil {
		return Standing{}, err
	}
	now := d.accounts.Now()
	if !d.shared {
		var out Standing
		ready := false
		err := d.accounts.With(accountID, func(a *accountActor) {
			ready = a.State().shown.ready && a.State().shown.status != ""
			out = a.State().standing(now)
		})
		if err != nil || ready {
			return out, err
		}
	}
	c := &standingCommand{now: now, final: !d.shared}
	if err := d.accounts.Do(ctx, accountID, Request{}, c); err != nil {
		return Standing{}, err
	}
	return c.out, nil
}

// checkOpen returns account.ErrNotFound or account.ErrClosed if an account cannot be used. A decision on another stream
// of the account calls it after reading that stream: when an account is closed, its sessions are ended afterwards, so a
// decision that has not seen the closing loses the race for the stream.
func (d *AccountWriter) checkOpen(ctx context.Context, accountID string) error {
	standing, err := d.Standing(ctx, accountID)
	if err == nil && standing.Status == string(account.Closed) {
		err = account.ErrClosed
	}
	return err
}

// standing returns the published state. The lock is held.
func (s *accountState) standing(now time.Time) Standing {
	p := &s.shown
	out := Standing{
		Plan: p.plan, Status: string(p.status), Balance: p.balance, Remaining: max(p.balance, 0),
		Available: p.balance, OpenHolds: p.openHolds, Month: usage.MonthOf(now).String(), KeyLimits: p.limits,
	}
	if p.balance >= 0 {
		out.Available = max(p.balance-p.held-s.reserved, 0)
	}
	if usage.MonthOf(p.month) == usage.MonthOf(now) {
		out.Lookups = p.lookups
	}
	return out
}

type standingCommand struct {
	streamwriter.PlainCommand[*accountState]
	now   time.Time
	final bool // without reading the stream's tail
	out   Standing
}

func (c *standingCommand) Decide(s *accountState, _ time.Time) (streamwriter.Decision, error) {
	if s.Status() == "" {
		return streamwriter.Decision{}, account.ErrNotFound
	}
	return streamwriter.Decision{Final: c.final}, nil
}

// finished reads the state once all of the round is durable.
func (c *standingCommand) Finished(a *accountActor, err error, _ eventlog.Position) {
	if err == nil {
		c.out = a.State().standing(c.now)
	}
}
