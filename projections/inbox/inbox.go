// Package inbox is the read model of what payment processors reported: which reports were applied, which are in the
// inbox of the operator, and which wait. It is for listings; domain/billing decides the reports.
package inbox

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"letterhead/domain/billing"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const (
	// Name of the read model.
	Name = "inbox"
	// keptRows limits the rows, of about 500 bytes each, that the fold keeps between batches.
	keptRows = 20_000
)

// Undecided is the state of a report that has not been decided.
const Undecided = "new"

const (
	// selectShown computes what no event says: that a refund or a dispute waits for its payment, which may be granted
	// itself or as the invoice that the latest link names. It follows billing.State.
	selectShown = `
SELECT id, event, position, processor, at, type, account, customer, payment, reason, shown FROM (
	SELECT r.id, r.event, r.position, r.open, r.processor, r.at, r.type, r.account, r.customer, r.payment, r.reason,
		CASE WHEN r.state <> '' THEN r.state
			WHEN r.usable = 0 OR r.kind NOT IN ('refund', 'dispute') THEN 'new'
			WHEN EXISTS (SELECT 1 FROM {reports} AS g WHERE g.processor = r.processor AND g.payment = r.payment AND g.kind = 'payment' AND g.state = 'applied') THEN 'new'
			WHEN EXISTS (SELECT 1 FROM {reports} AS g WHERE g.processor = r.processor AND g.kind = 'payment' AND g.state = 'applied' AND g.payment = (
				SELECT l.invoice FROM {reports} AS l
				WHERE l.processor = r.processor AND l.payment = r.payment AND l.kind = 'link' AND l.usable = 1 AND l.state <> 'dismissed'
				ORDER BY l.created DESC, l.event DESC LIMIT 1)) THEN 'new'
			ELSE 'waiting' END AS shown
	FROM {reports} AS r
) AS reports `
	countOpen    = `SELECT count(*) FROM {reports} WHERE open = 1 AND at >= $1 AND at < $2`
	countInbox   = `SELECT count(*) FROM {reports} WHERE open = 1 AND at >= $1 AND at < $2 AND state = 'inbox'`
	countShown   = `SELECT count(*) FROM (` + selectShown + `WHERE open = 1 AND at >= $1 AND at < $2 AND shown = $3) AS shown`
	listOpen     = selectShown + `WHERE open = 1 AND at >= $1 AND at < $2 ORDER BY position LIMIT $3`
	listShown    = selectShown + `WHERE open = 1 AND at >= $1 AND at < $2 AND shown = $4 ORDER BY position LIMIT $3`
	selectByID   = selectShown + `WHERE id = $1`
	accountOfPay = `
SELECT granted FROM {reports} WHERE processor = $1 AND payment = $2 AND kind = 'payment' AND state = 'applied' ORDER BY position DESC LIMIT 1`
	// subscriberOf leaves out subscriptions that have ended or were applied to another account since, and customers
	// that are linked to another account. As in billing.State, the latest report that was applied and names an account
	// links its customer, unless its outcome says that the link stays.
	subscriberOf = `
SELECT r.customer FROM {reports} AS r
WHERE r.granted = $1 AND r.kind = 'subscription' AND r.state = 'applied' AND r.processor = $2 AND r.customer <> ''
	AND NOT EXISTS (SELECT 1 FROM {reports} AS e
		WHERE e.customer = r.customer AND e.processor = r.processor AND e.subject = r.subject AND e.state = 'applied'
			AND (e.ended = 1 OR e.granted NOT IN ('', $1) AND (e.created, e.event) > (r.created, r.event)))
	AND $1 = COALESCE((SELECT l.account FROM {reports} AS l
		WHERE l.customer = r.customer AND l.processor = r.processor AND l.account <> '' AND l.state = 'applied' AND l.kind <> ''
			AND l.reason NOT LIKE '%` + billing.LinkStays + `'
		ORDER BY l.created DESC, l.event DESC LIMIT 1), $1)
ORDER BY r.created DESC, r.event DESC LIMIT 1`
)

// row is what is known about a report.
type row struct {
	position uint64                       // of the first report in the stream
	open     bool                         // neither applied nor dismissed
	report   eventschemas.BillingReported // the fields that have columns
	at       time.Time
	ended    bool
	usable   bool
	reopened bool
	state    string
	reason   string
	granted  string
}

