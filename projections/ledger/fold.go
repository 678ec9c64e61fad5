package ledger

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/delay"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const (
	// The tables of one version have more columns; see newFold.
	intoEntries = `{entries} (position, account_no, revision, type, at, amount, held, balance, request_id, actor, domain,
	event_id, charge_id, hold_id, payment_id, key_id, detail, hash`
	intoAccounts   = `{accounts} (no, account, balance, revision`
	upsertAccounts = `ON CONFLICT (no) DO UPDATE SET balance = excluded.balance, revision = excluded.revision`

	intoPeriods   = `{periods} (position, type, month, at)`
	deleteEntries = `DELETE FROM {entries} WHERE position >= $1`
	deletePeriods = `DELETE FROM {periods} WHERE position >= $1`

	// keptRows limits the accounts that the fold keeps between batches.
	keptRows = 200_000
)

// standing is a row of the accounts table.
type standing struct {
	no, balance int64
	revision    uint64
	keys        []byte // the first ones, packed
}

type fold struct {
	tables   *projections.Tables
	accounts *projections.Rows[string, standing]
	wide     bool
	again    bool // the next events may have rows: they were folded before, and the checkpoint did not move

	intoEntries, intoAccounts, upsert string
}

func newFold(t *projections.Tables, empty bool) projections.Fold {
	load := func(ctx context.Context, q projections.Queryer, keys []string, found func(string, standing)) error {
		return projections.LoadRows(ctx, q,
			sqlFor(t, `SELECT a.no, a.account, a.balance, a.revision, a.keys FROM {accounts} a WHERE a.account`), 1,
			projections.Texts(keys), func(row projections.Scanner) error {
				var account string
				var s standing
				if err := row.Scan(&s.no, &account, &s.balance, &s.revision, &s.keys); err != nil {
					return err
				}
				found(account, s)
				return nil
			})
	}
	f := &fold{tables: t, again: true,
		accounts:    projections.NewRows(keptRows, empty, strings.Compare, load),
		intoEntries: t.SQL(intoEntries + ")"), intoAccounts: t.SQL(intoAccounts + ", keys)"),
		upsert: upsertAccounts + ", keys = excluded.keys"}
	if f.wide = t.Version == wideVersion; f.wide {
		f.intoEntries, f.intoAccounts = t.SQL(intoEntries+", request_hash)"), t.SQL(intoAccounts+")")
		f.upsert = upsertAccounts
	}
	return f
}

// insert writes rows into the columns that into lists.
func insert(ctx context.Context, tx *sqlstore.Tx, into, conflict string, values []any) error {
	return sqlstore.Insert(ctx, tx, into, strings.Count(into, ",")+1, conflict, values)
}

// Fold implements projections.Fold.
func (f *fold) Fold(ctx context.Context, q projections.Queryer,
	events []*projections.Event) (projections.Changes, error) {
	write := f.clear(events)
	events, periods := divide(events)
	if err := f.accounts.Want(ctx, q, projections.Subjects(events)); err != nil {
		return projections.Changes{}, err
	}
	entries := make([]any, 0, len(events)*(strings.Count(f.intoEntries, ",")+1))
	for i := range delay.InTurns(len(events)) {
		e := events[i]
		d := describe(e)
		s := f.accounts.Change(e.Subject)
		if s.no == 0 {
			s.no = int64(e.Position)
		}
		s.balance += d.amount
		s.revision = e.Revision
		detail, err := d.encode()
		if err != nil {
			return projections.Changes{}, e.Errorf("encode details: %w", err)
		}
		link, err := hex.DecodeString(e.Metadata.Hash)
		if err != nil {
			return projections.Changes{}, e.Errorf("hash: %w", err)
		}
		typ := storedType(f.tables, e.Type)
		if typ == int64(0) {
			return projections.Changes{}, e.Errorf("type %s has no number", e.Type)
		}
		charge := storedID(f.tables, d.chargeID)
		if !f.wide && e.Type == types[0] && // the domain as it is read again
			d.chargeID == chargeID(e.Subject, d.requestID, sqlstore.Storable(d.domain)) {
			charge = []byte{}
		}
		key := storedKey(f.tables, d.keyID, s.keys)
		if packed, _ := key.([]byte); len(packed) == uuidBytes && len(s.keys) < maxKeys*uuidBytes {
			s.keys = append(s.keys, packed...)
			key = storedKey(f.tables, d.keyID, s.keys)
		}
		entries = append(entries, int64(e.Position), s.no, int64(e.Revision), typ, e.OccurredAt.UnixMicro(),
			d.amount, d.held, s.balance, storedRequest(f.tables, d.requestID), actor(e), d.domain, e.ID[:], charge,
			storedID(f.tables, d.holdID), storedID(f.tables, d.paymentID), key, text(detail), link)
		if f.wide {
			entries = append(entries, hash(d.requestID))
		}
	}
	write = projections.Writing(write, func(ctx context.Context, tx *sqlstore.Tx) error {
		if err := insert(ctx, tx, f.intoEntries, "", entries); err != nil || len(periods) == 0 {
			return err
		}
		return insert(ctx, tx, f.tables.SQL(intoPeriods), "", periods)
	})
	if !f.tables.Shared && f.tables.Keep(f.accounts.Changed()) {
		f.accounts.Hold()
		return projections.Changes{Write: write}, nil
	}
	accounts := make([]any, 0, f.accounts.Changed()*(strings.Count(f.intoAccounts, ",")+1))
	f.accounts.Take(func(account string, s *standing) {
		accounts = append(accounts, s.no, account, s.balance, int64(s.revision))
		if !f.wide {
			accounts = append(accounts, s.keys)
		}
	})
	return projections.Changes{Write: projections.Writing(write, func(ctx context.Context, tx *sqlstore.Tx) error {
		return insert(ctx, tx, f.intoAccounts, f.upsert, accounts)
	})}, nil
}

