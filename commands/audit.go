package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
)

// AuditError is one inconsistency of an account.
type AuditError struct {
	AccountID string `json:"account"`
	Revision  uint64 `json:"revision"` // of the event at which it was found
	Problem   string `json:"problem"`
}

func (e *AuditError) Error() string {
	return fmt.Sprintf("account %s at revision %d: %s", e.AccountID, e.Revision, e.Problem)
}

// Claim is a statement, stored outside the log, about an account as of a revision.
type Claim struct {
	Source   string // what the account's stream is compared with: "its snapshot"
	Revision uint64 // of the last event in it
	// Differs describes how the account, folded up to Revision, differs; it returns "" if it does not.
	Differs func(a *account.Account) string
}

// SnapshotClaims returns the claims of an account's snapshots. streamwriter.Snapshots of the previous release are
// only checked for damage, because this release folds differently.
//
// Errors: *AuditError for a damaged snapshot, along with the other claims; the errors of streamwriter.Snapshots.Load.
func SnapshotClaims(ctx context.Context, snapshots streamwriter.Snapshots,
	accountID string) (claims []Claim, err error) {
	for version := account.OldestFoldVersion; version <= account.FoldVersion; version++ {
		revision, state, found, loadErr := snapshots.Load(ctx, account.Stream(accountID), version)
		switch {
		case errors.Is(loadErr, sqlstore.ErrSnapshotDamaged):
			err = errors.Join(err, &AuditError{AccountID: accountID, Problem: loadErr.Error()})
		case loadErr != nil:
			return nil, loadErr
		case found && version == account.FoldVersion:
			claims = append(claims, Claim{Source: "its snapshot", Revision: revision, Differs: differsFrom(state)})
		}
	}
	return claims, err
}

// differsFrom compares an account with a snapshot of it.
func differsFrom(state []byte) func(a *account.Account) string {
	return func(a *account.Account) string {
		folded, err := a.MarshalBinary()
		if err != nil {
			return err.Error()
		}
		if bytes.Equal(folded, state) {
			return ""
		}
		claimed := account.New(a.ID())
		if err := claimed.UnmarshalBinary(state); err != nil {
			return err.Error()
		}
		if claimed.Balance() != a.Balance() {
			return fmt.Sprintf("balance is %d, but the events add up to %d", claimed.Balance(), a.Balance())
		}
		return "it differs from a fold of the events"
	}
}

// AuditAccount folds an account's stream from its first event. It checks every link of the hash chain,
// that only refunds take the balance below zero, and each claim at its revision. progress, which may
// be nil, is called with the number of events of each page.
//
// It returns the number of valid events and all inconsistencies: *AuditError, *streamwriter.ChainError, and errors of
// reading or decoding the stream. The errors of ctx and eventlog.ErrUnavailable end the audit and are in err.
func AuditAccount(ctx context.Context, log eventlog.Log, accountID string, claims []Claim,
	progress func(events int)) (events uint64, wrong []error, err error) {
	a := account.New(accountID)
	complain := func(revision uint64, problem string) {
		wrong = append(wrong, &AuditError{AccountID: accountID, Revision: revision, Problem: problem})
	}
	err = Chain.Read(ctx, log, account.Stream(accountID), func(rec *eventlog.Recorded, head eventschemas.Hash) error {
		ev, err := eventschemas.Decode(rec.Type, rec.SchemaVersion, rec.Data)
		if err != nil {
			return fmt.Errorf("revision %d of %s: %w", rec.Revision, rec.Stream, err)
		}
		before := a.Balance()
		a.Apply(ev, rec.OccurredAt)
		a.Link(head)
		events++
		if Overdraws(ev, before, a.Balance()) {
			complain(rec.Revision,
				fmt.Sprintf("%s takes the balance to %d, which only a refund may", rec.Type, a.Balance()))
		}
		for _, c := range claims {
			if c.Revision != rec.Revision {
				continue
			}
			if how := c.Differs(a); how != "" {
				complain(rec.Revision, c.Source+": "+how)
			}
		}
		return nil
	}, progress)
	if ctx.Err() != nil {
		return events, wrong, ctx.Err()
	}
	if errors.Is(err, eventlog.ErrUnavailable) || errors.Is(err, eventlog.ErrClosed) {
		return events, wrong, err
	}
	if err != nil {
		return events, append(wrong, err), nil // later claims cannot be compared
	}
	for _, c := range claims {
		if c.Revision >= events {
			complain(c.Revision, fmt.Sprintf("%s is past the stream's end, which has %d events", c.Source, events))
		}
	}
	return events, wrong, nil
}

// Overdraws reports whether an event takes the balance from before to after, below zero, as only a refund may.
func Overdraws(ev eventschemas.Event, before, after int64) bool {
	_, refund := ev.(eventschemas.PaymentRefunded)
	return after < 0 && after < before && !refund
}

// LongStream is the number of events from which a stream should have a snapshot before it is served:
// folding as many takes some tenths of a second.
const LongStream = 1 << 16

// LeaveSnapshot folds an account's stream and saves its snapshot, so that the account is served without delay although
// its stream is long. Errors: as AuditAccount finds them, and the errors of streamwriter.Snapshots.Save.
func LeaveSnapshot(ctx context.Context, log eventlog.Log, snapshots streamwriter.Snapshots, accountID string,
	progress func(events int)) error {
	a := account.New(accountID)
	err := Chain.Read(ctx, log, account.Stream(accountID), func(rec *eventlog.Recorded, head eventschemas.Hash) error {
		ev, err := eventschemas.Decode(rec.Type, rec.SchemaVersion, rec.Data)
		if err != nil {
			return fmt.Errorf("revision %d of %s: %w", rec.Revision, rec.Stream, err)
		}
		a.Apply(ev, rec.OccurredAt)
		a.Link(head)
		return nil
	}, progress)
	if err != nil || a.Revisions() == 0 {
		return err
	}
	state, err := a.MarshalBinary()
	if err != nil {
		return fmt.Errorf("leave a snapshot of account %s: %w", accountID, err)
	}
	return snapshots.Save(ctx, account.Stream(accountID), account.FoldVersion, a.Revisions()-1, state)
}