// The state is empty until the report is decided. granted is the account to which the report was applied. usable is
// that of billing.Usable, and reopened what it becomes when the report is reopened. ended means that the report says
// that its subject, a subscription, has ended.
var table = projections.Keyed[string, row]{
	Name: "reports",
	Key:  projections.TextKey("id"),
	Columns: []projections.Column[row]{
		projections.Text("processor", func(r *row) *string { return &r.report.Processor }),
		projections.Text("event", func(r *row) *string { return &r.report.EventID }),
		projections.Number("position", func(r *row) *uint64 { return &r.position }),
		projections.Flag("open", func(r *row) *bool { return &r.open }),
		projections.Time("at", func(r *row) *time.Time { return &r.at }),
		projections.Time("created", func(r *row) *time.Time { return &r.report.CreatedAt }),
		projections.Text("type", func(r *row) *string { return &r.report.Type }),
		projections.Text("kind", func(r *row) *string { return &r.report.Kind }),
		projections.Text("account", func(r *row) *string { return &r.report.AccountID }),
		projections.Text("customer", func(r *row) *string { return &r.report.Customer }),
		projections.Text("payment", func(r *row) *string { return &r.report.PaymentID }),
		projections.Text("invoice", func(r *row) *string { return &r.report.InvoiceID }),
		projections.Text("subject", func(r *row) *string { return &r.report.Subject }),
		projections.Flag("ended", func(r *row) *bool { return &r.ended }),
		projections.Flag("usable", func(r *row) *bool { return &r.usable }),
		projections.Flag("reopened", func(r *row) *bool { return &r.reopened }),
		projections.Text("state", func(r *row) *string { return &r.state }),
		projections.Text("reason", func(r *row) *string { return &r.reason }),
		projections.Text("granted", func(r *row) *string { return &r.granted }),
	},
	Indexes: []projections.Index{
		{Name: "by_open", On: "(open, position)"}, {Name: "by_payment", On: "(processor, payment)"},
		{Name: "by_granted", On: "(granted, kind)"}, {Name: "by_customer", On: "(customer, processor)"},
	},
	Compare: strings.Compare,
}

// Report is an event of a payment processor, as it is shown.
type Report struct {
	ID        string    `json:"id"` // processor:event_id
	Processor string    `json:"processor"`
	EventID   string    `json:"event_id"`
	Type      string    `json:"type"`
	At        time.Time `json:"at"`
	State     string    `json:"state"` // inbox, waiting, new; only Get returns those that are applied or dismissed
	Reason    string    `json:"reason,omitempty"`
	AccountID string    `json:"account_id,omitempty"`
	Customer  string    `json:"customer,omitempty"`
	PaymentID string    `json:"payment_id,omitempty"`
	// AsksToLink reports whether an operator settles it by linking its customer to its account.
	AsksToLink bool `json:"asks_to_link,omitempty"`
}

// Stream returns the name of the report's stream.
func (r *Report) Stream() string { return billing.Stream(r.Processor, r.EventID) }

func (r *Report) scan(row projections.Scanner) error {
	var at int64
	var position uint64
	if err := row.Scan(&r.ID, &r.EventID, &position, &r.Processor, &at, &r.Type, &r.AccountID, &r.Customer,
		&r.PaymentID, &r.Reason, &r.State); err != nil {
		return err
	}
	r.At = time.UnixMicro(at).UTC()
	if r.State == billing.Waiting {
		r.Reason = billing.NotGranted(r.PaymentID)
	}
	r.AsksToLink = r.State == billing.Inbox && billing.AsksToLink(r.Reason)
	return nil
}

// Model is the read model.
type Model struct{ projections.Model }

// New returns the read model; it answers once a Runner has started it.
func New(store *sqlstore.Store) *Model {
	return &Model{projections.NewModel(Name, store, projections.Version{
		Number:  2,
		Streams: []string{eventschemas.BillingPrefix},
		Tables:  []projections.Table{table.Table()},
		NewFold: table.Fold(keptRows, projections.Subjects, fold),
	})}
}

