package commands

import (
	"context"
	"errors"
	"fmt"
	"time"

	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// OpenAccount is the command to open an account.
type OpenAccount struct {
	Request   Request
	AccountID string // a new UUID, lower case
	Holder    string // opaque id of the holder's personal data
	Plan      plan.ID
}

// OpenAccount opens an account and grants plan.FreeCredits, in one append. Opening it again for the same holder is a
// repeat. Errors: account.ErrExists, account.ErrInvalid, ErrInvalidRequest, and the errors of AccountWriter.
func (d *AccountWriter) OpenAccount(ctx context.Context, in OpenAccount) (Done, error) {
	return d.decide(ctx, in.Request, in.AccountID, func(s *accountState, _ time.Time) (account.Outcome, error) {
		return s.Open(account.Open{Holder: in.Holder, Plan: in.Plan, Free: plan.FreeCredits})
	})
}

// bulkAccounts describes the streams of accounts.
var bulkAccounts = accountStreams(false)

// ProposeAccountEvent returns the event that was last applied to an account as the account writer appends it, and sets
// the head of the account's hash chain. It serves generated histories, which are imported in bulk.
func ProposeAccountEvent(a *account.Account, ev eventschemas.Event, request Request,
	at time.Time) (eventlog.Proposed, error) {
	stream := account.Stream(a.ID())
	p, err := bulkAccounts.Propose(eventschemas.Encoder{}, stream, ev, request, at)
	if err != nil {
		return eventlog.Proposed{}, err
	}
	a.Link(Chain.Link(a.Head(), stream, a.Revisions()-1, &p))
	return p, nil
}

// NoteAccount is the command to add a note of an operator to an account.
type NoteAccount struct {
	Request   Request
	AccountID string
	Text      string // at most account.MaxNoteBytes; kept forever
}

// Note adds a note to an account. A note that the same request has added is a repeat. Errors: account.ErrInvalid,
// account.ErrNotFound, ErrInvalidRequest, eventschemas.ErrNotYet, and the errors of AccountWriter.
func (d *AccountWriter) Note(ctx context.Context, in NoteAccount) (Done, error) {
	done, err := d.decide(ctx, in.Request, in.AccountID, func(s *accountState, _ time.Time) (account.Outcome, error) {
		return s.Note(in.Request.ID, in.Text)
	})
	if invalid, ok := errors.AsType[*account.InvalidError](err); ok && invalid.Field == "text" && invalid.Unwrap() == nil {
		err = &FieldError{"text", fmt.Sprintf("takes 1 to %d bytes of text. Events keep it forever: name no person",
			account.MaxNoteBytes)}
	}
	return done, err
}

// SuspendAccount is the command to stop an account's spending.
type SuspendAccount struct {
	Request   Request
	AccountID string
	Reason    string
}

// Suspend blocks all new spending of an account; holds whose work was accepted before may still be
// captured. Errors: account.ErrClosed, account.ErrInvalid, ErrInvalidRequest, and the errors of AccountWriter.
func (d *AccountWriter) Suspend(ctx context.Context, in SuspendAccount) (Done, error) {
	if err := checkReason(in.Reason); err != nil {
		return Done{}, err
	}
	return d.decide(ctx, in.Request, in.AccountID, func(s *accountState, _ time.Time) (account.Outcome, error) {
		return s.Suspend(in.Reason)
	})
}

// ReinstateAccount is the command to end a suspension.
type ReinstateAccount struct {
	Request   Request
	AccountID string
}

// Reinstate ends a suspension. Errors: account.ErrClosed, ErrInvalidRequest, and the errors of AccountWriter.
func (d *AccountWriter) Reinstate(ctx context.Context, in ReinstateAccount) (Done, error) {
	return d.decide(ctx, in.Request, in.AccountID, func(s *accountState, _ time.Time) (account.Outcome, error) {
		return s.Reinstate()
	})
}

// ChangePlan is the command to move an account to another plan.
type ChangePlan struct {
	Request   Request
	AccountID string
	Plan      plan.ID
}

// ChangePlan moves an account to another plan immediately; its credits are kept. Errors:
// account.ErrClosed, account.ErrInvalid, ErrInvalidRequest, and the errors of AccountWriter.
func (d *AccountWriter) ChangePlan(ctx context.Context, in ChangePlan) (Done, error) {
	return d.decide(ctx, in.Request, in.AccountID, func(s *accountState, _ time.Time) (account.Outcome, error) {
		return s.ChangePlan(in.Plan)
	})
}

// CloseAccount is the command to close an account.
type CloseAccount struct {
	Request   Request
	AccountID string
	Reason    string
}

// Close permanently closes an account and ends its open holds. Errors: account.ErrInvalid,
// ErrInvalidRequest, and the errors of AccountWriter.
func (d *AccountWriter) Close(ctx context.Context, in CloseAccount) (Done, error) {
	return d.decide(ctx, in.Request, in.AccountID, func(s *accountState, _ time.Time) (account.Outcome, error) {
		return s.Close(in.Reason)
	})
}
