package commands

import (
	"context"
	"errors"
	"fmt"

	"letterhead/domain/account"
)

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
