// Package notices is the read model of notices: the settings of each account, and the deliveries of its notices. Its fold
// raises them (see domain/notices). A notice has an id that follows from the event that raised it, so a rebuild finds the
// same notices.
package notices

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"letterhead/domain/notices"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const (
	// Name of the read model.
	Name    = "notices"
	version = 2

	// MaxPage limits the deliveries that Due and Latest return.
	MaxPage = 1000
	// keptRows limits the rows of each table, of about 200 bytes each, that the fold keeps between batches.
	keptRows = 50_000
)

// Times are microseconds since 1970; 0 is none.
const (
	createWatches = `
CREATE TABLE {watches} (
	account     TEXT   NOT NULL PRIMARY KEY,
	balance     BIGINT NOT NULL,
	closed      BIGINT NOT NULL,
	low_balance BIGINT NOT NULL,
	webhook     BIGINT NOT NULL,
	email       BIGINT NOT NULL,
	armed       BIGINT NOT NULL,
	last        TEXT   NOT NULL,
	events      BIGINT NOT NULL
)`
	createDeliveries = `
CREATE TABLE {deliveries} (
	account     TEXT   NOT NULL,
	notice      TEXT   NOT NULL,
	destination TEXT   NOT NULL,
	kind        TEXT   NOT NULL,
	raised_at   BIGINT NOT NULL,
	balance     BIGINT NOT NULL,
	threshold   BIGINT NOT NULL,
	payment     TEXT   NOT NULL,
	attempt     BIGINT NOT NULL,
	failed_at   BIGINT NOT NULL,
	money       BIGINT NOT NULL,
	currency    TEXT   NOT NULL,
	state       TEXT   NOT NULL,
	attempts    BIGINT NOT NULL,
	next_at     BIGINT NOT NULL,
	reason      TEXT   NOT NULL,
	PRIMARY KEY (account, notice, destination)
)`
	createFailed = `
CREATE TABLE {failed} (
	account TEXT NOT NULL,
	payment TEXT NOT NULL,
	notice  TEXT NOT NULL,
	PRIMARY KEY (account, payment)
)`
	indexDue    = `CREATE INDEX IF NOT EXISTS {deliveries}_by_state ON {deliveries} (state, next_at)`
	indexLatest = `CREATE INDEX IF NOT EXISTS {deliveries}_by_time ON {deliveries} (account, raised_at)`
)

// watch is the row of an account.
type watch struct {
	notices.Watch
	last   string // id of the last notice of a low balance, until it is of no use any more
	events uint64 // of the account's stream of notices
}

