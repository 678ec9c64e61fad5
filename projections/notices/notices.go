// Package notices is the read model of notices: the settings of each account, and the deliveries of its notices. Its
// fold raises them (see domain/notices). A notice has an id that follows from the event that raised it, so a rebuild
// finds the same notices.
package notices

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"letterhead/domain/account"
	"letterhead/domain/notices"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const (
	// Name of the read model.
	Name = "notices"

	// MaxPage limits the deliveries that Due and Latest return.
	MaxPage = 1000
	// keptRows limits the rows of each table, of about 200 bytes each, that the fold keeps between batches.
	keptRows = 50_000
)

// watch is the row of an account.
type watch struct {
	notices.Watch
	last   string // id of the last notice of a low balance, until it is of no use any more
	events uint64 // of the account's stream of notices
}

var watches = projections.Keyed[string, watch]{
	Name: "watches",
	Key:  projections.TextKey("account"),
	Columns: []projections.Column[watch]{
		projections.Number("balance", func(w *watch) *int64 { return &w.Balance }),
		projections.Flag("closed", func(w *watch) *bool { return &w.Closed }),
		projections.Number("low_balance", func(w *watch) *int64 { return &w.Settings.LowBalance }),
		projections.Flag("webhook", func(w *watch) *bool { return &w.Settings.Webhook }),
		projections.Flag("email", func(w *watch) *bool { return &w.Settings.Email }),
		projections.Flag("armed", func(w *watch) *bool { return &w.Armed }),
		projections.Text("last", func(w *watch) *string { return &w.last }),
		projections.Number("events", func(w *watch) *uint64 { return &w.events }),
	},
	Compare: strings.Compare,
}

// key is the primary key of a delivery.
type key struct{ account, notice, destination string }

// delivery is a row. Its kind is empty until the event that raised the notice is folded.
type delivery struct {
	notices.Delivery
	account string
	// payment has the fields of Delivery.Payment; zero if that is nil. It failed at a time in microseconds since 1970.
	payment struct {
		id                 string
		attempt, at, money int64
		currency           string
	}
}

func (d *delivery) raised(now notices.Delivery) {
	d.Delivery = d.Raised(now)
	if p := d.Payment; p != nil {
		d.payment.id, d.payment.attempt, d.payment.at = p.ID, p.Attempt, p.FailedAt.UnixMicro()
		if p.Money != nil {
			d.payment.money, d.payment.currency = p.Money.Minor, p.Money.Currency
		}
	}
}

// found completes a row that was read.
func (d *delivery) found(k key) {
	d.account, d.NoticeID, d.Destination = k.account, k.notice, k.destination
	if d.payment.id == "" {
		return
	}
	d.Payment = &notices.Payment{ID: d.payment.id, Attempt: d.payment.attempt,
		FailedAt: time.UnixMicro(d.payment.at).UTC()}
	if d.payment.currency != "" {
		d.Payment.Money = &eventschemas.Money{Minor: d.payment.money, Currency: d.payment.currency}
	}
}

var deliveries = projections.Keyed[key, delivery]{
	Name: "deliveries",
	Key: []projections.Column[key]{
		projections.Text("account", func(k *key) *string { return &k.account }),
		projections.Text("notice", func(k *key) *string { return &k.notice }),
		projections.Text("destination", func(k *key) *string { return &k.destination }),
	},
	Columns: []projections.Column[delivery]{
		projections.Text("kind", func(d *delivery) *string { return &d.Kind }),
		projections.Time("raised_at", func(d *delivery) *time.Time { return &d.RaisedAt }),
		projections.Number("balance", func(d *delivery) *int64 { return &d.Balance }),
		projections.Number("threshold", func(d *delivery) *int64 { return &d.Threshold }),
		projections.Text("payment", func(d *delivery) *string { return &d.payment.id }),
		projections.Number("attempt", func(d *delivery) *int64 { return &d.payment.attempt }),
		projections.Number("failed_at", func(d *delivery) *int64 { return &d.payment.at }),
		projections.Number("money", func(d *delivery) *int64 { return &d.payment.money }),
		projections.Text("currency", func(d *delivery) *string { return &d.payment.currency }),
		projections.Text("state", func(d *delivery) *string { return &d.State }),
		projections.Number("attempts", func(d *delivery) *int64 { return &d.Attempts }),
		projections.TimeOrZero("next_at", func(d *delivery) *time.Time { return &d.NextAt }),
		projections.Text("reason", func(d *delivery) *string { return &d.Reason }),
	},
	Indexes: []projections.Index{{Name: "by_state", On: "(state, next_at)"}, {Name: "by_time",
		On: "(account, raised_at)"}},
	Compare: func(a, b key) int {
		return cmp.Or(strings.Compare(a.account, b.account), strings.Compare(a.notice, b.notice),
			strings.Compare(a.destination, b.destination))
	},
	Found: func(k key, d *delivery) { d.found(k) },
}

// failedKey is the primary key of the last notice of a failed payment, until it is of no use any more.
type failedKey struct{ account, payment string }

var failed = projections.Keyed[failedKey, string]{
	Name: "failed",
	Key: []projections.Column[failedKey]{
		projections.Text("account", func(k *failedKey) *string { return &k.account }),
		projections.Text("payment", func(k *failedKey) *string { return &k.payment }),
	},
	Columns: []projections.Column[string]{projections.Text("notice", func(notice *string) *string { return notice })},
	Compare: func(a, b failedKey) int {
		return cmp.Or(strings.Compare(a.account, b.account), strings.Compare(a.payment, b.payment))
	},
}

