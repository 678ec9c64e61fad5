package keys

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"

	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

// See fences for the purpose of the tables. key_fence has one row, and none after a crash of the server.
const (
	createFence = `
CREATE UNLOGGED TABLE IF NOT EXISTS key_fence (
	one     BIGINT  NOT NULL PRIMARY KEY,
	epoch   BIGINT  NOT NULL, -- random, never 0
	fence   BIGINT  NOT NULL,
	settled BOOLEAN NOT NULL  -- no lease of an earlier epoch lasts
)`
	createLeases = `
CREATE UNLOGGED TABLE IF NOT EXISTS key_leases (
	holder   TEXT   NOT NULL PRIMARY KEY,
	epoch    BIGINT NOT NULL, -- with seen, the fence that the holder has applied
	seen     BIGINT NOT NULL,
	number   BIGINT NOT NULL -- of the last renewal
) WITH (fillfactor = 50)`

	// beginFence begins an epoch, unless one exists.
	beginFence = `
INSERT INTO key_fence AS f (one, epoch, fence, settled) VALUES (1, $1, 0, $2)
ON CONFLICT (one) DO UPDATE SET epoch = f.epoch
RETURNING epoch`

	// raiseFence is part of a transaction that changes rows. It has no effect for tables that are not live.
	raiseFence = `
INSERT INTO key_fence AS f (one, epoch, fence, settled)
SELECT 1, $1::bigint, 0, false WHERE {position} IS NOT NULL
ON CONFLICT (one) DO UPDATE SET fence = f.fence + 1`

	// renewLease waits for transactions that raise the fence, and they wait for it: FOR SHARE reads
	// the latest committed value, even if it was committed after this statement began. Tables that the engine
	// withholds, because a row is wrong, count as none, so that no remembered key is current.
	renewLease = `
WITH now AS MATERIALIZED (
	SELECT epoch, fence FROM key_fence WHERE one = 1 FOR SHARE
), held AS (
	INSERT INTO key_leases (holder, epoch, seen, number)
	SELECT $1::text, $2::bigint, $3::bigint, $4::bigint FROM now
	ON CONFLICT (holder) DO UPDATE SET epoch = excluded.epoch, seen = excluded.seen, number = excluded.number
	RETURNING 1
)
SELECT now.epoch, now.fence, coalesce((SELECT max(generation) FROM projections_registry
	WHERE name = '` + Name + `' AND state = 'live'
	AND generation NOT IN (SELECT fold_version FROM projections_registry
		WHERE name = '` + projections.ScrubPrefix + Name + `')), 0)
FROM now, held`

	selectLeases = `
SELECT f.epoch, f.fence, f.settled, l.holder, l.epoch, l.seen, l.number
FROM key_fence AS f LEFT JOIN key_leases AS l ON true
WHERE f.one = 1`

	settleEpoch = `UPDATE key_fence SET settled = true WHERE one = 1 AND epoch = $1 RETURNING 1`

	forgetLeases = `
WITH gone AS (
	DELETE FROM key_leases AS l USING unnest($1::text[], $2::bigint[]) AS o (holder, number)
	WHERE l.holder = o.holder AND (l.number = o.number OR o.number = 0)
	RETURNING 1
)
SELECT count(*) FROM gone`
)

// database implements fences in PostgreSQL.
type database struct{ store *sqlstore.Store }

// newEpoch returns a number that differs from all earlier epochs.
func newEpoch() int64 { return 1 + rand.Int64N(1<<62) }

// setup creates the tables. No lease exists before they do.
func (d database) setup(ctx context.Context) error {
	err := d.store.Setup(ctx, func(tx *sqlstore.Tx) error {
		known, err := sqlstore.TablesWithPrefix(ctx, tx, "key_fence")
		if err != nil || len(known) > 0 {
			return err
		}
		if err := tx.Create(ctx, createFence, createLeases); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, beginFence, newEpoch(), true)
		return err
	})
	return sqlstore.Wrap(err, "create tables of key leases")
}

// begin begins the epoch after a crash.
func (d database) begin(ctx context.Context) error {
	var epoch int64
	return d.store.One(ctx, beginFence, []any{newEpoch(), false}, &epoch)
}

// raise is called in the transaction that changes rows of these tables.
func raise(ctx context.Context, tx *sqlstore.Tx, t *projections.Tables) error {
	_, err := tx.ExecContext(ctx, t.SQL(raiseFence), newEpoch())
	return err
}

func (d database) renew(ctx context.Context, holder string, done mark, number int64) (at mark, err error) {
	ask := func() error {
		return d.store.One(ctx, renewLease, []any{holder, done.epoch, done.fence, number}, &at.epoch,
			&at.fence, &at.generation)
	}
	if err = ask(); errors.Is(err, sql.ErrNoRows) {
		if err = d.begin(ctx); err == nil {
			err = ask()
		}
	}
	return at, err
}

func (d database) look(ctx context.Context) (outlook, error) {
	o, err := d.leases(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		if err = d.begin(ctx); err == nil {
			o, err = d.leases(ctx)
		}
	}
	if err != nil {
		return outlook{}, fmt.Errorf("look at key leases: %w", sqlstore.Classify(err))
	}
	return o, nil
}

func (d database) leases(ctx context.Context) (outlook, error) {
	o := outlook{leases: make(map[string]applied)}
	none := sql.ErrNoRows
	err := sqlstore.EachRow(ctx, d.store.Read(), selectLeases, func(row sqlstore.Scanner) error {
		none = nil
		var holder sql.NullString
		var epoch, seen, number sql.NullInt64
		if err := row.Scan(&o.epoch, &o.fence, &o.settled, &holder, &epoch, &seen, &number); err != nil {
			return err
		}
		if holder.Valid {
			o.leases[holder.String] = applied{epoch.Int64, seen.Int64, number.Int64}
		}
		return nil
	})
	return o, cmp.Or(err, none)
}

func (d database) settle(ctx context.Context, epoch int64) error {
	var one int64
	err := d.store.One(ctx, settleEpoch, []any{epoch}, &one)
	if errors.Is(err, sql.ErrNoRows) { // another epoch has begun
		return nil
	}
	return err
}

func (d database) forget(ctx context.Context, last map[string]int64) error {
	var holders []string
	var numbers []int64
	for holder, number := range last {
		holders, numbers = append(holders, holder), append(numbers, number)
	}
	var gone int64
	return d.store.One(ctx, forgetLeases, []any{holders, numbers}, &gone)
}
