// Package idempotency is the read model of the charges of the last day with an Idempotency-Key. An
// account's fold remembers a limited number of keys; the other keys of a busy day are found here.
package idempotency

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const (
	// Name of the read model.
	Name    = "idempotency"
	version = 1
)

// A key's hash is stored in two halves: the family, which all items of one key share, and the item.
//
// at is microseconds since 1970. The latest charge of a key and item replaces an earlier one, which is
// a day old or was reversed.
const (
	createCharges = `
CREATE TABLE {charges} (
	account         TEXT   NOT NULL,
	family          TEXT   NOT NULL,
	item            TEXT   NOT NULL,
	revision        BIGINT NOT NULL,
	at              BIGINT NOT NULL,
	request_hash    TEXT   NOT NULL,
	charge_id       TEXT   NOT NULL,
	credits         BIGINT NOT NULL,
	brand_id        TEXT   NOT NULL,
	domain          TEXT   NOT NULL,
	record_revision BIGINT NOT NULL,
	PRIMARY KEY (account, family, item)
)`
	indexRevision = `CREATE INDEX IF NOT EXISTS {charges}_by_revision ON {charges} (account, revision)`
	indexTime     = `CREATE INDEX IF NOT EXISTS {charges}_by_time ON {charges} (at)`

	into    = `{charges} (account, family, item, revision, at, request_hash, charge_id, credits, brand_id, domain, record_revision)`
	columns = 11
	upsert  = `ON CONFLICT (account, family, item) DO UPDATE SET
	revision = excluded.revision, at = excluded.at, request_hash = excluded.request_hash, charge_id = excluded.charge_id,
	credits = excluded.credits, brand_id = excluded.brand_id, domain = excluded.domain, record_revision = excluded.record_revision`

	// The latest charge, not a clock, decides what is too old, so that a replay gives the same rows.
	// $1 is the window in microseconds.
	deleteOld = `DELETE FROM {charges} WHERE at <= (SELECT max(at) FROM {charges}) - $1`

	selectThrough = `SELECT max(revision) FROM {charges} WHERE account = $1`
	selectCharges = `SELECT item, revision, at, request_hash, charge_id, credits, brand_id, domain, record_revision
FROM {charges} WHERE account = $1 AND family = $2 ORDER BY revision`
)

// Model is the read model.
type Model struct{ handle *projections.Handle }

// New returns the read model; it answers once a Runner has started it.
func New(store *sqlstore.Store) *Model {
	return &Model{handle: projections.NewHandle(Name, store)}
}

// Name implements projections.Projection.
func (m *Model) Name() string { return Name }

// Handle implements projections.Projection.
func (m *Model) Handle() *projections.Handle { return m.handle }

// Versions implements projections.Projection.
func (m *Model) Versions() []projections.Version {
	return []projections.Version{{
		Number:     version,
		Categories: projections.Accounts,
		Tables: []projections.Table{{
			Name: "charges", Create: createCharges, Indexes: []string{indexRevision, indexTime}, Key: []string{"account", "family", "item"},
		}},
		NewFold: func(t *projections.Tables, _ bool) projections.Fold { return &fold{tables: t} },
	}}
}

// ByKey returns the charges of an account under an idempotency key, identified by its family, in the
// order of the stream, and how far the account's stream is known here. Reversed charges are included,
// so there may be more than account.MaxKeyItems.
//
// Errors: projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) ByKey(ctx context.Context, accountID, family string) (account.Older, error) {
	var found account.Older
	err := m.handle.Read(func(q projections.Queryer, t *projections.Tables) error {
		found = account.Older{} // drops the result of an earlier attempt
		// The position is read before the charges: rows that are added in between do no harm.
		var last sql.NullInt64
		if err := q.QueryRowContext(ctx, t.SQL(selectThrough), accountID).Scan(&last); err != nil {
			return err
		}
		if !last.Valid {
			return nil
		}
		found.Through = uint64(last.Int64) + 1
		rows, err := q.QueryContext(ctx, t.SQL(selectCharges), accountID, family)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var c account.OlderCharge
			var at int64
			err := rows.Scan(&c.KeyHash, &c.Revision, &at, &c.RequestHash, &c.ChargeID, &c.Credits, &c.BrandID, &c.Domain, &c.RecordRevision)
			if err != nil {
				return err
			}
			c.KeyHash, c.At = family+c.KeyHash, time.UnixMicro(at).UTC()
			found.Charges = append(found.Charges, c)
		}
		return rows.Err()
	})
	if err != nil {
		return account.Older{}, fmt.Errorf("charges of account %s under an idempotency key: %w", accountID, err)
	}
	return found, nil
}

type fold struct{ tables *projections.Tables }

// key is a row's primary key.
type key struct{ account, hash string }

// Fold implements projections.Fold.
func (f *fold) Fold(_ context.Context, _ projections.Queryer, events []*projections.Event) (projections.Changes, error) {
	var order []key
	latest := map[key]*projections.Event{}
	for _, e := range events {
		ev, ok := e.Body.(eventschemas.CreditsCharged)
		if !ok || ev.IdempotencyKeyHash == "" {
			continue
		}
		k := key{e.Subject, ev.IdempotencyKeyHash}
		if _, again := latest[k]; !again {
			order = append(order, k)
		}
		latest[k] = e
	}
	if len(order) == 0 {
		return projections.Changes{}, nil
	}
	values := make([]any, 0, len(order)*columns)
	for _, k := range order {
		e := latest[k]
		ev := e.Body.(eventschemas.CreditsCharged)
		family := account.KeyGroup(k.hash)
		values = append(values, k.account, family, k.hash[len(family):], int64(e.Revision), e.OccurredAt.UnixMicro(),
			ev.RequestHash, ev.ChargeID, ev.Credits, ev.BrandID, ev.Domain, int64(ev.RecordRevision))
	}
	return projections.Changes{Write: func(ctx context.Context, tx *sqlstore.Tx) error {
		if err := sqlstore.Insert(ctx, tx, f.tables.SQL(into), columns, upsert, values); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, f.tables.SQL(deleteOld), account.IdempotencyWindow.Microseconds()); err != nil {
			return fmt.Errorf("delete charges under old idempotency keys: %w", err)
		}
		return nil
	}}, nil
}

// Reset implements projections.Fold; nothing is kept between batches.
func (f *fold) Reset() {}
