package audit

import (
	"context"
	"time"

	"letterhead/internal/accountnames"
	"letterhead/projections/keys"
)

// Key is a key of an account as pages show it.
type Key struct {
	keys.Listed
	Name  string // empty if it has none
	State string // keys.Active, keys.Expired or keys.Revoked
}

// Title is the name of the key, or else its end.
func (k Key) Title() string { return titleOfKey(k.Name, k.Last4) }

// EndedAt is when a key that is not valid was revoked, or expired.
func (k Key) EndedAt() time.Time {
	if k.State == keys.Revoked {
		return k.RevokedAt
	}
	return k.ExpiresAt
}

// titleOfKey returns the name of a key, or else its end.
func titleOfKey(name, last4 string) string {
	if name != "" {
		return name
	}
	return "…" + last4
}

// Key returns a key of an account, or nil if there is none. Errors: those of the stores.
func (a *Auditor) Key(ctx context.Context, accountID, id string) (*Key, error) {
	k, found, err := a.Keys.Get(ctx, id)
	if err != nil || !found || k.AccountID != accountID {
		return nil, err
	}
	names, err := a.Names.Names(ctx, id)
	return &Key{k, names[id], k.State(a.Now())}, err
}

// ListKeys returns the keys of an account in the order of issue. Errors: those of the stores.
func (a *Auditor) ListKeys(ctx context.Context, accountID string) ([]Key, error) {
	listed, err := a.Keys.List(ctx, accountID)
	if err != nil {
		return nil, err
	}
	names, err := accountnames.NamesOf(ctx, a.Names, listed, func(k *keys.Listed) string { return k.ID })
	if err != nil {
		return nil, err
	}
	rows := make([]Key, len(listed))
	for i, k := range listed {
		rows[i] = Key{k, names[k.ID], k.State(a.Now())}
	}
	return rows, nil
}