// Model is the read model.
type Model struct{ projections.Model }

// New returns the read model; it answers once a Runner has started it.
func New(store *sqlstore.Store) *Model {
	return &Model{projections.NewModel(Name, store, projections.Version{
		Number:  2,
		Streams: []string{account.StreamPrefix, eventschemas.NoticesPrefix},
		Tables:  []projections.Table{watches.Table(), failed.Table(), deliveries.Table()},
		NewFold: newFold,
	})}
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
	var all []Due
	// One state of the database has both, so that events after a delivery's state are noticed.
	err := m.Handle().Snapshot(ctx, func(q projections.Queryer, t *projections.Tables, _ eventlog.Position) error {
		all = nil // drops rows of an earlier attempt
		var found []delivery
		const due = "WHERE state = 'open' AND kind <> '' AND next_at <= $1 ORDER BY next_at, account, notice, destination LIMIT $2"
		if err := deliveries.Each(ctx, q, t, func(_ key, d delivery) { found = append(found, d) }, due, now.UnixMicro(),
			min(max(limit, 0), MaxPage)); err != nil {
			return err
		}
		at := map[string]int{}
		for _, d := range found {
			i, known := at[d.account]
			if !known {
				i = len(all)
				at[d.account] = i
				all = append(all, Due{AccountID: d.account})
				set := func(_ string, w watch) { all[i].Watch, all[i].Events = w.Watch, w.events }
				if err := watches.Each(ctx, q, t, set, "WHERE account = $1", d.account); err != nil {
					return err
				}
			}
			all[i].Deliveries = append(all[i].Deliveries, d.Delivery)
		}
		return nil
	})
	return all, sqlstore.Wrap(err, "list due notices")
}

// Get returns the settings of an account; zero if there are none. Errors: as Due.
func (m *Model) Get(ctx context.Context, accountID string) (eventschemas.NoticesSet, error) {
	w, _, err := watches.Get(ctx, m.Handle(), accountID)
	return w.Settings, sqlstore.Wrap(err, "get the settings of notices of account %s", accountID)
}

// Latest returns the last deliveries of an account, at most limit (no more than MaxPage), the newest notice first.
// Errors: as Due.
func (m *Model) Latest(ctx context.Context, accountID string, limit int) ([]notices.Delivery, error) {
	rows, err := deliveries.List(ctx, m.Handle(),
		"WHERE account = $1 AND kind <> '' ORDER BY raised_at DESC, notice, destination LIMIT $2",
		accountID, min(max(limit, 0), MaxPage))
	all := make([]notices.Delivery, len(rows))
	for i := range rows {
		all[i] = rows[i].Delivery
	}
	return all, sqlstore.Wrap(err, "list the notices of account %s", accountID)
}

// Find returns the deliveries of a notice of an account, none if there is no such notice, and the number of events of
// the account's stream of notices that they follow from. Errors: as Due.
func (m *Model) Find(ctx context.Context, accountID, noticeID string) ([]notices.Delivery, uint64, error) {
	var found []notices.Delivery
	var events uint64
	err := m.Handle().Snapshot(ctx, func(q projections.Queryer, t *projections.Tables, _ eventlog.Position) error {
		found = nil // drops rows of an earlier attempt
		err := deliveries.Each(ctx, q, t, func(_ key, d delivery) { found = append(found, d.Delivery) },
			"WHERE account = $1 AND notice = $2 AND kind <> '' ORDER BY destination", accountID, noticeID)
		if err != nil {
			return err
		}
		return watches.Each(ctx, q, t, func(_ string, w watch) { events = w.events }, "WHERE account = $1", accountID)
	})
	return found, events, sqlstore.Wrap(err, "get notice %s of account %s", noticeID, accountID)
}

// Counts returns the numbers of deliveries that are open and dead-lettered. Errors: as Due.
func (m *Model) Counts(ctx context.Context) (map[string]int64, error) {
	var counts map[string]int64
	err := m.Handle().Read(func(q projections.Queryer, t *projections.Tables) error {
		counts = map[string]int64{notices.Open: 0, notices.DeadLettered: 0}
		return sqlstore.EachRow(ctx, q, t.SQL("SELECT state, COUNT(*) FROM {deliveries} WHERE state IN ('open', 'dead_lettered') AND kind <> '' GROUP BY state"), func(row projections.Scanner) error {
			var state string
			var n int64
			if err := row.Scan(&state, &n); err != nil {
				return err
			}
			counts[state] = n
			return nil
		})
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
	return &fold{tables: t, watches: watches.Rows(t, keptRows, empty), failed: failed.Rows(t, keptRows, empty),
		deliveries: deliveries.Rows(t, keptRows, empty)}
}

func (f *fold) Fold(ctx context.Context, q projections.Queryer,
	events []*projections.Event) (projections.Changes, error) {
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
	return projections.Changes{Write: projections.Writing(
		watches.Take(f.tables, f.watches, nil), failed.Take(f.tables, f.failed, nil),
		deliveries.Take(f.tables, f.deliveries, nil),
	)}, nil
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
	if e.Prefix == eventschemas.NoticesPrefix {
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

// raise raises a notice at the destinations that the account has at this time, and returns its id. A notice without any
// is not kept, and has none.
func (f *fold) raise(e *projections.Event, w *watch, kind string) (raised string) {
	id := notices.ID(e.Subject, kind, e.Revision)
	for _, destination := range notices.Destinations {
		if w.Has(destination) {
			raised = id
			f.deliveries.Change(key{e.Subject, id, destination}).raised(w.Raise(e.Body, id, destination, e.OccurredAt))
		}
	}
	return raised
}
