package keys

import (
	"context"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"letterhead/domain/plan"
	"letterhead/internal/eventlog"
	"letterhead/projections"
)

// selectLive reads a key with its account's status, the position of the live tables and the fence, in
// one statement and so from one state of the database. There is always one row; without the key its
// columns are null, and so is the fence after a crash of the server.
//
// selectAlone is for a database of this process alone, in which the engine proves the position.
const (
	selectLive = "SELECT {position}, f.epoch, f.fence" + keyColumns + `
FROM (SELECT 1 AS one) AS always
LEFT JOIN key_fence AS f ON f.one = always.one` + joinKey
	selectAlone = "SELECT 0, NULL, NULL" + keyColumns + `
FROM (SELECT 1 AS one) AS always` + joinKey

	keyColumns = `, k.id, k.account, k.kind, k.hash, k.revoked_at, a.plan, a.status, k.expires_at, k.scopes, k.origins`
	joinKey    = `
LEFT JOIN {keys} AS k ON k.hash = $1
LEFT JOIN {accounts} AS a ON a.id = k.account`
)

// recall implements Lookup in a shared database. Unknown keys are not remembered, because they may be
// issued at any time.
func (d *Directory) recall(ctx context.Context, sum hash) (Key, bool, error) {
	if k, ok := d.memory.find(sum); ok {
		d.lookups.WithLabelValues("memory").Inc()
		return k, true, nil
	}
	d.lookups.WithLabelValues("rows").Inc()
	k, found, read, err := d.read(ctx, sum)
	if found && k.AccountStatus != "" {
		d.memory.keep(sum, k, read)
	}
	return k, found, err
}

// read implements Lookup on the rows. It also returns the mark at which they were read.
func (d *Directory) read(ctx context.Context, sum hash) (k Key, found bool, read mark, err error) {
	o := d.opening.Load()
	if o == nil {
		return Key{}, false, mark{}, fmt.Errorf("%s: not opened: %w", Name, projections.ErrNotReady)
	}
	var at, epoch, fence, revoked, expires sql.NullInt64
	var id, account, kind, tier, status, scopes, origins sql.NullString
	var stored []byte
	query := selectLive
	if !d.shared {
		query = selectAlone
	}
	err = d.Handle().Read(func(q projections.Queryer, t *projections.Tables) error {
		stored = nil
		err := q.QueryRowContext(ctx, t.SQL(query), sum[:]).
			Scan(&at, &epoch, &fence, &id, &account, &kind, &stored, &revoked, &tier, &status, &expires,
				&scopes, &origins)
		if err == nil && !at.Valid {
			return projections.ErrRetired
		}
		read = mark{epoch.Int64, fence.Int64, int64(t.Generation)}
		return err
	})
	switch {
	case err != nil:
		return Key{}, false, mark{}, fmt.Errorf("look a key up: %w", err)
	case d.shared && eventlog.Position(at.Int64) < o.from:
		err := fmt.Errorf("%s: before position %d: %w", Name, o.from, projections.ErrNotReady)
		return Key{}, false, mark{}, errors.Join(err, o.follower.Await(ended, Name, o.from)) // which may know why
	case !id.Valid || subtle.ConstantTimeCompare(stored, sum[:]) != 1:
		return Key{}, false, mark{}, nil
	}
	limits := row{scopes: scopes.String, origins: origins.String}
	if expires.Valid {
		limits.expiresAt = time.UnixMicro(expires.Int64).UTC()
	}
	return Key{
		ID: id.String, AccountID: account.String, Kind: kind.String, Revoked: revoked.Valid,
		Plan: plan.ID(tier.String), AccountStatus: status.String,
		KeyTerms: limits.terms(),
	}, true, read, nil
}
