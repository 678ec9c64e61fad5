package commands

import (
	"context"
	"time"

	"letterhead/domain/account"
	"letterhead/internal/apikey"
)

// IssueKey is the command to make a key valid. The generator of the key shows its text to the owner;
// this command has only the part that may be stored.
type IssueKey struct {
	Request   Request
	AccountID string
	KeyID     string
	Key       apikey.Key
	Terms     account.KeyTerms
}

// IssueKey makes a key valid. The same key under the same id is a repeat. Errors: account.ErrKeyExists,
// account.ErrTooManyKeys, account.ErrClosed, account.ErrInvalid, ErrInvalidRequest, and the errors of AccountWriter.
func (d *AccountWriter) IssueKey(ctx context.Context, in IssueKey) (Done, error) {
	return d.decide(ctx, in.Request, in.AccountID, func(s *accountState, now time.Time) (account.Outcome, error) {
		return s.IssueKey(account.IssueKey{
			KeyID: in.KeyID, Hash: in.Key.HashHex(), Last4: in.Key.Last4, Kind: string(in.Key.Kind), Terms: in.Terms,
		}, now)
	})
}
