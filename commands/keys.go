package commands

import (
	"context"
	"errors"
	"fmt"
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

// RevokeKey is the command to revoke a key.
type RevokeKey struct {
	Request   Request
	AccountID string
	KeyID     string
}

// RevokeKey permanently revokes a key. It takes effect where keys are looked up: wait there for the returned position.
// Errors: account.ErrUnknownKey, account.ErrInvalid, ErrInvalidRequest, and those of AccountWriter.
func (d *AccountWriter) RevokeKey(ctx context.Context, in RevokeKey) (Done, error) {
	return d.decide(ctx, in.Request, in.AccountID, func(s *accountState, _ time.Time) (account.Outcome, error) {
		return s.RevokeKey(in.KeyID)
	})
}

// LimitKey is the command to limit the credits that a key may spend.
type LimitKey struct {
	Request   Request
	AccountID string
	KeyID     string
	Limit     int64  // credits; 0 removes the limit
	Period    string // one of account.KeyPeriods
}

// LimitKey sets or removes the limit of a key, in force with the next charge. Errors: account.ErrUnknownKey,
// account.ErrClosed, account.ErrInvalid, ErrInvalidRequest, and those of AccountWriter.
func (d *AccountWriter) LimitKey(ctx context.Context, in LimitKey) (Done, error) {
	return d.decide(ctx, in.Request, in.AccountID, func(s *accountState, now time.Time) (account.Outcome, error) {
		return s.LimitKey(in.KeyID, in.Limit, in.Period, now)
	})
}

// KeyIndex finds charges by idempotency keys that an account's fold may have forgotten: the fold
// remembers account.MaxIdempotencyKeys, and a key is valid for account.IdempotencyWindow. It is
// implemented by projections/idempotency.
type KeyIndex interface {
	// ByKey returns the charges of an account under the keys of a group (account.KeyGroup), and how
	// far the index has read the account's stream.
	ByKey(ctx context.Context, accountID, keyGroup string) (account.Older, error)
}

// ErrKeysUnknown: the charges under older idempotency keys could not be looked up. Nothing was charged; retry.
var ErrKeysUnknown = errors.New("older idempotency keys cannot be looked up now")

// olderKeys asks the index for charges under an idempotency key if the account is in memory and has forgotten keys that
// are still valid, or soon will. It returns nil if the account's own memory is sufficient.
//
// Errors: ErrKeysUnknown, ErrBusy, account.ErrNotFound, ctx.Err().
func (d *AccountWriter) olderKeys(ctx context.Context, accountID, keyHash string) (*account.Older, error) {
	if keyHash == "" {
		return nil, nil
	}
	forgot := false
	err := d.accounts.With(accountID, func(a *accountActor) {
		forgot = a.State().shown.ready && d.accounts.Now().Before(a.State().shown.forgotKeysUntil)
	})
	if err != nil || !forgot {
		return nil, err
	}
	if d.keys == nil {
		return nil, fmt.Errorf("%w: this process has no index of them", ErrKeysUnknown)
	}
	older, err := d.keys.ByKey(ctx, accountID, account.KeyGroup(keyHash))
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%w: %w", ErrKeysUnknown, err)
	}
	return &older, nil
}

// keysUnknown turns the rejection of a decision without the older keys into ErrKeysUnknown: the index lags by more than
// account.MaxIdempotencyKeys charges, or the account has just forgotten its first key.
func keysUnknown(err error) error {
	if errors.Is(err, account.ErrKeysForgotten) {
		return fmt.Errorf("%w: %w", ErrKeysUnknown, err)
	}
	return err
}