// clear returns the function that deletes the rows of events which are folded again: entries are written with their
// batch, even if the accounts are held and the checkpoint does not move.
func (f *fold) clear(events []*projections.Event) func(ctx context.Context, tx *sqlstore.Tx) error {
	if !f.again || len(events) == 0 {
		return func(context.Context, *sqlstore.Tx) error { return nil }
	}
	f.again = false
	first := int64(events[0].Position)
	return func(ctx context.Context, tx *sqlstore.Tx) error {
		for _, statement := range []string{deleteEntries, deletePeriods} {
			if _, err := tx.ExecContext(ctx, f.tables.SQL(statement), first); err != nil {
				return fmt.Errorf("delete rows that are ahead of the checkpoint: %w", err)
			}
		}
		return nil
	}
}

// divide returns the events of accounts, and the rows of the ends and closings of months.
func divide(events []*projections.Event) (ofAccounts []*projections.Event, periods []any) {
	add := func(e *projections.Event, month string) {
		periods = append(periods, int64(e.Position), e.Type, month, e.OccurredAt.UnixMicro())
	}
	for _, e := range events {
		switch ev := e.Body.(type) {
		case eventschemas.PeriodEnded:
			add(e, ev.Month)
		case eventschemas.PeriodClosed:
			add(e, ev.Month)
		}
	}
	if len(periods) == 0 {
		return events, nil
	}
	return slices.DeleteFunc(slices.Clone(events), func(e *projections.Event) bool {
		return e.Prefix == eventschemas.BooksStream
	}), periods
}

// Reset implements projections.Fold.
func (f *fold) Reset() {
	f.accounts.Reset()
	f.again = true
}

// actor returns nil, which is NULL, for the account itself.
func actor(e *projections.Event) any {
	if id, ok := strings.CutPrefix(e.Metadata.Actor, actorPrefix); ok && id == e.Subject {
		return nil
	}
	return e.Metadata.Actor
}

// text returns nil, which is NULL, for an id that the event does not have.
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// described are the fields that an entry takes from its event's body.
type described struct {
	amount, held                int64
	requestID, domain           string
	chargeID, holdID, paymentID string
	keyID                       string
	Details
}

// encode returns the details as JSON, empty if there are none.
func (d *described) encode() (string, error) {
	if d.Details == (Details{}) {
		return "", nil
	}
	data, err := json.Marshal(d.Details)
	return string(data), err
}

func describe(e *projections.Event) described {
	d := described{requestID: e.Metadata.RequestID, amount: account.Delta(e.Body)}
	switch ev := e.Body.(type) {
	case eventschemas.CreditsGranted:
		d.paymentID, d.Kind, d.Reason = ev.PaymentID, ev.Kind, ev.Reason
		if ev.Money != nil {
			d.Money, d.Currency, d.Tax = ev.Money.Minor, ev.Money.Currency, ev.Tax
		}
	case eventschemas.CreditsHeld:
		d.held, d.holdID, d.domain = ev.Credits, ev.HoldID, ev.Domain
		d.requestID = cmp.Or(ev.RequestID, d.requestID)
	case eventschemas.CreditsCharged:
		d.chargeID, d.holdID, d.domain = ev.ChargeID, ev.HoldID, ev.Domain
		d.keyID = ev.KeyID
		d.requestID = cmp.Or(ev.RequestID, d.requestID)
	case eventschemas.HoldReleased:
		d.held, d.holdID = -ev.Credits, ev.HoldID
	case eventschemas.ChargeReversed:
		d.chargeID, d.Reason, d.Note = ev.ChargeID, ev.Reason, ev.Note
		d.requestID = cmp.Or(ev.RequestID, d.requestID)
	case eventschemas.ChargeKept:
		d.chargeID = ev.ChargeID
		d.requestID = cmp.Or(ev.RequestID, d.requestID)
	case eventschemas.PaymentRefunded:
		d.paymentID, d.RefundID = ev.PaymentID, ev.RefundID
		if ev.Money != nil {
			d.Money, d.Currency = -ev.Money.Minor, ev.Money.Currency
		}
	case eventschemas.PaymentFeeRecorded:
		d.paymentID, d.FeeID, d.Money, d.Currency = ev.PaymentID, ev.FeeID, -ev.Money.Minor, ev.Money.Currency
	case eventschemas.BreakageRecognized:
		d.Reason = ev.Policy
	case eventschemas.RefundReversed:
		d.paymentID, d.RefundID = ev.PaymentID, ev.RefundID
		if ev.Money != nil {
			d.Money, d.Currency = ev.Money.Minor, ev.Money.Currency
		}
	case eventschemas.KeyIssued:
		d.keyID, d.Kind = ev.KeyID, ev.Kind
	case eventschemas.KeyRevoked:
		d.keyID = ev.KeyID
	case eventschemas.KeyLimitSet:
		d.keyID, d.KeyLimit, d.Kind = ev.KeyID, ev.Limit, ev.Period
	case eventschemas.AccountOpened:
		d.Plan = ev.Plan
	case eventschemas.PlanChanged:
		d.Plan = ev.To
	case eventschemas.AccountNoted:
		d.Note = ev.Text
	case eventschemas.AccountSuspended:
		d.Reason = ev.Reason
	case eventschemas.AccountClosed:
		d.Reason = ev.Reason
	}
	return d
}