var watches = projections.Keyed[string, watch]{
	Table:     projections.Table{Name: "watches", Create: createWatches, Key: []string{"account"}},
	Columns:   []string{"balance", "closed", "low_balance", "webhook", "email", "armed", "last", "events"},
	Compare:   strings.Compare,
	AppendKey: projections.AppendText,
	AppendRow: func(values []any, w *watch) []any {
		return append(values, w.Balance, number(w.Closed), w.Settings.LowBalance, number(w.Settings.Webhook), number(w.Settings.Email), number(w.Armed), w.last, int64(w.events))
	},
	Scan: func(row projections.Scanner, id *string, w *watch) error {
		var closed, webhook, email, armed int64
		err := row.Scan(id, &w.Balance, &closed, &w.Settings.LowBalance, &webhook, &email, &armed, &w.last, &w.events)
		w.Closed, w.Settings.Webhook, w.Settings.Email, w.Armed = closed != 0, webhook != 0, email != 0, armed != 0
		return err
	},
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// key is the primary key of a delivery.
type key struct{ account, notice, destination string }

// delivery is a row. Its kind is empty until the event that raised the notice is folded.
type delivery struct {
	notices.Delivery
	account string
}

var deliveries = projections.Keyed[key, delivery]{
	Table:   projections.Table{Name: "deliveries", Create: createDeliveries, Indexes: []string{indexDue, indexLatest}, Key: []string{"account", "notice", "destination"}},
	Columns: []string{"kind", "raised_at", "balance", "threshold", "payment", "attempt", "failed_at", "money", "currency", "state", "attempts", "next_at", "reason"},
	Compare: func(a, b key) int {
		return cmp.Or(strings.Compare(a.account, b.account), strings.Compare(a.notice, b.notice), strings.Compare(a.destination, b.destination))
	},
	AppendKey: func(values []any, k key) []any { return append(values, k.account, k.notice, k.destination) },
	AppendRow: func(values []any, d *delivery) []any {
		next := int64(0)
		if !d.NextAt.IsZero() {
			next = d.NextAt.UnixMicro()
		}
		var payment notices.Payment
		var failedAt int64
		var money eventschemas.Money
		if d.Payment != nil {
			payment, failedAt = *d.Payment, d.Payment.FailedAt.UnixMicro()
		}
		if payment.Money != nil {
			money = *payment.Money
		}
		return append(values, d.Kind, d.RaisedAt.UnixMicro(), d.Balance, d.Threshold, payment.ID, payment.Attempt, failedAt, money.Minor, money.Currency, d.State, d.Attempts, next, d.Reason)
	},
	Scan: func(row projections.Scanner, k *key, d *delivery) error {
		var raised, next, failedAt int64
		var payment notices.Payment
		var money eventschemas.Money
		err := row.Scan(&k.account, &k.notice, &k.destination, &d.Kind, &raised, &d.Balance, &d.Threshold, &payment.ID, &payment.Attempt, &failedAt, &money.Minor, &money.Currency, &d.State, &d.Attempts, &next, &d.Reason)
		d.account, d.NoticeID, d.Destination, d.RaisedAt = k.account, k.notice, k.destination, time.UnixMicro(raised).UTC()
		if next != 0 {
			d.NextAt = time.UnixMicro(next).UTC()
		}
		if money.Currency != "" {
			payment.Money = &money
		}
		if payment.ID != "" {
			payment.FailedAt = time.UnixMicro(failedAt).UTC()
			d.Payment = &payment
		}
		return err
	},
}

// failedKey is the primary key of the last notice of a failed payment, until it is of no use any more.
type failedKey struct{ account, payment string }

var failed = projections.Keyed[failedKey, string]{
	Table:   projections.Table{Name: "failed", Create: createFailed, Key: []string{"account", "payment"}},
	Columns: []string{"notice"},
	Compare: func(a, b failedKey) int {
		return cmp.Or(strings.Compare(a.account, b.account), strings.Compare(a.payment, b.payment))
	},
	AppendKey: func(values []any, k failedKey) []any { return append(values, k.account, k.payment) },
	AppendRow: func(values []any, notice *string) []any { return append(values, *notice) },
	Scan: func(row projections.Scanner, k *failedKey, notice *string) error {
		return row.Scan(&k.account, &k.payment, notice)
	},
}

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
		Categories: projections.Accounts | projections.Notices,
		Tables:     []projections.Table{watches.Table, failed.Table, deliveries.Table},
		NewFold:    newFold,
	}}
}

// Due is the deliveries of an account that are due.
type Due struct {
	AccountID string
	Watch     notices.Watch
	// Events is the number of events of the account's stream of notices that the deliveries follow from.
	Events     uint64
	Deliveries []notices.Delivery
}

