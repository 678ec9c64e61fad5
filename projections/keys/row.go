package keys

import (
	"context"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"

	"letterhead/domain/plan"
	"letterhead/internal/eventlog"
	"letterhead/projections"
)

// selectLive is a key with its account's standing, and beside it the position of the live tables, in one
// statement and so of one state of the database. There is always one row; without the key the rest of it is
// null.
const selectLive = `
SELECT {position}, k.id, k.account, k.kind, k.hash, k.revoked_at, a.plan, a.status
FROM (SELECT 1 AS one) AS always
LEFT JOIN {keys} AS k ON k.hash = $1
LEFT JOIN {accounts} AS a ON a.id = k.account`

// read is Lookup on the rows.
func (d *Directory) read(ctx context.Context, sum hash) (k Key, found bool, err error) {
	o := d.opening.Load()
	if o == nil {
		return Key{}, false, fmt.Errorf("%s: not opened: %w", Name, projections.ErrNotReady)
	}
	var at, revoked sql.NullInt64
	var id, account, kind, tier, status sql.NullString
	var stored []byte
	err = d.handle.Read(func(q projections.Queryer, t *projections.Tables) error {
		stored = nil
		err := q.QueryRowContext(ctx, t.SQL(selectLive), sum[:]).Scan(&at, &id, &account, &kind, &stored, &revoked, &tier, &status)
		if err == nil && !at.Valid {
			return projections.ErrRetired
		}
		return err
	})
	switch {
	case err != nil:
		return Key{}, false, fmt.Errorf("look a key up: %w", err)
	case eventlog.Position(at.Int64) < o.from:
		err := fmt.Errorf("%s: before position %d: %w", Name, o.from, projections.ErrNotReady)
		return Key{}, false, errors.Join(err, o.follower.Await(ended, Name, o.from)) // which may know why
	case !id.Valid || subtle.ConstantTimeCompare(stored, sum[:]) != 1:
		return Key{}, false, nil
	}
	return Key{
		ID: id.String, AccountID: account.String, Kind: kind.String, Revoked: revoked.Valid,
		Plan: plan.ID(tier.String), AccountStatus: status.String,
	}, true, nil
}
