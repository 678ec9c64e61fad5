// Package idempotency is the read model of the charges of the last day with an Idempotency-Key. An
// account's fold remembers a limited number of keys; the other keys of a busy day are found here.
package idempotency

import (
	"cmp"
	"context"
	"database/sql"
	"strings"
	"time"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const (
	// Name of the read model.
	Name = "idempotency"
	// keptRows limits the rows that the fold keeps between batches. It never reads one again.
	keptRows = 1

	// The latest charge, not a clock, decides what is too old, so that a replay gives the same rows.
	// $1 is the window in microseconds.
	deleteOld = `DELETE FROM {charges} WHERE at <= (SELECT max(at) FROM {charges}) - $1`

	selectThrough = `SELECT max(revision) FROM {charges} WHERE account = $1`
)

// key is the primary key. A key's hash is stored in two halves: the family, which all items of one key share, and the
// item.
type key struct{ account, family, item string }

func compare(a, b key) int {
	return cmp.Or(strings.Compare(a.account, b.account), strings.Compare(a.family, b.family),
		strings.Compare(a.item, b.item))
}

// The latest charge of a key and item replaces an earlier one, which is a day old or was reversed.
var table = projections.Keyed[key, account.KeyedCharge]{
	Name: "charges",
	Key: []projections.Column[key]{
		projections.Text("account", func(k *key) *string { return &k.account }),
		projections.Text("family", func(k *key) *string { return &k.family }),
		projections.Text("item", func(k *key) *string { return &k.item }),
	},
	Columns: []projections.Column[account.KeyedCharge]{
		projections.Number("revision", func(c *account.KeyedCharge) *uint64 { return &c.Revision }),
		projections.Time("at", func(c *account.KeyedCharge) *time.Time { return &c.At }),
		projections.Text("request_hash", func(c *account.KeyedCharge) *string { return &c.RequestHash }),
		projections.Text("charge_id", func(c *account.KeyedCharge) *string { return &c.ChargeID }),
		projections.Number("credits", func(c *account.KeyedCharge) *int64 { return &c.Credits }),
		projections.Text("brand_id", func(c *account.KeyedCharge) *string { return &c.BrandID }),
		projections.Text("domain", func(c *account.KeyedCharge) *string { return &c.Domain }),
		projections.Number("record_revision", func(c *account.KeyedCharge) *uint64 { return &c.RecordRevision }),
	},
	Indexes: []projections.Index{{Name: "by_revision", On: "(account, revision)"}, {Name: "by_time", On: "(at)"}},
	Compare: compare,
	Found:   func(k key, c *account.KeyedCharge) { c.KeyHash = k.family + k.item },
}

// Model is the read model.
type Model struct{ projections.Model }

// New returns the read model; it answers once a Runner has started it.
func New(store *sqlstore.Store) *Model {
	return &Model{projections.NewModel(Name, store, projections.Version{
		Number:  1,
		Streams: []string{account.StreamPrefix},
		Tables:  []projections.Table{table.Table()},
		NewFold: newFold,
	})}
}

// ByKey returns the charges of an account under an idempotency key, identified by its family, in the
// order of the stream, and how far the account's stream is known here. Reversed charges are included,
// so there may be more than account.MaxKeyItems.
//
// Errors: projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) ByKey(ctx context.Context, accountID, family string) (account.Older, error) {
	var found account.Older
	err := m.Handle().Read(func(q projections.Queryer, t *projections.Tables) error {
		found = account.Older{} // drops the result of an earlier attempt
		// The position is read before the charges: rows that are added in between do no harm.
		var last sql.NullInt64
		if err := q.QueryRowContext(ctx, t.SQL(selectThrough), accountID).Scan(&last); err != nil || !last.Valid {
			return err
		}
		found.Through = uint64(last.Int64) + 1
		return table.Each(ctx, q, t, func(_ key, c account.KeyedCharge) { found.Charges = append(found.Charges, c) },
			"WHERE account = $1 AND family = $2 ORDER BY revision", accountID, family)
	})
	return found, sqlstore.Wrap(err, "charges of account %s under an idempotency key", accountID)
}

type fold struct {
	tables *projections.Tables
	rows   *projections.Rows[key, account.KeyedCharge]
}

func newFold(t *projections.Tables, empty bool) projections.Fold {
	return &fold{t, table.Rows(t, keptRows, empty)}
}

// Fold implements projections.Fold.
func (f *fold) Fold(_ context.Context, _ projections.Queryer,
	events []*projections.Event) (projections.Changes, error) {
	var newest time.Time
	for _, e := range events {
		if _, ok := keyed(e); ok && e.OccurredAt.After(newest) {
			newest = e.OccurredAt
		}
	}
	for _, e := range events {
		ev, ok := keyed(e)
		if !ok || newest.Sub(e.OccurredAt) >= account.IdempotencyWindow {
			continue // deleteOld would delete it; what it replaces is older
		}
		family := account.KeyGroup(ev.IdempotencyKeyHash)
		*f.rows.Change(key{e.Subject, family, ev.IdempotencyKeyHash[len(family):]}) = account.KeyedCharge{
			ChargeFact: account.ChargeFact{
				Revision: e.Revision, At: e.OccurredAt, ChargeID: ev.ChargeID, Credits: ev.Credits,
				BrandID: ev.BrandID, Domain: ev.Domain, RecordRevision: ev.RecordRevision,
			},
			RequestHash: ev.RequestHash,
		}
	}
	if f.rows.Changed() == 0 {
		return projections.Changes{}, nil
	}
	if f.tables.Keep(f.rows.Changed()) {
		f.rows.Hold()
		return projections.Changes{}, nil
	}
	return projections.Changes{Write: projections.Writing(table.Take(f.tables, f.rows, nil), f.deleteOld)}, nil
}

// keyed returns the charge of an event, and reports whether the event is one with a key.
func keyed(e *projections.Event) (eventschemas.CreditsCharged, bool) {
	charge, ok := e.Body.(eventschemas.CreditsCharged)
	return charge, ok && charge.IdempotencyKeyHash != ""
}

func (f *fold) deleteOld(ctx context.Context, tx *sqlstore.Tx) error {
	_, err := tx.ExecContext(ctx, f.tables.SQL(deleteOld), account.IdempotencyWindow.Microseconds())
	return sqlstore.Wrap(err, "delete charges under old idempotency keys")
}

// Reset implements projections.Fold.
func (f *fold) Reset() { f.rows.Reset() }