// Due returns at most limit deliveries (no more than MaxPage) that are due at a time, longest due first, by account.
// Errors: projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) Due(ctx context.Context, now time.Time, limit int) ([]Due, error) {
	var found []delivery
	accounts := map[string]watch{}
	// One state of the database has both, so that events after a delivery's state are noticed.
	err := m.handle.Snapshot(ctx, func(q projections.Queryer, t *projections.Tables, _ eventlog.Position) error {
		found = nil // drops rows of an earlier attempt
		const due = "WHERE state = 'open' AND kind <> '' AND next_at <= $1 ORDER BY next_at, account, notice, destination LIMIT $2"
		if err := deliveries.Each(ctx, q, t, func(_ key, d delivery) { found = append(found, d) }, due, now.UnixMicro(), min(max(limit, 0), MaxPage)); err != nil {
			return err
		}
		for _, d := range found {
			if _, known := accounts[d.account]; known {
				continue
			}
			if err := watches.Each(ctx, q, t, func(id string, w watch) { accounts[id] = w }, "WHERE account = $1", d.account); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list due notices: %w", err)
	}
	var all []Due
	at := map[string]int{}
	for _, d := range found {
		i, known := at[d.account]
		if !known {
			i = len(all)
			at[d.account] = i
			w := accounts[d.account]
			all = append(all, Due{AccountID: d.account, Watch: w.Watch, Events: w.events})
		}
		all[i].Deliveries = append(all[i].Deliveries, d.Delivery)
	}
	return all, nil
}

// Get returns the settings of an account; zero if there are none. Errors: as Due.
func (m *Model) Get(ctx context.Context, accountID string) (eventschemas.NoticesSet, error) {
	w, _, err := watches.Get(ctx, m.handle, accountID)
	if err != nil {
		return eventschemas.NoticesSet{}, fmt.Errorf("get the settings of notices of account %s: %w", accountID, err)
	}
	return w.Settings, nil
}

// Latest returns the last deliveries of an account, at most limit (no more than MaxPage), the newest notice first.
// Errors: as Due.
func (m *Model) Latest(ctx context.Context, accountID string, limit int) ([]notices.Delivery, error) {
	rows, err := deliveries.List(ctx, m.handle, "WHERE account = $1 AND kind <> '' ORDER BY raised_at DESC, notice, destination LIMIT $2", accountID, min(max(limit, 0), MaxPage))
	if err != nil {
		return nil, fmt.Errorf("list the notices of account %s: %w", accountID, err)
	}
	all := make([]notices.Delivery, len(rows))
	for i := range rows {
		all[i] = rows[i].Delivery
	}
	return all, nil
}

// Find returns the deliveries of a notice of an account, none if there is no such notice, and the number of events of the
// account's stream of notices that they follow from. Errors: as Due.
func (m *Model) Find(ctx context.Context, accountID, noticeID string) ([]notices.Delivery, uint64, error) {
	var found []notices.Delivery
	var events uint64
	err := m.handle.Snapshot(ctx, func(q projections.Queryer, t *projections.Tables, _ eventlog.Position) error {
		found = nil // drops rows of an earlier attempt
		err := deliveries.Each(ctx, q, t, func(_ key, d delivery) { found = append(found, d.Delivery) }, "WHERE account = $1 AND notice = $2 AND kind <> '' ORDER BY destination", accountID, noticeID)
		if err != nil {
			return err
		}
		return watches.Each(ctx, q, t, func(_ string, w watch) { events = w.events }, "WHERE account = $1", accountID)
	})
	if err != nil {
		return nil, 0, fmt.Errorf("get notice %s of account %s: %w", noticeID, accountID, err)
	}
	return found, events, nil
}

// Counts returns the numbers of deliveries that are open and dead-lettered. Errors: as Due.
func (m *Model) Counts(ctx context.Context) (map[string]int64, error) {
	var counts map[string]int64
	err := m.handle.Read(func(q projections.Queryer, t *projections.Tables) error {
		counts = map[string]int64{notices.Open: 0, notices.DeadLettered: 0}
		rows, err := q.QueryContext(ctx, t.SQL("SELECT state, COUNT(*) FROM {deliveries} WHERE state IN ('open', 'dead_lettered') AND kind <> '' GROUP BY state"))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var state string
			var n int64
			if err := rows.Scan(&state, &n); err != nil {
				return err
			}
			counts[state] = n
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("count notices: %w", err)
	}
	return counts, nil
}

type fold struct {
	tables     *projections.Tables
	watches    *projections.Rows[string, watch]
	failed     *projections.Rows[failedKey, string]
	deliveries *projections.Rows[key, delivery]
}

func newFold(t *projections.Tables, empty bool) projections.Fold {
	return &fold{tables: t, watches: watches.Rows(t, keptRows, empty), failed: failed.Rows(t, keptRows, empty), deliveries: deliveries.Rows(t, keptRows, empty)}
}

// Fold implements projections.Fold.
func (f *fold) Fold(ctx context.Context, q projections.Queryer, events []*projections.Event) (projections.Changes, error) {
	if err := f.watches.Want(ctx, q, projections.Subjects(events)); err != nil {
		return projections.Changes{}, err
	}
	if err := f.failed.Want(ctx, q, payments(events)); err != nil {
		return projections.Changes{}, err
	}
	if err := f.deliveries.Want(ctx, q, slices.Values(f.wanted(events))); err != nil {
		return projections.Changes{}, err
	}
	for _, e := range events {
		f.apply(e)
	}
	writes := []func(context.Context, *sqlstore.Tx) error{watches.Take(f.tables, f.watches, nil), failed.Take(f.tables, f.failed, nil), deliveries.Take(f.tables, f.deliveries, nil)}
	return projections.Changes{Write: func(ctx context.Context, tx *sqlstore.Tx) error {
		for _, write := range writes {
			if err := write(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	}}, nil
}

// payments returns the payments that events are about.
func payments(events []*projections.Event) iter.Seq[failedKey] {
	return func(yield func(failedKey) bool) {
		for _, e := range events {
			if id := paymentOf(e.Body); id != "" && !yield(failedKey{e.Subject, id}) {
				return
			}
		}
	}
}

// paymentOf returns the payment that fails or is granted by an event, or an empty text.
func paymentOf(ev eventschemas.Event) string {
	switch ev := ev.(type) {
	case eventschemas.PaymentFailed:
		return ev.PaymentID
	case eventschemas.CreditsGranted:
		return ev.PaymentID
	}
	return ""
}

// wanted returns the keys of the deliveries that events may change.
func (f *fold) wanted(events []*projections.Event) (all []key) {
	both := func(account, notice string) {
		all = append(all, key{account, notice, notices.Webhook}, key{account, notice, notices.Email})
	}
	ahead := map[string]notices.Watch{} // after the events so far
	for _, e := range events {
		if notice, destination := about(e.Body); notice != "" {
			all = append(all, key{e.Subject, notice, destination})
			continue
		}
		w, seen := ahead[e.Subject]
		if row := f.watches.Get(e.Subject); !seen && row != nil {
			w = row.Watch
			if row.last != "" {
				both(e.Subject, row.last)
			}
		}
		if last := f.failed.Get(failedKey{e.Subject, paymentOf(e.Body)}); last != nil && *last != "" {
			both(e.Subject, *last)
		}
		effect := w.Apply(e.Body)
		if effect&notices.RaisesLow != 0 {
			both(e.Subject, notices.ID(e.Subject, notices.LowBalance, e.Revision))
		}
		if effect&notices.RaisesFailed != 0 {
			both(e.Subject, notices.ID(e.Subject, notices.PaymentFailed, e.Revision))
		}
		ahead[e.Subject] = w
	}
	return all
}

// Reset implements projections.Fold.
func (f *fold) Reset() {
	f.watches.Reset()
	f.failed.Reset()
	f.deliveries.Reset()
}

// about returns the delivery that an event is about.
func about(ev eventschemas.Event) (notice, destination string) {
	switch ev := ev.(type) {
	case eventschemas.NoticeAttempted:
		return ev.NoticeID, ev.Destination
	case eventschemas.NoticeSettled:
		return ev.NoticeID, ev.Destination
	case eventschemas.NoticeReopened:
		return ev.NoticeID, ev.Destination
	}
	return "", ""
}

func (f *fold) apply(e *projections.Event) {
	if e.Category == projections.Notices {
		f.watches.Change(e.Subject).events = e.Revision + 1
	}
	if notice, destination := about(e.Body); notice != "" {
		k := key{e.Subject, notice, destination}
		// A copy of the log may have the attempt before the event that raised the notice; see eventlog.MaxDisorder.
		f.deliveries.Change(k).Apply(e.Body, e.OccurredAt)
		return
	}
	w := f.watches.Get(e.Subject)
	if w == nil {
		w = &watch{}
	}
	next := *w
	effect := next.Apply(e.Body)
	if next == *w && effect == notices.None {
		return // most events that do not move the balance
	}
	w = f.watches.Change(e.Subject)
	*w = next
	if effect&notices.EndsLow != 0 {
		f.end(e.Subject, &w.last)
	}
	of := failedKey{e.Subject, paymentOf(e.Body)}
	if effect&notices.EndsFailed != 0 && f.failed.Get(of) != nil {
		f.end(e.Subject, f.failed.Change(of))
	}
	if effect&notices.RaisesLow != 0 {
		w.last = f.raise(e, w, notices.LowBalance)
	}
	if effect&notices.RaisesFailed != 0 {
		if id := f.raise(e, w, notices.PaymentFailed); id != "" {
			*f.failed.Change(of) = id
		}
	}
}

// end ends the last notice of a kind.
func (f *fold) end(account string, last *string) {
	for _, destination := range notices.Destinations {
		if k := (key{account, *last, destination}); f.deliveries.Get(k) != nil {
			f.deliveries.Change(k).End()
		}
	}
	*last = ""
}

// raise raises a notice at the destinations that the account has at this time, and returns its id. A notice without any is
// not kept, and has none.
func (f *fold) raise(e *projections.Event, w *watch, kind string) (raised string) {
	id := notices.ID(e.Subject, kind, e.Revision)
	for _, destination := range notices.Destinations {
		if w.Has(destination) {
			raised = id
			d := f.deliveries.Change(key{e.Subject, id, destination})
			d.Delivery = d.Raised(w.Raise(e.Body, id, destination, e.OccurredAt))
		}
	}
	return raised
}