// Selection selects reports.
type Selection struct {
	State       string    // billing.Inbox, billing.Waiting or Undecided; empty for all
	From, Until time.Time // reported from a time on and before another; zero is open
}

// List returns at most limit of the selected reports that were neither applied nor dismissed, in the order of the log,
// and how many there are. Errors: projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) List(ctx context.Context, s Selection, limit int) (all []Report, total int, err error) {
	until := int64(math.MaxInt64)
	if !s.Until.IsZero() {
		until = s.Until.UnixMicro()
	}
	counted := []any{max(s.From.UnixMicro(), 0), until}
	list, count, args := listOpen, countOpen, append(slices.Clone(counted), max(limit, 0))
	switch {
	case s.State == billing.Inbox:
		list, count, args = listShown, countInbox, append(args, s.State)
	case s.State != "":
		list, count, args, counted = listShown, countShown, append(args, s.State), append(counted, s.State)
	}
	err = m.Handle().Snapshot(ctx, func(q projections.Queryer, t *projections.Tables, _ eventlog.Position) error {
		if err := q.QueryRowContext(ctx, t.SQL(count), counted...).Scan(&total); err != nil {
			return err
		}
		all, err = sqlstore.AllRows(ctx, q, t.SQL(list), (*Report).scan, args...)
		return err
	})
	return all, total, sqlstore.Wrap(err, "list reports of payment processors")
}

// Get returns the report with an id (processor:event_id), in any state, and reports whether it exists. Errors: as List.
func (m *Model) Get(ctx context.Context, id string) (r Report, found bool, err error) {
	found, err = m.one(ctx, r.scan, selectByID, id)
	return r, found, sqlstore.Wrap(err, "get report %s", id)
}

// AccountOfPayment returns the account to which a payment of a processor was granted, and "" if no report has granted
// it. Errors: as List.
func (m *Model) AccountOfPayment(ctx context.Context, processor, paymentID string) (accountID string, err error) {
	_, err = m.one(ctx, func(row projections.Scanner) error { return row.Scan(&accountID) }, accountOfPay,
		processor, paymentID)
	return accountID, sqlstore.Wrap(err, "find the account of payment %s", paymentID)
}

// SubscriberOf returns the customer of a processor whose subscription gives or gave an account its plan and has not
// ended; of several, the one whose subscription changed last. It returns "" if there is none. Errors: as List.
func (m *Model) SubscriberOf(ctx context.Context, processor, accountID string) (customer string, err error) {
	_, err = m.one(ctx, func(row projections.Scanner) error { return row.Scan(&customer) }, subscriberOf,
		accountID, processor)
	return customer, sqlstore.Wrap(err, "find the customer of account %s", accountID)
}

// one scans the only row of a query, and reports whether it has one.
func (m *Model) one(ctx context.Context, scan func(projections.Scanner) error, query string,
	args ...any) (found bool, err error) {
	err = m.Handle().Read(func(q projections.Queryer, t *projections.Tables) error {
		return scan(q.QueryRowContext(ctx, t.SQL(query), args...))
	})
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// fold follows billing.State: what comes after a report was applied or dismissed changes nothing.
func fold(rows *projections.Rows[string, row], e *projections.Event) error {
	known := rows.Get(e.Subject)
	if known == nil && e.Revision > 0 || known != nil && !known.open {
		return nil
	}
	switch ev := e.Body.(type) {
	case eventschemas.BillingReported:
		r := rows.Change(e.Subject)
		if known == nil {
			r.position, r.open = uint64(e.Position), true
		}
		r.report, r.at, r.state, r.reason = ev, e.OccurredAt, "", ""
		r.usable, r.reopened = billing.Usable(ev, false), billing.Usable(ev, true)
		r.ended = ev.Kind == billing.KindSubscription && billing.Ended(ev.State)
	case eventschemas.BillingReopened:
		if known != nil {
			r := rows.Change(e.Subject)
			r.state, r.reason, r.usable = "", "", r.reopened
		}
	case eventschemas.BillingSettled:
		if known != nil {
			r := rows.Change(e.Subject)
			r.state, r.reason, r.open, r.granted = ev.Outcome, ev.Reason, ev.Outcome == billing.Inbox, ev.AccountID
		}
	}
	return nil
}
